"""SIGTERM, Ctrl-C and lost processes: what is saved first, what ends at once, who prints."""

import signal
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("reporting", "code", "printed"), [(True, 0, "why"), (False, -signal.SIGTERM, "")])
def test_a_launchers_sigterm_does_not_cut_off_the_error_message(reporting: bool, code: int, printed: str) -> None:
    script = (
        "import os, signal; from scob.training.stopping import StopRequest\n"
        f"with StopRequest() as stop: stop.saves_first, stop.reporting = True, {reporting}\n"
        "os.kill(os.getpid(), signal.SIGTERM); print('why')"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.strip()) == (code, printed)
