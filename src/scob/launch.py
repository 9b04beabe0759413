"""How many processes we are: the one place that reads what `accelerate launch`, `torchrun` and others say about it.

Does not import torch, so that predicting with ONNX starts without it.
"""

import os
from dataclasses import dataclass

from scob.errors import UserError
from scob.files import whole_number

PEER_TIMEOUT = "SCOB_PEER_TIMEOUT"
SILENT_SECONDS = 600


@dataclass(frozen=True)
class Launch:
    """This process among those started together: its number, how many there are, its number on its machine."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0

    @property
    def first(self) -> bool:
        """Whether this process prints and writes."""
        return self.rank == 0


def launch() -> Launch:
    """Who we are, by the environment variables that every launcher sets."""
    count, rank = _variable("WORLD_SIZE", 1), _variable("RANK", 0)
    local_rank = _variable("LOCAL_RANK", 0)
    if count < 1 or rank >= count or (count > 1 and "RANK" not in os.environ):
        said = {name: os.environ.get(name) for name in ("WORLD_SIZE", "RANK")}
        raise UserError(
            f"the launcher's environment does not fit together (WORLD_SIZE is {said['WORLD_SIZE']}, RANK is "
            f"{said['RANK']}): start Scob with accelerate launch or torchrun, or unset both"
        )
    return Launch(rank, count, local_rank)


def peer_timeout() -> int:
    """For how many seconds another process may be silent before all give up: 600, or SCOB_PEER_TIMEOUT."""
    seconds = _variable(PEER_TIMEOUT, SILENT_SECONDS)
    if seconds < 1:
        raise UserError(f"{PEER_TIMEOUT} must be at least 1 second")
    return seconds


def _variable(name: str, otherwise: int) -> int:
    text = os.environ.get(name, "")
    number = whole_number(text, 9) if text else otherwise
    if number is None:
        raise UserError(f"the environment variable {name} is {text!r}, but it must be a whole number")
    return number
