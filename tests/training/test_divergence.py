"""A loss that is not finite stops the run, names every loss and says what to try."""

from pathlib import Path
from typing import Any

import pytest
import torch

from scob.errors import UserError
from scob.training.checkpoint import Progress, latest_checkpoint, save_checkpoint
from scob.training.divergence import cause, check_finite
from scob.training.train import SharedParts, train
from support.runs import batches_of


def test_a_loss_that_is_not_finite_stops_the_run(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    config = configure("train.lr_smt=1e30", "train.warmup=0", "train.checkpoint_steps=1")
    with pytest.raises(UserError, match=r"not finite at step \d+ \(.*class=.*last good checkpoint") as caught:
        train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)))
    assert "nan" in str(caught.value) or "inf" in str(caught.value)
    assert not (tmp_path / "run" / "summary.json").exists()
    kept = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert kept is not None
    stopped = int(str(caught.value).split("at step ")[1].split()[0])
    assert 0 < kept.progress.step < stopped


def test_finite_losses_pass_and_others_are_all_named(experiment_of: Any, tmp_path: Path) -> None:
    e, progress = experiment_of(), Progress(step=12, count=4)
    check_finite({"class": torch.tensor(8.0)}, progress, e, tmp_path, None)
    sums = {"class": torch.tensor(8.0), "contrast": torch.tensor(torch.nan)}
    with pytest.raises(UserError, match=r"at step 12 \(class=2, contrast=nan\); nothing was saved yet\. Try a smaller"):
        check_finite(sums, progress, e, tmp_path, None)
    save_checkpoint(tmp_path, {"weights": torch.zeros(1)}, Progress(step=8))
    with pytest.raises(UserError, match="the last good checkpoint is kept in"):
        check_finite(sums, progress, e, tmp_path, None)


def test_images_whose_features_are_not_finite_are_counted_and_the_first_is_named(experiment_of: Any) -> None:
    e = experiment_of("train.feature_cache=host")
    batch = next(batches_of(e, 0))
    assert cause(e, batch).startswith("Try a smaller train.lr_smt")
    broken = int(batch.rows[2])
    for table in e.source.cache.maps:
        table[2 * broken : 2 * broken + 2] = torch.inf
    assert f"not finite for 1 of 8 images, {e.data.train.images.where(broken)} among them" in cause(e, batch)
