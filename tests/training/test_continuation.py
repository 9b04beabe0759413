"""Continuing from a model: its settings, its weights, and classes that come and go."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scob.config import resolve
from scob.errors import UserError
from scob.inference.model import Scob
from scob.parallel import Processes
from scob.training.build import build
from scob.training.continuation import config_from_model, initialise
from scob.training.events import ContinuedFrom
from scob.training.prepare import prepare
from scob.training.train import SharedParts, train
from support.own_images import picture, prepared
from support.small_model import Small


def test_settings_may_continue_from_a_model_too(small: Small, tmp_path: Path) -> None:
    config = config_from_model(resolve({"model": {"width": 512}}), small.run, tmp_path / "next", ["train.epochs=3"])
    assert config.model.width == 32 and config.data.size == 64 and config.train.epochs == 3
    assert (tmp_path / "next" / "init-backbone" / "config.json").exists()


def test_a_model_is_continued_with_one_class_more_and_one_class_less(small: Small, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    shutil.copytree(small.photos, photos)
    before = Scob.from_pretrained(small.run, "cpu")
    left = sorted(p.name for p in photos.iterdir())[0]
    shutil.rmtree(photos / left)
    picture(photos / "zebra" / "1.png")
    picture(photos / "zebra" / "2.png")
    ready = prepare(photos, init=small.run, out=tmp_path / "next", device="cpu", overrides=("data.workers=0",))
    assert ready.config.model.width == 32 and ready.config.data.size == before.size
    experiment = build(ready.config, ready.data, Processes())
    continued = initialise(experiment, small.run)
    assert continued.new == ("zebra",) and left in continued.dropped and "tree" in continued.kept
    classes = experiment.data.observed.classes
    images = before.prepare(np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8))
    with torch.no_grad():
        old, new = before.network.eval()(images), experiment.network.eval()(images)
    for name in continued.kept:
        assert torch.allclose(old[:, before.classes.index(name)], new[:, classes.index(name)], atol=1e-5)
    target = experiment.method.target.head.state_dict()
    assert all(torch.equal(value, target[key]) for key, value in experiment.network.head.state_dict().items())


def test_weights_that_fit_but_mean_something_else_are_refused(small: Small, tmp_path: Path) -> None:
    ready = prepared(small.photos, small, "model.feedforward=32", "train.epochs=1", estimate=False)
    assert ready.config.model.norm == "pre"
    with pytest.raises(UserError, match=r"built with model\.norm=post, but these settings say pre"):
        train(ready.config, tmp_path / "run", shared=SharedParts(ready.data), init=small.run)
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_python_continues_from_a_model_as_the_command_does(small: Small, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="out="):
        prepare(small.photos, init=small.run, device="cpu")
    assert not (small.run / "init-backbone").exists()
    words = ("train.lr_smt=1e-12", "train.epochs=1", "train.ema=0", "data.workers=0", "train.select=last")
    ready = prepare(small.photos, init=small.run, out=tmp_path / "run", device="cpu", overrides=words, estimate=False)
    events: list[object] = []
    train(
        ready.config, tmp_path / "run", shared=SharedParts(ready.data), init=ready.init,
        listen=events.append,
    )  # fmt: skip
    before, after = (
        Scob.from_pretrained(run, "cpu").network.head.state_dict() for run in (small.run, tmp_path / "run")
    )
    assert all(torch.allclose(after[name], value, atol=1e-6) for name, value in before.items())
    assert [event.kept for event in events if isinstance(event, ContinuedFrom)] == [ready.data.drawn.classes]


def test_what_cannot_be_continued_from_leaves_no_run_behind(
    configure: Any, scenes_of: Any, run_small: Any, tmp_path: Path
) -> None:
    before, config = run_small(), configure("model.feedforward=48")
    with pytest.raises(UserError, match="a different head from that of the model"):
        train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)), init=before)
    assert not (tmp_path / "run" / "config.yaml").exists()
