"""The contact sheet's page in real Chromium: it fetches nothing, escapes names, and works from the keyboard."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from scob.inference.explain import Explanation
from scob.inference.parts import Place
from scob.inference.sheet import Row, Sheet, row_of
from scob.inference.sheet_page import sheet_page
from support.review_process import chromium, chromium_path

KITE = '<b>kite</b> & "co"'


def sheet() -> Sheet:
    heat = np.zeros((4, 4), np.float32)
    heat[1:3, 1:3] = 1
    pixels = np.full((120, 180, 3), (40, 120, 60), np.uint8)
    both = [Explanation("x/a.png", "dog", 0.875, heat, Place.of(heat)), Explanation("x/a.png", KITE, 0.25, heat)]
    odd = '"><img src="x" onerror="document.title=1">.png'
    rows = [row_of("x/a.png", pixels, both), row_of(odd, pixels, ()), Row("c.png", None, error="<i>empty</i>")]
    return Sheet.of("Where <photos> sees each class", rows, 12)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium_path() is None:
        pytest.skip("no Chromium on this machine: the contact sheet is not tested in a browser")
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    file = tmp_path / "sheet.html"
    file.write_text(sheet_page(sheet()), encoding="utf-8")
    context = browser.new_context(viewport={"width": 1000, "height": 700})
    problems: list[str] = []
    context.on("weberror", lambda error: problems.append(str(error.error)))
    opened = context.new_page()
    opened.on("request", lambda request: problems.append(request.url) if request.url.startswith("http") else None)
    opened.goto(file.as_uri())
    yield opened
    context.close()
    assert not problems, problems


def test_names_are_shown_as_they_are(page: Page) -> None:
    expect(page).to_have_title("Where <photos> sees each class")
    expect(page.locator("thead th")).to_have_text(["Image", f"{KITE} (1)", "dog (1)"])
    assert page.locator("table b, table i, table img[onerror]").count() == 0
    expect(page.locator("tbody th .name").nth(1)).to_have_text('"><img src="x" onerror="document.title=1">.png')
    expect(page.locator("header p")).to_contain_text("The first 3 of 12 images.")


def test_pictures_load_and_say_what_they_show(page: Page) -> None:
    dog = page.get_by_alt_text("a.png: where the model sees dog, score 0.88")
    expect(dog).to_have_js_property("naturalWidth", 180)
    assert all(page.locator("table img").evaluate_all("all => all.map(i => i.alt && i.naturalWidth)"))


def test_no_clear_place_and_unreadable_images_are_said(page: Page) -> None:
    expect(page.locator("tbody tr").nth(0)).to_contain_text("no clear place")
    expect(page.locator("tbody tr").nth(0).locator("td").nth(0).locator("img")).to_have_count(0)
    expect(page.locator("tbody tr").nth(1)).to_contain_text("no class reaches its threshold")
    expect(page.locator("tbody tr").nth(2)).to_contain_text("cannot be read: <i>empty</i>")


def test_a_picture_is_enlarged_and_closed_from_the_keyboard(page: Page) -> None:
    for _ in range(3):  # the table, the image, the dog
        page.keyboard.press("Tab")
    expect(page.locator("button:focus img")).to_have_attribute("alt", "a.png: where the model sees dog, score 0.88")
    page.keyboard.press("Enter")
    expect(page.locator("dialog")).to_be_visible()
    expect(page.locator("dialog p")).to_have_text("a.png: where the model sees dog, score 0.88")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()
    expect(page.locator("button:focus img")).to_have_count(1)  # the focus is back where it was


def test_a_file_name_that_is_not_text_does_not_break_the_page() -> None:
    pixels = np.zeros((4, 4, 3), np.uint8)
    assert "?" in sheet_page(Sheet.of("t", [row_of("caf\udce9.png", pixels, ())], 1))
