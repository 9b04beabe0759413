"""Run the commands of docs/walkthrough.md and write their output into the page: python scripts/walkthrough.py

In a temporary folder, runs the first Python block, then every command of the console blocks, in order. `scob review` is
answered with the true labels of the drawings. Of a training's output, the first and the last epoch are kept.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import scob

PAGE = Path(__file__).parent.parent / "docs" / "walkthrough.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```\n", re.DOTALL)
ANSWERED = 200


def run(words: str, folder: Path, environment: dict[str, str]) -> str:
    """What a command prints on both streams, as on a terminal."""
    done = subprocess.run(
        words, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{words}\n{done.stdout}")
    return done.stdout


def review(words: str, folder: Path, environment: dict[str, str]) -> str:
    """The same for `scob review RUN`, whose most confident suggestions are answered correctly."""
    server = subprocess.Popen(
        words.split(), cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        address = server.stdout.readline()
        answer(address.strip(), folder / words.split()[-1])
    finally:
        server.send_signal(signal.SIGINT)
        _, printed = server.communicate(timeout=30)
    return address + printed


def answer(address: str, run: Path) -> None:
    """Accept or reject the most confident suggestions."""
    split = scob.open_split("scenes:400x64", "train")
    shown = split.labels.values == 1
    lines = (run / "recovered/suggestions.jsonl").read_text().splitlines()
    for order, suggestion in enumerate(map(json.loads, lines[:ANSWERED]), 1):
        true = shown[int(Path(suggestion["image"]).stem), split.labels.classes.index(suggestion["class"])]
        decision = {"decision": "accept" if true else "reject", "session": "walkthrough", "order": order}
        body = json.dumps({"image": suggestion["image"], "class": suggestion["class"], **decision}).encode()
        kind = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{address}api/decisions", body, kind)).close()


def shortened(printed: str) -> str:
    """The output without the epochs between the first and the last, and without trailing blanks."""
    lines = [line.rstrip() for line in printed.splitlines()]
    epochs = [n for n, line in enumerate(lines) if re.match(r"\w+ epoch \d", line)]
    if len(epochs) > 2:
        lines[epochs[1] : epochs[-1]] = ["..."]
    return "".join(f"{line}\n" for line in lines if line)


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    environment = {**os.environ, "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    begun = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def again(block: re.Match[str]) -> str:
            nonlocal begun
            language, content = block.groups()
            if language == "python" and not begun:
                begun = True
                subprocess.run([sys.executable, "-c", content], cwd=folder, env=environment, check=True)
            if language != "console":
                return block.group(0)
            output = ""
            for words, before in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", content, re.MULTILINE):
                print(words, flush=True)
                printed = (review if words.startswith("scob review") else run)(words, folder, environment)
                output += f"$ {words}\n" + (before if before == "...\n" else shortened(printed))
            return f"```console\n{output}```\n"

        text = BLOCK.sub(again, text)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
