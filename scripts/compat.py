"""`make compat`: install Scob as strangers do, in new environments, and use it.

    python scripts/compat.py                  light, lowest, newest, no extras, and each Python that is here
    python scripts/compat.py --cuda           as well, where there is no CPU build of PyTorch, with its CUDA build
    python scripts/compat.py helps            only: the help of every verb, in this environment
    python scripts/compat.py journey FOLDER   only: train, recover, explain, export, predict, review; in this one

PyTorch is installed only where its CPU build can be had; where it cannot, the light install alone is checked, and that
is said. With --cuda its CUDA build is installed there: gigabytes.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
VERBS = (
    "demo", "data", "data describe", "data check", "data download", "train", "evaluate", "compare", "predict",
    "explain", "thresholds", "recover", "review", "export", "push", "reproduce", "bench",
)  # fmt: skip
SMALL = ("data.source=scenes:48x64", "data.size=64", "train.epochs=1", "train.device=cpu")


def run(*words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command; its output is shown only if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    elsewhere = tempfile.gettempdir()  # not the checkout: the installed package is what counts
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment, cwd=elsewhere)
    if check and done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done


def scob(*words: object) -> str:
    """`scob WORDS` in this environment; its stdout."""
    return run(sys.executable, "-m", "scob", *words).stdout


def helps() -> None:
    """The help of every verb, and the version."""
    for verb in VERBS:
        shown = scob(*verb.split(), "--help")
        if "Usage: scob" not in shown:
            sys.exit(f"scob {verb} --help printed:\n{shown}")
    print(f"    the help of {len(VERBS)} verbs")
    print("    " + scob("--version").strip().replace("\n", "\n    "))


def journey(folder: Path) -> None:
    """A user's way through Scob on a few drawn scenes, with the embedded backbone."""
    trained, exported, photo = folder / "run", folder / "model.onnx", folder / "photo.png"
    from PIL import Image

    Image.new("RGB", (64, 64), "white").save(photo)
    scob("train", "demo", *SMALL, "--out", trained)
    scob("recover", trained, "--device", "cpu")
    scob("explain", trained, photo, "--out", folder / "explained", "--device", "cpu")
    scob("export", trained, "--out", exported)
    scob("predict", exported, photo, "--topk", 1)
    review(trained)
    print("    train, recover, explain, export, predict, review")


