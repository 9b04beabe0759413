"""The paper's tables with our numbers next to its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scob.studies.reproduce.paper import PaperTable
from scob.studies.reproduce.report import SHARE_TITLE, Cell, Column, PaperNumber, Report, closed_share, spread


@dataclass(frozen=True)
class MeasuredRow:
    """One row of ours: for each column, one number per seed.

    `names` label a row that the paper does not have. `remark` is shown in place of a number ("not run: no weights").
    """

    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    remark: str = ""


@dataclass(frozen=True)
class ClosedGap:
    """Which rows the gap lies between, and the columns for which the share closed is shown.

    Rows are ids; if ids begin with a data set, the part after it.
    """

    role: str
    full: str = "full"
    columns: Sequence[str] = ("mAP",)


def beside_paper(
    name: str,
    paper: PaperTable,
    measured: Mapping[str, MeasuredRow],
    *,
    data: str | None = None,
    gap: ClosedGap | None = None,
    used: Mapping[str, str] | None = None,
    titles: Mapping[str, str] | None = None,
) -> Report:
    """The paper's table with our numbers added: first the paper's rows in its order, then the rows only we have.

    `measured` is keyed by the paper's row ids, and the values of a row by the paper's columns or by further ones of
    ours. `titles` head our columns, where they differ from the paper's. `data` names what ours were measured on. With
    `gap`, each of its measured columns is followed by the share of the gap that is closed.
    """
    ids = [row.id for row in paper.rows] + [key for key in measured if paper.row(key) is None]
    ours = {key: {c: spread(v) for c, v in measured[key].values.items()} for key in ids if key in measured}
    marks = _marks(paper)
    columns = [Column(key, title) for key, title in paper.keys.items()]
    rows = [_names(paper, key, measured.get(key)) for key in ids]

    def mean(row_id: str, column: str) -> float | None:
        value = ours.get(row_id, {}).get(column)
        return None if value is None else value.mean

    def add(column: Column, cells: Sequence[Cell]) -> None:
        columns.append(column)
        for row, cell in zip(rows, cells, strict=True):
            row[column.key] = cell

    measured_columns = {column for row in ours.values() for column in row}
    for column_id in dict.fromkeys([*paper.columns, *(c for row in ours.values() for c in row)]):
        printed = paper.columns.get(column_id)
        title = printed.title if printed else (titles or {}).get(column_id, column_id)
        own = (titles or {}).get(column_id, title)
        short = own.removesuffix(" on COCO") if data else own
        unit = f" ({printed.unit})" if printed and printed.unit != "%" else ""
        decimals = printed.decimals if printed else 1
        if column_id in measured_columns:
            where = f", ours on {data}" if data else ", ours"
            cells = [ours.get(key, {}).get(column_id) or _remark(measured.get(key)) for key in ids]
            add(Column(column_id, short + unit + where, decimals), cells)
        if printed:
            from_paper = [_from_paper(paper, key, column_id, marks) for key in ids]
            add(Column(f"paper {column_id}", f"{title}{unit}, paper", decimals), from_paper)
        if column_id in measured_columns and any(column_id in row.gains for row in paper.rows):
            gains = [_difference(mean(k, column_id), mean(paper.baseline_of(k) or "", column_id)) for k in ids]
            add(Column(f"gain {column_id}", f"{short}, ours over baseline", decimals), gains)
        if column_id in measured_columns and gap is not None and column_id in gap.columns:
            ends = [tuple(mean(_same_data(k, end), column_id) for end in (gap.role, gap.full)) for k in ids]
            shares = [closed_share(mean(k, column_id), *pair) for k, pair in zip(ids, ends, strict=True)]
            add(Column(f"share {column_id}", f"{short}: {SHARE_TITLE}", 0, "%"), shares)
    notes = tuple(note.text for note in paper.notes)
    return Report(name, paper.title, tuple(columns), tuple(rows), notes, dict(used or {}))


def _marks(paper: PaperTable) -> dict[tuple[str, str], str]:
    """The marks of the cells that have a note; a note on a row marks the row's first number."""
    marks: dict[tuple[str, str], str] = {}
    for number, note in enumerate(paper.notes, 1):
        row = paper.row(note.row) if note.row else None
        if row:
            cell = (row.id, note.column or next(iter(row.values)))
            marks[cell] = f"{marks.get(cell, '')} [{number}]"
    return marks


def _from_paper(
    paper: PaperTable, row_id: str, column: str, marks: Mapping[tuple[str, str], str]
) -> PaperNumber | None:
    value = paper.value(row_id, column)
    if value is None:
        return None
    return PaperNumber(value, paper.printed(row_id, column), marks.get((row_id, column), ""))


def _names(paper: PaperTable, row_id: str, ours: MeasuredRow | None) -> dict[str, Cell]:
    row = paper.row(row_id)
    names: dict[str, Cell] = dict(row.names) if row else {**dict.fromkeys(paper.keys), next(iter(paper.keys)): row_id}
    return {**names, **(ours.names if ours else {})}


def _remark(ours: MeasuredRow | None) -> str | None:
    return (ours.remark if ours else "") or None


def _same_data(row_id: str, other: str) -> str:
    """The id of the row `other` for the data set that `row_id` begins with, if any."""
    data, stroke, _ = row_id.rpartition("/")
    return f"{data}{stroke}{other}"


def _difference(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b
