"""Too little memory anywhere, not only in a training step: one sentence."""

import subprocess
import sys
from typing import Any

import pytest

from support.small_model import Small
from support.struck import ENVIRONMENT

LIMITED = """
import resource, sys
import numpy, PIL.Image
if sys.argv[1] == "later":
    import torch, transformers, scob.inference.predict, scob.training.model_folder
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (40 << 20),) * 2)
sys.argv = ["scob", *sys.argv[2:]]
from scob.cli import main
main()
"""


@pytest.mark.parametrize("moment", ["importing", "later"])
def test_memory_that_runs_out_is_one_sentence(small: Small, faults: Any, moment: str) -> None:
    words = ["predict", str(small.run), *map(str, small.files[:8]), "--device", "cpu"]
    with faults.inject("memory short anywhere", told=True):
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, moment, *words],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 2, done.stderr
        assert "there is not enough memory for this" in done.stderr
        assert "Traceback" not in done.stderr
