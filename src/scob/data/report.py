"""`scob data report`: one page about a data set, with what is wrong in it and what to do about it."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image

from scob.data.images import cause
from scob.data.measure_images import Measures, measure, near_duplicates
from scob.data.progress import Progress
from scob.data.readers import infer_format, read_split, splits_of, taken_as
from scob.data.split import ReadOptions, Split
from scob.draws import permutation
from scob.errors import UserError
from scob.files import write_atomically
from scob.labels import PRESENT

SHEET, MOST_CLASSES, LISTED, PAIRS, THUMBNAIL = 8, 60, 12, 20, 96
FEW = 10  # images of a class
STYLE = """body{font:16px/1.45 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}
body{color:#1d2126;background:#f6f5f1}h1,h2{line-height:1.2}
section{background:#fff;border:1px solid #dddbd3;border-radius:10px;padding:1rem 1.25rem;margin:1rem 0}
table{border-collapse:collapse}td,th{padding:.2rem .8rem .2rem 0;text-align:left}td+td{text-align:right}
.do{color:#1d6b5f}.fine{color:#1f7446}.bad{color:#b0352d}
figure{display:inline-block;margin:.25rem;text-align:center;font-size:.75rem;color:#5c636d}
figure img{display:block;height:96px;border-radius:4px;margin:auto}
figcaption{max-width:10rem;overflow-wrap:anywhere}"""


@dataclass(frozen=True)
class Finding:
    """Something that was looked for: what it is, which images have it (split and row), and what to do about it.

    `one` says it of a single image.
    """

    name: str
    what: str
    one: str
    advice: str
    images: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class DataReport:
    """What a report found, and the page it was written to."""

    page: Path
    splits: tuple[Split, ...]
    findings: tuple[Finding, ...]

    def count(self, name: str) -> int:
        """How many images a finding has."""
        return next(len(finding.images) for finding in self.findings if finding.name == name)


def data_report(
    source: str,
    page: Path,
    options: ReadOptions = ReadOptions(),
    format: str = "auto",
    progress: Progress | None = None,
) -> DataReport:
    """Read every split and image of a source, and write one self-contained HTML page."""
    kind = infer_format(source) if format == "auto" else format
    lenient = ReadOptions(options.difficult, options.classes, True, options.seed, options.separator)
    splits = tuple(read_split(source, name, lenient, kind) for name in splits_of(source, kind))
    splits = tuple(split for split in splits if len(split) and not split.name.endswith("-obs"))
    if not splits:
        raise UserError(f"{source} has no images to report on")
    measured = [measure(split, progress) for split in splits]
    findings = tuple(find(splits, measured))
    write_atomically(page, _page(source, taken_as(source, lenient, kind), splits, measured, findings))
    return DataReport(page, splits, findings)


def find(splits: Sequence[Split], measured: Sequence[Measures]) -> list[Finding]:
    """Everything that is looked for, whether or not there is any of it."""
    groups = near_duplicates(measured)
    across = [group for group in groups if len({part for part, _ in group}) > 1]
    within = [group for group in groups if len({part for part, _ in group}) == 1]

    def rows(of: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
        return tuple((part, row) for part, listed in enumerate(of) for row in listed)

    unlabelled = [np.flatnonzero(~(s.labels.values == PRESENT).any(axis=1)).tolist() for s in splits]
    look = "look at them and remove those in which you cannot recognise anything"
    return [
        Finding(
            "leakage", "images that are in several splits", "image that is in several splits",
            "remove them from all splits but one: results on images that were trained on are too good",
            tuple(place for group in across for place in group),
        ),
        Finding(
            "duplicates", "images that look like another of the same split", "image like another of its split",
            "keep one of each group, the one with the right labels",
            tuple(place for group in within for place in group),
        ),
        Finding(
            "broken", "images that cannot be read", "image that cannot be read",
            "replace them; scob train --images leaves them out, and so does data.skip_bad=true in a settings file",
            rows([sorted(m.broken) for m in measured]),
        ),
        Finding(
            "blurred", "images that are far less sharp than most", "image that is far less sharp than most",
            look, rows([m.blurred() for m in measured]),
        ),
        Finding(
            "dark", "images that are almost black", "image that is almost black",
            look, rows([m.dark() for m in measured]),
        ),
        Finding(
            "unlabelled", "images without a label", "image without a label",
            "label them, or let scob recover suggest labels once a model is trained", rows(unlabelled),
        ),
    ]  # fmt: skip


def _page(
    source: str, title: str, splits: Sequence[Split], measured: Sequence[Measures], findings: Sequence[Finding]
) -> str:
    name = escape(Path(source).name or source)
    parts = [f"<h1>{name}</h1><p>Taken as: {escape(title)}.</p>", _counts(splits, measured)]
    parts += [_finding(finding, splits, measured) for finding in findings]
    parts += [_together(splits), _sheets(splits, measured)]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Data report</title>'
    body = "".join(parts)
    return f'<!doctype html><html lang="en"><head>{head}<style>{STYLE}</style></head><body>{body}</body></html>\n'


def _counts(splits: Sequence[Split], measured: Sequence[Measures]) -> str:
    rows = []
    for split, m in zip(splits, measured, strict=True):
        present = split.labels.values == PRESENT
        wide, high = m.width[m.good], m.height[m.good]
        size = f"{int(np.median(wide))} x {int(np.median(high))}" if m.good.any() else "none can be read"
        span = f" ({min(wide.min(), high.min())} to {max(wide.max(), high.max())})" if m.good.any() else ""
        rows.append((split.name, f"{len(split):,}", f"{present.sum(axis=1).mean():.2f}", f"{size}{span}"))
    return _section("Splits", _table(("split", "images", "labels per image", "median size (pixels)"), rows))


def _finding(finding: Finding, splits: Sequence[Split], measured: Sequence[Measures]) -> str:
    count = len(finding.images)
    if not count:
        return _section(finding.name.capitalize(), f'<p class="fine">No {escape(finding.one)}.</p>')
    shown = "".join(_figure(splits[part], row, measured[part]) for part, row in finding.images[:LISTED])
    more = f"<p>and {count - LISTED} more</p>" if count > LISTED else ""
    text = f'<p class="bad">{count:,} {escape(finding.one if count == 1 else finding.what)}.</p>'
    text += f'<p class="do">What to do: {escape(finding.advice)}.</p>'
    return _section(finding.name.capitalize(), text + shown + more)


def _together(splits: Sequence[Split]) -> str:
    """Which classes occur together, most often first."""
    classes = splits[0].labels.classes
    present = np.concatenate([split.labels.values == PRESENT for split in splits]).astype(np.int64)
    pairs = present.T @ present
    order = np.argsort(-np.diag(pairs), kind="stable")
    counts = [(classes[c], f"{pairs[c, c]:,}") for c in order]
    upper = np.triu(pairs, 1)
    most = np.argsort(-upper, axis=None, kind="stable")[:PAIRS]
    found = [divmod(int(n), len(classes)) for n in most if upper.flat[n]]
    rows = [(f"{classes[a]} and {classes[b]}", f"{upper[a, b]:,}") for a, b in found]
    few = [classes[c] for c in order if pairs[c, c] < FEW]
    which = f"{len(few)} of the classes have fewer than {FEW} images ({escape(', '.join(few[:8]))})"
    advice = f'<p class="do">What to do: {which}; add some.</p>'
    text = _table(("class", "images"), counts) + (advice if few else "")
    both = _table(("pair", "images"), rows) if rows else "<p>No image has two labels.</p>"
    return _section("Classes", text) + _section("Classes that occur together", both)


def _sheets(splits: Sequence[Split], measured: Sequence[Measures]) -> str:
    sheets = []
    train, m = splits[0], measured[0]
    for column, name in enumerate(train.labels.classes[:MOST_CLASSES]):
        rows = np.flatnonzero((train.labels.values[:, column] == PRESENT) & m.good)
        some = sorted(rows[permutation(len(rows), 0, "sheet")[:SHEET]].tolist())
        if some:
            sheets.append(_section(f"{name} ({len(rows):,} images)", "".join(_figure(train, row, m) for row in some)))
    return "".join(sheets)


def _figure(split: Split, row: int, measured: Measures) -> str:
    name = escape(split.labels.images[row])
    if row in measured.broken:
        return f"<figure><figcaption>{name}: {escape(cause(measured.broken[row]))}</figcaption></figure>"
    width, height = int(measured.width[row]), int(measured.height[row])
    tile = Image.fromarray(split.images.load(row, 2 * THUMBNAIL))
    shape = (max(24, min(2 * THUMBNAIL, round(THUMBNAIL * width / max(1, height)))), THUMBNAIL)
    content = io.BytesIO()
    tile.resize(shape).save(content, "JPEG", quality=80)
    address = f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"
    return f'<figure><img src="{address}" alt=""><figcaption>{escape(split.name)}: {name}</figcaption></figure>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"
