"""Too little memory anywhere, not only in a training step: one sentence."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scob.training.checkpoint import read_checkpoint
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


# Runs `scob WORDS` and, when it comes to a certain function, leaves it only so many megabytes: what earlier tensors
# freed is taken as well. The function's module is imported by the verb, not before it: `scob export` goes on in another
# process before it imports anything large.
LIMITED_AT = """
import importlib.util, resource, sys
module, name, spare = sys.argv[1:4]
class Hook:
    def find_spec(self, wanted, path=None, target=None):
        if wanted != module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(module)
        load = spec.loader.exec_module
        def load_and_limit(loaded):
            load(loaded)
            real, taken, calls = getattr(loaded, name), [], []
            def limited(*words, **more):
                calls.append(name)
                if len(calls) == 1:
                    now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
                    resource.setrlimit(resource.RLIMIT_AS, (now + (int(spare) << 20),) * 2)
                    try:
                        while True:
                            taken.append(bytearray(1 << 20))
                    except MemoryError:
                        del taken[-int(spare):]
                    print("limited", flush=True)
                return real(*words, **more)
            setattr(loaded, name, limited)
        spec.loader.exec_module = load_and_limit
        return spec
sys.meta_path.insert(0, Hook())
sys.argv = ["scob", *sys.argv[4:]]
from scob.cli import main
main()
"""

WIDE = ("data.source=scenes:40x256", "data.size=256", "train.batch=40", "train.epochs=1", "data.evaluate=val")
WIDE += ("model.width=256", "model.feedforward=1024")  # a checkpoint of tens of megabytes
PLACES = [
    ("BatchNorm re-estimation", "train", "scob.training.inputs", "calibrate"),
    ("feature cache", "train", "scob.training.inputs", "cache_features"),
    ("evaluation while training", "train", "scob.training.loop", "measure"),
    ("saving a checkpoint", "train", "scob.training.loop", "save_checkpoint"),
    ("evaluate", "evaluate", "scob.inference.evaluate", "score_over_processes"),
    ("scores for suggestions", "recover", "scob.recovery.suggest", "score_split"),
    ("masks of suggestions", "recover", "scob.recovery.suggest", "foregrounds"),
    ("scores for thresholds", "thresholds", "scob.inference.thresholds", "score_split"),
    ("places of an explanation", "explain", "scob.inference.explain", "locate"),
    ("writing an ONNX file", "export", "scob.inference.onnx.export", "write_onnx"),
    ("checking an ONNX file", "export", "scob.inference.onnx.export", "compare"),
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
    function: str, small: Small,
) -> None:  # fmt: skip
    own = tmp_path / "own"
    if verb == "thresholds":  # it writes into the run
        shutil.copytree(wide_run, own)
    before = {path: path.read_bytes() for path in own.rglob("*.*")}
    words = {
        "train": ["train", *small_words, *WIDE, "train.feature_cache=host", "--out", str(tmp_path / "run")],
        "evaluate": ["evaluate", str(wide_run), "--batch", "40", "--device", "cpu", "--out", str(tmp_path)],
        "recover": ["recover", str(wide_run), "--batch", "40", "--device", "cpu", "--out", str(tmp_path)],
        "thresholds": ["thresholds", str(own), "--device", "cpu"],
        "explain": ["explain", str(wide_run), *map(str, small.files), "--device", "cpu", "--out", str(tmp_path)],
        "export": ["export", str(wide_run), "--out", str(tmp_path / "model.onnx")],
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
        assert {path: path.read_bytes() for path in own.rglob("*.*")} == before
        results = ("*.part", "summary.json", "model.onnx", "suggestions.jsonl", "explanations.json")
        assert not [path for name in results for path in tmp_path.rglob(name) if own not in path.parents]
        for checkpoint in (tmp_path / "run" / "checkpoints").glob("step-*"):
            read_checkpoint(checkpoint)  # one that was saved is complete
