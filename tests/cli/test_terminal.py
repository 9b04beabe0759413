"""A recording of the terminal during `scob train --images` on 300 pictures of the size of small photographs."""

import os
import sys
from pathlib import Path

import pytest
from PIL import Image

from scob.data.readers import open_split
from support.recorded import Frame, Recording, record, waiting

PICTURES = 300


def write_pictures(folder: Path) -> Path:
    """300 drawn scenes as JPEG files of 500 x 375, one folder per class."""
    split = open_split(f"scenes:{PICTURES}x128", "train")
    observed = split.labels.single_positive(0)
    for row in range(PICTURES):
        path = folder / split.labels.classes[int(observed.values[row].argmax())] / f"{row:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(split.images.load(row)).resize((500, 375)).save(path)
    return folder


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="only Linux counts the waiting for a core")
def test_the_bar_moves_within_twenty_seconds_and_the_terminal_is_never_silent(tmp_path: Path) -> None:
    words = ("train", "--images", write_pictures(tmp_path / "photos"), "--backbone", "photographs", "--device", "cpu",
             "--epochs", "2", "--out", tmp_path / "run")  # fmt: skip
    cores = {"OMP_NUM_THREADS": "2"}
    if len(os.sched_getaffinity(0)) > 2:
        two = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
        command: tuple[object, ...] = ("taskset", "-c", two, sys.executable, "-m", "scob", *words)
    else:
        command = (sys.executable, "-m", "scob", *words)
    recording = record(command, tmp_path, cores, limit=900)
    recording.save(tmp_path / "train.cast")
    print(
        f"moving bar after {recording.first_bar:.1f} s, longest silence {recording.silence():.1f} s, without clocks "
        f"{recording.silence(clocks=False):.1f} s, {recording.seconds:.0f} s in all ({recording.wall:.0f} s with "
        f"waiting for a core); {tmp_path / 'train.cast'}"
    )
    assert recording.code == 0
    assert recording.first_bar < 20
    assert recording.silence() < 5


def test_a_bar_counts_once_it_has_moved_and_shows_a_remaining_time() -> None:
    drawn = ("reading 0/300 images 0:00:00", "reading \x1b[1m30\x1b[0m/300 images 0:00:02 0:18 left",
             "reading 30/300 images 0:00:03 0:17 left", "reading 60/300 images 0:00:04 0:16 left")  # fmt: skip
    frames = tuple(Frame(text, float(second), 2.0 * second) for second, text in enumerate(drawn))
    recording = Recording(frames, 0, 4.5, 9.0)
    assert recording.first_bar == 3 and recording.silence() == 1.5
    assert Recording(frames[:3], 0, 9.0, 9.0).first_bar == float("inf")


def test_silence_is_what_does_not_change_on_the_screen() -> None:
    frames = tuple(Frame(text, second, second) for text, second in (("a 0:01", 1.0), ("a 0:04", 4.0), ("a 0:04", 9.0)))
    recording = Recording(frames, 0, 12.0, 12.0)
    assert recording.silence() == 8.0 and recording.silence(clocks=False) == 11.0


def test_what_a_command_draws_is_recorded(tmp_path: Path) -> None:
    recording = record((sys.executable, "-c", "print('drawn')"), tmp_path, {}, limit=60)
    assert recording.code == 0 and "drawn" in "".join(frame.text for frame in recording.frames)
    assert 0 < recording.seconds <= recording.wall and waiting(-1, 3.0) == 3.0
    recording.save(tmp_path / "it.cast")
    assert (tmp_path / "it.cast").read_text().startswith('{"version": 2')
