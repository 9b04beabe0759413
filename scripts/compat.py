"""`make compat`: install Scob as strangers do, in new environments, and use it (scripts/every_verb.py).

    python scripts/compat.py          newest and lowest versions, no extras, light, on each Python that is here
    python scripts/compat.py --cuda   as well, where there is no CPU build of PyTorch, with its CUDA build: gigabytes

PyTorch is installed only where its CPU build can be had; where it cannot, everything that needs no PyTorch is checked,
and that is said. The last lines sum up what could not be had.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
USERS = ("predict", "train", "onnx", "review", "parquet", "heic")  # the extras for users: dev and docs are ours


def run(*words: object, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command outside the checkout; its output is shown only if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    command, elsewhere = list(map(str, words)), tempfile.gettempdir()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=elsewhere)
    if check and done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout, built from a copy: a build folder of earlier days must not get into it."""
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "dist", source)
    return next((folder / "dist").glob("*.whl"))


class Environment:
    """A new virtual environment for the wheel; removed at the end of a `with` block."""

    def __init__(self, folder: Path, python: str, wheel: Path) -> None:
        self.folder, self.wheel, self.pins = folder, wheel, folder / "pins.txt"
        run(python, "-m", "venv", folder)
        self.python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"

    def __enter__(self) -> "Environment":
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder)

    def install(self, extra: str, pins: Sequence[str] = ()) -> None:
        """Install the wheel with an extra, of these versions, and byte-compile all of it."""
        self.pins.write_text("\n".join(pins), encoding="utf-8")
        wheel = f"{self.wheel}[{extra}]" if extra else self.wheel
        run(self.python, "-m", "pip", "install", "--quiet", "-c", self.pins, wheel)
        installed = run(self.python, "-c", "import scob; print(scob.__path__[0])").stdout.strip()
        run(self.python, "-m", "compileall", "-q", "-f", installed)

    def torch(self, candidates: Sequence[str]) -> str | None:
        """The first of these that is to be had; it is installed, by itself."""
        pip = (self.python, "-m", "pip", "install", "--quiet", "--no-deps")
        return next((pin for pin in candidates if run(*pip, pin, check=False).returncode == 0), None)

    def megabytes(self) -> int:
        """What the environment takes on disk."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()) >> 20

    def verbs(self, *words: object) -> None:
        """scripts/every_verb.py with the environment's Python. What it installs keeps to the same versions."""
        done = run(self.python, ROOT / "scripts" / "every_verb.py", *words, PIP_CONSTRAINT=str(self.pins))
        print(done.stdout, end="", flush=True)


def lowest(project: dict[str, dict[str, dict[str, list[str]]]]) -> list[str]:
    """`name==version` for the lower bound of every dependency, of Scob and of its extras for users."""
    extras = project["project"]["optional-dependencies"]
    groups = [project["project"]["dependencies"], *(extras[extra] for extra in USERS)]
    return sorted({line.replace(">=", "==") for group in groups for line in group if ">=" in line})


def cpu_build(pins: Sequence[str]) -> str:
    """The CPU build of the torch version in a list of pins."""
    version = next(line for line in pins if line.startswith("torch==")).partition("==")[2]
    return f"torch=={version if version.count('.') == 2 else version + '.0'}+cpu"


def find_pythons() -> dict[str, str]:
    """The Pythons of this machine, by version: pyenv's, or on the path."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    there = {}
    for version in PYTHONS:
        candidates = [*map(str, pyenv.glob(f"versions/{version}.*/bin/python")), shutil.which(f"python{version}")]
        works = [each for each in candidates if each and run(each, "-c", "", check=False).returncode == 0]
        if works:
            there[version] = works[0]
    return there


@dataclass
class Check:
    """The environments of one run, and what could not be had."""

    folder: Path
    wheel: Path
    tested: Sequence[str]  # constraints.txt
    bounds: Sequence[str]  # the lower bounds
    cuda: bool
    travelled: Path | None = None  # what a journey left: a run, an exported model, images
    missing: list[str] = field(default_factory=list)

    def miss(self, what: str) -> None:
        """Say what could not be had, now and at the end."""
        print(f"    {what}", flush=True)
        self.missing.append(what)

    def everything(self, version: str, python: str, name: str) -> bool:
        """All extras, newest or lowest versions: every help, and the journey. False if torch cannot be had."""
        print(f"Python {version}, all extras, {name} versions", flush=True)
        asked = self.bounds if name == "lowest" else [line for line in self.tested if line.startswith("torch==")]
        candidates = [cpu_build(asked), cpu_build(self.tested)]
        if self.cuda:
            candidates.append(cpu_build(self.tested).removesuffix("+cpu"))
        with Environment(self.folder / f"{name}-{version}", python, self.wheel) as here:
            torch = here.torch(candidates)
            if torch is None:
                self.miss(
                    f"no CPU build of {candidates[-1].removesuffix('+cpu')} for Python {version}: no training there"
                )
                return False
            if torch != candidates[0]:
                self.miss(f"no {candidates[0]} for Python {version}: the {name} versions with {torch}")
            here.install("all", [*(pin for pin in asked if not pin.startswith("torch==")), torch])
            print(f"    {here.megabytes()} MB", flush=True)
            travelled = self.folder / f"journey-{name}-{version}"
            travelled.mkdir()
            here.verbs("helps")
            here.verbs("journey", travelled)
        self.travelled = self.travelled or travelled
        return True

    def no_extras(self, version: str, python: str, follow: bool) -> None:
        """Without extras every verb works or says what to install; where torch can be had, those lines are run."""
        print(f"Python {version}, no extras", flush=True)
        with Environment(self.folder / "bare", python, self.wheel) as here:
            here.install("", [cpu_build(self.tested)])
            print(f"    {here.megabytes()} MB", flush=True)
            here.verbs("helps")
            if self.travelled is not None:
                here.verbs("follow" if follow else "hints", self.travelled)

    def light(self, version: str, python: str) -> None:
        """Predicting with an exported model; then with all other extras that need no PyTorch."""
        print(f"Python {version}, light install", flush=True)
        with Environment(self.folder / "light", python, self.wheel) as here:
            here.install("predict")
            print(f"    {here.megabytes()} MB", flush=True)
            here.verbs("helps")
            if self.travelled is not None:
                exported, photo = self.travelled / "model.onnx", self.travelled / "photo.png"
                run(here.python, "-m", "scob", "predict", exported, photo, "--topk", 1)
                print("    predict: works without PyTorch", flush=True)
                here.install("predict,review,parquet,heic")
                here.verbs("light", self.travelled)


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tested = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pythons, trains = find_pythons(), list[str]()
    with tempfile.TemporaryDirectory(prefix="scob-compat-") as temporary:
        folder = Path(temporary)
        check = Check(folder, build_wheel(folder), tested, lowest(project), "--cuda" in sys.argv)
        for version in PYTHONS:
            if version not in pythons:
                check.miss(f"Python {version} is not on this machine")
                continue
            if check.everything(version, pythons[version], "newest"):
                trains.append(version)
                if version == PYTHONS[0]:  # a newer Python needs newer packages
                    check.everything(version, pythons[version], "lowest")
            else:
                check.no_extras(version, pythons[version], follow=False)
            check.light(version, pythons[version])
        for version in trains:  # last, as it takes longest
            check.no_extras(version, pythons[version], follow=True)
    print("\n".join(["could not be had:", *check.missing] if check.missing else ["everything could be had"]))


if __name__ == "__main__":
    main()
