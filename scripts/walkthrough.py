"""Run the commands of a page and put what they print into it: python scripts/walkthrough.py [docs/research.md]

The page is docs/walkthrough.md unless another is named.

Runs the first Python block and then, in order, every command of the console blocks, all in a temporary folder. `scob
review` is answered by this script, using the true labels. A training shows only its first and last epoch.
"""

import itertools
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
EPOCH = re.compile(r"(\w+:)? *epoch \d")
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
    """What `scob review RUN` prints while its page is answered."""
    server = subprocess.Popen(
        words.split(), cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        address = server.stdout.readline()
        answer(address.strip(), folder / words.split()[-1])
    finally:
        server.send_signal(signal.SIGINT)
        _, messages = server.communicate(timeout=30)
    return address + messages


def answer(address: str, run: Path) -> None:
    """Decide the most confident suggestions by the true labels."""
    split = scob.open_split("scenes:400x64", "train")
    present = split.labels.values == 1
    lines = (run / "recovered/suggestions.jsonl").read_text().splitlines()
    for order, suggestion in enumerate(map(json.loads, lines[:ANSWERED]), 1):
        true = present[int(Path(suggestion["image"]).stem), split.labels.classes.index(suggestion["class"])]
        decision = {"decision": "accept" if true else "reject", "session": "walkthrough", "order": order}
        body = json.dumps({"image": suggestion["image"], "class": suggestion["class"], **decision}).encode()
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{address}api/decisions", body, headers)).close()


def shortened(printed: str) -> str:
    """The lines without trailing blanks, and without the epochs of a run between its first and its last."""
    lines: list[str] = []
    for epoch, together in itertools.groupby(printed.splitlines(), lambda line: bool(EPOCH.match(line))):
        some = [line.rstrip() for line in together]
        lines += [some[0], "...", some[-1]] if epoch and len(some) > 2 else some
    return "".join(f"{line}\n" for line in lines if line)


def main() -> None:
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    text = page.read_text(encoding="utf-8")
    environment = {**os.environ, "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    drawn = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def refreshed(block: re.Match[str]) -> str:
            nonlocal drawn
            language, content = block.groups()
            if language == "python" and not drawn:
                drawn = True
                subprocess.run([sys.executable, "-c", content], cwd=folder, env=environment, check=True)
            if language != "console":
                return block.group(0)
            console = ""
            for words, before in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", content, re.MULTILINE):
                print(words, flush=True)
                printed = (review if words.startswith("scob review") else run)(words, folder, environment)
                console += f"$ {words}\n" + (before if before == "...\n" else shortened(printed))
            return f"```console\n{console}```\n"

        text = BLOCK.sub(refreshed, text)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
