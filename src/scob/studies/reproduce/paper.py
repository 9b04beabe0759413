"""The paper's own numbers (`paper.yaml`), typed and checked."""

from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from scob.errors import UserError, nearest

T = TypeVar("T")


class _Printed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Note(_Printed):
    """Our note on a cell, on a row, or on the whole table or figure (neither named)."""

    text: str
    row: str | None = None
    column: str | None = None


class PaperColumn(_Printed):
    """A printed column of numbers."""

    title: str
    unit: str = "%"
    decimals: int = 1


class PaperRow(_Printed):
    """A printed row: its names, its numbers, and the differences printed after some of them."""

    id: str
    names: dict[str, str]
    values: dict[str, float]
    gains: dict[str, float] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _gather_names(cls, raw: dict[str, Any]) -> dict[str, Any]:
        """In the file, the names are next to `id`, so that a row reads like the paper's."""
        own: dict[str, Any] = {key: raw[key] for key in ("id", "values", "gains") if key in raw}
        return {**own, "names": {key: value for key, value in raw.items() if key not in own}}


class PaperTable(_Printed):
    """A table of the paper."""

    label: str
    title: str
    keys: dict[str, str]
    columns: dict[str, PaperColumn]
    rows: tuple[PaperRow, ...]
    baseline: str | None = None
    notes: tuple[Note, ...] = ()

    @model_validator(mode="after")
    def _is_consistent(self) -> "PaperTable":
        ids = [row.id for row in self.rows]
        if len(set(ids)) != len(ids):
            raise ValueError(f"{self.label}: a row id is listed twice")
        for row in self.rows:
            if set(row.names) != set(self.keys) or not set(row.values) | set(row.gains) <= set(self.columns):
                raise ValueError(f"{self.label}: the row {row.id!r} does not fit the table")
        for note in self.notes:
            if note.row not in (None, *ids) or note.column not in (None, *self.columns):
                raise ValueError(
                    f"{self.label}: a note is on the cell {note.row!r}, {note.column!r}, which does not exist"
                )
        return self

    def row(self, row_id: str) -> PaperRow | None:
        """The row with that id; None if the paper has none."""
        return next((row for row in self.rows if row.id == row_id), None)

    def value(self, row_id: str, column: str) -> float | None:
        """The printed number; None if the paper prints none."""
        row = self.row(row_id)
        return None if row is None else row.values.get(column)

    def printed(self, row_id: str, column: str) -> str:
        """The cell as the paper prints it, `74.2 (+4.3)`; empty if it prints none."""
        row = self.row(row_id)
        if row is None or column not in row.values:
            return ""
        decimals = self.columns[column].decimals
        gain = f" ({row.gains[column]:+.{decimals}f})" if column in row.gains else ""
        return f"{row.values[column]:.{decimals}f}{gain}"

    def baseline_of(self, row_id: str) -> str | None:
        """The row that printed differences refer to, for the same data set as `row_id`."""
        data, stroke, _ = row_id.rpartition("/")
        return None if self.baseline is None else f"{data}{stroke}{self.baseline}"


class PaperFigure(_Printed):
    """What the paper's text claims about a figure. It prints no numbers for its curves, so there are none here."""

    label: str
    title: str
    data: tuple[str, ...]
    setting: str | None = None
    values: tuple[float, ...] = ()
    chosen: float | None = None
    claims: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def claim_notes(self) -> tuple[str, ...]:
        """The claims as notes for a report."""
        return tuple(f"The paper says about its own figure: {claim}" for claim in self.claims)


class _Paper(_Printed):
    tables: dict[str, PaperTable]
    figures: dict[str, PaperFigure]


@cache
def _paper() -> _Paper:
    text = files("scob.studies.reproduce").joinpath("paper.yaml").read_text(encoding="utf-8")
    return _Paper.model_validate(yaml.safe_load(text))


def paper_tables() -> dict[str, PaperTable]:
    """Every table of the paper, by its name in `scob reproduce`."""
    return dict(_paper().tables)


def paper_figures() -> dict[str, PaperFigure]:
    """Every figure of the paper that can be reproduced, by its name in `scob reproduce`."""
    return dict(_paper().figures)


def paper_table(name: str) -> PaperTable:
    """One table, or a UserError with the nearest name."""
    return _find(name, _paper().tables)


def paper_figure(name: str) -> PaperFigure:
    """One figure, or a UserError with the nearest name."""
    return _find(name, _paper().figures)


def _find(name: str, among: dict[str, T]) -> T:
    if name not in among:
        raise UserError(f"the paper has no {name!r}.{nearest(name, among)} There are: {', '.join(among)}")
    return among[name]
