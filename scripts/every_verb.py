"""Every verb of the command line, with small arguments, as an environment that Scob was just installed in meets it.

python scripts/every_verb.py helps            the help of every verb
python scripts/every_verb.py journey FOLDER   train, recover, explain, export, predict, review, serve
python scripts/every_verb.py hints FOLDER     every verb, on what a journey left there: works, or what to install
python scripts/every_verb.py follow FOLDER    as hints; then each line is run as it stands, and the verbs work
python scripts/every_verb.py light FOLDER     what works with an exported model and without PyTorch
"""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

SMALL = ("data.source=scenes:48x64", "data.size=64", "train.epochs=1", "train.device=cpu")
HINT = re.compile(r"(?:\S+ -m )?pip install [\w -]+")


@dataclass(frozen=True)
class Trial:
    """A verb with arguments that make it quick."""

    words: tuple[object, ...]
    server: bool = False  # it answers until it is stopped
    online: bool = False  # it needs the internet: elsewhere it ends with a sentence


def trials(folder: Path) -> dict[str, Trial]:
    """Each verb of Scob, by name and where needed by case, on what `journey` leaves in a folder."""
    run, exported, photo, photos = folder / "run", folder / "model.onnx", folder / "photo.png", folder / "photos"
    source, out = "scenes:48x64", folder / "every-verb"
    return {
        "data describe": Trial(("data", "describe", source)),
        "data check": Trial(("data", "check", source)),
        "data report": Trial(("data", "report", photos, "--out", out / "report.html")),
        "data download": Trial(("data", "download", "voc2007", "--to", out / "voc"), online=True),
        "predict: ONNX": Trial(("predict", exported, photo)),
        "predict: ONNX to Parquet": Trial(("predict", exported, photo, "-o", out / "named.parquet")),
        "serve: ONNX": Trial(("serve", exported, "--port", "0"), server=True),
        "train": Trial(("train", "demo", *SMALL, "--out", out / "run")),
        "train: images": Trial(("train", "--images", photos, "--epochs", 1, "--size", 64, "--out", out / "own")),
        "evaluate": Trial(("evaluate", run)),
        "predict": Trial(("predict", run, photo)),
        "explain": Trial(("explain", run, photo, "--out", out / "maps")),
        "thresholds": Trial(("thresholds", run, "--no-figures")),
        "recover": Trial(("recover", run)),
        "review": Trial(("review", run, "--port", "0"), server=True),
        "serve": Trial(("serve", run, "--port", "0"), server=True),
        "export": Trial(("export", run, "--out", out / "model.onnx")),
        "push": Trial(("push", run, "owner/name"), online=True),
        "compare": Trial(("compare", "an", "role", *SMALL[1:], "--data", source, "--out", out / "comparison")),
        "reproduce": Trial(
            ("reproduce", "fig-class-masks", *SMALL[1:2], "--data", source, "--epochs", 1, "--out", out)
        ),
        "demo": Trial(("demo", *SMALL, "--out", out / "demo")),
        "bench data": Trial(("bench", "data", photos, "--size", 64, "--count", 4, "--workers", 1)),
        "bench ipt": Trial(("bench", "ipt", "--capacities", 80, "--classes", 20)),
        "bench step": Trial(("bench", "step", "--size", 64, "--batch", 2, "--repeats", 1)),
        "bench scale": Trial(("bench", "scale", "--most-images", 1000, "--most-classes", 20, "--steps", 5)),
        "bench train": Trial(("bench", "train", "--size", 64, "--batch", 2, "--repeats", 1)),
        "bench predict": Trial(("bench", "predict", "--size", 64, "--batch", 1)),
    }


def verbs() -> list[str]:
    """Every verb and every verb under a verb, as the command line knows them."""
    import typer

    from scob import cli

    app = typer.main.get_command(cli.build())
    names = []
    for name, command in app.commands.items():  # type: ignore[attr-defined]
        names += [name, *(f"{name} {below}" for below in getattr(command, "commands", ()))]
    return names


