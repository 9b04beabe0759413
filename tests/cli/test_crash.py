"""A verb that crashes in native code: its parent process says so, and passes on every other end."""

import os
import signal
import subprocess
import sys
import time

import pytest

SCRIPT = """
import os, signal, sys, time
import typer
from scob.cli.crash import explain_crashes
from scob.errors import UserError
try:
    explain_crashes("export")
except UserError as error:
    sys.exit(f"said: {error}")
except typer.Exit as end:
    sys.exit(end.exit_code)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only where a process can be forked safely")


def ended(child: str) -> "subprocess.CompletedProcess[str]":
    """How a process ends whose child, after the fork, does that."""
    command = [sys.executable, "-c", SCRIPT + child]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("child", "name"),
    [
        ("os.abort()", "SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("os._exit(127)", "exit code 127"),
    ],
)
def test_a_crash_is_one_sentence(child: str, name: str) -> None:
    done = ended(child)
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"said: scob export crashed in a library ({name}), most likely because memory ran out"
    )


@pytest.mark.parametrize("code", [0, 2, 3])
def test_an_exit_code_is_passed_on(code: int) -> None:
    done = ended(f"print('here'); sys.exit({code})")
    assert (done.returncode, done.stdout, done.stderr) == (code, "here\n", "")


def test_sigterm_reaches_the_child_and_ends_the_parent() -> None:
    child = "print(os.getpid(), flush=True); time.sleep(100)"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT + child], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child_id = int(process.stdout.readline())
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM
    end = time.monotonic() + 30
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < end:
            os.kill(child_id, 0)
            time.sleep(0.02)
    process.stdout.close()


def test_a_sigterm_that_comes_before_the_parent_waits_reaches_the_child_too() -> None:
    """The parent is held up as it comes out of the fork; by then the child has sent it the signal."""
    held_up = "import os, time\nos.register_at_fork(after_in_parent=lambda: time.sleep(0.5))\n"
    child = "os.kill(os.getppid(), signal.SIGTERM); time.sleep(100)"
    command = [sys.executable, "-c", held_up + SCRIPT + child]
    done = subprocess.run(command, timeout=60, check=False, stdout=subprocess.PIPE)
    assert done.returncode == -signal.SIGTERM  # and nobody is left who could write to stdout


@pytest.mark.parametrize("loaded", [False, True])
def test_only_a_process_without_torch_is_forked(loaded: bool) -> None:
    before = "import os, sys\nfirst = os.getpid()\n" + ("sys.modules['torch'] = sys\n" if loaded else "")
    script = f"{before}{SCRIPT}\nprint(os.getpid() == first)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == f"{loaded}\n", done.stderr
