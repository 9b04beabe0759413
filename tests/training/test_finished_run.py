"""A finished run opened again."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scob.data.readers import open_split
from scob.errors import UserError
from scob.inference.evaluate import evaluate
from scob.training.finished_run import FinishedRun
from scob.training.train import train
from support.small_model import Small


def test_a_run_knows_its_images_again(small: Small) -> None:
    run = FinishedRun.open(small.run)
    images = run.images
    assert images.observed == run.folder.labels() and images.held_out.sum() == 19
    assert images.estimates is not None
    assert (np.isnan(images.estimates).all(axis=1) == images.held_out).all()
    assert images.split.masks is images.split.boxes is None  # those of `data.train` have other rows
    source = open_split("scenes:96x64", "train")
    assert all((images.split.images.load(i) == source.images.load(i)).all() for i in (0, 40, 95))


def test_a_run_that_was_opened_again_scores_as_the_live_one(configure: Any, tmp_path: Path) -> None:
    config = configure("train.holdout=0.25", "data.evaluate=val", "train.flip_test=true", "train.epochs=1")
    live = train(config, tmp_path / "run")
    opened = FinishedRun.open(live.path)
    assert opened.experiment is None and opened.curve == live.curve and opened.model == live.model
    for split, images in (("train", 30), ("holdout", 10), ("evaluate", len(live.experiment.data.evaluate))):
        scores = opened.scores(split, "cpu")
        assert scores.shape == (images, len(opened.data.observed.classes))
        assert np.allclose(scores, live.scores(split), atol=1e-5)


def test_a_split_that_the_run_does_not_have_is_an_error(run_small: Any) -> None:
    with pytest.raises(UserError, match="has no holdout images"):
        FinishedRun.open(run_small()).scores("holdout", "cpu")


def test_a_run_whose_reported_images_are_gone_still_knows_its_own(configure: Any, small: Small, tmp_path: Path) -> None:
    photos = Path(shutil.copytree(small.photos, tmp_path / "photos"))
    table = photos / "val.csv"
    names = [(file.relative_to(small.photos), file.parent.name) for file in small.files]
    table.write_text("image,label\n" + "".join(f"{name},{label}\n" for name, label in names))
    run = train(configure(f"data.evaluate={table}", "train.epochs=1"), tmp_path / "run")
    assert run.summary["evaluate_split"] == "val.csv" and run.summary["evaluate_images"] == 24
    assert FinishedRun.open(run.path).data.evaluate is not None
    table.unlink()
    assert FinishedRun.open(run.path).images.observed == run.folder.labels()


def test_a_run_that_is_not_finished_is_opened_as_far_as_it_is(begun: Any) -> None:
    run = FinishedRun.open(begun[2])
    assert run.summary["epochs"] == 1 and run.model == run.path / "so-far"
    assert run.images.observed == run.folder.labels() and run.images.estimates is None


def test_images_held_out_to_report_on_are_the_runs_too(configure: Any, tmp_path: Path) -> None:
    config = configure("data.evaluate=held-out", "train.epochs=1", "labels.kind=single")
    finished = train(config, tmp_path / "run")
    assert finished.summary["evaluate_images"] == 8 and finished.summary["evaluate_split"] == "held-out"
    again = FinishedRun.open(tmp_path / "run")
    assert again.data.evaluate is not None and len(again.data.evaluate) == 8
    assert len(again.images.split) == 40 and again.images.held_out.sum() == 8
    assert evaluate(tmp_path / "run").mAP == pytest.approx(finished.summary["evaluation"]["mAP"], abs=1e-3)
