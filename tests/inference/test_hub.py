"""Publishing a model and opening it by its name, against a stand-in for the hub on this machine."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from scob.errors import UserError
from scob.inference.hub import published, push_to_hub
from scob.inference.model import Scob
from scob.training.model_folder import ModelCard
from support.hub_stand_in import Hub, local_hub
from support.small_model import Small

OURS = "me/scenes"
# One process for all commands: the hub's client reads its address when it is imported, and that takes seconds.
SESSION = """
import contextlib, io, json, os, sys
from huggingface_hub import constants
from scob import cli
from scob.model.hub import fetch_model

def run(words, token="hf_stand_in", cache=None, offline=False):
    os.environ["HF_TOKEN"], constants.HF_HUB_OFFLINE = token, offline
    constants.HF_HUB_CACHE = cache or os.environ["CACHE"]
    fetch_model.cache_clear()
    sys.argv, out, code = ["scob", *words], io.TextIOWrapper(io.BytesIO(), "utf-8"), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    out.flush()
    return code, out.buffer.getvalue().decode()

json.dump({name: run(**command) for name, command in json.load(sys.stdin).items()}, open(os.environ["RESULT"], "w"))
"""


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with local_hub() as server:
        yield server


@dataclass(frozen=True)
class Done:
    code: int
    text: str

    @property
    def predictions(self) -> list[str]:
        """The predicted lines, without messages and progress bars."""
        return re.findall(r'{"image": .*}', self.text)


@pytest.fixture(scope="module")
def done(hub: Hub, small: Small, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """What each of these commands, one after another, ended with and printed."""
    root = tmp_path_factory.mktemp("hub")
    exported = Path(shutil.copytree(small.run / "model", root / "model"))
    (exported / "model.onnx").write_bytes(b"exported")

    def predict(model: object, **how: object) -> dict[str, object]:
        files = map(str, small.files[:3])
        return {"words": ["predict", str(model), *files, "--device", "cpu", "--topk", "2", "-f", "jsonl"], **how}

    def push(model: object, name: str, *options: str, **how: object) -> dict[str, object]:
        return {"words": ["push", str(model), name, *options], **how}

    commands = {
        "push": push(small.run, OURS, "--licence", "mit"),
        "predict by name": predict(OURS),
        "predict by path": predict(small.run),
        "offline": predict(OURS, offline=True),
        "never fetched": predict(OURS, offline=True, cache=str(root / "empty")),
        "revision": predict(f"{OURS}@{1:040x}"),
        "no revision": predict(f"{OURS}@{99:040x}"),
        "push exported": push(exported, "me/exported"),
        "push again": push(small.run, OURS),
        "wrong token": push(small.run, "me/other", token="wrong"),
        "not ours": push(small.run, "somebody-else/scenes"),
        "not a name": push(small.run, "not a name"),
        "push private": push(small.run, "me/private", "--private"),
        "predict private": predict("me/private"),
        "stranger": predict("me/private", token="wrong", cache=str(root / "theirs")),
    }
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **hub.environment(root / "home")}
    environment |= {"CACHE": str(root / "cache"), "RESULT": str(root / "result.json"), "COLUMNS": "300"}
    how = {"input": json.dumps(commands), "text": True, "capture_output": True, "timeout": 600}
    ended = subprocess.run([sys.executable, "-c", SESSION], env=environment, cwd=root, **how)  # type: ignore[call-overload]
    assert ended.returncode == 0, ended.stderr
    return {name: Done(*result) for name, result in json.loads((root / "result.json").read_text()).items()}


def test_a_pushed_model_predicts_the_same_under_its_name(hub: Hub, done: dict[str, Done]) -> None:
    assert done["push"].code == 0, done["push"].text
    assert f"{hub.address}/{OURS}" in done["push"].text and f"scob predict {OURS} IMAGES" in done["push"].text
    assert len(done["predict by name"].predictions) == 3, done["predict by name"].text
    assert done["predict by name"].predictions == done["predict by path"].predictions


def test_once_fetched_it_opens_without_the_hub(done: dict[str, Done]) -> None:
    assert done["offline"].predictions == done["predict by name"].predictions
    assert done["never fetched"].code == 2
    assert "the hub, which might have it, cannot be reached" in done["never fetched"].text


def test_the_repository_has_no_path_of_this_machine(hub: Hub, done: dict[str, Done], small: Small) -> None:
    files = hub.repositories[OURS][1]
    assert set(files) == {"README.md", "config.json", "model.safetensors"}
    assert files["model.safetensors"] == (small.run / "model" / "model.safetensors").read_bytes()
    folders = str(small.backbone.parent)
    assert folders in (small.run / "model" / "config.json").read_text()  # so the next line can fail
    assert not any(folders in files[name].decode() for name in ("README.md", "config.json"))


def test_a_revision_is_what_it_was(hub: Hub, done: dict[str, Done]) -> None:
    assert done["push again"].code == 0 and len(hub.repositories[OURS]) == 3
    assert done["revision"].predictions == done["predict by name"].predictions
    assert done["no revision"].code == 2 and "could not be fetched from the hub" in done["no revision"].text


def test_an_exported_file_goes_along(hub: Hub, done: dict[str, Done]) -> None:
    assert done["push exported"].code == 0
    assert hub.repositories["me/exported"][-1]["model.onnx"] == b"exported"
    assert b"has not named a licence" in hub.repositories["me/exported"][-1]["README.md"]


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("wrong token", "log in with `hf auth login`"),
        ("not ours", "use a name that belongs to you"),
        ("not a name", "is not a name on the hub: use OWNER/NAME"),
        ("stranger", "none on the hub that you may see"),
    ],
)
def test_what_the_hub_refuses_is_one_sentence(done: dict[str, Done], case: str, sentence: str) -> None:
    assert done[case].code == 2 and sentence in done[case].text and "Traceback" not in done[case].text


def test_a_private_model_is_for_its_owner(hub: Hub, done: dict[str, Done]) -> None:
    assert done["push private"].code == 0 and hub.private == {"me/private"}
    assert done["predict private"].predictions == done["predict by name"].predictions


@pytest.mark.parametrize("name", ["scenes", "not a name", "me/my--model", "a/b/c", "me/", "../scenes"])
def test_a_bad_name_is_refused_by_itself_not_for_want_of_a_hub(
    small: Small, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("scob.inference.hub.hub_is_reachable", lambda: False)
    with pytest.raises(UserError, match="is not a name on the hub: use OWNER/NAME"):
        push_to_hub(small.run, name)


def test_an_onnx_file_alone_cannot_be_pushed(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(UserError, match="is an ONNX file: give the model folder beside it"):
        push_to_hub(tmp_path / "model.onnx", OURS)


def test_a_model_knows_where_it_came_from(small: Small) -> None:
    model = Scob.from_pretrained(small.run, "cpu")
    assert model.folder == small.run
    with pytest.raises(UserError, match="only a model that was opened with from_pretrained"):
        Scob(model.network, model.card, model.device).push_to_hub(OURS)


def test_the_published_card_is_still_sealed(small: Small, tmp_path: Path) -> None:
    card = published(ModelCard.read(small.run / "model"))
    (tmp_path / "config.json").write_text(card.to_json())
    assert ModelCard.read(tmp_path).backbone_name == small.backbone.name
    assert json.loads(card.to_json())["model"]["backbone"] == small.backbone.name
