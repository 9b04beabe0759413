"""Label matrices as in the literature on single positive labels (Cole et al.): formatted_train_labels.npy and so on.

There are images (names), labels (N, L) of 0 and 1, and perhaps labels_obs, the single positives that their seed drew.
Their protocol holds a fifth of the training images out with seed 1200 and tests on the official validation images: so
'train' and 'val' are the two parts of their training images, 'test' their validation images. 'train-obs' and
'val-obs' have the observed labels instead of all of them (use labels.kind=given).
"""

import sys
from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.typing import NDArray

from scob.data.images import ImageFiles, skip_or_raise
from scob.data.readers import find_split
from scob.data.readers.named_images import NamedImages
from scob.data.readers.text_lists import class_list
from scob.data.readers.voc import CLASSES as VOC_CLASSES
from scob.data.split import ReadOptions, Split
from scob.errors import UserError, first_line
from scob.labels import ABSENT, PRESENT, Labels

SPLIT_SEED, HELD_OUT = 1200, 0.2
PARTS = {"train": "train", "val": "train", "test": "val"}
OBSERVED = "-obs"


def recognises(source: Path) -> bool:
    """Whether there are formatted_*_labels.npy files here."""
    return source.is_dir() and _file(source, "train", "labels").is_file() and _file(source, "train", "images").is_file()


def title(source: Path, options: ReadOptions) -> str:
    """What it is, and how many classes there are."""
    columns = _matrix(_file(source, "train", "labels")).shape[1]
    return f"label matrices of Cole et al. (split seed {SPLIT_SEED}), {columns} classes"


def splits(source: Path) -> tuple[str, ...]:
    """train, val and test, and those with observed labels where there are any."""
    parts = [name for name, phase in PARTS.items() if _file(source, phase, "labels").is_file()]
    seen = [f"{name}{OBSERVED}" for name in parts if _file(source, PARTS[name], "labels_obs").is_file()]
    return (*parts, *(name for name in seen if name.startswith(("train", "val"))))


def read(source: Path, split: str | None, options: ReadOptions) -> Split:
    """One split; None: all images, with all their labels."""
    wanted = [find_split(source, split, splits(source))] if split is not None else [
        name for name in PARTS if name in splits(source)
    ]  # fmt: skip
    finder, count = NamedImages(source), _matrix(_file(source, "train", "labels")).shape[1]
    names: list[str] = []
    paths: list[str] = []
    rows: list[NDArray[np.int8]] = []
    skipped: list[str] = []
    for part in wanted:
        plain = part.removesuffix(OBSERVED)
        images = _names(_file(source, PARTS[plain], "images"))
        labels = _matrix(_file(source, PARTS[plain], "labels_obs" if part.endswith(OBSERVED) else "labels"))
        if labels.shape != (len(images), count) or not np.isin(labels, (-1, 0, 1)).all():
            raise UserError(f"{source}: the labels of {part} are not one row of 0 and 1 for each of its images")
        # in a matrix of all labels, 0 is absent; among observed ones it is unknown
        values = labels if part.endswith(OBSERVED) else np.where(labels == 1, PRESENT, ABSENT)
        for row in _rows(plain, len(images)):
            where = f"formatted_{PARTS[plain]}_images.npy entry {row}"
            try:
                path, name = finder.find(str(images[row]).strip(), where)
            except UserError as error:
                skip_or_raise(error, options.skip_bad, skipped)
                continue
            names.append(name)
            paths.append(path)
            rows.append(values[row].astype(np.int8))
    classes = _classes(source, count, options)
    table = np.stack(rows) if rows else np.zeros((0, count), np.int8)
    observed = wanted[0].endswith(OBSERVED)
    return Split(
        split or "all",
        Labels(classes, tuple(names), table, "observed by Cole et al." if observed else "full"),
        ImageFiles(tuple(paths)),
        skipped=tuple(skipped),
    )


def held_out(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows to train on and those held out, as that protocol draws them."""
    size = int(np.round(HELD_OUT * count))
    order = np.random.RandomState(SPLIT_SEED).permutation(count)
    return np.sort(order[: count - size]), np.sort(order[count - size :])


def _rows(part: str, count: int) -> list[int]:
    if part == "test":
        return list(range(count))
    kept, out = held_out(count)
    return [int(row) for row in (kept if part == "train" else out)]


def _classes(source: Path, count: int, options: ReadOptions) -> tuple[str, ...]:
    named = class_list(source, options)
    if named is not None and len(named) != count:
        raise UserError(f"{source}: there are {count} columns of labels, but {len(named)} classes are listed")
    if named is not None:
        return named
    return VOC_CLASSES if count == len(VOC_CLASSES) else tuple(f"class {number}" for number in range(count))


def _file(source: Path, phase: str, kind: str) -> Path:
    return source / f"formatted_{phase}_{kind}.npy"


def _names(path: Path) -> NDArray[np.generic]:
    names = _load(path)
    if names.ndim != 1 or names.dtype.kind != "U":
        raise UserError(f"{path} is not a list of image names: it has the type {names.dtype}, shape {names.shape}")
    codes = np.frombuffer(names.tobytes(), np.dtype("u4").newbyteorder(names.dtype.byteorder))
    if codes.max(initial=0) > sys.maxunicode:
        raise UserError(f"{path} is not a list of image names: it contains a character that does not exist")
    return names


def _matrix(path: Path) -> NDArray[np.generic]:
    matrix = _load(path)
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise UserError(f"{path} is not a matrix of labels: it has the type {matrix.dtype}, shape {matrix.shape}")
    return matrix


def _load(path: Path) -> NDArray[np.generic]:
    """The array, mapped: objects are never unpickled, and no header makes us ask for more memory than the file has."""
    try:
        array: NDArray[np.generic] = np.lib.format.open_memmap(path, mode="r")
    except (
        OSError,
        ValueError,
        TypeError,
        OverflowError,
        SyntaxError,
        TokenError,
        MemoryError,
        RecursionError,
        SystemError,  # Python 3.12's tokenizer, for a header with a NUL
    ) as error:
        raise UserError(f"{path} is not an array that can be read ({first_line(error)})") from None
    return array
