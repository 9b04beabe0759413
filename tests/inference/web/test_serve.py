"""`scob serve` as a process, and its page in a browser: dropped images, labels, maps, a clean end."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import sync_playwright

from scob.errors import UserError
from scob.inference.onnx.export import export
from scob.inference.web.app import Sources
from scob.inference.web.serve import serve_model
from support.small_model import Small

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def start(*words: object, **environment: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "scob", "serve", *map(str, words), "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env={**os.environ, **environment}, **pipes)


@pytest.fixture
def server(small: Small) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    process = start(small.run)
    assert process.stdout is not None
    yield process, process.stdout.readline().strip()
    if process.poll() is None:
        process.kill()
    process.wait()


def test_what_cannot_be_served(small: Small, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no model at"):
        serve_model(tmp_path / "none")
    with pytest.raises(UserError, match="--token"):
        serve_model(small.run, host="0.0.0.0")
    with pytest.raises(UserError, match="is not a folder"):
        serve_model(small.run, sources=Sources(tmp_path / "none"))


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly(server: tuple["subprocess.Popen[str]", str], small: Small, stop: int) -> None:
    process, address = server
    kind = {"Content-Type": "image/png"}
    raw = small.files[0].read_bytes()
    answer = httpx.post(f"{address}api/predict", content=raw, headers=kind, timeout=60)
    assert answer.json()["predictions"][0]["error"] is None
    process.send_signal(stop)
    assert process.wait(30) == 0
    assert process.stderr is not None and process.stderr.read().strip().endswith("stopped")


def test_an_onnx_file_is_served_without_torch(small: Small, tmp_path: Path) -> None:
    export(small.run, tmp_path / "m.onnx")
    (tmp_path / "poison" / "torch").mkdir(parents=True)
    (tmp_path / "poison" / "torch" / "__init__.py").write_text("raise RuntimeError('torch was imported')")
    paths = os.pathsep.join([str(tmp_path / "poison"), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = start(tmp_path / "m.onnx", PYTHONPATH=paths)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        raw = small.files[0].read_bytes()
        answer = httpx.post(
            f"{address}api/predict?topk=1", content=raw, headers={"Content-Type": "image/png"}, timeout=60
        )
        assert len(answer.json()["predictions"][0]["labels"]) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()


def test_the_page_names_dropped_images_and_shows_where(
    server: tuple["subprocess.Popen[str]", str], small: Small, tmp_path: Path
) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium on this machine")
    (tmp_path / "broken.jpg").write_bytes(b"no")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(server[1])
        page.set_input_files("#files", [*small.files[:3], tmp_path / "broken.jpg"])
        page.locator("#say", has_text="4 of 4 done").wait_for(timeout=60_000)
        assert page.locator(".labels").count() == 3
        assert "not an image" in page.locator(".wrong").inner_text()
        pressed = page.locator("button[aria-pressed=true]")
        assert pressed.count() >= 1
        shown = pressed.first.locator("xpath=ancestor::article").locator("img")
        assert (shown.get_attribute("src") or "").startswith("data:image/jpeg")
        pressed.first.click()
        assert page.locator("article img").first.get_attribute("src")
        browser.close()
    assert complaints == []
