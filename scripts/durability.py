"""`make durability`: inject every fault for real, and write what came of each into docs/reliability.md.

The faults (kills, damaged files, several processes, malicious files, full disks, ...) are tests in tests/durability;
this runs all of them, the slow ones too. Takes about 30 minutes on two cores. With arguments for pytest, only those
tests run, and the page stays as it is. SCOB_KILLS and SCOB_DAMAGE try more (tests/durability/test_operations.py,
test_every_file.py).
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from measured_tables import put_table

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = {
    "injected": "injected",
    "same": "same result",
    "told": "repaired or refused, with a sentence",
    "different": "silently different",
    "tracebacks": "traceback",
    "lost": "bytes lost",
}


def table(kinds: dict[str, dict[str, int]], minutes: float) -> str:
    """The faults as Markdown, in alphabetical order."""
    head = ["fault", *COLUMNS.values()]
    total = {name: sum(counts[name] for counts in kinds.values()) for name in COLUMNS}
    rows = [
        [kind, *(str(counts[name]) for name in COLUMNS)] for kind, counts in (*sorted(kinds.items()), ("all", total))
    ]
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join([*lines, "", f"It took {minutes:.0f} minutes."])


if __name__ == "__main__":
    began, folder = time.monotonic(), ROOT / "tests" / "durability"
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "faults.json"
        os.environ["SCOB_FAULTS"] = str(report)
        code = pytest.main([str(folder), "-q", "-p", "no:cacheprovider", *sys.argv[1:]])
        if len(sys.argv) == 1 and report.exists():
            made = table(json.loads(report.read_text()), (time.monotonic() - began) / 60)
            put_table(ROOT / "docs" / "reliability.md", "faults", made)
    sys.exit(code)
