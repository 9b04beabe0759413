"""The user's own images: a table of what each image shows (CSV, TSV, JSON, JSON lines or Parquet).

Long:   `image,label[,state][,split]`, one or more rows per image; a row without a label still adds the image. With one
        row per image, a cell may hold several labels, separated by `|`, `;`, `,` or spaces (`table_columns.py`).
Wide:   `image[,split],CLASS,CLASS,...`, each cell 1 or true (present), -1 (absent), 0, false or blank (unknown).
JSON:   `{"image": ..., "labels": [...] or {name: state}, "absent": [...], "split": ...}` per image.

The columns may have other usual names (filename, tags, ...). Image names are relative to the table's folder. A
`classes.txt` beside it fixes the classes and their order. In a folder of several tables, each table is a split, named
like its file; a single table without a `split` column is one split, 'train'. The `metadata` files of a Hugging Face
ImageFolder lie in one folder per split. Our own predictions and suggestions are such tables too.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from scob.data.readers import folder as class_folders
from scob.data.readers.named_images import NamedImages
from scob.data.readers.row_splits import UNSPLIT, Gathered, Row
from scob.data.readers.table_columns import IMAGE_NAMES, LABEL_NAMES
from scob.data.readers.table_rows import SUFFIXES, parse_table, read_rows, usable_rows
from scob.data.readers.text_lists import class_list, read_text
from scob.data.split import ReadOptions, Split
from scob.errors import UserError

EMPTY_SPLITS = ("train", "val", "test")  # an empty file of such a name is a mistake, not a file of another kind
METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
FOLDER_SUFFIXES = frozenset(SUFFIXES) - {".json"}  # a folder's JSON files may be anything
SUGGESTIONS, SUGGESTED_IMAGES = "suggestions.jsonl", "images.json"


@dataclass(frozen=True)
class TableFile:
    """One table of a source. `split` is its own split, if it is one; `prefix` leads from the source to its images."""

    path: Path
    split: str | None = None
    prefix: str = ""


def recognises(source: Path) -> bool:
    """Whether this is a file with a table's suffix, or a folder of tables with an image column."""
    if source.is_file():
        return source.suffix.lower() in SUFFIXES
    return source.is_dir() and bool(_tables(source))


def title(source: Path, options: ReadOptions) -> str:
    """The form of the tables in words, and how many classes they name."""
    tables = _required_tables(source)
    fixed = class_list(source if source.is_dir() else source.parent, options)
    parsed = [parse_table(table.path, table.path.name, fixed, options.separator) for table in tables]
    classes: set[str] = set(fixed or ())
    if fixed is None:
        for table, form in zip(tables, parsed, strict=True):
            for row in usable_rows(form, table.path, [], True):
                classes |= set(row.states)
    kind = "a table" if len(tables) == 1 else f"{len(tables)} tables, one per split"
    return f"{kind}, {parsed[0].form}, {len(classes)} class{'' if len(classes) == 1 else 'es'}"


def splits(source: Path) -> tuple[str, ...]:
    """The splits that the tables name."""
    tables = _required_tables(source)
    if tables[0].split is not None:
        names = [table.split or UNSPLIT for table in tables]
    else:
        path = tables[0].path
        names = list(dict.fromkeys(row.split or UNSPLIT for row in read_rows(path, path.name, [], True)))
        if not names:  # every row was skipped: read them again, to say why
            list(read_rows(path, path.name, [], False))
    return tuple(sorted(names, key=lambda name: (name != "train", name)))


def read(source: Path, split: str | None, options: ReadOptions) -> Split:
    """One split, or all images for None. The classes are those of all splits together."""
    tables = _required_tables(source)
    folder, names = _image_folder(source if source.is_dir() else source.parent, tables)
    fixed = class_list(source if source.is_dir() else source.parent, options)
    gathered = Gathered(source, NamedImages(folder), fixed, options.skip_bad)
    for table in tables:
        rows = read_rows(
            table.path, table.path.name, gathered.skipped, options.skip_bad, fixed, options.separator
        )  # fmt: skip
        gathered.add_all(_placed(rows, table, names, gathered))
    stems = [table.split for table in tables if table.split is not None]  # a table without rows is an empty split
    return gathered.split(split, stems)


