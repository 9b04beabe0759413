"""Observed labels: the file's round trip, the draws, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scob.draws import permutation
from scob.errors import UserError
from scob.labels import ABSENT, PRESENT, UNKNOWN, Labels

names = st.text(min_size=1, max_size=8)
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def labels(draw: st.DrawFn, least: int = 0) -> Labels:
    classes = draw(st.lists(names, unique=True, min_size=least, max_size=6))
    images = draw(st.lists(names, unique=True, min_size=least, max_size=8))
    values = draw(arrays(np.int8, (len(images), len(classes)), elements=st.integers(-1, 1)))
    return Labels(tuple(classes), tuple(images), values, "drawn")


@quick
@given(labels())
def test_file_round_trip(tmp_path: Path, given_labels: Labels) -> None:
    path = tmp_path / "labels.safetensors"
    stored = given_labels.save(path)
    loaded = Labels.load(path)
    assert loaded.classes == given_labels.classes
    assert loaded.images == given_labels.images
    assert loaded.values.dtype == np.int8
    np.testing.assert_array_equal(loaded.values, given_labels.values)
    assert loaded.origin == "drawn"
    assert stored == loaded.fingerprint
    assert loaded == given_labels


@quick
@given(labels(), st.integers(0, 2**31))
def test_single_positive_keeps_one_true_positive_or_none(full: Labels, seed: int) -> None:
    single = full.single_positive(seed)
    had = (full.values == PRESENT).any(axis=1)
    np.testing.assert_array_equal((single.values == PRESENT).sum(axis=1), had.astype(int))
    assert (full.values[single.values == PRESENT] == PRESENT).all()
    assert (single.values != ABSENT).all()


@quick
@given(labels(1), st.integers(0, 99))
def test_draw_of_an_image_is_its_own(full: Labels, seed: int) -> None:
    order = permutation(len(full), seed, "order")
    shuffled = full.select(order)
    np.testing.assert_array_equal(full.single_positive(seed).values[order], shuffled.single_positive(seed).values)
    np.testing.assert_array_equal(full.partial(0.5, seed).values[order], shuffled.partial(0.5, seed).values)


@quick
@given(labels(), st.floats(0.01, 1.0), st.integers(0, 99))
def test_partial_keeps_its_share_of_what_is_known(full: Labels, fraction: float, seed: int) -> None:
    partial = full.partial(fraction, seed)
    known = (full.values != UNKNOWN).sum(axis=1)
    kept = (partial.values != UNKNOWN).sum(axis=1)
    expected = np.minimum(np.maximum(1, np.rint(fraction * known)), known)
    np.testing.assert_array_equal(kept, expected)
    known_after = partial.values != UNKNOWN
    np.testing.assert_array_equal(partial.values[known_after], full.values[known_after])


def test_the_same_seed_gives_the_same_draw_on_every_machine() -> None:
    full = Labels(tuple("abcdef"), tuple(f"image-{i}" for i in range(8)), np.ones((8, 6), np.int8))
    assert full.single_positive(0).values.argmax(axis=1).tolist() == [1, 3, 5, 5, 1, 0, 0, 2]
    assert full.single_positive(1) != full.single_positive(0)


def test_single_positive_is_uniform_over_the_positives() -> None:
    full = Labels(("a", "b", "c", "d"), tuple(f"{i}" for i in range(4000)), np.ones((4000, 4), np.int8))
    counts = (full.single_positive(3).values == PRESENT).sum(axis=0)
    assert ((counts > 880) & (counts < 1120)).all()  # 1000, four standard deviations


@pytest.mark.parametrize("wrong", [2, -2, 257, 0.5, float("nan")])
def test_a_value_that_is_not_a_state_is_refused(wrong: float) -> None:
    with pytest.raises(UserError, match="neither"):
        Labels(("a",), ("x",), np.array([[wrong]]))  # type: ignore[arg-type]


def test_names_that_repeat_and_shapes_that_differ_are_refused() -> None:
    with pytest.raises(UserError, match="the class 'a' is listed twice"):
        Labels(("a", "a"), ("x",), np.zeros((1, 2), np.int8))
    with pytest.raises(UserError, match="the image 'x' is listed twice"):
        Labels(("a",), ("x", "x"), np.zeros((2, 1), np.int8))
    with pytest.raises(UserError, match="2 images and 1 classes"):
        Labels(("a",), ("x", "y"), np.zeros((1, 1), np.int8))


def test_a_name_with_half_a_character_is_refused() -> None:
    for classes, images in ((("\ud800",), ("x",)), (("a",), ("\ud800",))):
        with pytest.raises(UserError, match="is not valid text: it contains a lone surrogate"):
            Labels(classes, images, np.zeros((1, 1), np.int8))


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1, float("nan")])
def test_a_share_outside_the_range_is_refused(fraction: float) -> None:
    with pytest.raises(UserError, match="share of labels"):
        Labels(("a",), ("x",), np.ones((1, 1), np.int8)).partial(fraction, 0)


def test_damaged_label_files_are_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "labels.safetensors"
    with pytest.raises(UserError, match="no label file"):
        Labels.load(path)
    Labels(("a", "b"), ("x", "y"), np.array([[1, -1], [0, 1]], np.int8)).save(path)
    content = path.read_bytes()
    for cut in (0, 5, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(UserError, match="damaged"):
            Labels.load(path)
    position = content.index(b'["x", "y"]')
    path.write_bytes(content[:position] + b'["x", "z"]' + content[position + 10 :])
    with pytest.raises(UserError, match="fingerprint"):
        Labels.load(path)


def test_statistics_count() -> None:
    statistics = Labels(("a", "b", "c"), ("x", "y"), np.array([[1, -1, 0], [0, 1, 0]], np.int8)).statistics()
    assert statistics["images"] == 2
    assert statistics["positives per image"] == 1.0
    assert statistics["observed positive"] == 2
    assert statistics["observed negative"] == 1
    assert statistics["unknown share"] == 0.5
    assert statistics["classes without a positive"] == ["c"]
    assert statistics["per class"] == {
        "a": {"positive": 1, "negative": 0},
        "b": {"positive": 1, "negative": 1},
        "c": {"positive": 0, "negative": 0},
    }
