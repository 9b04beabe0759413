"""A source at a glance: counts, label statistics, what to know before training, and a grid of pictures."""

import io
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from scob.data.check import broken_images
from scob.data.images import rows_word
from scob.data.progress import Progress
from scob.data.readers import infer_format, open_split, read_split, splits_of
from scob.data.split import ReadOptions, Split
from scob.draws import permutation
from scob.errors import UserError
from scob.files import write_atomically
from scob.labels import PRESENT

TILE, CAPTION = 176, 36


@dataclass(frozen=True)
class SplitSummary:
    """One split in numbers; `statistics` as in `Labels.statistics`."""

    name: str
    statistics: dict[str, Any]
    masks: bool
    expected_positives: float | None
    skipped: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Description:
    """A source in numbers."""

    source: str
    format: str
    classes: tuple[str, ...]
    splits: tuple[SplitSummary, ...]

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def describe(
    source: str, split: str | None = None, options: ReadOptions = ReadOptions(), format: str = "auto"
) -> Description:
    """The numbers of a source, split by split (or of one split)."""
    kind = infer_format(source) if format == "auto" else format
    names = [split] if split is not None else list(splits_of(source, kind))
    if not names:
        raise UserError(f"{source} has no split")
    opened = [open_split(source, name, options, kind) for name in names]
    return Description(source, kind, opened[0].labels.classes, tuple(summarise(each) for each in opened))


def summarise(split: Split) -> SplitSummary:
    """The numbers of one split, and notes on them for the user."""
    return SplitSummary(
        split.name,
        split.labels.statistics(),
        split.masks is not None,
        split.expected_positives,
        split.skipped,
        tuple(_notes(split)),
    )


def _notes(split: Split) -> list[str]:
    present = split.labels.values == PRESENT
    notes = []
    without = int((~present.any(axis=1)).sum())
    if without:
        notes.append(
            f"{without} images have no positive: they are kept, have no single label to draw, and count only in the "
            "classification loss"
        )
    empty = [split.labels.classes[c] for c in np.flatnonzero(~present.any(axis=0))]
    if empty:
        notes.append(
            f"{len(empty)} classes have no positive ({rows_word(empty, 5)}): their AP is undefined and left out of mAP"
        )
    if not (split.labels.values < 0).any():
        notes.append("no label is marked absent (-1): every class that is not marked present is unknown")
    return [*notes, *split.remarks]


def check(
    source: str,
    split: str | None = None,
    options: ReadOptions = ReadOptions(),
    format: str = "auto",
    workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[int, list[str]]:
    """Read every row and decode every image: how many images are good, and what is wrong with each of the rest."""
    lenient = replace(options, skip_bad=True)
    read = read_split(source, split, lenient, format)
    broken = broken_images(read, workers, progress)
    return len(read) - len(broken), [*read.skipped, *(broken[row] for row in sorted(broken))]


def picture_grid(split: Split, path: Path, columns: int = 6, rows: int = 4, seed: int = 0) -> list[str]:
    """Write a PNG with some images and their labels; return the names of the images shown."""
    from PIL import Image, ImageDraw

    font = _font()
    shown = sorted(permutation(len(split), seed, "grid")[: columns * rows].tolist())
    down = -(-len(shown) // columns)
    sheet = Image.new("RGB", (columns * TILE, down * (TILE + CAPTION)), (255, 255, 255))
    pen = ImageDraw.Draw(sheet)
    for position, row in enumerate(shown):
        left, top = position % columns * TILE, position // columns * (TILE + CAPTION)
        tile = Image.fromarray(split.images.load(row))
        tile.thumbnail((TILE - 8, TILE - 8))
        sheet.paste(tile, (left + (TILE - tile.width) // 2, top + (TILE - tile.height) // 2))
        names = [split.labels.classes[c] for c in np.flatnonzero(split.labels.values[row] == PRESENT)]
        for line, text in enumerate(_wrapped(names or ["(no label)"], pen, font)):
            pen.text((left + 6, top + TILE + 15 * line), text, fill=(30, 30, 30), font=font)
    out = io.BytesIO()
    sheet.save(out, "PNG")
    write_atomically(path, out.getvalue())
    return [split.labels.images[row] for row in shown]


def _font() -> Any:
    """DejaVu, which comes with matplotlib and has Greek, Cyrillic, Arabic and more."""
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), 12)


def _wrapped(names: list[str], pen: Any, font: Any) -> list[str]:
    """The names in at most two lines as wide as a tile."""
    lines = [""]
    for name in names:
        longer = f"{lines[-1]}, {name}" if lines[-1] else name
        if pen.textlength(longer, font=font) <= TILE - 12 or not lines[-1]:
            lines[-1] = longer
        elif len(lines) == 2:
            lines[-1] += ", …"
            break
        else:
            lines[-1] += ","
            lines.append(name)
    return lines
