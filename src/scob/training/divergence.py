"""Stop a run as soon as a loss is not finite, naming every loss and the likely cause."""

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from scob.algorithm.sampling import Batch
from scob.errors import UserError
from scob.training.build import Experiment
from scob.training.checkpoint import Progress, list_checkpoints


def check_finite(
    sums: Mapping[str, Tensor], progress: Progress, experiment: Experiment, checkpoints: Path, batch: Batch | None
) -> None:
    """A UserError if any sum of losses is not finite."""
    values = {name: float(total) for name, total in sums.items()}
    if all(math.isfinite(v) for v in values.values()):
        return
    count = max(1, progress.count)
    losses = ", ".join(f"{name}={value / count:g}" for name, value in values.items())
    saved = "nothing was saved yet"
    if list_checkpoints(checkpoints):
        saved = f"the last good checkpoint is kept in {checkpoints}"
    raise UserError(f"a loss is not finite at step {progress.step} ({losses}); {saved}. {cause(experiment, batch)}")


@torch.no_grad()
def cause(experiment: Experiment, batch: Batch | None) -> str:
    """The likely cause: features of the backbone that are not finite; else settings to try."""
    e = experiment
    if batch is not None and (batch.images is not None or e.source.cache is not None):
        features = e.method.clean_features(batch)
        bad = ~torch.stack([f.flatten(1).isfinite().all(dim=1) for f in features]).all(dim=0)
        rows = [int(row) for row in batch.rows[bad] if int(row) < e.plan.count]
        if rows:
            image = e.data.train.images.where(rows[0])
            return (
                f"The features of the backbone {e.config.model.backbone} are not finite for {len(rows)} of {len(bad)} "
                f"images, {image} among them: its weights are damaged, or they overflow in this precision. Get "
                "the weights again, or try train.precision=fp32"
            )
    return "Try a smaller train.lr_smt, a longer train.warmup, or train.precision=fp32"
