"""A run that ends in the middle, as a fixture and as a listener that ends any run."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from scob.training.events import Event, StepLogged, StepTaken
from scob.training.train import SharedParts, train

SAVING = "train.checkpoint_steps=4"


class Broken(Exception):
    pass


def broken_at(step: int) -> Any:
    """A listener that ends the run after that step."""

    def listen(event: Event) -> None:
        if isinstance(event, StepLogged) and event.step == step:
            raise Broken

    return listen


def stop_at(step: int) -> Any:
    """A listener that asks the run to stop after that step, as Ctrl+C does."""

    def listen(event: Event) -> None:
        if isinstance(event, StepTaken) and event.step == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return listen


@pytest.fixture
def begun(configure: Any, scenes_of: Any, tmp_path: Path) -> tuple[Any, Any, Path]:
    """A run that ended after step 11 of 20, with checkpoints of steps 4 and 8."""
    config = configure(SAVING)
    data, run = scenes_of(config), tmp_path / "run"
    with pytest.raises(Broken):
        train(config, run, shared=SharedParts(data), listen=broken_at(11))
    return config, data, run
