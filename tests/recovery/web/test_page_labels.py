"""The review page in real Chromium: labels added by hand, classes in turn, conflicts, and the end."""

import json
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from scob.recovery import decisions
from support.review_page import all_saved, on_show, open_page
from support.review_process import ReviewProcess


def test_another_label_is_added_shown_in_both_tabs_and_taken_back(
    context: BrowserContext, review: ReviewProcess
) -> None:
    page, other = open_page(context, review), open_page(context, review)
    options = page.locator("#add option")
    expect(options).to_have_count(2)  # the prompt and the kite: the box is known, and the ball is the question
    page.get_by_label("Add another label to this image").select_option("<b>kite</b> & co")
    for each in (page, other):
        expect(each.locator("#observed .added")).to_contain_text("<b>kite</b> & co")
    expect(other.locator("#said")).to_contain_text("was added to meadow-00.png")
    added = ("meadow-00.png", "<b>kite</b> & co")
    assert decisions.decisions_in(review.run / "recovered") == {added: "accept"}
    expect(page.locator("#count")).to_have_text("0 of 8 decided")  # it was not one of the suggestions
    other.get_by_role("button", name="Take back").click()
    for each in (page, other):
        expect(each.locator("#observed .added")).to_have_count(0)
    assert decisions.decisions_in(review.run / "recovered") == {}
    page.reload()
    expect(page.locator("#observed .added")).to_have_count(0)


def test_a_conflict_is_shown_in_both_tabs_until_one_answers_again(
    context: BrowserContext, browser, review: ReviewProcess
) -> None:
    first = open_page(context, review)
    apart = browser.new_context()  # another person: nothing is shared but the server
    second = open_page(apart, review)
    first.route("**/api/changes*", lambda route: route.abort())  # it has not heard of the other yet
    second.keyboard.press("r")
    all_saved(second)
    first.keyboard.press("a")
    first.unroute("**/api/changes*")
    for page in (first, second):
        expect(page.locator("#conflicts")).to_have_text("1 conflict")
        page.locator("#conflicts").click()
        on_show(page, "meadow-00.png")
    expect(first.locator("#conflict")).to_contain_text("accepted in this tab, rejected in another. “accepted” counts")
    expect(second.locator("#conflict")).to_contain_text("rejected in this tab, accepted in another. “accepted” counts")
    second.keyboard.press("a")  # they agree now
    for page in (first, second):
        expect(page.locator("#conflicts")).to_be_hidden()
    apart.close()


def uneven(run: Path) -> None:
    """Six balls before the first kite."""
    path = run / "recovered/suggestions.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for number, row in enumerate(rows):
        row["class"] = "ball" if number < 6 else "kite"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_classes_take_turns_and_counts_stay_true(context: BrowserContext, run_folder: Path) -> None:
    uneven(run_folder)
    with ReviewProcess(run_folder) as server:
        page = open_page(context, server)
        shown = page.locator("#list .what")
        expect(shown.nth(0)).to_contain_text("ball")
        expect(shown.nth(1)).to_contain_text("kite")
        expect(shown.nth(3)).to_contain_text("kite")
        page.locator("#classes summary").click()
        expect(page.locator("#per-class li")).to_have_text(["ball0 of 6", "kite0 of 2"])
        expect(page.locator("#matching")).to_have_text("8 shown")
        page.keyboard.press("a")
        expect(page.locator("#matching")).to_have_text("7 shown")
        expect(page.locator("#per-class li")).to_have_text(["ball1 of 6", "kite0 of 2"])
        expect(page.locator("#class option").nth(1)).to_have_text("ball (5 of 6 left)")
        page.locator("#per-class button").nth(1).click()
        expect(page.locator("#class")).to_have_value("kite")
        page.get_by_label("Order").select_option("confident")
        page.get_by_label("Class", exact=True).select_option("")
        expect(shown.nth(1)).to_contain_text("ball")


def test_the_end_says_what_was_done_and_what_to_do_next(context: BrowserContext, review: ReviewProcess) -> None:
    page = open_page(context, review)
    for key in "aarasraa":
        page.keyboard.press(key)
    all_saved(page)
    expect(page.locator("#empty-title")).to_have_text("All decided")
    expect(page.locator("#empty-text")).to_contain_text("You accepted 5, rejected 2 and skipped 1 of 8 suggestions")
    expect(page.locator("#command")).to_contain_text("--import")
    expect(page.locator("#next")).to_be_visible()


def test_the_key_to_the_mask_is_visible_on_a_phone(browser, review: ReviewProcess) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page: Page = open_page(context, review)
    button = page.get_by_role("button", name="Show where", exact=False).last
    spot = button.bounding_box()
    assert spot["y"] + spot["height"] < 660 and spot["height"] >= 40  # above the answers, without scrolling
    button.tap()
    expect(page.locator("#mask")).to_have_css("opacity", "1")
    expect(button).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    context.close()
