"""A verb whose libraries may crash when memory is short goes on in a child process; its parent says what happened."""

import os
import signal
import sys

import typer

from scob.errors import UserError

CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGKILL")  # the last: by the system, to free memory
LOADER_ABORT = 127  # the dynamic loader found no memory for a library or a thread


def explain_crashes(verb: str) -> None:
    """Return in a child process; the parent waits there and ends as it does, with a sentence if the child crashed.

    Only on Linux and before torch is loaded: a process that has started threads should not be forked.
    """
    if sys.platform != "linux" or "torch" in sys.modules:
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})  # until they have an answer
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    name = signal.Signals(-code).name if code < 0 else ""
    if name in CRASHES or code == LOADER_ABORT:
        raise UserError(
            f"scob {verb} crashed in a library ({name or f'exit code {code}'}), most likely because memory ran out: "
            "end other programs, or use a machine with more memory"
        )
    if name:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    raise typer.Exit(code)
