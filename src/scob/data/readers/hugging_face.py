"""Hugging Face data sets on disk (`save_to_disk`), and Parquet files that contain their images."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scob.data.arrow import pyarrow_module
from scob.data.images import decode, skip_or_raise
from scob.data.readers import find_split
from scob.data.readers.folder import SPLIT_NAMES
from scob.data.readers.parquet_rows import as_python, open_parquet, read_parquet
from scob.data.readers.table_columns import IMAGE_NAMES, LABEL_NAMES
from scob.data.readers.text_lists import read_text, unknown_class
from scob.data.split import ReadOptions, Split
from scob.errors import UserError, first_line
from scob.labels import PRESENT, Labels

STATE, DICTIONARY, INFO = "state.json", "dataset_dict.json", "dataset_info.json"
IMAGE_KEYS = (*IMAGE_NAMES, "img", "picture", "pixel_values")


def recognises(source: Path) -> bool:
    """Whether this is a data set that `save_to_disk` wrote, or Parquet with images in it."""
    if source.is_dir() and ((source / STATE).is_file() or (source / DICTIONARY).is_file()):
        return True
    files = _parquet_files(source)
    return bool(files) and _holds_images(next(iter(files.values()))[0])


def title(source: Path, options: ReadOptions) -> str:
    """What it is, and how many classes it names."""
    kind = "Parquet with images" if _parquet_files(source) else "a Hugging Face data set"
    return f"{kind}, {len(_class_names(source, options))} classes"


def splits(source: Path) -> tuple[str, ...]:
    """The folders or files of the data set, one per split."""
    return tuple(sorted(_shards(source), key=lambda name: (name != "train", name)))


def read(source: Path, split: str | None, options: ReadOptions) -> Split:
    """One split, or all images for None. An image's labels are present; the rest is unknown."""
    shards = _shards(source)
    wanted = sorted(shards) if split is None else [find_split(source, split, tuple(shards))]
    classes = _class_names(source, options)
    column = {name: i for i, name in enumerate(classes)}
    images: list[Any] = []
    names: list[str] = []
    rows: list[set[str]] = []
    skipped: list[str] = []
    for part in wanted:
        table = _table(shards[part])
        image_key, label_key = _keys(table.schema, source)
        for number, (image, given) in enumerate(
            zip(table[image_key], _named(table, label_key, _features(shards[part]), source), strict=True)
        ):
            where = f"{source.name} {part} row {number + 1}"
            unknown = next((name for name in given if name not in column), None)
            if unknown is not None:
                skip_or_raise(unknown_class(where, unknown, classes), options.skip_bad, skipped)
                continue
            names.append(f"{part}/{number:06d}")
            images.append(image)
            rows.append(given)
    values = np.zeros((len(names), len(classes)), np.int8)
    for row, given in enumerate(rows):
        values[row, [column[name] for name in given]] = PRESENT
    return Split(
        split or "all",
        Labels(classes, tuple(names), values, source.name),
        StoredImages(tuple(images), tuple(names), str(source)),
        skipped=tuple(skipped),
    )


@dataclass(frozen=True)
class StoredImages:
    """Images whose bytes, or whose paths, are cells of a table."""

    cells: tuple[Any, ...] = field(repr=False)
    names: tuple[str, ...]
    source: str

    def __len__(self) -> int:
        return len(self.cells)

    def load(self, index: int, size: int | None = None) -> NDArray[np.uint8]:
        try:
            cell = self.cells[index].as_py()
        except ValueError as error:  # a path that is not UTF-8
            raise UserError(f"{self.where(index)}: the image cannot be read: {first_line(error)}") from None
        raw = cell if isinstance(cell, bytes | str) else cell.get("bytes") or cell.get("path") if cell else b""
        if not isinstance(raw or b"", bytes | str):
            raise UserError(f"{self.where(index)}: the image is {type(raw).__name__}, not bytes or a path")
        if isinstance(raw, str) and not Path(raw).is_absolute():
            raw = os.path.join(self.source, raw)  # noqa: PTH118
        return decode(raw or b"", size, self.where(index))

    def where(self, index: int) -> str:
        return f"{self.source} {self.names[index]}"


def _shards(source: Path) -> dict[str, list[Path]]:
    """The files of each split."""
    if (source / STATE).is_file():
        return {"train": _arrow_files(source)}
    if (source / DICTIONARY).is_file():
        try:
            names = json.loads(read_text(source / DICTIONARY))["splits"]
            return {str(name): _arrow_files(source / str(name)) for name in names}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(f"{source / DICTIONARY} does not list the splits ({error})") from None
    files = _parquet_files(source)
    if not files:
        raise UserError(f"{source} is neither a Hugging Face data set on disk nor Parquet with images")
    return files


