"""`make durability`: inject every fault for real, and write what came of each into docs/reliability.md.

The faults (kills, damaged files, several processes, malicious files, full disks, ...) are tests in tests/durability;
this runs all of them, the slow ones too. Takes about 40 minutes on two cores. With arguments for pytest, only those
tests run, and only their rows are replaced. SCOB_KILLS and SCOB_DAMAGE try more (tests/durability/test_operations.py,
test_every_file.py).
"""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from measured_tables import put_table

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "build" / "durability"  # one file per run of this script
COLUMNS = {
    "injected": "injected",
    "same": "same result",
    "told": "repaired or refused, with a sentence",
    "different": "silently different",
    "tracebacks": "traceback",
    "lost": "bytes lost",
}


def table(kinds: dict[str, dict[str, int]]) -> str:
    """The faults as Markdown, in alphabetical order."""
    head = ["fault", *COLUMNS.values()]
    total = {name: sum(counts[name] for counts in kinds.values()) for name in COLUMNS}
    every = (*sorted(kinds.items()), ("all", total))
    rows = [[kind, *(str(counts[name]) for name in COLUMNS)] for kind, counts in every]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def main(words: list[str]) -> int:
    MEASURED.mkdir(parents=True, exist_ok=True)
    if not words:
        for old in MEASURED.glob("*.json"):
            old.unlink()
    report = MEASURED / f"{len(list(MEASURED.glob('*.json'))):04d}-{os.getpid()}.json"
    os.environ["SCOB_FAULTS"] = str(report)
    code = pytest.main([*(words or [str(ROOT / "tests" / "durability")]), "-q", "-p", "no:cacheprovider"])
    kinds: dict[str, dict[str, int]] = {}
    for measured in sorted(MEASURED.glob("*.json")):
        kinds |= json.loads(measured.read_text())
    if kinds:
        put_table(ROOT / "docs" / "reliability.md", "faults", table(kinds))
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
