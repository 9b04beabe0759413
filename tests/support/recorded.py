"""What a person sees in a terminal while a command runs: everything it draws, and when.

Other work on the machine makes a command wait for a core. Linux counts that waiting, so it can be taken away: the times
here are those of a machine that has nothing else to do.
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

COLUMNS, LINES = 110, 30
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|[\r\x07]")
BAR = re.compile(r"(\d[\d,]*)/(\d[\d,]*) (steps|images)\s+[\d:]+\s+[\d:]+ left")
CLOCK = re.compile(r"\d+(:\d\d)+( left)?")


@dataclass(frozen=True)
class Frame:
    """What was drawn at once, and the seconds since the start: without waiting for a core, and with it."""

    drawn: str
    seconds: float
    wall: float

    @property
    def text(self) -> str:
        return CONTROL.sub("", self.drawn)


@dataclass(frozen=True)
class Recording:
    """Everything that was drawn, and how the command ended."""

    frames: tuple[Frame, ...]
    code: int
    seconds: float
    wall: float

    @property
    def first_bar(self) -> float:
        """When a bar with a remaining time has moved: the second count of the same bar."""
        seen: dict[tuple[str, str], str] = {}
        for frame in self.frames:
            for done, total, unit in BAR.findall(frame.text):
                if seen.setdefault((total, unit), done) != done:
                    return frame.seconds
        return float("inf")

    def silence(self, clocks: bool = True) -> float:
        """The longest time in which nothing changed on the screen; without `clocks`, nothing but the clocks."""
        longest, last, since = 0.0, "", 0.0
        for frame in self.frames:
            text = frame.text if clocks else CLOCK.sub("", frame.text)
            if text != last:
                longest, last, since = max(longest, frame.seconds - since), text, frame.seconds
        return max(longest, self.seconds - since)

    def save(self, path: Path) -> None:
        """As asciinema plays it."""
        head = json.dumps({"version": 2, "width": COLUMNS, "height": LINES})
        lines = [json.dumps([round(frame.wall, 3), "o", frame.drawn]) for frame in self.frames]
        path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


def record(command: Sequence[object], folder: Path, environment: Mapping[str, str], limit: float) -> Recording:
    """Run a command in a terminal of its own, for `limit` seconds at most."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    began = time.monotonic()
    process = subprocess.Popen(
        [str(word) for word in command], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", **environment},
    )  # fmt: skip
    os.close(theirs)
    frames: list[Frame] = []
    wall = waited = 0.0
    try:
        while time.monotonic() < began + limit:
            ready, _, _ = select.select([ours], [], [], 0.2)
            wall, waited = time.monotonic() - began, waiting(process.pid, waited)
            if ready:
                try:
                    drawn = os.read(ours, 1 << 16)
                except OSError:  # the terminal was closed
                    break
                if not drawn:
                    break
                frames.append(Frame(drawn.decode("utf-8", "replace"), wall - waited, wall))
        code = process.wait(10) if time.monotonic() < began + limit else -1
    finally:
        os.close(ours)
        if process.poll() is None:
            process.kill()
            process.wait()
    return Recording(tuple(frames), code, wall - waited, wall)


def waiting(process: int, before: float) -> float:
    """For how many seconds the process's main thread was ready to run but had to wait for a core."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):  # it has ended
        return before
