"""Recovering: ranked suggestions for a run's own images and for new ones."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from scob.errors import UserError
from scob.inference.model import Scob
from scob.inference.thresholds import store_thresholds
from scob.recovery.suggest import SuggestionLimits, class_limits, rank, recover
from scob.recovery.suggestion import read_queue
from scob.training.events import Note
from scob.training.run_data import load_data
from scob.training.train import train
from support.review_runs import CPU, train_on
from support.small_model import Small


def test_only_unknown_entries_are_ranked_the_most_confident_first() -> None:
    confidence = np.array([[0.9, 0.8, 0.2], [0.7, 0.95, 0.6]], np.float32)
    observed = np.array([[1, 0, 0], [0, -1, 0]], np.int8)
    assert rank(confidence, observed, 0.5) == [(0, 1), (1, 0), (1, 2)]
    assert rank(confidence, observed, np.array([0, 0.85, 0.65], np.float32), 1) == [(1, 0)]


def test_the_top_suggestions_come_from_all_classes_in_turn() -> None:
    confidence = np.array([[0.9, 0.2], [0.8, 0.3], [0.7, 0.1]], np.float32)
    unknown = np.zeros((3, 2), np.int8)
    assert rank(confidence, unknown, 0.0, top=3) == [(0, 0), (1, 0), (1, 1)]
    assert rank(confidence, unknown, 0.0, top=4) == [(0, 0), (1, 0), (1, 1), (0, 1)]
    assert rank(confidence, unknown, 0.0, top=99) == rank(confidence, unknown, 0.0)


def test_a_class_whose_own_images_score_low_gets_a_lower_limit() -> None:
    scores = np.array([[0.9, 0.3, 0.1]] * 5 + [[0.2, 0.4, 0.1]], np.float32)
    observed = np.zeros((6, 3), np.int8)
    observed[:5, :2] = 1
    observed[0, 2] = 1
    assert class_limits(scores, observed) == pytest.approx((0.5, 0.3, 0.5))


def test_low_scoring_classes_are_reached_until_thresholds_are_chosen(own_run: Path) -> None:
    plain = {s.label for s in recover(own_run, selection=SuggestionLimits(0.5), masks=False, running=CPU).suggestions}
    reached = {s.label for s in recover(own_run, masks=False, running=CPU).suggestions}
    assert plain < reached
    store_thresholds(own_run / "model", (0.99,) * len(Scob.from_pretrained(own_run, "cpu").classes))
    assert len(recover(own_run, masks=False, running=CPU).suggestions) == 0


@pytest.mark.parametrize("minimum", [-0.1, 1.5])
def test_a_minimum_outside_0_to_1_is_refused(minimum: float) -> None:
    with pytest.raises(UserError, match=f"--min must be between 0 and 1, not {minimum}"):
        SuggestionLimits(minimum)


def test_new_images_get_suggestions_and_broken_ones_are_counted(small: Small, tmp_path: Path) -> None:
    photos = tmp_path / "new"
    photos.mkdir()
    for file in small.files[:4]:
        (photos / file.name).write_bytes(file.read_bytes())
    (photos / "notes.txt").write_text("x")
    (photos / "bad.png").write_bytes(b"x")
    found = recover(small.run, [photos], tmp_path / "out", selection=SuggestionLimits(0.0, 6), running=CPU)
    assert found.images == 4 and found.skipped == 2 and len(found.suggestions) == 6
    assert any(s.nearest for s in found.suggestions)  # from the run's own images
    bare = recover(small.run / "model", [photos], tmp_path / "bare", selection=SuggestionLimits(0.0, 6), running=CPU)
    assert [s.to_json()["class"] for s in bare.suggestions] == [s.label for s in found.suggestions]
    assert not any(s.nearest for s in bare.suggestions)
    assert len(read_queue(tmp_path / "out").suggestions) == 6


def test_a_lone_broken_image_is_named_without_advice_that_does_not_apply(small: Small, tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"x")
    with pytest.raises(UserError, match=r"^the image cannot be read: .*bad\.jpg: this is not an image of a .*kind$"):
        recover(small.run, [tmp_path / "bad.jpg"], running=CPU)


def test_a_model_without_a_run_needs_images(small: Small) -> None:
    with pytest.raises(UserError, match="--images"):
        recover(small.run / "model")


def test_a_photograph_that_came_later_is_left_out_and_counted(small: Small, tmp_path: Path) -> None:
    photos = Path(shutil.copytree(small.photos, tmp_path / "photos"))
    run = tmp_path / "run"
    ready = train_on(photos, small, run)
    shutil.copy(small.files[0], next(photos.iterdir()) / "new.png")
    found = recover(run, selection=SuggestionLimits(0.0, 3), masks=False, running=CPU)
    assert found.images == 24 and found.skipped == 1
    events = []
    config = ready.config.model_copy(deep=True)
    config.labels.file = str(run / "labels.safetensors")
    train(config, tmp_path / "again", listen=events.append)
    assert any("left out 1 of the images" in event.message for event in events if isinstance(event, Note))
    config.data.skip_bad = False
    with pytest.raises(UserError, match=r"does not list the image .*new\.png.*data\.skip_bad=true"):
        load_data(config)
