"""Steps and checks that the browser tests of the review page share."""

from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from scob.recovery import decisions
from support.review_process import ReviewProcess

expect.set_options(timeout=20_000)  # of a busy machine; a test that passes does not wait


def open_page(context: BrowserContext, server: ReviewProcess) -> Page:
    page = context.new_page()
    page.goto(server.address)
    expect(page.locator("#card")).to_be_visible()
    return page


def decided(run: Path) -> dict[str, str]:
    return {image: answer for (image, _), answer in decisions.decisions_in(run / "recovered").items()}


def on_show(page: Page, image: str) -> None:
    expect(page.locator("#image-name")).to_have_text(image)


def all_saved(page: Page) -> None:
    expect(page.locator("#saved")).to_have_text("All saved")


def loaded(page: Page, picture: str, width: int) -> None:
    expect(page.locator(picture)).to_have_js_property("naturalWidth", width)
