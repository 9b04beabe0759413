"""Resuming: the settings, images and labels must be those the run began with; more epochs are allowed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scob.errors import UserError
from scob.labels import Labels
from scob.training.resume import differences, resume_config
from scob.training.train import SharedParts, train
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


def test_more_epochs_may_be_asked_for_fewer_may_not(begun: Any) -> None:
    _, data, run = begun
    for bad in ("epochs=3", "epochs=²", "epochs=" + "9" * 5000, "epoch=9", "epochs"):
        with pytest.raises(UserError, match="at least 4"):
            resume_config(run, [], bad)
    longer = resume_config(run, [], "epochs=6")
    assert train(longer, run, resume=True, shared=SharedParts(data)).summary["epochs"] == 6
    assert [r["epoch"] for r in records(run) if r["kind"] == "epoch"] == [0, 1, 2, 3, 4, 5]


def test_differences_name_every_setting_that_changed(configure: Any) -> None:
    one, two = configure(), configure("scob.tau=0.5", "train.epochs=9", "method=role")
    assert differences(one, one) == []
    assert sorted(differences(one, two)) == ["method: scob -> role", "scob.tau: 0.2 -> 0.5", "train.epochs: 4 -> 9"]
