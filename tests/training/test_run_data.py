"""The images and labels of a run: what is observed, held out, skipped, and expected."""

from typing import Any

import numpy as np
import pytest

from scob.config import resolve
from scob.data.split import ArrayImages, Split
from scob.errors import UserError
from scob.labels import Labels
from scob.training.run_data import (
    ReadImages,
    arrange,
    expected_positives,
    holdout_rows,
    limited_rows,
    load_data,
    observe,
    without_latecomers,
)


def labels_of(*rows: str) -> Labels:
    """'+-0' is an image with one class present, one absent and one unknown."""
    values = np.array([[{"+": 1, "-": -1, "0": 0}[sign] for sign in row] for row in rows], np.int8)
    return Labels(tuple("abc"[: len(rows[0])]), tuple(f"image {n}" for n in range(len(rows))), values)


@pytest.mark.parametrize(
    ("observed", "reported", "k", "reason"),
    [
        (labels_of("+00", "0+0"), labels_of("+++", "+--"), 2.0, "counted in the validation labels"),
        (labels_of("++-", "+--"), None, 1.5, "counted in the labels, which are complete"),
        (labels_of("---", "+--"), None, 1.0, "counted in the labels"),  # half a class per image, but at least 1
        (labels_of("+00", "0+0", "000"), None, 1.5, "a guess: 1.5 for each label given"),
        (labels_of("++0", "++0"), None, 3.0, "a guess"),
        (labels_of("+0", "++"), None, 2.0, "a guess"),  # 2.25, but there are only two classes
        (labels_of("000"), None, 1.5, "a guess"),
    ],
)  # fmt: skip
def test_expected_positives(observed: Labels, reported: Labels | None, k: float, reason: str) -> None:
    value, explained = expected_positives(observed, reported)
    assert value == pytest.approx(k) and reason in explained


@pytest.mark.parametrize(
    ("setting", "customary", "k"), [(4.0, 2.9, 4.0), (0.0, 2.9, 2.9), (0.0, None, 1.5)]
)  # fmt: skip
def test_k_is_the_setting_else_the_customary_value_else_a_guess(
    setting: float, customary: float | None, k: float
) -> None:
    full = labels_of("+-+", "-+-")
    split = Split("train", full, ArrayImages(np.zeros((2, 8, 8, 3), np.uint8), "image"), expected_positives=customary)
    config = resolve({"labels": {"k": setting, "kind": "single"}, "train": {"holdout": 0.0}})
    assert arrange(ReadImages(split, full.single_positive(0), None), config).k == k


def test_held_out_images_leave_every_class_its_last_two_positives() -> None:
    values = np.zeros((40, 3), np.int8)
    values[:2, 0], values[2:20, 1], values[20:, 2] = 1, 1, 1
    observed = Labels(("rare", "b", "c"), tuple(map(str, range(40))), values)
    held_out = holdout_rows(observed, 0.5, seed=0)
    assert held_out.sum() == 20 and not held_out[:2].any()
    assert holdout_rows(observed, 1.0, seed=0).sum() == 36  # b and c keep one each
    assert holdout_rows(observed, 0.0, seed=0).sum() == 0
    order = np.random.default_rng(0).permutation(40)
    assert (holdout_rows(observed.select(order), 0.5, 0) == held_out[order]).all()  # drawn by name, not by position


