"""A loss that is not finite stops the run, names every loss and says what to try."""

from pathlib import Path
from typing import Any

import pytest

from scob.errors import UserError
from scob.training.checkpoint import latest_checkpoint
from scob.training.train import Shared, train


def test_a_loss_that_is_not_finite_stops_the_run(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    config = configure("train.lr_smt=1e30", "train.warmup=0", "train.checkpoint_steps=1")
    with pytest.raises(UserError, match=r"not finite at step \d+ \(.*class=.*last good checkpoint") as caught:
        train(config, tmp_path / "run", shared=Shared(scenes_of(config)))
    assert "nan" in str(caught.value) or "inf" in str(caught.value)
    assert not (tmp_path / "run" / "summary.json").exists()
    kept = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert kept is not None
    stopped = int(str(caught.value).split("at step ")[1].split()[0])
    assert 0 < kept.progress.step < stopped
