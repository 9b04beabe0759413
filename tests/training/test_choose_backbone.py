"""The backbone that is taken if none is named."""

import time
from pathlib import Path

import pytest
import torch

from scob.training.choose_backbone import choose_backbone
from scob.training.prepare import prepare
from support.small_model import Small, scob

CUDA = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def test_a_machine_without_a_gpu_takes_the_built_in_one_and_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scob.training.choose_backbone.hub_is_reachable", lambda _: pytest.fail("the hub was asked"))
    name, reason = choose_backbone(torch.device("cpu"))
    assert name == "photographs" and reason.startswith("no CUDA GPU") and "--backbone" in reason


def test_without_the_hub_a_gpu_takes_the_built_in_one_at_once() -> None:
    began = time.monotonic()
    name, reason = choose_backbone(CUDA)
    assert time.monotonic() - began < 4
    assert name == "photographs" and "hub cannot be reached" in reason and "\n" not in reason


def test_a_gpu_takes_the_resnet_if_it_is_stored_here(no_hub: Path) -> None:
    snapshot = no_hub / "models--microsoft--resnet-50" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("abc")
    for file in ("config.json", "model.safetensors"):
        (snapshot / file).write_text("{}")
    assert choose_backbone(CUDA) == ("microsoft/resnet-50", "")


def test_preparing_takes_it_unless_another_is_named(small: Small) -> None:
    ready = prepare(small.photos, device="cpu", estimate=False)
    assert ready.config.model.backbone == "photographs"
    other = prepare(small.photos, device="cpu", estimate=False, overrides=["model.backbone=drawings"])
    assert other.config.model.backbone == "drawings"


def test_the_command_says_it_before_anything_else(tmp_path: Path) -> None:
    said = scob("train", "--images", tmp_path / "nothing", "--device", "cpu", "--out", tmp_path / "run")
    assert said.returncode == 2 and "photographs" not in said.stdout
    lines = " ".join(said.stderr.split())  # a narrow terminal breaks them
    assert lines.index("built-in backbone photographs") < lines.index("there is nothing at")