@pytest.mark.parametrize("seed", range(5))
def test_no_class_is_held_out_altogether(seed: int) -> None:
    values = np.zeros((60, 20), np.int8)
    values[np.arange(60), np.arange(60) // 3] = 1  # twenty classes of three images
    observed = Labels(tuple(map(str, range(20))), tuple(map(str, range(60))), values)
    held_out = holdout_rows(observed, 0.6, seed)
    assert held_out.sum() == 36
    assert (values[~held_out] == 1).any(axis=0).all()


def test_a_limit_draws_by_seed_and_by_name() -> None:
    labels = Labels(("a",), tuple(f"class {n // 50}/{n}" for n in range(1000)), np.ones((1000, 1), np.int8))
    rows = limited_rows(labels, 100, seed=0)
    assert len(rows) == 100 and (np.diff(rows) > 0).all()
    assert len({labels.images[row].split("/")[0] for row in rows}) >= 18  # of 20 classes that come one after another
    assert set(rows) < set(limited_rows(labels, 200, seed=0))
    assert set(rows) != set(limited_rows(labels, 100, seed=1))
    order = np.random.default_rng(0).permutation(1000)
    assert set(order[limited_rows(labels.select(order), 100, 0)]) == set(rows)
    assert (limited_rows(labels, 5000, 0) == np.arange(1000)).all()


def test_a_limit_draws_from_the_images_that_a_label_file_lists() -> None:
    labels = Labels(("a",), tuple(map(str, range(50))), np.ones((50, 1), np.int8))
    assert (limited_rows(labels, 10, 0, labels.select(np.arange(10))) == np.arange(10)).all()
    assert set(limited_rows(labels, 10, 0, labels.select(np.arange(20)))) < set(range(20))
    too_few = limited_rows(labels, 10, 0, labels.select(np.arange(9)))
    assert (too_few == limited_rows(labels, 10, 0)).all()


def test_every_method_and_training_seed_gets_the_same_images(configure: Any) -> None:
    one, two = (
        load_data(configure("data.limit=10", *words)) for words in (("method=role",), ("train.seed=7", "method=full"))
    )
    assert one.drawn == two.drawn and len(one.drawn) == 10
    assert one.drawn.images != tuple(f"train-{row:06d}" for row in range(10))
    assert one.drawn.images != load_data(configure("data.limit=10", "labels.seed=1")).drawn.images


def test_observed_labels_are_drawn_by_kind_or_taken_from_a_file_by_name(configure: Any) -> None:
    full = labels_of("++-", "-++", "--+")
    assert observe(full, configure("labels.kind=full"), None) == full
    assert observe(full, configure("labels.kind=single"), None) == full.single_positive(0)
    partial = configure("labels.kind=partial", "labels.fraction=0.5", "labels.seed=3")
    assert observe(full, partial, None) == full.partial(0.5, 3)
    stored = full.single_positive(9).select([2, 0, 1])
    assert observe(full, configure(), stored) == full.single_positive(9)


def test_a_label_file_of_other_classes_or_without_an_image_is_refused(configure: Any) -> None:
    full, config = labels_of("++-", "-++"), configure("labels.file=labels.safetensors")
    with pytest.raises(UserError, match="does not list the image 'image 1'"):
        observe(full, config, full.select([0]))
    with pytest.raises(UserError, match="has different classes from"):
        observe(full, config, Labels(("x", "y", "z"), full.images, full.values))


def test_images_that_a_label_file_does_not_list_are_skipped_and_named() -> None:
    labels = labels_of("+00", "0+0", "00+")
    split = Split("train", labels, ArrayImages(np.zeros((3, 4, 4, 3), np.uint8), "image"), skipped=("broken",))
    rest = without_latecomers(split, labels.select([2, 0]), "labels.safetensors")
    assert rest.labels.images == ("image 0", "image 2")
    assert rest.skipped == ("broken", "image 1: labels.safetensors does not list it")
    assert without_latecomers(split, labels, "") is split
    foreign = Labels(labels.classes, ("other",), labels.values[:1])
    assert without_latecomers(split, foreign, "") is split


def test_training_and_held_out_images_are_all_images_once(configure: Any, scenes_of: Any) -> None:
    data = scenes_of(configure("train.holdout=0.25"))
    assert sorted((*data.train.labels.images, *data.holdout.labels.images)) == sorted(data.drawn.images)
    assert data.observed.images == data.train.labels.images
    assert data.holdout_observed.images == data.holdout.labels.images
    assert ((data.observed.values == 1).sum(axis=1) <= 1).all()


def test_full_supervision_sees_all_labels_but_the_run_still_draws(configure: Any, scenes_of: Any) -> None:
    data = scenes_of(configure("method=full"))
    assert data.observed == data.train.labels != data.drawn


def test_nothing_to_learn_from_is_an_error(configure: Any) -> None:
    labels = labels_of("-00", "000")
    split = Split("train", labels, ArrayImages(np.zeros((2, 4, 4, 3), np.uint8), "image"))
    with pytest.raises(UserError, match="no image of the split 'train' has a positive label"):
        arrange(ReadImages(split, labels, None), configure())


def test_some_images_can_be_held_out_to_report_on() -> None:
    values = np.zeros((60, 3), np.int8)
    values[np.arange(60), np.arange(60) % 3] = 1
    labels = Labels(("a", "b", "c"), tuple(f"image {n}" for n in range(60)), values)
    split = Split("train", labels, ArrayImages(np.zeros((60, 2, 2, 3), np.uint8), "image"))
    config = resolve({"data": {"evaluate": "held-out"}, "labels": {"kind": "given"}, "train": {"holdout": 0.1}})
    data = arrange(ReadImages(split, labels, None), config)
    assert data.evaluate is not None and data.holdout is not None
    parts = [set(part.labels.images) for part in (data.train, data.holdout, data.evaluate)]
    assert [len(part) for part in parts] == [44, 4, 12] and len(set.union(*parts)) == 60
    assert (data.evaluate.labels.values != 0).all()  # what is not labelled counts as absent
    assert len(data.drawn) == 60  # the label file of the run has all of them: read again, it gives the same parts
    again = arrange(ReadImages(split, data.drawn, None), config)
    assert again.evaluate is not None and again.evaluate.labels == data.evaluate.labels
    alone = arrange(
        ReadImages(split, labels, None),
        config.model_copy(update={"train": config.train.model_copy(update={"holdout": 0.0})}),
    )
    assert len(alone.train) == len(alone.observed) == 48 and alone.holdout is None
