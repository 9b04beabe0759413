"""The model folder: it contains all that predicting needs, and damage is reported."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from scob.errors import UserError
from scob.training.model_folder import ModelCard, describe, load_network
from support.runs import trained_weights


@pytest.fixture
def folder(run_small: Any, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run_small() / "model", tmp_path / "model"))


def test_a_folder_is_all_it_takes(folder: Path, run_small: Any) -> None:
    network, card = load_network(folder)
    weights = trained_weights(run_small())
    assert not network.training
    assert all(torch.equal(v, weights[k]) for k, v in network.state_dict().items())
    assert len(card.classes) == 12 or len(card.classes) == network.classes
    assert len(card.thresholds) == len(card.classes)
    assert network(torch.randn(2, 3, card.size, card.size)).shape == (2, len(card.classes))
    assert not any(p.suffix in (".pt", ".pth", ".pkl", ".bin") for p in folder.iterdir())


@pytest.mark.parametrize("head", ["cnn", "large-cnn", "linear"])
def test_every_head_comes_back(run_small: Any, head: str) -> None:
    run = run_small(f"model.head={head}")
    network, _ = load_network(run / "model")
    weights = trained_weights(run)
    assert all(torch.equal(v, weights[k]) for k, v in network.state_dict().items())


def test_names_are_plain_text_in_the_readme(folder: Path) -> None:
    card = ModelCard.read(folder)
    card.classes = ("<img src=x onerror=alert(1)>", "[a](javascript:b)", "two\nlines")
    page = describe(card)
    assert "<img" not in page and "&#60;img src=x onerror=alert(1)&#62;" in page
    assert "[a]" not in page and "two lines" in page


def test_damage_is_reported(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a model folder"):
        load_network(tmp_path)
    card = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**card, "thresholds": [0.25] * len(card["classes"])}))
    with pytest.raises(UserError, match=r"config\.json is damaged: it is not as Scob wrote it"):
        load_network(folder)
    del card["sha256"]  # the rest is checked in models of earlier versions too, which have no seal
    for change, words in (
        ({"format": "scob-model-0"}, "another version"),
        ({"thresholds": [0.5]}, "damaged"),
        ({"size": "wide"}, "damaged"),
        ({"surprise": 1}, "damaged"),
        ({"backbone": {}}, "model_type"),
        ({"model": {**card["model"], "width": 64}}, "do not belong together"),
    ):
        (folder / "config.json").write_text(json.dumps({**card, **change}))
        with pytest.raises(UserError, match=words):
            load_network(folder)
    (folder / "config.json").write_text(json.dumps(card))
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(UserError, match="damaged"):
        load_network(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"no model\.safetensors"):
        load_network(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        load_network(folder)


@pytest.mark.parametrize("wrong", [float("nan"), float("-inf"), 1e300])
def test_a_threshold_must_be_a_finite_number(folder: Path, tmp_path: Path, wrong: float) -> None:
    card = ModelCard.read(folder)
    card.thresholds = (wrong, *card.thresholds[1:])
    (tmp_path / "config.json").write_text(card.to_json())
    with pytest.raises(UserError, match=r"config\.json is damaged: a threshold is not a finite number"):
        ModelCard.read(tmp_path)


def test_a_card_says_where_the_labels_came_from(folder: Path) -> None:
    card = ModelCard.read(folder)
    assert card.labels["origin"] == "single-positive seed 0"
    assert len(card.labels["fingerprint"]) == 64
    assert card.labels["fingerprint"] in (folder / "README.md").read_text()
