"""The review page in real Chromium: every way to decide, and what is shown."""

import json
import shutil
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from scob.recovery import decisions
from support.review_page import all_saved, decided, loaded, on_show, open_page
from support.review_process import KITE, ReviewProcess


def test_accept_reject_skip_and_undo_by_mouse(page: Page, review: ReviewProcess) -> None:
    expect(page.locator("#count")).to_have_text("0 of 8 decided")
    page.get_by_role("button", name="Accept").click()
    on_show(page, "meadow-01.png")
    page.get_by_role("button", name="Reject").click()
    on_show(page, "meadow-02.png")
    page.get_by_role("button", name="Skip", exact=False).click()
    on_show(page, "meadow-03.png")
    expect(page.locator("#count")).to_have_text("2 of 8 decided")
    expect(page.locator("#tally")).to_have_text("1 accepted1 rejected1 skipped")
    all_saved(page)
    assert decided(review.run) == {"meadow-00.png": "accept", "meadow-01.png": "reject", "meadow-02.png": "skip"}
    for image in ("meadow-02.png", "meadow-01.png"):
        page.get_by_role("button", name="Undo").click()
        on_show(page, image)
    expect(page.locator("#count")).to_have_text("1 of 8 decided")
    all_saved(page)
    assert decided(review.run) == {"meadow-00.png": "accept"}


def test_the_keyboard_alone(page: Page, review: ReviewProcess) -> None:
    for key, image in [("a", "meadow-01.png"), ("R", "meadow-02.png"), ("s", "meadow-03.png"), ("u", "meadow-02.png"),
                       ("Control+z", "meadow-01.png"), ("ArrowRight", "meadow-02.png"), ("ArrowLeft", "meadow-01.png"),
                       ("ArrowDown", "meadow-02.png"), ("ArrowUp", "meadow-01.png")]:  # fmt: skip
        page.keyboard.press(key)
        on_show(page, image)
    all_saved(page)
    assert decided(review.run) == {"meadow-00.png": "accept"}
    page.keyboard.press("Control+a")  # the browser's own, not ours
    page.keyboard.press("u")
    page.keyboard.press("u")
    expect(page.locator("#said")).to_have_text("Nothing to undo in this tab.")
    all_saved(page)
    assert decided(review.run) == {}


def test_a_key_held_down_decides_once(page: Page, review: ReviewProcess) -> None:
    for _ in range(4):
        page.keyboard.down("a")  # the second and later ones are repeats
    page.keyboard.up("a")
    on_show(page, "meadow-01.png")
    all_saved(page)
    assert decided(review.run) == {"meadow-00.png": "accept"}


def test_a_changed_mind_and_its_undo(page: Page, review: ReviewProcess) -> None:
    page.keyboard.press("a")
    on_show(page, "meadow-01.png")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#badge")).to_have_text("✓ accepted")
    page.keyboard.press("r")
    all_saved(page)
    assert decided(review.run) == {"meadow-00.png": "reject"}
    page.keyboard.press("u")
    expect(page.locator("#badge")).to_have_text("✓ accepted")
    all_saved(page)
    assert decided(review.run) == {"meadow-00.png": "accept"}


def test_the_mask_shows_on_hover_on_focus_and_by_key(page: Page) -> None:
    mask = page.locator("#mask")
    expect(mask).to_be_attached()
    loaded(page, "#mask", 640)
    page.mouse.move(5, 5)
    expect(mask).to_have_css("opacity", "0")
    page.locator("#frame").hover()
    expect(mask).to_have_css("opacity", "1")
    expect(page.locator("#boxes > *")).to_have_count(0)
    expect(page.locator("#nowhere")).to_be_hidden()
    page.mouse.move(5, 5)
    expect(mask).to_have_css("opacity", "0")
    page.keyboard.press("m")
    expect(mask).to_have_css("opacity", "1")
    page.keyboard.press("m")
    expect(mask).to_have_css("opacity", "0")
    page.locator("#least").focus()
    page.keyboard.press("Tab")
    for _ in range(60):  # past the list, to the image
        if page.evaluate("document.activeElement.id") == "frame":
            break
        page.keyboard.press("Tab")
    expect(page.locator("#frame")).to_be_focused()
    expect(mask).to_have_css("opacity", "1")
    covers = page.evaluate(
        "[...document.querySelectorAll('#image, #mask')].map(e => JSON.stringify(e.getBoundingClientRect()))"
    )
    assert covers[0] == covers[1]


