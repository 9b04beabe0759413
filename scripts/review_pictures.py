"""Take screenshots of the review page for the README: python scripts/review_pictures.py RUN (after `scob recover`).

Writes docs/images/review.png and docs/images/review-phone.png. It reviews a copy, so
the decisions in RUN do not change. The run in the README:

    scob train configs/demo.yaml data.source=scenes:1200x160 data.size=160 train.epochs=5 --out runs/scenes
    scob thresholds runs/scenes && scob recover runs/scenes --top 120
    python scripts/review_pictures.py runs/scenes --keys aaaaaaaaaaaaaaaaaaaaaaaaaara
"""

import argparse
import io
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
COLOURS = 256  # a palette instead of three bytes per pixel


@contextmanager
def review(run: Path) -> Iterator[str]:
    """Serve `scob review RUN` for the duration of the block; yields its address."""
    command = [sys.executable, "-m", "scob", "review", str(run), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.send_signal(signal.SIGINT)


def store(page: Page, path: Path) -> None:
    """Save what the window shows, with a palette: a third of the bytes."""
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    path.parent.mkdir(parents=True, exist_ok=True)
    shot.quantize(COLOURS, kmeans=4, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {shot.width} x {shot.height}, {path.stat().st_size / 1000:.0f} kB")


def ready(page: Page) -> None:
    """Wait for the pictures of the current suggestion, and for the notice at the bottom to disappear."""
    expect(page.locator("#mask")).to_be_visible()
    for picture in page.locator("#image, #mask, #nearest img").all():
        expect(picture).not_to_have_js_property("naturalWidth", 0)
    expect(page.locator("#saved")).to_have_text("All saved")
    page.wait_for_timeout(2500)


def photograph(browser: Browser, address: str, keys: str, folder: Path) -> None:
    """Press the keys one after the other, then show the mask as a person would, on a desktop and on a phone."""
    page = browser.new_page(viewport={"width": 1200, "height": 720}, color_scheme="light")
    page.goto(address)
    for key in keys:
        expect(page.locator("#card")).to_be_visible()
        page.keyboard.press(key)
    page.locator("#status").select_option("all")
    page.locator("#frame").hover()
    ready(page)
    store(page, folder / "review.png")
    phone = browser.new_page(
        viewport={"width": 390, "height": 780}, color_scheme="light", has_touch=True, is_mobile=True
    )
    phone.goto(address)
    phone.locator("#frame").tap()
    ready(phone)
    store(phone, folder / "review-phone.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--keys", default="aaraa", help="keys to press first: a accepts, r rejects, s skips, u undoes")
    parser.add_argument("--out", type=Path, default=IMAGES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        copy = Path(folder) / options.run.resolve().name / "recovered"
        shutil.copytree(options.run / "recovered", copy, ignore=shutil.ignore_patterns("decisions.jsonl"))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with review(copy.parent) as address:
            photograph(browser, address, options.keys, options.out)
        browser.close()


if __name__ == "__main__":
    main()
