"""A table of results with the paper's numbers beside ours, written as Markdown, CSV and JSON."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scob.files import csv_text, write_atomically
from scob.studies.reproduce.paper import PaperTable

SHARE_TITLE = "share of the distance from ROLE to full labels closed"
LEAST_DISTANCE = 0.5  # mAP between ROLE and full labels, below which a share of it says nothing


@dataclass(frozen=True)
class Spread:
    """One number for each seed, as mean and sample deviation (None with fewer than two seeds)."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def text(self, decimals: int = 1) -> str:
        """`86.2 ± 0.3`, or `86.2` for one seed."""
        spread = "" if self.deviation is None else f" ± {self.deviation:.{decimals}f}"
        return f"{self.mean:.{decimals}f}{spread}"


@dataclass(frozen=True)
class FromPaper:
    """A number of the paper: its value, as it is printed, and the marks of the notes about it."""

    value: float
    printed: str
    marks: str = ""


Cell = str | int | float | Spread | FromPaper | None


@dataclass(frozen=True)
class Column:
    """A column of a report: the key of its cells and how they are shown."""

    key: str
    title: str
    decimals: int = 1
    suffix: str = ""


@dataclass(frozen=True)
class Report:
    """A finished table, as it is written. `used` says which weights and images it rests on."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Cell], ...]
    notes: tuple[str, ...] = ()
    used: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """One row of ours: for each column a number a seed.

    `names` are for a row the paper lacks. `remark` stands where there is no number ("not run: no weights").
    """

    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    remark: str = ""


def spread(values: Sequence[float]) -> Spread | None:
    """The spread of the values that are numbers; None if there is none."""
    kept = tuple(float(v) for v in values if not math.isnan(v))
    return Spread(kept) if kept else None


def closed_share(ours: float | None, role: float | None, full: float | None) -> float | None:
    """How much of the distance from ROLE to full labels is closed, in percent; None where there is hardly any."""
    if ours is None or role is None or full is None or full - role < LEAST_DISTANCE:
        return None
    return 100 * (ours - role) / (full - role)


def beside_paper(
    name: str,
    paper: PaperTable,
    measured: Mapping[str, Measured],
    *,
    data: str | None = None,
    role: str | None = None,
    full: str | None = None,
    share_of: Sequence[str] = ("mAP",),
    used: Mapping[str, str] | None = None,
    titles: Mapping[str, str] | None = None,
) -> Report:
    """The paper's table with our numbers in it: the paper's rows in its order, then ours that it lacks.

    `measured` is keyed by the paper's row ids, and each row's values by its columns or others of ours (headed
    by `titles`). `data` names in the headings what ours were measured on. With `role` and `full` (row ids;
    where ids begin with a data set, what follows it) every measured column of `share_of` is followed by the
    share of the distance closed.
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

    run = {column for row in ours.values() for column in row}
    for column_id in dict.fromkeys([*paper.columns, *(c for row in ours.values() for c in row)]):
        printed = paper.columns.get(column_id)
        title = printed.title if printed else (titles or {}).get(column_id, column_id)
        short = title.removesuffix(" on COCO") if data else title
        unit = f" ({printed.unit})" if printed and printed.unit != "%" else ""
        decimals = printed.decimals if printed else 1
        if column_id in run:
            where = f", ours on {data}" if data else ", ours"
            cells = [ours.get(key, {}).get(column_id) or _remark(measured.get(key)) for key in ids]
            add(Column(column_id, short + unit + where, decimals), cells)
        if printed:
            from_paper = [_from_paper(paper, key, column_id, marks) for key in ids]
            add(Column(f"paper {column_id}", f"{title}{unit}, paper", decimals), from_paper)
        if column_id in run and any(column_id in row.gains for row in paper.rows):
            gains = [_difference(mean(k, column_id), mean(paper.baseline_of(k) or "", column_id)) for k in ids]
            add(Column(f"gain {column_id}", f"{short}, ours over baseline", decimals), gains)
        if column_id in run and column_id in share_of and role and full:
            ends = [(mean(_beside(k, role), column_id), mean(_beside(k, full), column_id)) for k in ids]
            shares = [closed_share(mean(k, column_id), *end) for k, end in zip(ids, ends, strict=True)]
            add(Column(f"share {column_id}", f"{short}: {SHARE_TITLE}", 0, "%"), shares)
    notes = tuple(note.text for note in paper.notes)
    return Report(name, paper.title, tuple(columns), tuple(rows), notes, dict(used or {}))


