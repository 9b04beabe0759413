"""The contact sheet: its rows, its columns, what it says about what it leaves out, and its picture."""

import numpy as np
import pytest
from PIL import Image

from scob.inference import sheet as sheets
from scob.inference.explain import Explanation
from scob.inference.parts import Place
from scob.inference.sheet import CELL, COLUMNS, EMPTY, GAP, LINE, PICTURE, Cell, Row, Sheet, row_of, sheet_picture


def place() -> Place:
    heat = np.zeros((4, 4), np.float32)
    heat[1:3, 1:3] = 1
    found = Place.of(heat)
    assert found is not None
    return found


def photo(width: int = 400, height: int = 200) -> np.ndarray:
    return np.full((height, width, 3), (40, 120, 60), np.uint8)


def row(image: str, *labels: str) -> Row:
    return row_of(image, photo(), [Explanation(image, label, 0.5, None, place()) for label in labels])


def test_columns_are_the_classes_that_occur_the_most_frequent_first() -> None:
    sheet = Sheet.of("t", [row("a", "dog", "cat"), row("b", "dog"), row("c", "ant")], 3)
    assert sheet.columns == (("dog", 2), ("ant", 1), ("cat", 1)) and sheet.classes == 3
    assert sheet.extent == "All 3 images."


def test_what_is_left_out_is_said() -> None:
    many = [row("a", *(f"class {number}" for number in range(COLUMNS + 3)))]
    sheet = Sheet.of("t", many, 250)
    assert len(sheet.columns) == COLUMNS
    assert sheet.extent == f"The first 1 of 250 images. The {COLUMNS} most frequent of {COLUMNS + 3} classes."


def test_a_row_has_its_cells_or_a_remark() -> None:
    clear = row("x/a.png", "dog")
    cell = clear.cell("dog")
    assert clear.name == "a.png" and clear.remark == "" and cell is not None and clear.cell("cat") is None
    assert cell.text == "dog 0.50" and cell.picture is not None and max(cell.picture.size) == PICTURE
    assert row("b").remark == "no class reaches its threshold"
    assert Row("c", None, error="the file is empty").remark == "cannot be read: the file is empty"


def test_no_clear_place_has_no_picture() -> None:
    lost = row_of("a", photo(), [Explanation("a", "dog", 0.25, np.ones((4, 4), np.float32))])
    assert lost.cells == (Cell("dog", 0.25, None),)


def test_the_picture_has_a_line_for_each_image_and_cells_where_classes_were_seen() -> None:
    rows = [row("a.png", "dog"), row("b.png", "dog", "cat"), Row("c.png", None, error="it is empty"), row("d.png")]
    picture = sheet_picture(Sheet.of("Where it is", rows, 4))
    top = 3 * LINE + 2 * GAP + LINE + GAP
    assert picture.size == (GAP + 3 * (CELL + GAP), top + 4 * (CELL + LINE + GAP))

    def middle(line: int, column: int) -> tuple[int, ...]:
        x, y = GAP + (CELL + GAP) * column + CELL // 2, top + (CELL + LINE + GAP) * line + CELL // 2
        pixel = picture.getpixel((x, y))
        assert isinstance(pixel, tuple)
        return pixel

    assert middle(0, 0) == (40, 120, 60)
    assert middle(0, 1)[0] > 120  # the heat is warm
    assert middle(1, 2)[0] > 120 and middle(0, 2) == (255, 255, 255)
    assert middle(2, 0) == EMPTY


@pytest.mark.parametrize("size", [(1, 400), (400, 1), (3, 3)])
def test_pictures_of_any_shape_fit_their_cells(size: tuple[int, int]) -> None:
    odd = row_of("a" * 300, photo(*size), [Explanation("a", "a class with a very long name " * 9, 1.0, None, place())])
    assert sheet_picture(Sheet.of("title " * 200, [odd], 1)).width == GAP + 3 * (CELL + GAP)


def test_an_empty_sheet_can_be_drawn() -> None:
    assert isinstance(sheet_picture(Sheet.of("t", [], 0)), Image.Image)


def test_the_largest_sheet_is_a_picture_that_programs_open() -> None:
    height = sheets.ROWS * (CELL + LINE + GAP)
    assert height < 15_000 and (COLUMNS + 1) * (CELL + GAP) < 5_000
