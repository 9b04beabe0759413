"""A prior file (`labels.prior`): the scores of another model, such as a vision-language model, for the training images.

A table of images x classes. CSV and Parquet: a column `image` and one column per class. Safetensors: a tensor `scores`
(N, L), and in its metadata `images` and `classes`, both JSON lists of names. Rows and columns may come in any order;
images that are not trained on are ignored.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from scob.data.arrow import pyarrow_module
from scob.data.readers.table_rows import csv_rows
from scob.data.readers.text_lists import read_text
from scob.errors import UserError, first_line, nearest

SUFFIXES = (".csv", ".parquet", ".safetensors")
Floats = NDArray[np.float32]
Table = tuple[list[str], list[str], NDArray[Any]]  # images, classes, scores (N, L)


def read_prior(path: Path, images: Sequence[str], classes: Sequence[str]) -> Floats:
    """The scores of `images` and `classes`, in their order, (N, L); a UserError says what the file lacks."""
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"labels.prior={path}: a prior file must end in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise UserError(f"labels.prior={path}: there is no such file")
    readers = {".csv": _read_csv, ".parquet": _read_parquet, ".safetensors": _read_safetensors}
    stored_images, stored_classes, scores = readers[path.suffix.lower()](path)
    if scores.shape != (len(stored_images), len(stored_classes)):
        raise UserError(
            f"{path}: the scores have shape {scores.shape}, but {len(stored_images)} images and "
            f"{len(stored_classes)} classes are named"
        )
    rows = _positions(path, "image", stored_images, images)
    columns = _positions(path, "class", stored_classes, classes)
    surplus = [name for name in stored_classes if name not in set(classes)]
    if surplus:
        raise UserError(
            f"{path} has scores for the class {surplus[0]!r}, which the data set does not have."
            f"{nearest(surplus[0], classes)} Remove the column, or rename it"
        )
    selected = scores[np.ix_(rows, columns)].astype(np.float32)
    wrong = np.argwhere(~np.isfinite(selected))
    if len(wrong):
        row, column = wrong[0]
        raise UserError(
            f"{path}: the score of the image {images[row]!r} for the class {classes[column]!r} is "
            f"{selected[row, column]}, not a finite number"
        )
    return selected


def _positions(path: Path, kind: str, stored: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64]:
    """Where each wanted name is among the stored ones."""
    position = {name: number for number, name in enumerate(stored)}
    if len(position) < len(stored):
        repeated = next(name for number, name in enumerate(stored) if position[name] != number)
        raise UserError(f"{path} lists the {kind} {repeated!r} twice: remove one of the two")
    missing = [name for name in wanted if name not in position]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        hint = nearest(missing[0], stored) if kind == "class" else ""  # among very many images it would take long
        raise UserError(
            f"{path} has no scores for the {kind} {missing[0]!r}{more}: names must be those of the data set.{hint}"
        )
    return np.array([position[name] for name in wanted], dtype=np.int64)


def _read_csv(path: Path) -> Table:
    header: list[str] = []
    place = 0
    images: list[str] = []
    scores: list[list[float]] = []
    for number, cells in csv_rows(read_text(path), str(path)):
        if not any(cell.strip() for cell in cells):
            continue
        if not header:
            header = [cell.strip() for cell in cells]
            place = _image_column(path, header)
            continue
        if len(cells) != len(header):
            raise UserError(f"{path} row {number}: it has {len(cells)} cells, but the header names {len(header)}")
        images.append(cells[place].strip())
        try:
            scores.append([float(cell) for column, cell in enumerate(cells) if column != place])
        except ValueError as error:
            raise UserError(f"{path} row {number}: a score is not a number ({error})") from None
    if not header:
        raise UserError(f"{path} is empty: its first line must name the columns, 'image' and every class")
    classes = [name for column, name in enumerate(header) if column != place]
    return images, classes, np.array(scores, dtype=np.float64).reshape(len(images), len(classes))


def _image_column(path: Path, header: Sequence[str]) -> int:
    if "image" not in header:
        raise UserError(f"{path}: no column is called 'image'; the columns are {', '.join(map(repr, header[:10]))}")
    return header.index("image")


def _read_parquet(path: Path) -> Table:
    pyarrow = pyarrow_module()
    try:
        table = pyarrow.parquet.read_table(path)
        names: list[str] = list(table.column_names)
        place = _image_column(path, names)
        columns = [table.column(n).to_numpy().astype(np.float64) for n in range(len(names)) if n != place]
        images = [str(name) for name in table.column(place).to_pylist()]
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        raise UserError(f"{path} is not a Parquet table of scores: {first_line(error)}") from None
    classes = [name for n, name in enumerate(names) if n != place]
    return images, classes, np.stack(columns, axis=1) if columns else np.zeros((len(images), 0))


def _read_safetensors(path: Path) -> Table:
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            images, classes = (json.loads(metadata[key]) for key in ("images", "classes"))
            scores = file.get_tensor("scores")
        if not all(isinstance(names, list) for names in (images, classes)):
            raise ValueError("'images' and 'classes' must be JSON lists")
    except KeyError as error:
        raise UserError(f"{path}: its metadata has no {error}; it must list 'images' and 'classes' as JSON") from None
    except (SafetensorError, ValueError, TypeError, OSError, RecursionError) as error:
        raise UserError(f"{path} is not a safetensors file of scores: {error}") from None
    return [str(name) for name in images], [str(name) for name in classes], scores
