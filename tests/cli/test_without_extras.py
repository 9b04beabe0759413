"""A wheel without the extras: every verb works or says what to install, and that line makes it work."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from scob.installation import EXTRAS
from support.small_model import Small

ROOT = Path(__file__).parents[2]

# Every package of the extras is out of reach, as if it were not installed.
WITHOUT = """
import contextlib, io, json, sys
from scob import cli
from scob.installation import EXTRAS
for packages in EXTRAS.values():
    for package in packages:
        sys.modules[package.replace("-", "_")] = None
ends = {}
for name, words in json.loads(sys.argv[1]).items():
    sys.argv = ["scob", *words]
    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
    ends[name] = [code, said.getvalue()]
print(json.dumps(ends))
"""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def every_verb() -> ModuleType:
    return load("every_verb")


def test_every_verb_is_tried(every_verb: ModuleType) -> None:
    tried = {name.partition(":")[0] for name in every_verb.trials(Path())}
    groups = {name.split()[0] for name in tried if " " in name}
    assert tried | groups == set(every_verb.verbs())


def test_every_verb_says_what_to_install(every_verb: ModuleType, small: Small, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    (tmp_path / "photo.png").touch()
    shutil.copytree(small.photos, tmp_path / "photos" / "scene")
    shutil.copytree(small.run, tmp_path / "run")
    (tmp_path / "run" / "suggestions.jsonl").touch()
    trials = every_verb.trials(tmp_path)
    offline = {name: [*map(str, trial.words)] for name, trial in trials.items() if name != "data download"}
    command = [sys.executable, "-c", WITHOUT, json.dumps(offline)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    ends = json.loads(done.stdout)
    assert ends.keys() == offline.keys()
    lines = {name: every_verb.HINT.search(said) for name, (_, said) in ends.items()}
    works = {name for name, (code, _) in ends.items() if code == 0}
    assert works == {"data describe"}
    assert [name for name, (code, _) in ends.items() if name not in works and (code != 2 or lines[name] is None)] == []
    packages = {name: set(line.group().partition("install ")[2].split()) for name, line in lines.items() if line}
    light = {"predict: ONNX", "predict: ONNX to Parquet"}
    assert {name for name, asked in packages.items() if asked == set(EXTRAS["predict"])} == light
    servers = {name for name, trial in trials.items() if trial.server}
    assert {name for name, asked in packages.items() if asked == set(EXTRAS["review"])} == servers
    assert all(packages[name] == set(EXTRAS["train"]) for name in offline.keys() - works - light - servers)


@pytest.mark.slow
def test_those_lines_work(every_verb: ModuleType, tmp_path: Path) -> None:
    compat = load("compat")
    tested = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    versions = [line for line in tested if not line.startswith("torch==")] + [compat.cpu_build(tested)]
    wheel = compat.build_wheel(tmp_path)
    travelled = tmp_path / "journey"
    travelled.mkdir()
    script = ROOT / "scripts" / "every_verb.py"
    journey = [sys.executable, str(script), "journey", str(travelled)]
    went = subprocess.run(journey, capture_output=True, text=True, timeout=600)
    assert went.returncode == 0, went.stdout + went.stderr
    with compat.Environment(tmp_path / "bare", sys.executable, wheel) as bare:
        if bare.torch([compat.cpu_build(tested)]) is None:
            pytest.skip("no CPU build of PyTorch for this Python: its CUDA build would be gigabytes")
        compat.run(bare.python, "-m", "pip", "uninstall", "--quiet", "--yes", "torch")
        bare.install("", versions)
        walk = [bare.python, str(script), "follow", str(travelled)]
        pinned = {**os.environ, "PIP_CONSTRAINT": str(bare.pins)}
        done = subprocess.run(walk, capture_output=True, text=True, env=pinned, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "after those lines, all of them work" in done.stdout
