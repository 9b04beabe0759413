"""The review page in real Chromium: every way to decide, and every way a decision could be lost."""

import json
import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from review_process import ReviewProcess

from scob.review import store

KITE = "<b>kite</b> & co"
expect.set_options(timeout=20_000)  # of a busy machine; a test that passes does not wait


def open_page(context: BrowserContext, server: ReviewProcess) -> Page:
    page = context.new_page()
    page.goto(server.address)
    expect(page.locator("#card")).to_be_visible()
    return page


def decided(run: Path) -> dict[str, str]:
    return {image: answer for (image, _), answer in store.decisions(run / "recovered").items()}


def on_show(page: Page, image: str) -> None:
    expect(page.locator("#image-name")).to_have_text(image)


def all_saved(page: Page) -> None:
    expect(page.locator("#saved")).to_have_text("All saved")


def loaded(page: Page, picture: str, width: int) -> None:
    expect(page.locator(picture)).to_have_js_property("naturalWidth", width)


@pytest.fixture(scope="module")
def shared(drawn: Path, tmp_path_factory: pytest.TempPathFactory):
    """One server for the tests that leave it running; each finds it without decisions."""
    with ReviewProcess(Path(shutil.copytree(drawn, tmp_path_factory.mktemp("shared") / "run"))) as process:
        yield process


@pytest.fixture
def review(shared: ReviewProcess) -> ReviewProcess:
    (shared.run / "recovered/decisions.jsonl").unlink(missing_ok=True)
    return shared


@pytest.fixture
def page(context: BrowserContext, review: ReviewProcess) -> Page:
    return open_page(context, review)


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
    expect(page.locator("#box")).to_be_hidden()
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
    assert len(text.splitlines()) == 8 and text == (store.write_reviewed(review.run / "recovered")).read_text()


def test_names_with_html_are_shown_as_they_are(page: Page) -> None:
    page.keyboard.press("ArrowRight")
    expect(page.locator("#class-name")).to_have_text(KITE)
    assert page.locator("#card b").count() == page.locator("#list b").count() == 0
    expect(page.locator("#list li").nth(1)).to_contain_text(KITE)
    expect(page.locator("#class option").nth(1)).to_have_text(f"{KITE} (4)")


def test_a_box_stands_in_for_a_mask_and_the_rank_is_by_confidence(context: BrowserContext, run_folder: Path) -> None:
    path = run_folder / "recovered/suggestions.jsonl"
    first = {**json.loads(path.read_text().splitlines()[0]), "confidence": 0.935, "mask": None}
    path.write_text(json.dumps(first) + "\n")
    with ReviewProcess(run_folder) as server:
        page = open_page(context, server)
        loaded(page, "#image", 480)
        page.locator("#frame").hover()
        expect(page.locator("#box")).to_have_css("opacity", "1")
        expect(page.locator("#mask")).to_be_hidden()
        expect(page.locator("#confidence")).to_have_text("94%")
        expect(page.locator("#list small")).to_have_text(["94%"])
        expect(page.locator("#score")).to_have_text("97%")
        page.locator("#least").fill("96")
        expect(page.locator("#matching")).to_have_text("0 shown")


def test_evidence_is_shown(page: Page) -> None:
    expect(page.locator("#confidence")).to_have_text("97%")
    expect(page.locator("#score")).to_have_text("97%")
    expect(page.locator("#estimate")).to_have_text("90%")
    expect(page.locator("#observed span")).to_have_text(["box"])
    expect(page.locator("#nearest li")).to_have_count(3)
    for number in range(3):
        loaded(page, f"#nearest li:nth-child({number + 1}) img", 192)


def test_a_reload_keeps_decisions_filters_and_undo(page: Page, review: ReviewProcess) -> None:
    page.locator("#least").fill("50")
    page.keyboard.press("a")
    page.keyboard.press("r")
    page.reload()
    on_show(page, "meadow-02.png")
    expect(page.locator("#count")).to_have_text("2 of 8 decided")
    expect(page.locator("#least-shown")).to_have_text("50%")
    page.keyboard.press("u")
    on_show(page, "meadow-01.png")
    all_saved(page)
    assert decided(review.run) == {"meadow-00.png": "accept"}


def test_a_page_closed_at_once_loses_nothing(context: BrowserContext, review: ReviewProcess) -> None:
    page = open_page(context, review)
    for _ in range(4):
        page.keyboard.press("a")
    page.close()
    open_again = open_page(context, review)  # what had not been sent is sent now
    expect(open_again.locator("#count")).to_have_text("4 of 8 decided")
    all_saved(open_again)
    assert list(decided(review.run).values()) == ["accept"] * 4


def test_two_tabs_see_each_other_and_the_latest_wins(context: BrowserContext, review: ReviewProcess) -> None:
    one, two = open_page(context, review), open_page(context, review)
    one.keyboard.press("a")
    expect(two.locator("#badge")).to_have_text("✓ accepted in another tab")
    expect(two.locator("#count")).to_have_text("1 of 8 decided")
    expect(two.locator("#said")).to_contain_text("In another tab: “ball” in meadow-00.png is accepted")
    two.keyboard.press("r")  # the same pair, later
    on_show(two, "meadow-01.png")
    expect(one.locator("#list li").first.get_by_role("button")).to_have_attribute("aria-label", re.compile("rejected"))
    one.keyboard.press("ArrowLeft")
    expect(one.locator("#badge")).to_have_text("✕ rejected in another tab")
    assert decided(review.run) == {"meadow-00.png": "reject"}
    two.keyboard.press("u")  # undo goes back to what the other tab had said
    expect(one.locator("#badge")).to_have_text("✓ accepted in another tab")
    all_saved(two)
    assert decided(review.run) == {"meadow-00.png": "accept"}