def review(trained: Path) -> None:
    """Open the review page and ask for it once."""
    from urllib.request import urlopen

    command = [sys.executable, "-m", "scob", "review", str(trained), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        try:
            for line in server.stdout:
                address = re.search(r"http://\S+", line)
                if address:
                    with urlopen(address.group(), timeout=30) as page:
                        assert b"<html" in page.read()
                    return
            sys.exit("scob review printed no address")
        finally:
            server.terminate()


def without_extras(python: Path, journey: Path, pins: Path) -> None:
    """Every verb either works or says what to install; each of those lines is run, and then the verb works."""
    trained, photo = journey / "run", journey / "photo.png"
    source = "scenes:48x64"
    quick = {
        "data describe": ("data", "describe", source), "data check": ("data", "check", source),
        "train": ("train", "demo", *SMALL, "--out", journey / "bare"), "evaluate": ("evaluate", trained),
        "predict": ("predict", trained, photo), "explain": ("explain", trained, photo, "--out", journey / "bare-maps"),
        "thresholds": ("thresholds", trained, "--no-figures"), "recover": ("recover", trained),
        "export": ("export", trained, "--out", journey / "bare.onnx"),
        "predict .onnx": ("predict", journey / "model.onnx", photo),
        "predict to Parquet": ("predict", journey / "model.onnx", photo, "-o", journey / "bare.parquet"),
    }  # fmt: skip
    slow = {
        "demo": ("demo", "--out", journey / "bare-demo"), "compare": ("compare", "an", "scob", "--data", source),
        "review": ("review", trained), "push": ("push", trained, "owner/name"), "bench step": ("bench", "step"),
        "reproduce": ("reproduce", "table-ablation", "--data", "scenes", "--out", journey / "bare-tables"),
    }  # fmt: skip
    lines: dict[str, list[str]] = {}
    for name, words in {**quick, **slow}.items():
        lines.setdefault(wanted(name, python, words) or "works", []).append(name)
    for line, names in lines.items():
        print(f"    {', '.join(names)}: {line}", flush=True)
    for name, words in quick.items():
        followed = []
        while line := wanted(name, python, words):
            if line in followed:
                sys.exit(f"scob {name} still asks for {line} after it was run")
            followed.append(line)
            run(python, "-m", *line.split(), "--quiet", "-c", pins)
    print("    after those lines all of these work: " + ", ".join(quick), flush=True)


def wanted(name: str, python: Path, words: Sequence[object]) -> str | None:
    """The line that a verb says must be run first; None if it works."""
    done = run(python, "-m", "scob", *words, check=False)
    line = re.search(r"pip install [\w -]+", " ".join(done.stderr.split()))
    if done.returncode and (line is None or done.returncode != 2 or "Traceback" in done.stderr):
        sys.exit(f"scob {name}, without extras, neither works nor says what to install:\n{done.stderr}")
    return line.group().strip() if done.returncode and line is not None else None


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout, built from a copy: a build folder of earlier days must not get into it."""
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "dist", source)
    return next((folder / "dist").glob("*.whl"))


class Environment:
    """A new virtual environment with the wheel in it."""

    def __init__(self, folder: Path, python: str, wheel: Path) -> None:
        self.folder, self.wheel, self.pins = folder, wheel, folder / "pins.txt"
        run(python, "-m", "venv", folder)
        self.python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"

    def install(self, extra: str, constraints: Sequence[str] = ()) -> bool:
        """Install the wheel with an extra, of these versions; False if there are no such packages."""
        self.pins.write_text("\n".join(constraints), encoding="utf-8")
        wanted = f"{self.wheel}[{extra}]" if extra else self.wheel
        command = [self.python, "-m", "pip", "install", "--quiet", "-c", self.pins, wanted]
        done = run(*command, check=False)
        if done.returncode:
            print("    " + next((line for line in done.stderr.splitlines() if line.startswith("ERROR")), done.stderr))
        return done.returncode == 0

    def has(self, requirement: str) -> bool:
        """Install one requirement, by itself, if there is such a package."""
        return (
            run(self.python, "-m", "pip", "install", "--quiet", "--no-deps", requirement, check=False).returncode == 0
        )

    def megabytes(self) -> int:
        """What the environment takes on disk."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()) >> 20

    def script(self, *words: object) -> None:
        """This script, with the environment's Python."""
        print(run(self.python, Path(__file__).resolve(), *words).stdout, end="")


def lowest(project: dict[str, object]) -> list[str]:
    """`name==version` for the lower bound of every dependency, of Scob and of its extras for users."""
    metadata: dict[str, dict[str, list[str]]] = project["project"]  # type: ignore[assignment]
    groups = [metadata["dependencies"], *(v for k, v in metadata["optional-dependencies"].items() if k != "dev")]
    return sorted({line.replace(">=", "==") for group in groups for line in group if ">=" in line})


def torch_pin(lines: Sequence[str]) -> str:
    """The CPU build of the torch version in a list of pins."""
    version = next(line for line in lines if line.startswith("torch==")).partition("==")[2]
    return f"torch=={version if version.count('.') == 2 else version + '.0'}+cpu"


def find_pythons() -> dict[str, str]:
    """The Pythons of this machine, by version: on the path, or pyenv's."""
    found = {}
    for version in PYTHONS:
        pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
        candidates = [*map(str, pyenv.glob(f"versions/{version}.*/bin/python")), shutil.which(f"python{version}")]
        if candidates[0] is not None:
            found[version] = candidates[0]
    return found


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tested = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pythons = find_pythons()
    for version in PYTHONS:
        if version not in pythons:
            print(f"Python {version} is not on this machine")
    with tempfile.TemporaryDirectory(prefix="scob-compat-") as temporary:
        folder = Path(temporary)
        wheel = build_wheel(folder)
        exported = None
        pins_of = {"newest": [line for line in tested if line.startswith("torch==")], "lowest": lowest(project)}
        for version, python in pythons.items():
            for name, pins in pins_of.items():
                if name == "lowest" and version != PYTHONS[0]:  # a newer Python needs newer packages
                    continue
                print(f"Python {version}, all extras, {name} versions", flush=True)
                here = Environment(folder / f"{name}-{version}", python, wheel)
                candidates = [torch_pin(pins), torch_pin(tested)]
                if "--cuda" in sys.argv:
                    candidates.append(torch_pin(tested).removesuffix("+cpu"))
                torch = next((pin for pin in candidates if here.has(pin)), None)
                if torch is None:
                    print("    no CPU build of PyTorch for this Python here: the light install alone is checked")
                    shutil.rmtree(here.folder)
                    break
                if torch != torch_pin(pins):
                    print(f"    no CPU build of {torch_pin(pins)} here: {torch} instead")
                pins = [*(pin for pin in pins if not pin.startswith("torch==")), torch]
                if not here.install("all", pins):
                    sys.exit(f"the {name} versions cannot be installed on Python {version}")
                (folder / f"journey-{name}-{version}").mkdir()
                here.script("helps")
                here.script("journey", folder / f"journey-{name}-{version}")
                print(f"    {here.megabytes()} MB", flush=True)
                shutil.rmtree(here.folder)
                if exported is None:
                    exported = folder / f"journey-{name}-{version}" / "model.onnx"
                    print(f"Python {version}, no extras", flush=True)
                    bare = Environment(folder / "bare", python, wheel)
                    bare.install("", [torch]) or sys.exit(f"the install without extras fails on Python {version}")
                    print(f"    {bare.megabytes()} MB", flush=True)
                    without_extras(bare.python, exported.parent, bare.pins)
                    shutil.rmtree(bare.folder)
            print(f"Python {version}, light install", flush=True)
            light = Environment(folder / f"light-{version}", python, wheel)
            light.install("predict") or sys.exit(f"the light install fails on Python {version}")
            light.script("helps")
            if exported is not None:
                photo = exported.with_name("photo.png")
                run(light.python, "-m", "scob", "predict", exported, photo, "--topk", 1)
                print("    predict, without PyTorch")
            print(f"    {light.megabytes()} MB", flush=True)
            shutil.rmtree(light.folder)


if __name__ == "__main__":
    if sys.argv[1:] == ["helps"]:
        helps()
    elif sys.argv[1:2] == ["journey"]:
        journey(Path(sys.argv[2]).resolve())
    else:
        main()
