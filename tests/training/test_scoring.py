"""Every image is scored once, in any batch size and by any number of processes."""

from typing import Any

import numpy as np
import pytest

from scob.training.scoring import score_images


def test_every_image_is_scored_once_whatever_the_batch(experiment_of: Any) -> None:
    e = experiment_of()
    feed, count = e.inputs.feeds["train"], len(e.data.train)
    whole = score_images(e.network, e.source, feed, 64)
    assert whole.shape == (count, len(e.data.observed.classes))
    assert score_images(e.network, e.source, feed, 7).numpy() == pytest.approx(whole.numpy(), abs=1e-5)
    mirrored = score_images(e.network, e.source, feed, 64, mirror=True)
    assert not np.allclose(mirrored, whole, atol=1e-4)