def markdown(report: Report) -> str:
    """The report as a Markdown page: title, table, notes, what was used."""
    numeric = [
        any(isinstance(row.get(c.key), (int, float, Spread, FromPaper)) for row in report.rows) for c in report.columns
    ]
    lines = [f"# {report.title}", ""]
    lines.append("| " + " | ".join(_escaped(c.title) for c in report.columns) + " |")
    lines.append("|" + "|".join("---:" if n else "---" for n in numeric) + "|")
    for row in report.rows:
        lines.append("| " + " | ".join(_escaped(_shown(row.get(c.key), c)) for c in report.columns) + " |")
    if report.notes:
        lines += ["", *(f"{number}. {note}" for number, note in enumerate(report.notes, 1))]
    if report.used:
        lines += ["", *(f"- {what}: {value}" for what, value in report.used.items())]
    return "\n".join(lines) + "\n"


def comma_separated(report: Report) -> str:
    """The report as CSV; a column over seeds becomes three: mean, deviation, seeds."""
    spreads = {c.key for c in report.columns if any(isinstance(row.get(c.key), Spread) for row in report.rows)}
    heads = [[c.key, f"{c.key} deviation", f"{c.key} seeds"] if c.key in spreads else [c.key] for c in report.columns]
    sheet: list[list[object]] = [[head for group in heads for head in group]]
    for row in report.rows:
        line: list[object] = []
        for column in report.columns:
            cell = row.get(column.key)
            if isinstance(cell, Spread):
                line += [_number(cell.mean), _number(cell.deviation), len(cell.values)]
            else:
                line += [_number(cell), *(["", ""] if column.key in spreads else [])]
        sheet.append(line)
    return csv_text(sheet)


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain JSON values, every seed's number kept."""
    return {
        "name": report.name,
        "title": report.title,
        "columns": {column.key: column.title for column in report.columns},
        "rows": [{column.key: _plain(row.get(column.key)) for column in report.columns} for row in report.rows],
        "notes": list(report.notes),
        "used": dict(report.used),
    }


def write_report(report: Report, folder: Path) -> tuple[Path, Path, Path]:
    """Write `NAME.md`, `NAME.csv` and `NAME.json` into `folder`."""
    paths = tuple(Path(folder) / f"{report.name}.{ending}" for ending in ("md", "csv", "json"))
    text = json.dumps(as_json(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    for path, content in zip(paths, (markdown(report), comma_separated(report), text), strict=True):
        write_atomically(path, content)
    return paths[0], paths[1], paths[2]


def _marks(paper: PaperTable) -> dict[tuple[str, str], str]:
    """The marks behind the cells that have a note; a note on a whole row marks its first number."""
    marks: dict[tuple[str, str], str] = {}
    for number, note in enumerate(paper.notes, 1):
        row = paper.row(note.row) if note.row else None
        if row:
            cell = (row.id, note.column or next(iter(row.values)))
            marks[cell] = f"{marks.get(cell, '')} [{number}]"
    return marks


def _from_paper(paper: PaperTable, row_id: str, column: str, marks: Mapping[tuple[str, str], str]) -> FromPaper | None:
    value = paper.value(row_id, column)
    if value is None:
        return None
    return FromPaper(value, paper.printed(row_id, column), marks.get((row_id, column), ""))


def _names(paper: PaperTable, row_id: str, ours: Measured | None) -> dict[str, Cell]:
    row = paper.row(row_id)
    names: dict[str, Cell] = dict(row.names) if row else {**dict.fromkeys(paper.keys), next(iter(paper.keys)): row_id}
    return {**names, **(ours.names if ours else {})}


def _remark(ours: Measured | None) -> str | None:
    return (ours.remark if ours else "") or None


def _beside(row_id: str, other: str) -> str:
    """The id of `other` for the data set that `row_id` begins with, if it does."""
    data, stroke, _ = row_id.rpartition("/")
    return f"{data}{stroke}{other}"


def _difference(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def _shown(cell: Cell, column: Column) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    if isinstance(cell, Spread):
        return cell.text(column.decimals) + column.suffix
    if isinstance(cell, FromPaper):
        return cell.printed + cell.marks
    if isinstance(cell, float):
        signed = "+" if column.key.startswith("gain ") else ""
        return f"{cell:{signed}.{column.decimals}f}{column.suffix}"
    return str(cell) or "-"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _number(cell: Cell) -> object:
    """For CSV: numbers to four decimals, nothing for what is not there."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, FromPaper):
        return cell.value
    return round(cell, 4) if isinstance(cell, float) else cell


def _plain(cell: Cell) -> Any:
    if isinstance(cell, Spread):
        return {"mean": cell.mean, "deviation": cell.deviation, "values": list(cell.values)}
    if isinstance(cell, FromPaper):
        return {"value": cell.value, "printed": cell.printed}
    return None if isinstance(cell, float) and math.isnan(cell) else cell