def test_a_reloaded_tab_knows_its_own_decisions(context: BrowserContext, review: ReviewProcess) -> None:
    page = open_page(context, review)
    page.keyboard.press("a")
    all_saved(page)
    [line] = store.DecisionLog(review.run / "recovered").lines
    page.reload()
    on_show(page, "meadow-01.png")
    # What was on its way when the page was reloaded arrives after the new page has read the queue.
    late = {
        "image": "meadow-01.png",
        "class": KITE,
        "decision": "reject",
        "session": line.session,
        "order": line.order + 1,
    }
    answer = context.request.post(f"{review.address}api/decisions", data=late)
    assert answer.ok and answer.json()["applied"]
    expect(page.locator("#badge")).to_have_text("✕ rejected")
    page.locator("#status").select_option("all")
    page.locator("#list li").first.get_by_role("button").click()
    expect(page.locator("#badge")).to_have_text("✓ accepted")


def test_a_decision_sent_by_another_tab_stays_its_own(context: BrowserContext, review: ReviewProcess) -> None:
    one, two = open_page(context, review), open_page(context, review)
    one.route("**/api/decisions", lambda route: route.abort())
    one.keyboard.press("a")
    expect(two.locator("#badge")).to_have_text("✓ accepted in another tab")
    all_saved(one)  # by the other tab
    one.keyboard.press("ArrowLeft")
    on_show(one, "meadow-00.png")
    expect(one.locator("#badge")).to_have_text("✓ accepted")
    one.unroute("**/api/decisions")
    one.keyboard.press("r")
    expect(two.locator("#badge")).to_have_text("✕ rejected in another tab")
    assert len({line.session for line in store.DecisionLog(review.run / "recovered").lines}) == 1


def test_a_killed_server_loses_nothing(context: BrowserContext, run_folder: Path) -> None:
    server = ReviewProcess(run_folder)
    page = open_page(context, server)
    page.keyboard.press("a")
    all_saved(page)
    server.kill()
    page.keyboard.press("r")
    page.keyboard.press("a")
    expect(page.locator("#banner")).to_contain_text("not reachable")
    expect(page.locator("#banner")).to_contain_text("2 decisions are kept in this browser")
    expect(page.locator("#saved")).to_have_text("2 not saved")
    page.keyboard.press("u")
    on_show(page, "meadow-02.png")
    assert decided(run_folder) == {"meadow-00.png": "accept"}
    with ReviewProcess(run_folder, port=server.port):
        expect(page.locator("#banner")).to_be_hidden(timeout=15000)
        all_saved(page)
        assert decided(run_folder) == {"meadow-00.png": "accept", "meadow-01.png": "reject"}
        loaded(page, "#image", 480)


def test_what_was_kept_survives_closing_the_browser_tab_too(context: BrowserContext, run_folder: Path) -> None:
    server = ReviewProcess(run_folder)
    page = open_page(context, server)
    server.kill()
    page.keyboard.press("r")
    expect(page.locator("#banner")).to_contain_text("1 decision is kept")
    page.close()
    with ReviewProcess(run_folder, port=server.port) as again:
        page = open_page(context, again)
        on_show(page, "meadow-01.png")
        all_saved(page)
        assert decided(run_folder) == {"meadow-00.png": "reject"}


def test_a_disk_that_refuses_is_shown_and_tried_again(page: Page, review: ReviewProcess) -> None:
    log = review.run / "recovered/decisions.jsonl"
    log.unlink(missing_ok=True)
    log.mkdir()
    page.keyboard.press("a")
    expect(page.locator("#banner")).to_contain_text("Not saved: cannot")
    log.rmdir()
    expect(page.locator("#banner")).to_be_hidden(timeout=15000)
    all_saved(page)
    assert decided(review.run) == {"meadow-00.png": "accept"}


def test_new_suggestions_after_a_restart_replace_the_old(context: BrowserContext, run_folder: Path) -> None:
    server = ReviewProcess(run_folder)
    page = open_page(context, server)
    server.kill()
    path = run_folder / "recovered/suggestions.jsonl"
    rows = path.read_text().splitlines()
    path.write_text("\n".join(rows[2:5]))
    page.keyboard.press("a")  # of a suggestion that will be gone
    page.keyboard.press("ArrowRight")
    with ReviewProcess(run_folder, port=server.port):
        expect(page.locator("#count")).to_have_text("0 of 3 decided", timeout=15000)
        all_saved(page)
        page.keyboard.press("a")
        expect(page.locator("#count")).to_have_text("1 of 3 decided")
        all_saved(page)
    assert set(decided(run_folder).values()) == {"accept"} and len(decided(run_folder)) == 1


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
    page.locator("summary").tap()
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
