"""`scob review` as a real process, and Chromium to open it with."""

import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

KITE = "<b>kite</b> & co"
CHROMIUM_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


class ReviewProcess:
    """`scob review RUN --port N`: `address` is known once the constructor returns."""

    START = "from scob.cli import main; main()"

    def __init__(self, run: Path, *arguments: str, port: int = 0, environment: dict[str, str] | None = None) -> None:
        self.run = run
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.START, "review", str(run), "--port", str(port), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.address = self.process.stdout.readline().strip()
        if not self.address.startswith("http://"):
            self.process.kill()
            raise AssertionError(f"scob review did not start: {self.process.communicate()[1]}")

    @property
    def port(self) -> int:
        return int(self.address.rstrip("/").rpartition(":")[2])

    def kill(self) -> None:
        """Kill it at once, as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def stop(self, by: signal.Signals = signal.SIGINT) -> str:
        """Stop it, by default as Ctrl+C does; returns its stderr."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        try:
            return self.process.communicate(timeout=20)[1]
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def __enter__(self) -> "ReviewProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def chromium_path() -> str | None:
    """The browser of this machine, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def chromium():
    """A Playwright browser in real Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


def decision(image: int = 0, answer: str = "accept", **more: object) -> dict[str, object]:
    """What the page sends: an answer to the suggestion with that number."""
    label = "ball" if image % 2 == 0 else KITE
    return {"image": f"meadow-{image:02}.png", "class": label, "decision": answer, "session": "one", **more}
