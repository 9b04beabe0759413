"""kill -9 before, in the middle of and after single file operations of each verb: the next try gives the same result.

`SCOB_KILLS=0` kills at every operation and moment, another number at that many per verb, spread over the whole run.
"""

import itertools
import os
import random
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scob.files import PART, fingerprint, write_atomically
from support.operations import MOMENTS, Operations, count, dies
from support.small_model import write_scenes
from support.struck import bytes_lost, forked

KILLS = int(os.environ.get("SCOB_KILLS", "12"))
VERBS = ("train", "train --resume", "predict", "evaluate", "recover", "thresholds", "export")
SCENES = "scenes:24x64"


@pytest.fixture(scope="module")
def home(small_words: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, the same run killed half-way, and a few images."""
    import scob.inference.onnx.export
    import scob.recovery.suggest
    import scob.training.train  # noqa: F401 (forked processes need not load them again)

    home = tmp_path_factory.mktemp("operations")
    words = ["train", *settings(small_words), "--out"]
    code, operations = count([*words, str(home / "whole")], home / "log", home / "whole")
    assert code == 0, (home / "log").read_text()
    half = [*words, str(home / "half")]
    assert dies(half, home / "log", home / "half", 2 * len(operations) // 3, "after") == -signal.SIGKILL
    write_scenes(home / "photos", 6, SCENES)
    return home


def settings(small_words: tuple[str, ...]) -> list[str]:
    return [
        *small_words, f"data.source={SCENES}", "data.evaluate=val", "train.epochs=2", "train.holdout=0.25",
        "train.checkpoint_steps=2",
    ]  # fmt: skip


def words_of(verb: str, run: Path, small_words: tuple[str, ...]) -> list[str]:
    if verb == "train" and not (run / "config.yaml").exists():
        return ["train", *settings(small_words), "--out", str(run)]
    options: dict[str, list[str]] = {
        "predict": [str(run.parent.parent / "photos"), "--device", "cpu", "-o", str(run / "predictions.csv")],
        "evaluate": ["--device", "cpu", "--out", str(run / "evaluation")],
        "recover": ["--device", "cpu", "--format", "csv", "--format", "coco"],
        "thresholds": ["--device", "cpu", "--no-figures"],
        "export": ["-o", str(run / "exported.onnx")],
    }
    if verb.startswith("train"):
        return ["train", "--resume", str(run)]
    return [verb, str(run), *options[verb]]


def result_of(verb: str, run: Path) -> object:
    """What a verb has written."""
    files: dict[str, Sequence[str]] = {
        "predict": ("predictions.csv",),
        "evaluate": ("evaluation/evaluation.json",),
        "recover": tuple(f"recovered/{name}" for name in ("suggestions.jsonl", "images.json", "coco.json")),
        "thresholds": ("model/config.json", "model/model.safetensors"),
        "export": ("exported.onnx",),
    }
    return [fingerprint(run / name) for name in files[verb]]


def chosen_kills(verb: str, operations: int) -> list[tuple[int, str]]:
    """Operations and moments, spread evenly over a run."""
    every = [(number, moment) for number in range(1, operations + 1) for moment in MOMENTS]
    if not 0 < KILLS < len(every):
        return every
    chance = random.Random(verb)
    ends = [round(i * len(every) / KILLS) for i in range(KILLS + 1)]
    return [every[chance.randrange(a, b)] for a, b in itertools.pairwise(ends)]


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_killed_at_any_file_operation_gives_the_same_when_it_is_run_again(
    home: Path, tmp_path: Path, small_words: tuple[str, ...], faults: Any, verb: str
) -> None:
    log, run = tmp_path / "log", home / "trials" / "run"  # always in the same place: results may name it

    def fresh() -> None:
        shutil.rmtree(run, ignore_errors=True)
        if verb != "train":
            shutil.copytree(home / ("half" if verb == "train --resume" else "whole"), run)

    fresh()
    run.parent.mkdir(exist_ok=True)
    code, operations = count(words_of(verb, run, small_words), log, run)
    assert code == 0, log.read_text()
    trains = verb.startswith("train")
    expected = None if trains else result_of(verb, run)
    for number, moment in chosen_kills(verb, len(operations)):
        fresh()
        with faults.inject(f"{verb}: killed at a file operation") as fault:
            what = f"{moment} operation {number}, {operations[number - 1]}"
            assert dies(words_of(verb, run, small_words), log, run, number, moment) == -signal.SIGKILL, what
            log.write_text("")
            again = os.waitstatus_to_exitcode(os.waitpid(forked(words_of(verb, run, small_words), log), 0)[1])
            said = log.read_text()
            if again == 70 or "Traceback" in said:
                raise RuntimeError(f"{what}: {said}")
            assert again == 0, f"{what}: {said}"
            if trains:
                fault.lost = bytes_lost(home / "whole", run)
                assert fault.lost == 0, what
            else:
                assert result_of(verb, run) == expected, what
            assert not list(run.rglob(f".*{PART}")), what


def test_the_operations_of_a_run_are_those_that_are_there(tmp_path: Path) -> None:
    """A file written atomically is six operations; dying in the middle of the write leaves half of it, elsewhere."""
    path = tmp_path / "folder" / "file"
    for number, left in ((1, []), (3, [2]), (5, [4]), (6, [4])):
        shutil.rmtree(tmp_path / "folder", ignore_errors=True)
        pid = os.fork()
        if not pid:
            Operations(tmp_path, number, "in the middle of").watch()
            write_atomically(path, b"1234")
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        assert [p.stat().st_size for p in path.parent.glob("*")] == left
        assert path.exists() == (number == 6)