def _placed(rows: Iterator[Row], table: TableFile, names: dict[str, str], gathered: Gathered) -> Iterator[Row]:
    """The rows with the split of their table, and image names relative to the folder of the images."""
    for row in rows:
        if table.split is not None and row.split is not None:
            error = UserError(f"{row.where}: with several tables, each one is a split; remove the split column")
            if not gathered.skip_bad:
                raise error
            gathered.skipped.append(str(error))
            continue
        image = names.get(row.image, f"{table.prefix}{row.image}")
        yield replace(row, image=image, split=table.split or row.split)


def _image_folder(folder: Path, tables: list[TableFile]) -> tuple[Path, dict[str, str]]:
    """The folder that image names are relative to; for our suggestions, images.json has the file of each image."""
    listed = tables[0].path.with_name(SUGGESTED_IMAGES)
    if tables[0].path.name != SUGGESTIONS or not listed.is_file():
        return folder, {}
    try:
        tree = json.loads(read_text(listed))
        base, files = tables[0].path.parent / (tree.get("root") or ""), tree["files"]
        os.path.realpath(base)  # a ValueError if no path can have this name: a NUL, a lone surrogate
        return base, {str(image): str(name) for image, name in files.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(f"{listed} does not map images to files: {error}; run scob recover again") from None


def _required_tables(source: Path) -> list[TableFile]:
    """The tables of a source; a UserError if there are none."""
    tables = _tables(source)
    if not tables:
        raise UserError(f"there is no table in {source}: no CSV, TSV or JSON-lines file with an 'image' column")
    return tables


def _tables(source: Path) -> list[TableFile]:
    """The tables of a source."""
    if source.is_file():
        return [TableFile(source)]
    files = sorted(path for path in source.iterdir() if path.suffix.lower() in FOLDER_SUFFIXES and path.is_file())
    # In a folder with one folder per class, a CSV with a column 'path' may be anything.
    aliases = len(class_folders.class_names(source)) < 2
    tables = [path for path in files if names_images(path, aliases)]
    if (source / SUGGESTIONS).is_file():
        return [TableFile(source / SUGGESTIONS)]
    metadata = [path for path in tables if path.name in METADATA]
    if metadata:
        return [TableFile(metadata[0])]
    if tables:
        # `read` refuses the empty ones
        empty = [p for p in files if p.stem in EMPTY_SPLITS and not p.stat().st_size]
        every = sorted({*tables, *empty})
        return [TableFile(path, path.stem if len(every) > 1 else None) for path in every]
    return _split_metadata(source)


def _split_metadata(source: Path) -> list[TableFile]:
    """The metadata files of an ImageFolder with one folder per split."""
    tables = []
    for folder in sorted(path for path in source.iterdir() if path.is_dir()):
        paths = [folder / name for name in METADATA if (folder / name).is_file()]
        if paths and folder.name in class_folders.SPLIT_NAMES and names_images(paths[0], True):
            tables.append(TableFile(paths[0], folder.name, f"{folder.name}/"))
    return tables


def names_images(path: Path, aliases: bool) -> bool:
    """Whether a table has an image column; with `aliases`, one of any usual name, beside labels."""
    images = IMAGE_NAMES if aliases else IMAGE_NAMES[:1]
    if path.suffix.lower() == ".parquet":
        from scob.data.readers.parquet_rows import open_parquet

        columns = {str(name).lower() for name in open_parquet(path).schema_arrow.names}
        return any(name in columns for name in images)
    with path.open("rb") as file:
        head = file.readline(65536).decode("utf-8-sig", errors="replace")
    if not SUFFIXES[path.suffix.lower()]:
        return any(f'"{name}"' in head for name in images)
    for mark in ",;\t":
        columns = {cell.strip().strip('"').lower() for cell in head.split(mark)}
        if "image" in columns:
            return True
        if any(name in columns for name in images) and (len(columns) > 2 or columns & {*LABEL_NAMES}):
            return True
    return False
