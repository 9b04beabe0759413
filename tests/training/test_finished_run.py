"""A finished run opened again."""

import numpy as np

from scob.data.readers import open_split
from scob.training.finished_run import FinishedRun
from support.small_model import Small


def test_a_run_knows_its_images_again(small: Small) -> None:
    run = FinishedRun.open(small.run)
    images = run.images
    assert images.observed == run.folder.labels() and images.held_out.sum() == 19
    assert images.estimates is not None
    assert (np.isnan(images.estimates).all(axis=1) == images.held_out).all()
    source = open_split("scenes:96x64", "train")
    assert all((images.split.images.load(i) == source.images.load(i)).all() for i in (0, 40, 95))
