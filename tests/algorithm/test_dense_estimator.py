"""The dense estimator: what torch's Adam makes of the whole table, though a step touches only the batch's rows."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from scob.algorithm.dense_estimator import DenseEstimator
from scob.algorithm.estimator import Estimator
from scob.model.row_tables import RowStorage


def labels(images: int, classes: int) -> Tensor:
    """One positive per image, and a row of padding."""
    values = torch.zeros(images + 1, classes, dtype=torch.int8)
    values[torch.arange(images), torch.arange(images) % classes] = 1
    return values


def make(images: int, classes: int, kind: type[Estimator] = DenseEstimator, **how: RowStorage) -> Estimator:
    return kind(labels(images, classes), torch.arange(images + 1) * 7919, 0, **how)


def drawn(images: int, batch: int, epochs: int) -> Iterator[Tensor]:
    """Batches as training draws them: every image once in an epoch."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        yield from torch.randperm(images, generator=generator).split(batch)


class DenseAdam:
    """torch.optim.Adam over a copy of the whole table."""

    def __init__(self, table: Tensor) -> None:
        self.table = nn.Parameter(table.clone())
        self.adam = torch.optim.Adam([self.table])

    def move(self, index: Tensor, gradient: Tensor, rate: float) -> None:
        self.adam.param_groups[0]["lr"] = rate
        self.table.grad = torch.zeros_like(self.table)
        self.table.grad[index] = gradient
        self.adam.step()


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-4, 1e-6, 1e-8])
def test_it_is_a_dense_adam(scale: float) -> None:
    """400 steps, with batches drawn by epoch, the last of each smaller; L_class gives gradients of about 1e-3."""
    estimator = make(158, 5)
    dense = DenseAdam(estimator.logits)
    generator = torch.Generator().manual_seed(1)
    for index in drawn(158, 8, 20):
        assert torch.allclose(estimator.rows(index), dense.table[index], atol=5e-5)
        gradient = scale * torch.randn(len(index), 5, generator=generator)
        estimator.move(index, gradient, 0.01)
        dense.move(index, gradient, 0.01)
    assert torch.allclose(estimator.probabilities(), dense.table[:-1].sigmoid(), atol=1e-5)
    assert not torch.allclose(estimator.logits, dense.table, atol=1e-3)  # rows lie where their last visits left them


def test_an_image_that_was_not_seen_for_long_has_stopped_where_adam_leaves_it() -> None:
    estimator, gradient = make(3, 4), torch.ones(1, 4)
    dense = DenseAdam(estimator.logits)
    for step in range(700):
        index = torch.tensor([0 if step == 20 else 1])
        estimator.move(index, gradient, 0.01)
        dense.move(index, gradient, 0.01)
    assert torch.allclose(estimator.rows(torch.tensor([0, 1, 2])), dense.table[:3], atol=2e-5)
    moved = (estimator.probabilities() - make(3, 4).probabilities()).abs().amax(dim=1)
    assert moved[0] > 0.01 and moved[2] == 0  # never seen: never moved


def test_under_a_schedule_the_steps_after_a_visit_use_its_rate() -> None:
    """An error of a few steps' change of rate: under a cosine over 400 steps, a hundredth of the way."""
    estimator = make(160, 5)
    dense, start = DenseAdam(estimator.logits), estimator.logits.clone()
    generator = torch.Generator().manual_seed(1)
    for step, index in enumerate(drawn(160, 8, 20)):
        rate = 0.005 * (1 + torch.cos(torch.tensor(step * torch.pi / 400)).item())
        gradient = 1e-3 * torch.randn(8, 5, generator=generator)
        estimator.move(index, gradient, rate)
        dense.move(index, gradient, rate)
    moved = (dense.table[:-1] - start[:-1]).abs().mean()
    missed = (torch.logit(estimator.probabilities()) - dense.table[:-1]).abs().mean()
    assert missed < 0.05 * moved


def test_it_follows_a_fixed_prediction_as_a_dense_adam_does_and_a_row_wise_adam_at_the_same_rate_does_not() -> None:
    """30 epochs of 250 steps at the paper's rate; the gradient is that of the estimate's BCE against the prediction."""
    images, classes, batch, rate = 1000, 4, 4, 0.01
    rows, lazy = make(images, classes, Estimator), make(images, classes)
    dense = DenseAdam(lazy.logits)
    generator = torch.Generator().manual_seed(2)
    prediction = torch.where(torch.rand(images, classes, generator=generator) < 0.3, 0.97, 0.03)
    unknown = labels(images, classes)[:-1] == 0

    def distance(estimates: Tensor) -> float:
        return float((estimates - prediction)[unknown].abs().mean())

    before = distance(lazy.probabilities())
    for index in drawn(images, batch, 30):
        target = prediction[index]
        for estimator in (rows, lazy):
            estimator.move(index, (estimator.rows(index).detach().sigmoid() - target) / (2 * classes), rate)
        dense.move(index, (dense.table[index].detach().sigmoid() - target) / (2 * classes), rate)
    assert before == pytest.approx(0.47, abs=0.01)
    assert distance(dense.table[:-1].detach().sigmoid()) < 0.04
    assert distance(lazy.probabilities()) == pytest.approx(distance(dense.table[:-1].detach().sigmoid()), abs=1e-4)
    assert distance(rows.probabilities()) > 0.38


def test_a_step_touches_only_the_rows_of_its_batch() -> None:
    estimator = make(6, 4)
    before = {name: table.clone() for name, table in estimator.named_buffers()}
    estimator.move(torch.tensor([4, 1]), torch.randn(2, 4), 0.01)
    for name, table in estimator.named_buffers():
        if name == "step":
            assert table == 1
        else:
            others = torch.tensor([0, 2, 3, 5, 6])
            assert torch.equal(table[others], before[name][others]), name
            assert not torch.equal(table[[1, 4]], before[name][[1, 4]]), name


def test_padding_may_repeat_and_stays() -> None:
    estimator = make(6, 4)
    before = estimator.logits[6].clone()
    for _ in range(3):
        estimator.move(torch.tensor([1, 6, 6]), torch.cat((torch.ones(1, 4), torch.zeros(2, 4))), 0.01)
    assert torch.equal(estimator.rows(torch.tensor([6]))[0].detach(), before)
    assert torch.isfinite(estimator.probabilities()).all()


def test_it_continues_from_its_buffers() -> None:
    one = make(20, 4)
    batches = list(drawn(20, 4, 4))
    for index in batches[:11]:
        one.move(index, torch.ones(4, 4), 0.01)
    other = make(20, 4)
    other.load_state_dict(one.state_dict())
    for estimator in (one, other):
        for index in batches[11:]:
            estimator.move(index, torch.ones(4, 4), 0.01)
    assert all(torch.equal(a, b) for a, b in zip(one.buffers(), other.buffers(), strict=True))


def test_its_tables_may_be_mapped_files(tmp_path: Path) -> None:
    plain, mapped = make(20, 4), make(20, 4, storage=RowStorage("disk", tmp_path))
    for index in drawn(20, 4, 3):
        for estimator in (plain, mapped):
            estimator.move(index, torch.ones(4, 4), 0.01)
    assert torch.equal(plain.probabilities(), mapped.probabilities())
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        f"estimator-{name}.rows" for name in ("first", "last", "logits", "rates", "second")
    ]
