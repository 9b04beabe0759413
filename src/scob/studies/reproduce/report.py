"""A table of results, written as Markdown, CSV and JSON."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scob.files import csv_text, write_atomically

SHARE_TITLE = "gap closed (ROLE to full labels)"
LEAST_GAP = 0.5  # mAP between ROLE and full labels; below this, a share of it means nothing


@dataclass(frozen=True)
class SeedSpread:
    """One number per seed, shown as mean and sample deviation (None with fewer than two seeds)."""

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
class PaperNumber:
    """A number from the paper: its value, how the paper prints it, and the marks of our notes about it."""

    value: float
    printed: str
    marks: str = ""


Cell = str | int | float | SeedSpread | PaperNumber | None


@dataclass(frozen=True)
class Column:
    """A column of a report: the key of its cells and how they are shown."""

    key: str
    title: str
    decimals: int = 1
    suffix: str = ""


@dataclass(frozen=True)
class Report:
    """A finished table. `used` names the weights, images and labels behind its numbers."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Cell], ...]
    notes: tuple[str, ...] = ()
    used: Mapping[str, str] = field(default_factory=dict)


def spread(values: Sequence[float]) -> SeedSpread | None:
    """The spread of the values that are numbers; None if none is."""
    numbers = tuple(float(v) for v in values if not math.isnan(v))
    return SeedSpread(numbers) if numbers else None


def closed_share(ours: float | None, role: float | None, full: float | None) -> float | None:
    """How much of the gap from ROLE to full labels is closed, in percent; None if there is hardly any gap."""
    if ours is None or role is None or full is None or full - role < LEAST_GAP:
        return None
    return 100 * (ours - role) / (full - role)


def markdown(report: Report) -> str:
    """The report as a Markdown page: title, table, notes, and what was used."""
    numeric = [
        any(isinstance(row.get(c.key), (int, float, SeedSpread, PaperNumber)) for row in report.rows)
        for c in report.columns
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
    """The report as CSV; a column with several seeds becomes three: mean, deviation and number of seeds."""
    spreads = {c.key for c in report.columns if any(isinstance(row.get(c.key), SeedSpread) for row in report.rows)}
    heads = [[c.key, f"{c.key} deviation", f"{c.key} seeds"] if c.key in spreads else [c.key] for c in report.columns]
    sheet: list[list[object]] = [[head for group in heads for head in group]]
    for row in report.rows:
        line: list[object] = []
        for column in report.columns:
            cell = row.get(column.key)
            if isinstance(cell, SeedSpread):
                line += [_number(cell.mean), _number(cell.deviation), len(cell.values)]
            else:
                line += [_number(cell), *(["", ""] if column.key in spreads else [])]
        sheet.append(line)
    return csv_text(sheet)


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain JSON values, with the number of every seed."""
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


def _shown(cell: Cell, column: Column) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    if isinstance(cell, SeedSpread):
        return cell.text(column.decimals) + column.suffix
    if isinstance(cell, PaperNumber):
        return cell.printed + cell.marks
    if isinstance(cell, float):
        signed = "+" if column.key.startswith("gain ") else ""
        return f"{cell:{signed}.{column.decimals}f}{column.suffix}"
    return str(cell) or "-"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _number(cell: Cell) -> object:
    """For CSV: numbers to four decimals; empty if there is none."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, PaperNumber):
        return cell.value
    return round(cell, 4) if isinstance(cell, float) else cell


def _plain(cell: Cell) -> Any:
    if isinstance(cell, SeedSpread):
        return {"mean": cell.mean, "deviation": cell.deviation, "values": list(cell.values)}
    if isinstance(cell, PaperNumber):
        return {"value": cell.value, "printed": cell.printed}
    return None if isinstance(cell, float) and math.isnan(cell) else cell