def start(words: Sequence[object]) -> "subprocess.Popen[str]":
    """`scob WORDS` in this environment, outside the checkout: the installed package is what counts."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "scob", *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=tempfile.gettempdir())


def scob(*words: object) -> str:
    """`scob WORDS`; its stdout. Ends if it fails."""
    with start(words) as done:
        stdout, stderr = done.communicate()
    if done.returncode:
        sys.exit(f"scob {' '.join(map(str, words))}\n{stdout}{stderr}")
    return stdout


def serve(words: Sequence[object]) -> tuple[int, str]:
    """Start a server, ask for its page once and stop it: 0, or its exit code and what it said."""
    with start(words) as server:
        assert server.stdout is not None and server.stderr is not None
        try:
            for line in server.stdout:
                if address := re.search(r"http://\S+", line):
                    with urlopen(address.group(), timeout=60) as page:
                        return (0, line) if b"<html" in page.read() else (1, f"{line}the page has no <html>")
            said = server.stderr.read()
        finally:
            server.terminate()
    return server.returncode, said


def helps() -> None:
    """The help of every verb, and the version."""
    names = verbs()
    for verb in names:
        shown = scob(*verb.split(), "--help")
        if "Usage: scob" not in shown:
            sys.exit(f"scob {verb} --help printed:\n{shown}")
    print(f"    the help of {len(names)} verbs")
    print("    " + scob("--version").strip().replace("\n", "\n    "))


def journey(folder: Path) -> None:
    """A user's way through Scob on a few drawn scenes, with the embedded backbone."""
    from PIL import Image

    trained, exported, photo = folder / "run", folder / "model.onnx", folder / "photo.png"
    Image.new("RGB", (64, 64), "white").save(photo)
    for number in range(24):
        kind = folder / "photos" / ("light", "dark")[number % 2]
        kind.mkdir(parents=True, exist_ok=True)
        tone = (number, 9 * number, 200 if number % 2 else 60)
        Image.new("RGB", (64, 64), tone).save(kind / f"{number}.png")
    scob("train", "demo", *SMALL, "--out", trained)
    scob("recover", trained, "--device", "cpu")
    scob("explain", trained, photo, "--out", folder / "explained", "--device", "cpu")
    scob("export", trained, "--out", exported)
    scob("predict", exported, photo, "--topk", 1)
    for words in (("review", trained), ("serve", exported)):
        code, said = serve([*words, "--port", "0"])
        if code:
            sys.exit(f"scob {words[0]}:\n{said}")
    print("    train, recover, explain, export, predict, review, serve")


def hint(name: str, trial: Trial) -> str | None:
    """The line that a verb says must be run first; None if it works. Ends if it does neither."""
    if trial.server:
        code, said = serve(trial.words)
    else:
        with start(trial.words) as done:
            said = done.communicate()[1]
        code = done.returncode
    if code == 0:
        return None
    found = HINT.search(" ".join(said.split()))
    if code != 2 or "Traceback" in said or (found is None and not trial.online):
        sys.exit(f"scob {name} neither works nor says what to install (exit code {code}):\n{said}")
    return found.group().strip() if found is not None else None


def hints(folder: Path) -> None:
    """What every verb does here: it works, or names a line to run first."""
    lines: dict[str, list[str]] = {}
    for name, trial in trials(folder).items():
        lines.setdefault(hint(name, trial) or ("asks for nothing" if trial.online else "works"), []).append(name)
    for line, names in lines.items():
        print(f"    {', '.join(names)}: {line}", flush=True)


def follow(folder: Path) -> None:
    """`hints`, and then every verb once more: each line is run as it stands until the verb works."""
    hints(folder)
    for name, trial in trials(folder).items():
        followed: list[str] = []
        while line := hint(name, trial):
            if line in followed:
                sys.exit(f"scob {name} still asks for {line} after it was run")
            followed.append(line)
            done = subprocess.run(line, shell=True, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"scob {name} asks for a line that fails: {line}\n{done.stdout}{done.stderr}")
    print("    after those lines, all of them work", flush=True)


def light(folder: Path) -> None:
    """Everything that needs an exported model and no PyTorch."""
    if importlib.util.find_spec("torch") is not None:
        sys.exit("this environment has PyTorch")
    listed = {name: trial for name, trial in trials(folder).items() if "ONNX" in name}
    for name, trial in listed.items():
        if line := hint(name, trial):
            sys.exit(f"scob {name} asks for {line}")
    print(f"    {', '.join(listed)}: work without PyTorch")


if __name__ == "__main__":
    if sys.argv[1] == "helps":
        helps()
    else:
        actions = {"journey": journey, "hints": hints, "follow": follow, "light": light}
        actions[sys.argv[1]](Path(sys.argv[2]).resolve())
