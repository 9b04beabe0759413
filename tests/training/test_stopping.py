"""SIGTERM, Ctrl-C and lost processes: what is saved first, what ends at once, who prints."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from scob.parallel import OtherProcessFailed, Processes
from scob.training.stopping import LOST, Interrupted, PeerLost, StopRequest, watching_peers


@pytest.mark.parametrize(("reporting", "code", "printed"), [(True, 0, "why"), (False, -signal.SIGTERM, "")])
def test_a_launchers_sigterm_does_not_cut_off_the_error_message(reporting: bool, code: int, printed: str) -> None:
    script = (
        "import os, signal; from scob.training.stopping import StopRequest\n"
        f"with StopRequest() as stop: stop.saves_first, stop.reporting = True, {reporting}\n"
        "os.kill(os.getpid(), signal.SIGTERM); print('why')"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.strip()) == (code, printed)


def test_a_signal_ends_at_once_if_nothing_would_be_saved() -> None:
    with pytest.raises(Interrupted) as stopped, StopRequest():
        os.kill(os.getpid(), signal.SIGTERM)
    assert stopped.value.code == 143


def test_a_signal_waits_for_the_loop_but_a_second_ctrl_c_does_not() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopRequest() as stop:
        stop.saves_first = True
        answers: list[int] = []
        stop.heard = lambda: answers.append(stop.number)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.number == signal.SIGTERM and answers == [signal.SIGTERM]  # answered at once
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.number == signal.SIGINT
        with pytest.raises(Interrupted) as stopped:
            os.kill(os.getpid(), signal.SIGINT)
    assert stopped.value.code == 130
    assert signal.getsignal(signal.SIGINT) is before


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    entered: list[bool] = []

    def enter() -> None:
        with StopRequest():
            entered.append(signal.getsignal(signal.SIGTERM) is before)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [True]


def two_processes() -> Processes:
    processes = Processes()
    processes.count = 2
    return processes


def test_of_the_processes_that_are_left_one_prints_the_error(tmp_path: Path) -> None:
    first, second = StopRequest(), StopRequest()
    with (
        pytest.raises(PeerLost, match=rf"one of the 2 processes of this run died, .* with --resume {tmp_path}"),
        watching_peers(two_processes(), tmp_path, first),
    ):
        raise RuntimeError("[gloo] Connection closed by peer")
    assert (tmp_path / LOST).exists()
    with pytest.raises(OtherProcessFailed), watching_peers(two_processes(), tmp_path, second):
        raise RuntimeError("NCCL timed out")
    assert first.reporting and not second.reporting


@pytest.mark.parametrize(("processes", "message"), [(Processes(), "gloo"), (two_processes(), "shapes differ")])
def test_other_errors_pass_through(processes: Processes, message: str, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=message), watching_peers(processes, tmp_path, StopRequest()):
        raise RuntimeError(message)
    assert not (tmp_path / LOST).exists()
