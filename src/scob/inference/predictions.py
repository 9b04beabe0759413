"""Predictions and the files they are written to. Does not import torch."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from scob.data.arrow import pyarrow_module
from scob.errors import UserError, printable
from scob.files import csv_text, remove_dead_parts, sync_folder

FORMATS = ("csv", "json", "jsonl", "parquet")


@dataclass(frozen=True)
class Prediction:
    """The classes named for one image, highest score first. A broken image has an `error` and no classes."""

    image: str
    labels: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    every: NDArray[np.float32] | None = None  # (L,), if every score was asked for
    error: str = ""

    def as_tree(self) -> dict[str, Any]:
        """The prediction as JSON: in files and over HTTP."""
        scores = [round(score, 6) for score in self.scores]
        return {"image": self.image, "labels": list(self.labels), "scores": scores, "error": self.error or None}


@dataclass(frozen=True)
class NamingRule:
    """Which classes are named: by default those that reach the model's own thresholds.

    `threshold` replaces those; `topk` names the k best; both together name the k best that reach `threshold`.
    """

    topk: int | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.topk is not None and self.topk < 1:
            raise UserError(f"--topk must be at least 1, not {self.topk}")

    def columns(self, scores: NDArray[np.float32], thresholds: NDArray[np.float32]) -> list[int]:
        """The classes named by scores (L,), highest score first; `thresholds` (L,) are the model's own."""
        order = np.argsort(-scores, kind="stable")
        if self.topk is None or self.threshold is not None:
            limit = thresholds if self.threshold is None else np.float32(self.threshold)
            order = order[(scores >= limit)[order]]
        return [int(column) for column in order[: self.topk]]


@dataclass(frozen=True)
class NamedPerImage:
    """Classes to explain, named for each image: one tuple of class names per image, which may be empty."""

    names: tuple[tuple[str, ...], ...]


def decide(
    image: str,
    scores: NDArray[np.float32],
    classes: Sequence[str],
    thresholds: NDArray[np.float32],
    naming: NamingRule = NamingRule(),
    include_scores: bool = False,
) -> Prediction:
    """Turn the scores (L,) of an image into named classes."""
    columns = naming.columns(scores, thresholds)
    return Prediction(
        image,
        tuple(classes[c] for c in columns),
        tuple(float(scores[c]) for c in columns),
        scores if include_scores else None,
    )


@dataclass(frozen=True)
class CsvLayout:
    """How CSV is laid out. `wide`: one column per class, 1 if it is named and 0 if not. `bom`: begins with a byte-order
    mark, by which spreadsheets know that the text is UTF-8.
    """

    wide: bool = False
    bom: bool = False


