"""Parquet tables: as cells like those of a CSV, or, where labels are lists, as one object per image."""

from pathlib import Path
from typing import Any

from scob.data.arrow import pyarrow_module
from scob.data.readers.table_columns import IMAGE_NAMES, LABEL_NAMES
from scob.errors import UserError, first_line

Cells = list[tuple[int, list[str]]]


def open_parquet(path: Path) -> Any:
    """The Parquet file; a UserError if it is none, or if two of its columns have the same name."""
    arrow = pyarrow_module()
    try:
        file = arrow.parquet.ParquetFile(path, memory_map=True)
        names = file.schema_arrow.names
    except (arrow.ArrowException, OSError, ValueError) as error:  # ValueError: names that are not UTF-8
        raise UserError(f"{path} is not a Parquet file: {first_line(error)}") from None
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{path}: two columns are called {name!r}; rename one of the two")
    return file


def read_parquet(path: Path, columns: list[str] | None = None) -> Any:
    """The rows of a Parquet file, or some of their columns, as an Arrow table."""
    arrow, file = pyarrow_module(), open_parquet(path)
    try:
        return file.read(columns=columns)
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{path} is damaged: {first_line(error)}; write it again") from None


def as_python(table: Any, source: Path) -> list[Any]:
    """The rows of an Arrow table, or the values of one of its columns."""
    arrow = pyarrow_module()
    try:
        values: list[Any] = table.to_pylist()
    except (arrow.ArrowException, ValueError, OverflowError) as error:  # text that is not UTF-8, dates beyond Python's
        raise UserError(f"{source} has a value that cannot be read: {first_line(error)}; write it as text") from None
    return values


def parquet_cells(path: Path, shown: str) -> tuple[list[str], Cells, list[tuple[int, Any]] | None]:
    """(header, rows of cells, None), or (header, [], one object per image) if a label column has lists or structs."""
    arrow = pyarrow_module()
    schema = open_parquet(path).schema_arrow
    names = [str(name) for name in schema.names]
    labels = next((name for name in names if name.lower() in LABEL_NAMES), None)
    nested = labels is not None and arrow.types.is_nested(schema.field(labels).type)
    image = next((name for name in names if name.lower() in IMAGE_NAMES), None)
    if image is not None and not _is_text(arrow, schema.field(image).type):
        raise UserError(f"{shown}: the column {image!r} is {schema.field(image).type}, not the name of a file")
    wanted = [
        name for name in names if nested or _is_text(arrow, schema.field(name).type) or _is_plain(arrow, schema, name)
    ]
    rows = as_python(read_parquet(path, wanted), path)
    if not rows:
        raise UserError(f"{path} has no rows")
    if nested:
        return wanted, [], [(number, _without_nulls(row)) for number, row in enumerate(rows, 1)]
    return wanted, [(number, [_cell(row[name]) for name in wanted]) for number, row in enumerate(rows, 1)], None


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value is not None}


def _is_text(arrow: Any, kind: Any) -> bool:
    return bool(arrow.types.is_string(kind) or arrow.types.is_large_string(kind) or arrow.types.is_dictionary(kind))


def _is_plain(arrow: Any, schema: Any, name: str) -> bool:
    return bool(arrow.types.is_primitive(schema.field(name).type))


def _cell(value: Any) -> str:
    return "" if value is None else str(value).strip()
