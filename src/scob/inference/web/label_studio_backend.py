"""Label Studio's protocol for models: what a task's image is, and predictions in the form its pages understand."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from scob.data.readers.label_studio import file_name
from scob.data.readers.named_images import NamedImages
from scob.errors import UserError
from scob.inference.web.service import Service
from scob.inference.web.uploads import Upload, fetch

LONGEST_CONFIG = 1 << 20


@dataclass(frozen=True)
class Controls:
    """The parts of a labelling page that predictions fill in; an empty name: there is none."""

    image: str = "image"
    key: str = "image"  # of the task's data
    choices: str = "present"
    boxes: str = ""
    names: frozenset[str] | None = None  # the classes that the page offers; None: any


@dataclass
class Backend:
    """A model as Label Studio's ML backend. Images are files below `folder`, or are fetched from allowed `hosts`."""

    service: Service
    folder: Path | None = None
    hosts: Collection[str] = ()
    controls: Controls = field(default_factory=Controls)
    home: str = ""  # of Label Studio, as it said in /setup
    key: str = ""  # with which it lets us fetch its images

    def setup(self, body: Any) -> dict[str, str]:
        """Take note of the labelling page, and of where Label Studio is."""
        if isinstance(body, dict):
            self.controls = read_controls(str(body.get("schema") or body.get("label_config") or ""))
            self.home = str(body.get("hostname") or "").rstrip("/")
            self.key = str(body.get("access_token") or "")
        return {"model_version": self.service.version}

    def predict(self, body: Any) -> dict[str, Any]:
        """Predictions for tasks, in their order; a task whose image cannot be had gets an empty one, and a reason."""
        if not isinstance(body, dict) or not isinstance(body.get("tasks"), list):
            raise UserError('a request must be {"tasks": [...]}, as Label Studio sends it')
        controls = read_controls(body["label_config"]) if isinstance(body.get("label_config"), str) else self.controls
        tasks = body["tasks"]
        if len(tasks) > self.service.limits.images:
            raise UserError(f"{len(tasks)} tasks are too many for one request: {self.service.limits.images} at most")
        files = None if self.folder is None else NamedImages(self.folder)
        uploads = [self._upload(task, controls, number, files) for number, task in enumerate(tasks, 1)]
        maps = bool(controls.boxes) and self.service.has_maps
        named = self.service.predict(uploads, maps=maps)
        return {"results": [self._prediction(each, controls) for each in named], "model_version": self.service.version}

    def _upload(self, task: Any, controls: Controls, number: int, files: NamedImages | None) -> Upload:
        data = task.get("data") if isinstance(task, dict) else None
        address = data.get(controls.key) if isinstance(data, dict) else None
        where = f"task {task.get('id', number) if isinstance(task, dict) else number}"
        if not isinstance(address, str):
            return Upload(where, b"", f"{where}: its data has no {controls.key!r}")
        try:
            return Upload(where, self._image(address, where, files))
        except (UserError, OSError) as error:
            return Upload(where, b"", str(error))

    def _image(self, address: str, where: str, files: NamedImages | None) -> bytes:
        """The bytes of a task's image: a file of ours if there is a folder, else fetched from Label Studio."""
        if files is not None and not address.startswith(("http://", "https://")):
            path, _ = files.find(file_name(address, where), where)
            if Path(path).stat().st_size > self.service.limits.megabytes * 1_000_000:
                raise UserError(f"{where}: the file has more than {self.service.limits.megabytes:g} megabytes")
            return Path(path).read_bytes()
        url = f"{self.home}{address}" if address.startswith("/") else address
        if not url.startswith(("http://", "https://")):
            raise UserError(f"{where}: start the server with --images FOLDER, the folder of the images")
        own = bool(self.home) and url.startswith(f"{self.home}/")
        headers = {"Authorization": f"Token {self.key}"} if own and self.key else None
        return fetch(url, self.hosts, self.service.limits, headers)

    def _prediction(self, named: dict[str, Any], controls: Controls) -> dict[str, Any]:
        kept = [n for n, label in enumerate(named["labels"]) if controls.names is None or label in controls.names]
        labels = [named["labels"][n] for n in kept]
        result: list[dict[str, Any]] = []
        if controls.choices and labels:
            shown = {"from_name": controls.choices, "to_name": controls.image}
            result.append({**shown, "type": "choices", "value": {"choices": labels}})
        for n in kept if controls.boxes and "boxes" in named else ():
            for x0, y0, x1, y1 in named["boxes"][n]:
                corner = {"x": 100 * x0, "y": 100 * y0, "width": 100 * (x1 - x0), "height": 100 * (y1 - y0)}
                value = {**corner, "rotation": 0, "rectanglelabels": [named["labels"][n]]}
                shown = {"from_name": controls.boxes, "to_name": controls.image, "score": named["scores"][n]}
                result.append({**shown, "type": "rectanglelabels", "value": value})
        score = max((named["scores"][n] for n in kept), default=0.0)
        prediction = {"result": result, "score": score, "model_version": self.service.version}
        return prediction | ({"error": named["error"]} if named["error"] else {})


def read_controls(config: str) -> Controls:
    """The controls of a labelling page: its image, its choices and its boxes."""
    if not config.strip():
        return Controls()
    try:
        if len(config) > LONGEST_CONFIG:
            raise ValueError("it is too long")
        tree = ElementTree.fromstring(config)
    except (ElementTree.ParseError, ValueError) as error:
        raise UserError(f"the labelling page is not XML ({error})") from None
    image = next(tree.iter("Image"), None)
    choices, boxes = next(tree.iter("Choices"), None), next(tree.iter("RectangleLabels"), None)
    if image is None or (choices is None and boxes is None):
        raise UserError("the labelling page needs an Image, and Choices or RectangleLabels for it")
    tags = [*tree.iter("Choice"), *tree.iter("Label")]
    names = frozenset(value for tag in tags if (value := tag.get("alias") or tag.get("value")))
    return Controls(
        image.get("name", "image"),
        image.get("value", "$image").removeprefix("$"),
        choices.get("name", "") if choices is not None else "",
        boxes.get("name", "") if boxes is not None else "",
        names,
    )
