"""Every image is scored once, in any batch size and by any number of processes."""

from typing import Any

import numpy as np
import pytest
import torch

from scob.parallel import Processes
from scob.training.out_of_memory import FittingBatch
from scob.training.scoring import row_batches, score_images


def test_every_image_is_scored_once_in_any_batch_size(experiment_of: Any) -> None:
    e = experiment_of()
    feed, count = e.inputs.feeds["train"], len(e.data.train)
    expected = score_images(e.network, e.source, feed, 64)
    assert expected.shape == (count, len(e.data.observed.classes))
    assert score_images(e.network, e.source, feed, 7).numpy() == pytest.approx(expected.numpy(), abs=1e-5)
    mirrored = score_images(e.network, e.source, feed, 64, mirror=True)
    assert not np.allclose(mirrored, expected, atol=1e-4)


@pytest.mark.parametrize(("count", "batch", "processes"), [(10, 3, 1), (10, 4, 3), (2, 8, 3), (0, 4, 2), (9, 1, 2)])
def test_rows_are_dealt_once_each_and_in_order(count: int, batch: int, processes: int) -> None:
    shares = [list(row_batches(count, batch, rank, processes)) for rank in range(processes)]
    assert [int(row) for share in shares for rows in share for row in rows] == list(range(count))
    assert all(0 < len(rows) <= batch for share in shares for rows in share)


def test_several_processes_give_the_scores_of_one(experiment_of: Any) -> None:
    e = experiment_of()
    feed = e.inputs.feeds["train"]
    expected = score_images(e.network, e.source, feed, 16)
    parts: list[torch.Tensor] = []

    def keep(rows: torch.Tensor) -> torch.Tensor:
        parts.append(rows)
        return torch.cat(parts)

    for rank in range(3):  # 40 images: shares of 14, 14 and 12, the last one padded
        processes = Processes()
        processes.count, processes.rank, processes.concatenate = 3, rank, keep  # type: ignore[method-assign]
        scores = score_images(e.network, e.source, feed, 16, processes=processes)
    assert [len(part) for part in parts] == [14, 14, 14]
    assert scores.numpy() == pytest.approx(expected.numpy(), abs=1e-5)


def test_progress_counts_images_and_the_mode_of_the_network_is_restored(experiment_of: Any) -> None:
    e = experiment_of("train.feature_cache=host")
    counts: list[int] = []
    e.network.train()
    score_images(e.network, e.source, e.inputs.feeds["train"], 16, progress=counts.append)
    assert counts == [16, 16, 8] and e.network.training


def test_a_batch_that_does_not_fit_is_scored_in_halves(experiment_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    e, events = experiment_of(), []
    feed = e.inputs.feeds["train"]
    expected = score_images(e.network, e.source, feed, 16)
    classify = e.network.classify

    def short(features: Any, *args: Any) -> torch.Tensor:
        if len(features[0]) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return classify(features, *args)

    monkeypatch.setattr(e.network, "classify", short)
    scores = score_images(e.network, e.source, feed, FittingBatch(16, events.append))
    assert scores.numpy() == pytest.approx(expected.numpy(), abs=1e-5)
    assert [event.message for event in events] == [
        f"memory is short: images are now scored {count} at a time" for count in (8, 4)
    ]
