"""Too little memory anywhere, not only in a training step: one sentence."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.small_model import Small, scob
from support.struck import ENVIRONMENT

LIMITED = """
import resource, sys
import numpy, PIL.Image
if sys.argv[1] == "later":
    import torch, transformers, scob.inference.predict, scob.training.model_folder
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (40 << 20),) * 2)
sys.argv = ["scob", *sys.argv[2:]]
from scob.cli import main
main()
"""


@pytest.mark.parametrize("moment", ["importing", "later"])
def test_memory_that_runs_out_is_one_sentence(small: Small, faults: Any, moment: str) -> None:
    words = ["predict", str(small.run), *map(str, small.files[:8]), "--device", "cpu"]
    with faults.inject("memory short anywhere", told=True):
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, moment, *words],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 2, done.stderr
        assert "there is not enough memory for this" in done.stderr
        assert "Traceback" not in done.stderr


# Runs `scob WORDS` and, when it comes to a certain function, leaves it only so many megabytes.
LIMITED_AT = """
import importlib, resource, sys
module, name, spare = sys.argv[1:4]
target = importlib.import_module(module)
real = getattr(target, name)
def limited(*words, **more):
    now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (int(spare) << 20),) * 2)
    print("limited", flush=True)
    return real(*words, **more)
setattr(target, name, limited)
sys.argv = ["scob", *sys.argv[4:]]
from scob.cli import main
main()
"""

WIDE = ("data.source=scenes:40x256", "data.size=256", "train.batch=40", "train.epochs=1", "data.evaluate=val")
PLACES = [
    ("BatchNorm re-estimation", "train", "scob.training.inputs", "calibrate"),
    ("feature cache", "train", "scob.training.inputs", "cache_features"),
    ("evaluation while training", "train", "scob.training.loop", "measure"),
    ("evaluate", "evaluate", "scob.inference.evaluate", "score_over_processes"),
    ("masks of suggestions", "recover", "scob.recovery.suggest", "foregrounds"),
]


@pytest.fixture(scope="module")
def wide_run(small_words: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on images of 256 pixels: a batch of them needs more than is left."""
    run = tmp_path_factory.mktemp("wide") / "run"
    done = scob("train", *small_words, *WIDE, "--out", run)
    assert done.returncode == 0, done.stderr
    return run


@pytest.mark.slow
@pytest.mark.parametrize(("where", "verb", "module", "function"), PLACES, ids=[place[0] for place in PLACES])
def test_memory_that_runs_out_at_some_point_is_one_sentence(
    wide_run: Path, small_words: tuple[str, ...], tmp_path: Path, faults: Any, where: str, verb: str, module: str,
    function: str,
) -> None:  # fmt: skip
    words = {
        "train": ["train", *small_words, *WIDE, "train.feature_cache=host", "--out", str(tmp_path / "run")],
        "evaluate": ["evaluate", str(wide_run), "--batch", "40", "--device", "cpu", "--out", str(tmp_path)],
        "recover": ["recover", str(wide_run), "--batch", "40", "--device", "cpu", "--out", str(tmp_path)],
    }[verb]
    with faults.inject("memory short anywhere", told=True):
        done = subprocess.run(
            [sys.executable, "-c", LIMITED_AT, module, function, "4", *words], env=ENVIRONMENT, capture_output=True,
            text=True, timeout=240,
        )  # fmt: skip
        assert "limited" in done.stdout, done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == 2, done.stderr
        assert "memory" in done.stderr
