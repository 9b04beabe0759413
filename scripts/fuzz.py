"""Fuzz every parser of outside files: `python scripts/fuzz.py --seconds 3600 [PARSER ...]`.

The parsers (tests/fuzz/parsers.py) take turns in one process. Each gets mutations of valid inputs; an input with an
outcome that is new (another sentence) is kept and mutated further. A finding is any exception except `UserError`, a
sentence of more than 1,000 characters, a crash, more than 20 CPU seconds or more than 4 GB. It is kept under --out, and
the numbers are added to those of earlier runs. `--docs` writes them into docs/reliability.md.
"""

import argparse
import contextlib
import json
import os
import random
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from measured_tables import put_table

from fuzz.mutations import mutated
from fuzz.parsers import PARSERS, seeds_of
from fuzz.scratch import scratch_home
from fuzz.targets import survives

ROOT = Path(__file__).resolve().parents[1]
SLOWEST, MEMORY, TURN = 20, 4 << 30, 5.0
KEPT, LONGEST = 400, 1 << 14  # inputs kept per parser, and their length


class Hang(BaseException):
    """An input that takes more than `SLOWEST` seconds of CPU time."""


class Parser:
    """One parser's inputs and numbers."""

    def __init__(self, name: str, out: Path, chance: random.Random) -> None:
        self.name, self.out, self.chance = name, out, chance
        self.inputs = seeds_of(name)
        self.valid = len(self.inputs)
        self.outcomes: set[str] = set()
        self.numbers = {"seconds": 0.0, "executions": 0, "accepted": 0}

    def run(self, seconds: float, current: Path) -> None:
        """Mutate and try for that much CPU time; `current` is the input being tried, in case the process dies of it."""
        began = time.process_time()
        while (now := time.process_time()) - began < seconds:
            valid = self.chance.random() < 0.5
            start = self.chance.choice(self.inputs[: self.valid] if valid else self.inputs)
            data = mutated(start, self.chance, self.inputs)
            current.write_bytes(data)
            outcome = self.outcome(data)
            self.numbers["executions"] += 1
            self.numbers["accepted"] += outcome == "accepted"
            if outcome not in self.outcomes and len(self.inputs) < KEPT and len(data) < LONGEST:
                self.outcomes.add(outcome)
                self.inputs.append(data)
        self.numbers["seconds"] += now - began

    def outcome(self, data: bytes) -> str:
        """'accepted', or the sentence it was refused with, without the parts that vary from input to input."""
        signal.setitimer(signal.ITIMER_PROF, SLOWEST)
        try:
            return "accepted" if survives(PARSERS[self.name], data, self.hear) else self.sentence
        except (Exception, Hang) as error:
            place = place_of(error)
            self.keep(f"{type(error).__name__}-{place}", data, "".join(traceback.format_exception(error)))
            return place
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def hear(self, sentence: str) -> None:
        self.sentence = re.sub(r"/\S+|'[^']*'|\"[^\"]*\"|[^a-zA-Z ]", "", sentence)[:80]

    def keep(self, kind: str, data: bytes, how: str) -> None:
        """Write down the first input of each kind of finding."""
        file = self.out / "findings" / self.name / kind
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            file.with_name(f"{kind}.txt").write_text(how)
            print(f"{self.name}: {kind}", flush=True)


def place_of(error: BaseException) -> str:
    """The function of Scob, or else of the harness, in which an exception was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/scob/" in frame.filename] or frames
    return f"{Path(own[-1].filename).stem}-{own[-1].name}"


def take_turns(names: list[str], seconds: float, out: Path, seed: int) -> None:
    """Let the parsers take turns; a child process does the work, and one that dies is a finding and is replaced."""
    end, current = time.monotonic() + seconds, out / f"current-{os.getpid()}"
    scratch_home()  # of this process, not of a child: a child that dies would leave it behind
    while time.monotonic() < end:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(KeyboardInterrupt):
                work(names, end, out, seed, current)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) not in (signal.SIGINT, signal.SIGTERM):
            name = current.with_suffix(".name").read_text()
            kind = signal.Signals(os.WTERMSIG(status)).name
            Parser(name, out, random.Random()).keep(f"killed-by-{kind}", current.read_bytes(), kind)
            seed += 1
        else:
            break
    for left in (current, current.with_suffix(".name")):
        left.unlink(missing_ok=True)


def work(names: list[str], end: float, out: Path, seed: int, current: Path) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    signal.signal(signal.SIGPROF, hang)
    parent = os.getppid()
    parsers = [Parser(name, out, random.Random(f"{name} {seed}")) for name in names]
    for parser in endlessly(parsers):
        left = end - time.monotonic()
        if left <= 0 or os.getppid() != parent:
            return
        current.with_suffix(".name").write_text(parser.name)
        before = dict(parser.numbers)
        parser.run(min(TURN, left), current)
        add_numbers(out, parser.name, {key: parser.numbers[key] - before[key] for key in before})


def hang(*_: Any) -> None:
    raise Hang(f"more than {SLOWEST} seconds")


def endlessly(parsers: list[Parser]) -> Iterator[Parser]:
    while True:
        yield from parsers


def add_numbers(out: Path, name: str, new: dict[str, float]) -> None:
    numbers = read_numbers(out)
    total = numbers.setdefault(name, {})
    for key, value in new.items():
        total[key] = total.get(key, 0) + value
    (out / "numbers.part").write_text(json.dumps(numbers, indent=1))
    (out / "numbers.part").replace(out / "numbers.json")


def read_numbers(out: Path) -> dict[str, dict[str, float]]:
    file = out / "numbers.json"
    return json.loads(file.read_text()) if file.exists() else {}


def table(numbers: dict[str, dict[str, float]]) -> str:
    """The numbers as Markdown."""
    columns = ("seconds", "executions", "accepted")
    total = {key: sum(counts[key] for counts in numbers.values()) for key in columns}
    lines = [f"| parser | {' | '.join(columns)} |", "|---" * 4 + "|"]
    for name, counts in (*((f"`{name}`", numbers[name]) for name in sorted(numbers)), ("all", total)):
        lines.append(f"| {name} | {' | '.join(f'{counts[key]:,.0f}' for key in columns)} |")
    return "\n".join(lines)


def main() -> None:
    reading = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reading.add_argument("parsers", nargs="*", metavar="PARSER", help=f"some of {', '.join(PARSERS)}; by default all")
    reading.add_argument("--seconds", type=float, default=600, help="how long, for all parsers together")
    reading.add_argument("--out", type=Path, default=ROOT / "build" / "fuzz", help="findings and numbers")
    reading.add_argument("--seed", type=int, default=time.time_ns(), help="of the mutations; by default the time")
    reading.add_argument("--docs", action="store_true", help="write the numbers so far into docs/reliability.md")
    options = reading.parse_args()
    unknown = sorted(set(options.parsers) - set(PARSERS))
    if unknown:
        reading.error(f"there is no parser {unknown[0]!r}; the parsers are {', '.join(PARSERS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    take_turns(options.parsers or list(PARSERS), options.seconds, options.out, options.seed)
    if options.docs:
        put_table(ROOT / "docs" / "reliability.md", "fuzzing", table(read_numbers(options.out)))
    findings = sorted(str(p.relative_to(options.out)) for p in options.out.glob("findings/*/*") if p.suffix != ".txt")
    print(table(read_numbers(options.out)))
    print(f"findings: {len(findings)}", *findings, sep="\n  ")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
