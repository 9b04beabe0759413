"""Find the model that a path, or a name on the hub, stands for. Only a run that is not finished needs torch: predicting
with ONNX does not."""

import re
from dataclasses import dataclass
from pathlib import Path

from scob.errors import UserError


@dataclass(frozen=True)
class FoundModel:
    """A model folder or an .onnx file, and its run folder if there is one."""

    path: Path
    run: Path | None = None
    remark: str = ""  # what to know about the model of a run that is not finished

    @property
    def is_onnx(self) -> bool:
        return self.path.suffix == ".onnx"


HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*(@[\w./-]+)?")


def is_hub_name(path: Path) -> bool:
    """Whether a path to nothing can be OWNER/NAME[@REVISION]. `runs/photos` is a path if there is a folder `runs`."""
    return HUB_NAME.fullmatch(path.as_posix()) is not None and not Path(path.parts[0]).exists()


def find_model(path: str | Path) -> FoundModel:
    """Find a model folder, the model of a run (of a stopped one: its best epoch so far), an .onnx file, or
    OWNER/NAME[@REVISION] on the hub.
    """
    path = Path(path)
    if path.suffix == ".onnx" or (path / "config.json").is_file():
        if not path.exists():
            raise UserError(f"there is no model at {path}")
        return FoundModel(path)
    if (path / "model" / "config.json").is_file():
        return FoundModel(path / "model", path)
    if (path / "summary.json").is_file():
        raise UserError(f"the model of the run in {path} is missing: scob train --resume {path} writes it again")
    if (path / "config.yaml").is_file():
        from scob.training.unfinished import write_so_far

        folder, remark = write_so_far(path)
        return FoundModel(folder, path, remark)
    if not path.exists():
        if is_hub_name(path):
            from scob.model.hub import fetch_model

            return FoundModel(fetch_model(path.as_posix()))
        raise UserError(f"there is no model at {path}: give a run folder, a model folder, an .onnx file or OWNER/NAME")
    raise UserError(f"{path} is neither a model folder (config.json), a run folder, nor an .onnx file")
