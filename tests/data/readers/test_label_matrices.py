"""The matrices of Cole et al.: their split with seed 1200, and their observed labels."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scob.data.readers import infer_format, open_split, splits_of, taken_as
from scob.data.readers.label_matrices import held_out
from scob.errors import UserError

Painter = Callable[..., Path]


@pytest.fixture
def matrices(tmp_path: Path, paint: Painter) -> Path:
    for phase, count in (("train", 10), ("val", 3)):
        names = [f"{phase}_{n}.png" for n in range(count)]
        for number, name in enumerate(names):
            paint(tmp_path / "VOCdevkit" / "JPEGImages" / name, seed=number)
        full = np.eye(3)[np.arange(count) % 3] + np.eye(3)[(np.arange(count) + 1) % 3]
        np.save(tmp_path / f"formatted_{phase}_images.npy", np.array(names))
        np.save(tmp_path / f"formatted_{phase}_labels.npy", full)
        np.save(tmp_path / f"formatted_{phase}_labels_obs.npy", np.eye(3)[np.arange(count) % 3])
    return tmp_path


def test_the_split_is_theirs() -> None:
    kept, out = held_out(5717)  # VOC 2012's training images
    assert (len(kept), len(out)) == (4574, 1143)
    order = np.random.RandomState(1200).permutation(5717)
    assert set(out.tolist()) == set(order[-1143:].tolist())
    assert sorted([*kept, *out]) == list(range(5717))


def test_all_labels_and_observed_ones(matrices: Path) -> None:
    source = str(matrices)
    assert infer_format(source) == "matrices"
    assert taken_as(source) == "label matrices of Cole et al. (split seed 1200), 3 classes"
    assert splits_of(source) == ("train", "val", "test", "train-obs", "val-obs")
    assert [len(open_split(source, name)) for name in ("train", "val", "test")] == [8, 2, 3]
    full, seen = open_split(source, "train").labels, open_split(source, "train-obs").labels
    assert full.images == seen.images
    assert set(np.unique(full.values)) == {-1, 1} and set(np.unique(seen.values)) == {0, 1}
    assert ((full.values == 1).sum(axis=1) == 2).all() and ((seen.values == 1).sum(axis=1) == 1).all()
    assert full.values[seen.values == 1].tolist() == [1] * 8


def test_class_names(matrices: Path) -> None:
    assert open_split(str(matrices), "train").labels.classes == ("class 0", "class 1", "class 2")
    (matrices / "classes.txt").write_text("a\nb\n")
    with pytest.raises(UserError, match="there are 3 columns of labels, but 2 classes are listed"):
        open_split(str(matrices), "train")


class Trap:
    """Unpickling it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_nothing_is_unpickled(matrices: Path) -> None:
    target = matrices / "formatted_train_labels.npy"
    for write in (lambda array: np.save(target, array, allow_pickle=True), lambda array: array.dump(target)):
        write(np.array([[Trap(matrices / "sprung")]], dtype=object))
        with pytest.raises(UserError, match="is not an array that can be read"):
            open_split(str(matrices), "train")
    assert not (matrices / "sprung").exists()


@pytest.mark.parametrize(
    ("name", "array", "reason"),
    [
        ("train_images", np.array("a.png"), "is not a list of image names"),
        ("train_images", np.arange(10), "is not a list of image names"),
        ("train_labels", np.ones(10), "is not a matrix of labels"),
        ("train_labels", np.ones((10, 3), "U1"), "is not a matrix of labels"),
        ("train_labels_obs", np.ones((10, 5)), "are not one row of 0 and 1 for each of its images"),
        ("val_labels", np.ones((3, 5)), "are not one row of 0 and 1 for each of its images"),
    ],
)
def test_other_arrays(
    matrices: Path, name: str, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], reason: str
) -> None:
    np.save(matrices / f"formatted_{name}.npy", array)
    with pytest.raises(UserError, match=reason):
        for split in ("train", "test", "train-obs"):
            open_split(str(matrices), split)
