"""The review page in real Chromium: no decision is lost or mistaken for somebody else's."""

import re
import shutil
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from scob.recovery import decisions
from support.review_page import all_saved, decided, loaded, on_show, open_page
from support.review_process import KITE, ReviewProcess


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
    [line] = decisions.DecisionLog(review.run / "recovered").lines
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
    assert len({line.session for line in decisions.DecisionLog(review.run / "recovered").lines}) == 1


def test_undo_does_not_reach_into_another_run(context: BrowserContext, run_folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run_folder, tmp_path / "other"))
    with ReviewProcess(run_folder) as server:
        page = open_page(context, server)
        page.keyboard.press("a")
        all_saved(page)
    with ReviewProcess(other, port=server.port) as server:
        page.goto(server.address)
        on_show(page, "meadow-00.png")
        page.keyboard.press("u")
        expect(page.locator("#said")).to_have_text("Nothing to undo in this tab.")
    with ReviewProcess(run_folder, port=server.port) as server:
        page.goto(server.address)
        on_show(page, "meadow-01.png")
        page.keyboard.press("u")
        on_show(page, "meadow-00.png")
        all_saved(page)
    assert decided(other) == decided(run_folder) == {}


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