class PredictionFile:
    """A predictions file, which gets its final name only when complete; stdout if there is no path.

    One schema in all formats: image, labels, scores (of these labels), error, and, if asked for, score:NAME of every
    class. In csv, labels and scores are joined by ';' (a ';' in a name is written '\\;'), unless a `CsvLayout` says
    otherwise.
    """

    def __init__(
        self, path: Path | None, format: str | CsvLayout, classes: Sequence[str], include_scores: bool = False
    ) -> None:
        self.layout = format if isinstance(format, CsvLayout) else CsvLayout()
        format = "csv" if isinstance(format, CsvLayout) else format
        if format not in FORMATS:
            raise UserError(f"there is no format {format!r}; the formats are {', '.join(FORMATS)}")
        if format == "parquet" and path is None:
            raise UserError("parquet cannot be written to stdout: name a file with --out")
        self.path, self.format, self.classes = path, format, tuple(classes)
        self.columns = tuple(f"score:{name}" for name in classes) if include_scores else ()
        self.count = 0
        self._parquet: Any = None
        self._waiting: list[Prediction] = []
        if path is None:
            self._beside, self._file = None, sys.stdout.buffer
        else:
            self._beside = path.with_name(f".{path.name}.{os.getpid()}.part")
            self._file = self._open(path)
        if format == "csv":
            named = self._class_columns() if self.layout.wide else ["labels", "scores"]
            self._write("\ufeff" * self.layout.bom + self._row(["image", *named, "error", *self.columns]))
        elif format == "json":
            self._write("[")

    def add(self, prediction: Prediction) -> None:
        """Append one image."""
        p = prediction
        if self.format == "csv":
            every = [] if not self.columns else [""] * len(self.columns) if p.every is None else _rounded(p.every)
            self._write(self._row([p.image, *self._named(p), p.error, *every]))
        elif self.format == "parquet":
            self._waiting.append(p)
            if len(self._waiting) >= 1024:
                self._write_group()
        else:
            text = json.dumps(self._tree(p))
            self._write(f"{text}\n" if self.format == "jsonl" else f"{',' if self.count else ''}\n {text}")
        self.count += 1

    def _named(self, p: Prediction) -> list[str]:
        """The cells that say which classes are named."""
        if not self.layout.wide:
            return [";".join(name.replace(";", "\\;") for name in p.labels), ";".join(_rounded(p.scores))]
        named = set(p.labels)
        return ["" if p.error else "1" if name in named else "0" for name in self.classes]

    def _class_columns(self) -> list[str]:
        """The class names; one that is also the name of another column is marked."""
        return [f"class:{name}" if name in ("image", "error", *self.columns) else name for name in self.classes]

    def __enter__(self) -> "PredictionFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self._commit()
        elif self._beside is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._beside.unlink(missing_ok=True)

    def _commit(self) -> None:
        if self.format == "json":
            self._write("\n]\n")
        if self.format == "parquet":
            self._write_group()
            self._parquet.close()
        with self._failing():
            self._file.flush()
            if self.path is not None and self._beside is not None:
                os.fsync(self._file.fileno())
                self._file.close()
                self._beside.replace(self.path)
                sync_folder(self.path.parent)

    def _open(self, path: Path) -> BinaryIO:
        assert self._beside is not None
        with self._failing():
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_dead_parts(path.parent)
            return self._beside.open("wb")

    def _write(self, text: str) -> None:
        with self._failing():
            shown = printable(text) if self._beside is None and sys.stdout.isatty() else text
            self._file.write(shown.encode("utf-8", "surrogateescape"))

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UserError(f"cannot write {self.path or 'to stdout'}: {error.strerror or error}") from error

    @staticmethod
    def _row(cells: Sequence[str]) -> str:
        return csv_text([cells])

    def _tree(self, p: Prediction) -> dict[str, Any]:
        every = [None] * len(self.columns) if p.every is None else [round(float(s), 6) for s in p.every]
        return p.as_tree() | (dict(zip(self.columns, every, strict=True)) if self.columns else {})

    def _write_group(self) -> None:
        pyarrow = pyarrow_module()
        group, self._waiting = self._waiting, []
        columns: dict[str, Any] = {
            # Parquet strings are UTF-8; a file name may not be.
            "image": pyarrow.array([os.fsencode(p.image).decode("utf-8", "replace") for p in group], pyarrow.string()),
            "labels": pyarrow.array([list(p.labels) for p in group], pyarrow.list_(pyarrow.string())),
            "scores": pyarrow.array([list(p.scores) for p in group], pyarrow.list_(pyarrow.float32())),
            "error": pyarrow.array([p.error or None for p in group], pyarrow.string()),
        }
        for number, column in enumerate(self.columns):
            scores = [None if p.every is None else float(p.every[number]) for p in group]
            columns[column] = pyarrow.array(scores, pyarrow.float32())
        table = pyarrow.table(columns)
        if self._parquet is None:
            self._parquet = pyarrow.parquet.ParquetWriter(self._file, table.schema)
        self._parquet.write_table(table)


def _rounded(values: Sequence[float] | NDArray[np.float32]) -> list[str]:
    return [f"{value:.6f}" for value in values]
