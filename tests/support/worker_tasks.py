"""Work for worker processes, in a module that they can import."""

import os
import signal

import torch

from scob.errors import UserError
from scob.training.events import Listener, Note


class Counting:
    """Work that says who did it, and how often it has done so."""

    done = 0

    def __call__(self, task: str, listen: Listener) -> tuple[str, int, int, int]:
        self.done += 1
        listen(Note(f"doing {task}"))
        return task.upper(), os.getpid(), self.done, torch.get_num_threads()


def fail(task: str, listen: Listener) -> str:
    if task == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    raise UserError(f"{task} is wrong") from MemoryError("short")


class Stubborn(Exception):
    """Cannot be sent to another process."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def stubborn(task: str, listen: Listener) -> str:
    raise Stubborn(1, 2)
