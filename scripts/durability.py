"""`make durability`: inject every fault for real, and print how many were injected and survived and what was lost.

The faults (kills, damaged checkpoints, several processes, malicious files, full disks, ...) are tests in
tests/durability; this runs all of them, the slow ones too. Takes about 20 minutes on two cores.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

if __name__ == "__main__":
    folder = Path(__file__).resolve().parents[1] / "tests" / "durability"
    sys.exit(pytest.main([str(folder), "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
