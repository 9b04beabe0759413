"""A real Label Studio: it takes our tasks and shows their images, and a person's answers come back and train."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scob.config import load_config
from scob.labels import Labels
from scob.recovery.label_studio_tasks import document_root
from scob.recovery.reviewed import import_reviewed
from scob.recovery.suggest import SuggestionLimits, recover
from scob.training.train import train
from support.small_model import small_backbone, small_config, write_scenes
from support.tools import python_with

pytestmark = pytest.mark.slow
TOKEN = "0123456789abcdef0123456789abcdef01234567"
STARTS = 600  # seconds: it makes its database first


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on files, with suggestions for Label Studio."""
    root = tmp_path_factory.mktemp("label-studio")
    write_scenes(root / "photos", 32)
    config = small_config(
        small_backbone(root / "backbone"),
        data={"source": str(root / "photos"), "evaluate": ""},
        labels={"kind": "given"},
    )
    train(config, root / "run")
    recover(root / "run", formats=["labelstudio"], selection=SuggestionLimits(0.0, 12))
    return root / "run"


@pytest.fixture(scope="module")
def studio(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    python = Path(python_with("label_studio", "label-studio"))
    home = tmp_path_factory.mktemp("studio")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "LABEL_STUDIO_BASE_DATA_DIR": str(home),
        "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED": "true",
        "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT": str(run.parent),
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "LABEL_STUDIO_USERNAME": "person@example.org",
        "LABEL_STUDIO_PASSWORD": "a-long-password",
        "LABEL_STUDIO_USER_TOKEN": TOKEN,
        "COLLECT_ANALYTICS": "false",
        "HOME": str(home),
    }
    words = [str(python.with_name("label-studio")), "start", "--no-browser", "--port", str(port)]
    with (home / "log").open("w") as log:
        server = subprocess.Popen([*words, "--internal-host", "127.0.0.1"], stdout=log, stderr=log,
                                  env={**os.environ, **settings})  # fmt: skip
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Token {TOKEN}"}, timeout=120)
    end = time.monotonic() + STARTS
    while time.monotonic() < end and server.poll() is None:
        try:
            if client.get("/health").status_code == 200:
                break
        except httpx.HTTPError:
            time.sleep(1)
    else:
        server.kill()
        pytest.skip(f"Label Studio does not start here: {(home / 'log').read_text()[-300:]}")
    yield client
    client.close()
    server.terminate()
    server.wait(30)


def test_tasks_go_in_and_answers_come_back_and_train(run: Path, studio: httpx.Client, tmp_path: Path) -> None:
    folder = run / "recovered" / "labelstudio"
    config = (folder / "config.xml").read_text()
    project = studio.post("/api/projects", json={"title": "scob", "label_config": config}).json()["id"]
    files = {str(p): str(p) for p in (run.parent / "photos").rglob("*.png")}
    root, home = document_root(files)
    assert root == str(run.parent)
    storage = studio.post("/api/storages/localfiles", json={"project": project, "path": home, "use_blob_urls": True})
    assert storage.status_code == 201, storage.text
    content = {"Content-Type": "application/json"}
    sent = studio.post(f"/api/projects/{project}/import", content=(folder / "tasks.json").read_bytes(), headers=content)
    assert sent.status_code == 201, sent.text
    tasks = studio.get("/api/tasks", params={"project": project, "fields": "all", "page_size": 100}).json()["tasks"]
    assert len(tasks) == sent.json()["task_count"]
    assert all(task["predictions"] for task in tasks)
    picture = studio.get(tasks[0]["data"]["image"])
    assert picture.status_code == 200 and picture.content.startswith(b"\x89PNG")
    answered: dict[str, list[str]] = {}
    for task in tasks[:5]:  # the person keeps what was known and drops what was suggested
        known = [name for name in task["data"]["known"].split(", ") if name != "nothing"]
        answered[task["data"]["name"]] = known
        result = [{"from_name": "present", "to_name": "image", "type": "choices", "value": {"choices": known}}]
        given = studio.post(f"/api/tasks/{task['id']}/annotations/", json={"result": result})
        assert given.status_code == 201, given.text
    for kind, name in (("JSON", "a.json"), ("JSON_MIN", "b.json"), ("CSV", "c.csv")):
        exported = studio.get(f"/api/projects/{project}/export", params={"exportType": kind})
        (tmp_path / name).write_bytes(exported.content)
        imported = import_reviewed(run, tmp_path / name, tmp_path / f"{kind}.safetensors")
        assert imported.rejected >= 5, kind
        labels = Labels.load(imported.path)
        for image, known in answered.items():
            row = labels.values[labels.images.index(image)]
            assert {labels.classes[c] for c in range(len(row)) if row[c] == 1} == set(known)
            assert (row == -1).any()
    words = [f"labels.file={tmp_path / 'JSON.safetensors'}", "train.epochs=1"]
    finished = train(load_config(run / "config.yaml", words), tmp_path / "again")
    assert finished.summary["epochs"] == 1
