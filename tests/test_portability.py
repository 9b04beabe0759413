"""Other systems: no module needs POSIX, text is UTF-8 everywhere, and Windows allows every file name that we make."""

import ast
import csv
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import scob
from scob.inference.explain import explain
from scob.inference.model import InferenceOptions
from scob.recovery.decisions import Decision, DecisionLog, write_reviewed
from scob.studies.reproduce.naming import identify, labels_name, run_name
from support.small_model import Small, small_config

PACKAGE = Path(scob.__file__).parent
FORBIDDEN = set('<>:"/\\|?*') | {chr(code) for code in range(32)}
DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{digit}" for port in ("com", "lpt") for digit in range(1, 10))}

# Other packages are imported first: theirs to care for. Then what Windows lacks is taken away.
ELSEWHERE = """
import importlib, os, pkgutil, signal, sys
from pathlib import Path
import accelerate, fastapi, kornia, matplotlib.figure, onnxruntime, torch, torchmetrics.functional.classification
import transformers.models.resnet.modeling_resnet, uvicorn
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("fork", "getuid", "uname", "sched_getaffinity"):
    vars(os).pop(name, None)
for name in ("SIGKILL", "SIGHUP", "SIGXFSZ"):
    vars(signal).pop(name, None)
import scob
modules = [m.name for m in pkgutil.walk_packages(scob.__path__, "scob.") if m.name != "scob.__main__"]
for module in modules:
    importlib.import_module(module)
from scob.files import write_atomically
from scob.recovery.decisions import Decision, DecisionLog
from scob.training.run_folder import RunFolder
run = RunFolder(Path(sys.argv[1], "run"))
with run.locked():
    write_atomically(run.path / "file.txt", "text")
    DecisionLog(run.path).append(Decision("a.png", "dog", "accept"))
print(len(modules), len(DecisionLog(run.path).lines))
"""


def test_every_module_works_without_posix(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", ELSEWHERE, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    modules, decisions = map(int, ran.stdout.split())
    assert modules > 100 and decisions == 1


def test_every_text_file_is_read_as_utf_8() -> None:
    unsaid = []
    for path in PACKAGE.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr == "read_text"
                and not call.args
                and "encoding" not in {word.arg for word in call.keywords}
            ):
                unsaid.append(f"{path.name}:{call.lineno}")
    assert unsaid == []


def allowed(name: str) -> bool:
    """Whether Windows takes this as a file name."""
    device = name.partition(".")[0].lower() in DEVICES
    return not device and not FORBIDDEN & set(name) and not name.endswith((".", " ")) and len(name) <= 255


@pytest.mark.parametrize("name", ["con.dog.png", "NUL", "a:b", "a?", "a.", "a ", "x/y", "tab\t", "Com1.txt"])
def test_what_windows_refuses(name: str) -> None:
    assert not allowed(name) and allowed("connie.dog.png")


def test_windows_allows_the_names_of_a_run_its_review_and_its_explanations(small: Small, tmp_path: Path) -> None:
    photo = tmp_path / "con.png"
    Image.open(small.files[0]).save(photo)
    explain(small.run, [photo], tmp_path / "out", ["tree"], running=InferenceOptions(device="cpu"))
    log = DecisionLog(tmp_path / "out")
    log.append(Decision("a:b.png", "dog?", "accept"))
    with write_reviewed(log).open(encoding="utf-8", newline="") as table:
        assert ["a:b.png", "dog?", "+1"] in csv.reader(table)
    made = [*small.run.rglob("*"), *(tmp_path / "out").rglob("*")]
    assert len(made) > 12 and [path.name for path in made if not allowed(path.name)] == []


@pytest.mark.parametrize("source", ["scenes:48x64", "data/con", "photos of: us?.csv"])
def test_windows_allows_the_names_of_a_study(source: str, tmp_path: Path) -> None:
    config = small_config(tmp_path / "model:a", source)
    data_id, _ = identify(source, "scenes" if source.startswith("scenes") else "table")
    base = small_config(tmp_path / "model", source)
    assert allowed(run_name(data_id, base, config)) and allowed(labels_name(data_id, config))
