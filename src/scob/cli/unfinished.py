"""What to know about a model that comes from a run that is not finished."""

from pathlib import Path

from scob.cli.console import note, prints


def say_if_unfinished(model: Path) -> None:
    """Say which epoch a stopped run is used at. Its model folder is written now, if it is not there."""
    from scob.training.find_model import find_model

    if (remark := find_model(model).remark) and prints():
        note(remark)
