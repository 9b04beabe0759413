"""A contact sheet of explanations: images in rows, classes in columns, as one picture. `sheet_page` makes the page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

from scob.inference.overlays import NOWHERE, fitted, font, shrink, with_place

if TYPE_CHECKING:
    from scob.inference.decoding import Pixels
    from scob.inference.explain import Explanation

ROWS, COLUMNS = 60, 12  # images and classes on a sheet, at most
PICTURE = 320  # pixels of a cell's picture on its longer side
CELL, LINE, GAP = 160, 20, 8  # of the PNG, in pixels: a picture's side, a line of text, the space between cells
PAPER, INK, SOFT, EMPTY = (255, 255, 255), (27, 31, 36), (102, 112, 133), (238, 240, 243)


@dataclass(frozen=True)
class Cell:
    """One class in one image: the picture with the place drawn on it, or None where there is no clear place."""

    label: str
    score: float
    picture: Image.Image | None

    @property
    def text(self) -> str:
        """`person 0.87`."""
        return f"{self.label} {self.score:.2f}"


@dataclass(frozen=True)
class Row:
    """One image: its name, its picture (None if it cannot be read, for the reason in `error`), and its classes."""

    image: str
    picture: Image.Image | None
    cells: tuple[Cell, ...] = ()
    error: str = ""

    def cell(self, label: str) -> Cell | None:
        """The cell of a class; None if it was not explained in this image."""
        return next((cell for cell in self.cells if cell.label == label), None)

    @property
    def name(self) -> str:
        """The file's name, without its folder."""
        return Path(self.image).name

    @property
    def remark(self) -> str:
        """What to say about a row without cells."""
        if self.error:
            return f"cannot be read: {self.error}"
        return "" if self.cells else "no class reaches its threshold"


@dataclass(frozen=True)
class Sheet:
    """The rows shown, of `images` in all; the columns shown, each with its number of images, of `classes` in all."""

    title: str
    rows: tuple[Row, ...]
    columns: tuple[tuple[str, int], ...]
    images: int
    classes: int

    @classmethod
    def of(cls, title: str, rows: Sequence[Row], images: int) -> "Sheet":
        """The classes of the rows become the columns, the most frequent first, at most COLUMNS of them."""
        counts = Counter(cell.label for row in rows for cell in row.cells)
        ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return cls(title, tuple(rows), tuple(ranked[:COLUMNS]), images, len(counts))

    @property
    def extent(self) -> str:
        """How much of everything the sheet shows, in a sentence or two."""
        shown, columns = len(self.rows), len(self.columns)
        rows = f"All {shown} images." if shown == self.images > 1 else f"The first {shown} of {self.images} images."
        if self.images == 1:
            rows = "One image."
        if columns == self.classes:
            return rows
        return f"{rows} The {columns} most frequent of {self.classes} classes."


def row_of(image: str, pixels: "Pixels", explanations: "Sequence[Explanation]") -> Row:
    """The row of one image, with the pictures at the sheet's size."""
    small = shrink(pixels, PICTURE)
    line = max(1, round(max(small.shape) / CELL))  # one pixel when the picture is as small as its cell
    cells = (Cell(e.label, e.score, with_place(small, e.place, line) if e.place else None) for e in explanations)
    return Row(image, Image.fromarray(small), tuple(cells))


def sheet_picture(sheet: Sheet) -> Image.Image:
    """The sheet as one picture: a title, a line of class names, and a line of cells for each image."""
    across, down = CELL + GAP, CELL + LINE + GAP
    top = 3 * LINE + 2 * GAP
    size = GAP + across * max(3, 1 + len(sheet.columns)), top + LINE + GAP + down * len(sheet.rows)
    picture = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(picture)
    draw.text((GAP, GAP), fitted(sheet.title, 20, size[0] - 2 * GAP), fill=INK, font=font(20))
    draw.text((GAP, GAP + 28), fitted(sheet.extent, 13, size[0] - 2 * GAP), fill=SOFT, font=font(13))
    for number, (label, count) in enumerate(sheet.columns, 1):
        left = GAP + across * number
        draw.text((left, top), fitted(f"{label} ({count})", 13, CELL), fill=INK, font=font(13))
    for number, row in enumerate(sheet.rows):
        y = top + LINE + GAP + down * number
        draw.line((GAP, y - GAP // 2, size[0] - GAP, y - GAP // 2), fill=EMPTY)
        _draw_picture(picture, row.picture, (GAP, y))
        draw.text((GAP, y + CELL + 2), fitted(row.name, 12, CELL), fill=INK, font=font(12))
        if row.remark:
            words = fitted(row.remark, 13, size[0] - across - 2 * GAP)
            draw.text((GAP + across, y + CELL // 2), words, fill=SOFT, font=font(13))
        for position, (label, _) in enumerate(sheet.columns, 1):
            cell = row.cell(label)
            if cell is not None:
                left = GAP + across * position
                _draw_picture(picture, cell.picture, (left, y))
                draw.text((left, y + CELL + 2), fitted(cell.text, 12, CELL), fill=INK, font=font(12))
                if cell.picture is None:
                    middle = left + CELL / 2, y + CELL / 2
                    draw.text(middle, NOWHERE, fill=SOFT, font=font(13), anchor="mm")
    return picture


def _draw_picture(sheet: Image.Image, picture: Image.Image | None, corner: tuple[int, int]) -> None:
    """A picture in the middle of its cell, or an empty cell."""
    x, y = corner
    ImageDraw.Draw(sheet).rectangle((x, y, x + CELL - 1, y + CELL - 1), fill=EMPTY)
    if picture is None:
        return
    ratio = CELL / max(picture.size)
    size = max(1, round(picture.width * ratio)), max(1, round(picture.height * ratio))
    small = picture.resize(size, Image.Resampling.BILINEAR)
    sheet.paste(small, (x + (CELL - size[0]) // 2, y + (CELL - size[1]) // 2))
