"""Freed memory is kept for the next tensor."""

import subprocess
import sys

import pytest

from scob.training.host_memory import keep_freed_memory

PROGRAM = """
import resource, sys
import torch
from scob.training.host_memory import keep_freed_memory

keeps = keep_freed_memory() if sys.argv[1] == "kept" else True
for number in range(40):
    if number == 20:
        began = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(10_000_000)
print(keeps, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - began)
"""


def new_pages(how: str) -> int:
    """How many pages the system had to give to twenty tensors that came one after another, each freed at once."""
    run = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=120)
    keeps, pages = run.stdout.split()
    if keeps != "True":
        pytest.skip("this system's malloc is not glibc's")
    return int(pages)


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc's malloc is told")
def test_a_tensor_takes_the_pages_that_another_one_left() -> None:
    assert new_pages("kept") < 0.1 * new_pages("given back")


def test_a_system_without_glibc_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert keep_freed_memory() is False
