"""Label Studio's requests, as its server sends them."""

from pathlib import Path
from typing import Any

import pytest

from scob.errors import UserError
from scob.inference.web.label_studio_backend import Backend, Controls, read_controls
from scob.inference.web.service import Service
from support.small_model import Small

CONFIG = """<View><Image name="img" value="$picture"/><Choices name="what" toName="img" choice="multiple">
<Choice value="person"/><Choice value="house"/></Choices><RectangleLabels name="box" toName="img">
<Label value="person"/></RectangleLabels></View>"""


@pytest.fixture
def backend(small: Small) -> Backend:
    return Backend(Service.open(small.run, "cpu"), small.photos)


def test_the_page_names_its_controls() -> None:
    assert read_controls(CONFIG) == Controls("img", "picture", "what", "box", frozenset({"person", "house"}))
    assert read_controls("") == Controls()
    for wrong in ("<View", "<View/>", "<View><Image name='a'/></View>", "x" * (1 << 21)):
        with pytest.raises(UserError, match="the labelling page"):
            read_controls(wrong)


def test_predictions_for_tasks(backend: Backend, small: Small) -> None:
    assert backend.setup({"project": "1.2", "schema": CONFIG, "hostname": "http://localhost:8080", "access_token": "k"})
    inside = small.files[0].relative_to(small.photos)
    address = f"/data/local-files/?d=somewhere/else/{inside}"
    answer: dict[str, Any] = backend.predict(
        {"tasks": [{"id": 1, "data": {"picture": address}}, {"id": 2, "data": {}}]}
    )
    first, second = answer["results"]
    assert answer["model_version"] == first["model_version"] == backend.service.version
    for result in first["result"]:
        assert result["to_name"] == "img"
        kind, name = ("choices", "what") if result["type"] == "choices" else ("rectanglelabels", "box")
        assert result["from_name"] == name and set(result["value"][kind]) <= {"person", "house"}
    assert second["result"] == [] and "task 2: its data has no 'picture'" in second["error"]


def test_images_are_taken_from_the_folder_or_from_allowed_hosts(backend: Backend, tmp_path: Path) -> None:
    for address, why in (
        ("/data/local-files/?d=nothing.png", "does not exist"),
        ("../../etc/passwd", "outside the data folder"),
        ("http://127.0.0.1:1/a.png", "--allow-urls 127.0.0.1:1"),
    ):
        [result] = backend.predict({"tasks": [{"id": 1, "data": {"image": address}}]})["results"]
        assert result["result"] == [] and why in result["error"]
    backend.folder = None
    [result] = backend.predict({"tasks": [{"id": 1, "data": {"image": "/data/upload/a.png"}}]})["results"]
    assert "start the server with --images FOLDER" in result["error"]


def test_other_requests_are_refused(backend: Backend) -> None:
    for body in ([], {}, {"tasks": 3}):
        with pytest.raises(UserError, match="as Label Studio sends it"):
            backend.predict(body)
    with pytest.raises(UserError, match="100 tasks are too many"):
        backend.predict({"tasks": [{}] * 100})
