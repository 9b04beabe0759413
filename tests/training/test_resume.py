"""Resuming: the settings, images and labels must be those the run began with; more epochs are allowed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scob.errors import UserError
from scob.labels import Labels
from scob.training.events import Note
from scob.training.finished_run import FinishedRun
from scob.training.resume import differences, resume_config
from scob.training.run_data import ReadImages, arrange, load_data
from scob.training.train import SharedParts, train
from support.interrupted import SAVING, Broken, broken_at
from support.runs import same, trained_weights
from support.struck import records


def test_changed_settings_are_refused_with_the_difference(begun: Any) -> None:
    config, data, run = begun
    with pytest.raises(UserError, match=r"scob\.tau: 0\.2 -> 0\.5.*resume it without"):
        resume_config(run, ["scob.tau=0.5"])
    changed = config.model_copy(deep=True)
    changed.train.batch = 4
    with pytest.raises(UserError, match=r"train\.batch: 8 -> 4"):
        train(changed, run, resume=True, shared=SharedParts(data))
    assert resume_config(run, ["train.epochs=4", "data.workers=1"]).data.workers == 1  # the same, and a harmless one


def test_changed_data_is_refused(begun: Any, configure: Any, scenes_of: Any) -> None:
    config, data, run = begun
    other = data.drawn
    values = other.values.copy()
    values[0] = np.roll(values[0], 1)
    moved = replace(data, drawn=Labels(other.classes, other.images, values))
    with pytest.raises(UserError, match="no longer those"):
        train(config, run, resume=True, shared=SharedParts(moved))


def test_more_epochs_may_be_asked_for_and_fewer_leave_the_settings_alone(begun: Any) -> None:
    _, data, run = begun
    assert resume_config(run, [], "epochs=3").train.epochs == 4
    for bad in ("epochs=0", "epochs=²", "epochs=" + "9" * 5000, "epoch=9", "epochs"):
        with pytest.raises(UserError, match="--extend takes epochs=N"):
            resume_config(run, [], bad)
    longer = resume_config(run, [], "epochs=6")
    assert train(longer, run, resume=True, shared=SharedParts(data)).summary["epochs"] == 6
    assert [r["epoch"] for r in records(run) if r["kind"] == "epoch"] == [0, 1, 2, 3, 4, 5]


def shortened(data: Any, config: Any, count: int) -> Any:
    """The data of a run by an earlier version, whose `data.limit` took the first images."""
    rows = np.arange(count)
    return arrange(ReadImages(data.train.select(rows), data.drawn.select(rows), data.evaluate), config)


def test_a_run_keeps_the_images_that_an_earlier_version_took(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    config = configure("data.limit=16", SAVING)
    first = shortened(scenes_of(configure()), config, 16)
    with pytest.raises(Broken):
        train(config, tmp_path / "run", shared=SharedParts(first), listen=broken_at(5))
    assert load_data(config).drawn.images != first.drawn.images
    finished = train(resume_config(tmp_path / "run"), tmp_path / "run", resume=True)
    assert finished.folder.labels() == first.drawn
    assert finished.experiment is not None and finished.experiment.data.drawn == first.drawn
    whole = train(config, tmp_path / "whole", shared=SharedParts(first))
    assert same(trained_weights(whole.path), trained_weights(finished.path))
    assert FinishedRun.open(tmp_path / "run").images.observed == first.drawn


def test_a_run_that_reported_nothing_goes_on_without(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    config = configure("data.evaluate=test", "train.epochs=1")  # an earlier version ignored such a split
    train(config, tmp_path / "run", shared=SharedParts(scenes_of(configure())))
    notes = []
    longer = resume_config(tmp_path / "run", [], "epochs=2")
    finished = train(longer, tmp_path / "run", resume=True, listen=notes.append)
    assert [set(point) & {"mAP"} for point in finished.curve] == [set(), set()]
    assert any("no evaluation split" in note.message for note in notes if isinstance(note, Note))
    assert FinishedRun.open(tmp_path / "run").data.evaluate is None
    with pytest.raises(UserError, match="no split 'test'"):
        train(config, tmp_path / "new")


def test_differences_name_every_setting_that_changed(configure: Any) -> None:
    one, two = configure(), configure("scob.tau=0.5", "train.epochs=9", "method=role")
    assert differences(one, one) == []
    assert sorted(differences(one, two)) == ["method: scob -> role", "scob.tau: 0.2 -> 0.5", "train.epochs: 4 -> 9"]
