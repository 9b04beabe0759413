"""The review page in real Chromium: doubtful labels, a blind review, and an audit on a phone."""

import json
from pathlib import Path

from playwright.sync_api import BrowserContext, expect

from support.review_page import all_saved, open_page
from support.review_process import ReviewProcess


def doubtful(run: Path) -> None:
    """As `scob recover --doubtful` writes them: the label in question is one of the given ones."""
    path = run / "recovered/suggestions.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for number, row in enumerate(rows):
        row |= {"observed": [row["class"]], "estimate": None, "mask": None, "box": None, "boxes": None, "nearest": []}
        row["class"] = row["observed"][0] = "ball" if number < 6 else "kite"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_given_label_is_doubted_not_suggested(context: BrowserContext, run_folder: Path) -> None:
    doubtful(run_folder)
    with ReviewProcess(run_folder) as server:
        page = open_page(context, server)
        expect(page.locator("#confidence-name")).to_have_text("Doubt")
        expect(page.locator("#asked")).to_have_text("This label was given. Does this image show")
        expect(page.get_by_label("Doubt at least")).to_be_visible()
        expect(page.locator("#order")).to_have_value("confident")
        expect(page.locator("#order option").nth(1)).to_have_text("Most doubtful first")
        expect(page.locator("#list .what").nth(1)).to_contain_text("ball")  # in the order of doubt, not in turns
        assert "onfidence" not in page.locator("body").inner_text()
        for key in "arrrrrrr":
            page.keyboard.press(key)
        all_saved(page)
        expect(page.locator("#empty-text")).to_contain_text("rejected 7 and skipped 0 of 8 given labels")


def test_a_blind_review_does_not_say_that_there_is_nothing(context: BrowserContext, run_folder: Path) -> None:
    with ReviewProcess(run_folder, "--blind") as server:
        page = open_page(context, server)
        expect(page.locator("#confidence")).to_have_text("hidden until you answer")
        expect(page.locator("#observed")).to_have_text("hidden until you answer")  # the image has a label: not 'none'
        expect(page.locator("#least")).to_be_hidden()
        expect(page.locator("#list small").first).to_have_text("")
        page.keyboard.press("a")
        all_saved(page)
        page.get_by_label("Show", exact=True).select_option("accept")
        page.locator("#list button").first.click()
        expect(page.locator("#confidence")).to_have_text("97%")
        expect(page.locator("#observed")).to_contain_text("box")


def test_an_audit_leaves_room_for_the_image_on_a_phone(browser, run_folder: Path) -> None:
    with ReviewProcess(run_folder, "--order", "audit") as server:
        context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
        page = open_page(context, server)
        for key in "araa":
            page.keyboard.press(key)
        all_saved(page)
        expect(page.locator("#audit-rows li").first).to_contain_text("all classes: 3 of 4 right")
        expect(page.locator("#audit-rows li").nth(1)).to_be_hidden()
        spot, frame = page.locator("#audit p").bounding_box(), page.locator("#frame").bounding_box()
        assert spot["x"] >= 10 and frame["y"] < 300
        context.close()


def test_an_audit_of_many_classes_leaves_room_for_the_list(context: BrowserContext, run_folder: Path) -> None:
    path = run_folder / "recovered/suggestions.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    many = [{**row, "class": f"class {number}-{n}"} for number in range(4) for n, row in enumerate(rows)]
    path.write_text("".join(json.dumps(row) + "\n" for row in many))
    with ReviewProcess(run_folder, "--order", "audit") as server:
        page = open_page(context, server)
        for _ in range(24):
            page.keyboard.press("a")
        all_saved(page)
        expect(page.locator("#audit-rows li")).to_have_count(25)
        assert page.locator("#audit-rows").bounding_box()["height"] < 200
        assert page.locator("#list").bounding_box()["height"] > 150
