"""Naming what uploaded images show, and where; with an ONNX file, names and scores only, without torch."""

import base64
import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from scob.data.images import decode
from scob.errors import UserError
from scob.inference.decoding import reason
from scob.inference.model import Scorer, load_model
from scob.inference.predictions import NamingRule, Prediction, decide
from scob.inference.web.limits import Limits, check_pixels
from scob.inference.web.uploads import Upload
from scob.training.find_model import find_model

SHOWN = 640  # pixels of the longer side of a picture with a map
BATCH = 16


@dataclass
class Service:
    """An open model. It works on one batch at a time; decoding happens before, in the request's own thread."""

    path: Path
    model: Scorer
    limits: Limits
    version: str
    has_maps: bool
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, path: str | Path, device: str = "auto", limits: Limits = Limits()) -> "Service":
        """Open a run folder, a model folder or an ONNX file."""
        found = find_model(path)
        named = found.run or found.path
        return cls(Path(path), load_model(path, device), limits, f"scob {named.name}", not found.is_onnx)

    def about(self) -> dict[str, Any]:
        """What the page says about the model."""
        return {
            "model": self.version,
            "classes": list(self.model.classes),
            "thresholds": [round(float(t), 4) for t in self.model.thresholds],
            "size": self.model.size,
            "maps": self.has_maps,
            "limits": {
                "megabytes": self.limits.megabytes,
                "megapixels": self.limits.megapixels,
                "images": self.limits.images,
            },
        }

    def predict(self, uploads: Sequence[Upload], naming: NamingRule = NamingRule(), maps: bool = False) -> list[Any]:
        """One object per image, in order: image, labels, scores, error, as in the files of `scob predict`.

        With `maps`, each label also has its boxes (x0, y0, x1, y1 in fractions) and a picture of where it is.
        """
        if maps and not self.has_maps:
            raise UserError("an ONNX file has scores only: for maps, serve the run folder it was exported from")
        results: list[dict[str, Any]] = []
        for start in range(0, len(uploads), BATCH):
            group = uploads[start : start + BATCH]
            decoded = [self._decoded(upload) for upload in group]
            readable = [pixels for pixels, _ in decoded if pixels is not None]
            scores = iter(())
            if readable:
                with self.lock:
                    scores = iter(self.model.scores(np.stack(readable)))
            for upload, (pixels, error) in zip(group, decoded, strict=True):
                if pixels is None:
                    results.append(Prediction(upload.name, error=error).as_tree())
                    continue
                named = decide(upload.name, next(scores), self.model.classes, self.model.thresholds, naming)
                results.append(named.as_tree() | (self._places(upload, named.labels) if maps else {}))
        return results

    def _decoded(self, upload: Upload) -> tuple[Any, str]:
        if upload.error:
            return None, upload.error
        try:
            check_pixels(upload.raw, upload.name, self.limits)
            return decode(upload.raw, self.model.size, upload.name), ""
        except UserError as error:
            return None, reason(error, upload.name)

    def _places(self, upload: Upload, labels: Sequence[str]) -> dict[str, Any]:
        """Where the labels are: boxes, and the picture with the map, as a data address. Needs torch."""
        from scob.inference.model import Scob
        from scob.inference.overlays import shrink, with_place

        assert isinstance(self.model, Scob)
        picture = shrink(decode(upload.raw, None, upload.name), SHOWN)
        with self.lock:
            found = self.model.explain([picture], classes=list(labels)) if labels else []
        places = {e.label: e.place for e in found}
        asked = [places.get(label) for label in labels]
        return {
            "boxes": [[list(box) for box in place.boxes] if place else [] for place in asked],
            "maps": [_data_address(with_place(picture, place)) if place else None for place in asked],
        }


def _data_address(picture: Image.Image) -> str:
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"