def test_filters_by_class_confidence_and_state(page: Page) -> None:
    rows = page.locator("#list li")
    expect(rows).to_have_count(8)
    page.get_by_label("Class", exact=True).select_option(KITE)
    expect(rows).to_have_count(4)
    on_show(page, "meadow-01.png")
    page.locator("#least").fill("70")
    expect(rows).to_have_count(2)
    expect(page.locator("#least-shown")).to_have_text("70%")
    page.keyboard.press("a")  # from the slider: letters decide, arrows move the slider
    on_show(page, "meadow-03.png")
    page.keyboard.press("r")
    expect(page.locator("#empty-title")).to_have_text("Nothing left here")
    page.get_by_role("button", name="Clear filters").click()
    expect(rows).to_have_count(6)
    page.get_by_label("Show", exact=True).select_option("accept")
    expect(rows).to_have_count(1)
    on_show(page, "meadow-01.png")
    page.locator("#least").fill("100")
    expect(page.locator("#empty-title")).to_have_text("Nothing left here")
    expect(page.get_by_role("button", name="Accept")).to_be_disabled()
    all_saved(page)  # else an answer on its way may reach the log of the next test


def test_skipped_ones_come_again_and_the_end_is_an_end(page: Page, review: ReviewProcess) -> None:
    for number, key in enumerate("aaaassrr"):
        on_show(page, f"meadow-{number:02}.png")
        page.keyboard.press(key)
    expect(page.locator("#empty-title")).to_have_text("All decided")
    page.get_by_role("button", name="Show the 2 skipped").click()
    on_show(page, "meadow-04.png")
    page.keyboard.press("s")
    on_show(page, "meadow-05.png")
    page.keyboard.press("a")
    expect(page.locator("#count")).to_have_text("7 of 8 decided")
    all_saved(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download reviewed.csv").click()
    text = Path(download.value.path()).read_text()
    assert (
        len(text.splitlines()) == 8
        and text == (decisions.write_reviewed(decisions.DecisionLog(review.run / "recovered"))).read_text()
    )


def test_names_with_html_are_shown_as_they_are(page: Page) -> None:
    page.keyboard.press("ArrowRight")
    expect(page.locator("#class-name")).to_have_text(KITE)
    assert page.locator("#card b").count() == page.locator("#list b").count() == 0
    expect(page.locator("#list li").nth(1)).to_contain_text(KITE)
    expect(page.locator("#class option").nth(1)).to_have_text(f"{KITE} (4 of 4 left)")


def test_a_box_stands_in_for_a_mask_and_the_rank_is_by_confidence(context: BrowserContext, run_folder: Path) -> None:
    path = run_folder / "recovered/suggestions.jsonl"
    first = {**json.loads(path.read_text().splitlines()[0]), "confidence": 0.935, "mask": None}
    path.write_text(json.dumps(first) + "\n")
    with ReviewProcess(run_folder) as server:
        page = open_page(context, server)
        loaded(page, "#image", 480)
        page.locator("#frame").hover()
        expect(page.locator("#boxes .box")).to_have_css("opacity", "1")
        expect(page.locator("#mask")).to_be_hidden()
        expect(page.locator("#confidence")).to_have_text("94%")
        expect(page.locator("#list small")).to_have_text(["94%"])
        expect(page.locator("#score")).to_have_text("97%")
        page.locator("#least").fill("96")
        expect(page.locator("#matching")).to_have_text("0 shown")


def test_no_clear_place_is_said_and_nothing_drawn(context: BrowserContext, run_folder: Path) -> None:
    path = run_folder / "recovered/suggestions.jsonl"
    first, second, third = (json.loads(line) for line in path.read_text().splitlines()[:3])
    lines = [
        {**first, "mask": None, "box": None, "boxes": []},
        {**second, "mask": None, "boxes": [[0.1, 0.1, 0.3, 0.3], [0.5, 0.5, 0.9, 0.8]]},
        {**third, "mask": None, "box": None},  # not looked for
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with ReviewProcess(run_folder) as server:
        page = open_page(context, server)
        expect(page.locator("#nowhere")).to_contain_text("No clear place")
        expect(page.locator("#frame")).to_have_attribute("aria-label", "Image meadow-00.png: no clear place of ball")
        expect(page.locator("#boxes > *")).to_have_count(0)
        for boxes in (2, 0):
            page.keyboard.press("ArrowRight")
            expect(page.locator("#boxes .box")).to_have_count(boxes)
            expect(page.locator("#nowhere")).to_be_hidden()


def test_evidence_is_shown(page: Page) -> None:
    expect(page.locator("#confidence")).to_have_text("97%")
    expect(page.locator("#score")).to_have_text("97%")
    expect(page.locator("#estimate")).to_have_text("90%")
    expect(page.locator("#observed span")).to_have_text(["box"])
    expect(page.locator("#nearest li")).to_have_count(3)
    for number in range(3):
        loaded(page, f"#nearest li:nth-child({number + 1}) img", 192)


def test_a_broken_image_can_still_be_decided(context: BrowserContext, run_folder: Path) -> None:
    (run_folder / "recovered/images/meadow-00.png").write_text("torn")
    with ReviewProcess(run_folder) as server:
        page = open_page(context, server)
        expect(page.locator("#broken")).to_be_visible()
        page.keyboard.press("s")
        on_show(page, "meadow-01.png")
        expect(page.locator("#broken")).to_be_hidden()
        loaded(page, "#image", 480)


def test_nothing_to_review_is_said(context: BrowserContext, run_folder: Path) -> None:
    (run_folder / "recovered/suggestions.jsonl").write_text("")
    with ReviewProcess(run_folder) as server:
        page = context.new_page()
        page.goto(server.address)
        expect(page.locator("#empty-title")).to_have_text("Nothing to review")
        page.keyboard.press("a")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#count")).to_have_text("0 of 0 decided")


def test_many_classes_and_suggestions_stay_quick(context: BrowserContext, run_folder: Path) -> None:
    rows = [
        json.dumps({"image": f"meadow-{i % 8:02}.png", "class": f"class {i // 8}", "score": 1 - i / 50000})
        for i in range(40000)
    ]
    (run_folder / "recovered/suggestions.jsonl").write_text("\n".join(rows))
    with ReviewProcess(run_folder) as server:
        page = open_page(context, server)
        expect(page.locator("#class option")).to_have_count(5001)
        page.get_by_label("Class", exact=True).select_option("class 4321")
        expect(page.locator("#list li")).to_have_count(8)
        page.locator("#accept").focus()
        page.keyboard.press("a")
        expect(page.locator("#count")).to_have_text("1 of 40000 decided")
        all_saved(page)


def test_a_token_is_asked_for_and_kept(context: BrowserContext, run_folder: Path) -> None:
    with ReviewProcess(run_folder, "--token", "a-long-enough-token") as server:
        page = context.new_page()
        page.goto(server.address)
        page.get_by_label("Token").fill("a-long-enough-token")
        page.get_by_role("button", name="Open").click()
        expect(page.locator("#card")).to_be_visible()
        assert page.url == server.address
        loaded(page, "#image", 480)
        page.keyboard.press("a")
        all_saved(page)


def test_it_works_on_a_phone(browser, review: ReviewProcess) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page = open_page(context, review)
    loaded(page, "#mask", 640)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    for name in ("Undo", "Reject", "Skip", "Accept"):
        spot = page.get_by_role("button", name=name).bounding_box()
        assert spot["height"] >= 44 and spot["x"] >= 0 and spot["x"] + spot["width"] <= 360
        assert spot["y"] + spot["height"] <= 740
    picture = page.locator("#image").bounding_box()
    assert picture["width"] > 300 and picture["y"] + picture["height"] < 600
    page.locator("#frame").tap()
    expect(page.locator("#mask")).to_have_css("opacity", "1")
    page.locator("#filters summary").tap()
    page.get_by_label("Class", exact=True).select_option("ball")
    page.get_by_role("button", name="Accept").tap()
    on_show(page, "meadow-02.png")
    all_saved(page)
    assert decided(review.run) == {"meadow-00.png": "accept"}
    context.close()


def test_everything_has_a_name_and_can_be_reached(page: Page) -> None:
    nameless = page.evaluate(
        """[...document.querySelectorAll('button, select, input, a, img')].filter(e => !e.hidden && !(
             e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length || e.hasAttribute('alt')
           )).map(e => e.outerHTML)"""
    )
    assert nameless == []
    page.locator("#class").focus()
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {"status", "least", "frame", "undo", "reject", "skip", "accept"} <= reached


def test_the_run_can_be_copied_and_reviewed_elsewhere(
    context: BrowserContext, run_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(run_folder, tmp_path / "elsewhere")
    with ReviewProcess(tmp_path / "elsewhere" / "recovered") as server:
        page = open_page(context, server)
        expect(page.locator("#run")).to_have_text("elsewhere")
        loaded(page, "#image", 480)