def _arrow_files(folder: Path) -> list[Path]:
    try:
        names = [entry["filename"] for entry in json.loads(read_text(folder / STATE))["_data_files"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{folder / STATE} does not list the files of the data set ({error})") from None
    return [folder / Path(str(name)).name for name in names]


def _parquet_files(source: Path) -> dict[str, list[Path]]:
    """Parquet files by split: the hub calls them train-00000-of-00001.parquet, perhaps in a folder data/."""
    if source.is_file():
        return {"train": [source]} if source.suffix.lower() == ".parquet" else {}
    files: dict[str, list[Path]] = {}
    for folder in (source, source / "data") if source.is_dir() else ():
        for path in sorted(folder.glob("*.parquet")):
            if path.stem == "metadata":
                continue
            name = next((n for n in SPLIT_NAMES if path.stem == n or path.stem.startswith(f"{n}-")), "train")
            files.setdefault(name, []).append(path)
        if files:
            break
    return files


def _holds_images(path: Path) -> bool:
    try:
        schema = open_parquet(path).schema_arrow
    except UserError:
        return False
    return any(name.lower() in IMAGE_KEYS and _is_image(schema.field(name).type) for name in schema.names)


def _is_image(kind: Any) -> bool:
    types = pyarrow_module().types
    return bool(types.is_struct(kind) or types.is_binary(kind) or types.is_large_binary(kind))


def _table(paths: list[Path], columns: list[str] | None = None) -> Any:
    """The rows of a split; of Parquet, whose images would be read from disk, only the `columns` that are named."""
    arrow = pyarrow_module()
    try:
        if paths[0].suffix == ".parquet":
            return arrow.concat_tables([read_parquet(path, columns) for path in paths])
        table = arrow.concat_tables([arrow.ipc.open_stream(arrow.memory_map(str(path))).read_all() for path in paths])
        table.validate(full=True)  # Arrow trusts the lengths in a stream: wrong ones would end the process
        return table
    except (arrow.ArrowException, OSError, IndexError, ValueError) as error:
        raise UserError(f"{paths[0] if paths else 'the data set'} cannot be read: {first_line(error)}") from None


def _schema(paths: list[Path]) -> Any:
    """The columns of a split, without its rows."""
    if paths and paths[0].suffix == ".parquet":
        return open_parquet(paths[0]).schema_arrow
    return _table(paths).schema  # mapped, not read


def _keys(schema: Any, source: Path) -> tuple[str, str]:
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise UserError(f"{source}: two columns are called {name!r}; rename one of the two")
    images = [name for name in schema.names if name.lower() in IMAGE_KEYS and _is_image(schema.field(name).type)]
    labels = [name for known in LABEL_NAMES for name in schema.names if name.lower() == known]
    if not images or not labels:
        raise UserError(
            f"{source} needs a column of images and a column called label, labels or tags; its columns are "
            f"{', '.join(map(repr, schema.names))}"
        )
    return images[0], labels[0]


def _features(paths: list[Path]) -> dict[str, Any]:
    """The features that Hugging Face notes beside its Arrow files, or in the Parquet schema."""
    info = paths[0].parent / INFO
    try:
        if paths[0].suffix == ".parquet":
            noted = (open_parquet(paths[0]).schema_arrow.metadata or {}).get(b"huggingface", b"{}")
            return dict(json.loads(noted).get("info", {}).get("features") or {})
        return dict(json.loads(read_text(info)).get("features") or {}) if info.is_file() else {}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}


def _label_names(features: dict[str, Any], key: str) -> list[str] | None:
    """The names of a ClassLabel, alone or in a list."""
    node: Any = features.get(key)
    while isinstance(node, dict) and "names" not in node and "feature" in node:
        node = node["feature"]
    node = node[0] if isinstance(node, list) and node else node
    names = node.get("names") if isinstance(node, dict) else None
    return [str(name) for name in names] if names and isinstance(names, list) else None


def _named(table: Any, key: str, features: dict[str, Any], source: Path) -> list[set[str]]:
    """The labels of every image, by name."""
    names = _label_names(features, key)

    def name_of(value: Any) -> str:
        if names is not None and isinstance(value, int):
            return names[value] if 0 <= value < len(names) else ""
        return str(value).strip()

    cells = as_python(table[key], source)
    listed = [cell if isinstance(cell, list) else [] if cell is None else [cell] for cell in cells]
    return [{name_of(value) for value in each} - {""} for each in listed]


def _class_names(source: Path, options: ReadOptions) -> tuple[str, ...]:
    if options.classes is not None:
        return options.classes
    found: set[str] = set()
    for paths in _shards(source).values():
        _, key = _keys(_schema(paths), source)
        features = _features(paths)
        if (names := _label_names(features, key)) is not None:
            return tuple(names)
        found |= {name for given in _named(_table(paths, [key]), key, features, source) for name in given}
    if not found:
        raise UserError(f"{source} names no class: every label is blank; fill in some labels")
    return tuple(sorted(found))
