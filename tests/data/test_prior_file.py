"""Prior files: any order, three formats, and plain words about what is wrong."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from scob.data.prior_file import read_prior
from scob.errors import UserError

IMAGES, CLASSES = ("a.png", "b.png"), ("cat", "dog")
EXPECTED = [[0.25, 0.5], [0.75, 1.0]]


def write(folder: Path, kind: str, images: list[str], classes: list[str], scores: np.ndarray) -> Path:
    path = folder / f"prior.{kind}"
    if kind == "csv":
        rows = [["image", *classes], *([name, *map(str, line)] for name, line in zip(images, scores, strict=True))]
        path.write_text("\n".join(",".join(row) for row in rows) + "\n", encoding="utf-8")
    elif kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        columns = {"image": images, **{name: scores[:, c] for c, name in enumerate(classes)}}
        parquet.write_table(pyarrow.table(columns), path)
    else:
        save_file({"scores": scores}, path, {"images": json.dumps(images), "classes": json.dumps(classes)})
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet", "safetensors"])
def test_rows_and_columns_may_come_in_any_order(tmp_path: Path, kind: str) -> None:
    scores = np.array([[9.0, 9.0], [1.0, 0.75], [0.5, 0.25]], np.float32)
    path = write(tmp_path, kind, ["other.png", "b.png", "a.png"], ["dog", "cat"], scores)
    assert read_prior(path, IMAGES, CLASSES).tolist() == EXPECTED


@pytest.mark.parametrize("kind", ["csv", "parquet", "safetensors"])
@pytest.mark.parametrize(
    ("images", "classes", "message"),
    [
        (["a.png", "c.png"], ["cat", "dog"], r"no scores for the image 'b\.png'"),
        (["a.png", "b.png"], ["cat", "dig"], r"no scores for the class 'dog'.*Did you mean 'dig'\?"),
        (["a.png", "a.png"], ["cat", "dog"], r"lists the image 'a\.png' twice"),
    ],
)
def test_names_are_checked(tmp_path: Path, kind: str, images: list[str], classes: list[str], message: str) -> None:
    path = write(tmp_path, kind, images, classes, np.zeros((2, 2), np.float32))
    with pytest.raises(UserError, match=message):
        read_prior(path, IMAGES, CLASSES)


@pytest.mark.parametrize("kind", ["csv", "parquet", "safetensors"])
def test_a_class_too_many_is_an_error(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, kind, list(IMAGES), ["cat", "dog", "dogs"], np.zeros((2, 3), np.float32))
    with pytest.raises(UserError, match=r"the class 'dogs', which the data set does not have"):
        read_prior(path, IMAGES, CLASSES)


@pytest.mark.parametrize("kind", ["csv", "parquet", "safetensors"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_scores_must_be_finite(tmp_path: Path, kind: str, wrong: float) -> None:
    path = write(tmp_path, kind, list(IMAGES), list(CLASSES), np.array([[0, 1], [wrong, 1]], np.float32))
    with pytest.raises(UserError, match=r"the image 'b\.png' for the class 'cat' is (nan|inf), not a finite number"):
        read_prior(path, IMAGES, CLASSES)


def test_shapes_are_checked(tmp_path: Path) -> None:
    path = write(tmp_path, "safetensors", list(IMAGES), list(CLASSES), np.zeros((3, 2), np.float32))
    with pytest.raises(UserError, match=r"shape \(3, 2\), but 2 images and 2 classes are named"):
        read_prior(path, IMAGES, CLASSES)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.txt", b"", r"must end in \.csv, \.parquet, \.safetensors"),
        ("p.csv", b"", "is empty"),
        ("p.csv", b"picture,cat,dog\n", "no column is called 'image'"),
        ("p.csv", b"image,cat,dog\na.png,1\n", "row 2: it has 2 cells, but the header names 3"),
        ("p.csv", b"image,cat,dog\na.png,1,high\n", "row 2: a score is not a number"),
        ("p.csv", b"image,cat,dog\n", "no scores for the image 'a.png' and 1 more"),
        ("p.safetensors", b"x", "not a safetensors file of scores"),
        ("p.parquet", b"x", "not a Parquet table of scores"),
    ],
)
def test_files_that_are_no_prior(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_prior(tmp_path / name, IMAGES, CLASSES)


def test_a_missing_file_and_a_file_without_names(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file"):
        read_prior(tmp_path / "none.csv", IMAGES, CLASSES)
    save_file({"scores": np.zeros((2, 2), np.float32)}, tmp_path / "bare.safetensors")
    with pytest.raises(UserError, match="its metadata has no 'images'"):
        read_prior(tmp_path / "bare.safetensors", IMAGES, CLASSES)
