"""The linear classifier in runs that stop, resume or are extended, with few images, little memory, two processes."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from scob.algorithm.kept_logits import KeptLogits
from scob.labels import UNKNOWN
from scob.parallel import Processes
from scob.training import linear
from scob.training.events import Event, Working
from scob.training.finished_run import FinishedRun
from scob.training.linear import drawn_rows, fit_linear, like_logits, ridge
from scob.training.loop import SCORING
from scob.training.model_folder import load_network
from scob.training.stopping import Interrupted
from scob.training.train import SharedParts, train
from support.interrupted import stop_at

PAIRS = ("method=pairs", "train.epochs=2", "train.select=last")


@pytest.fixture
def problem() -> tuple[Tensor, Tensor]:
    """Features (25, 7) and labels (25, 4): two classes that depend on them, one that never is, one that always is."""
    torch.manual_seed(0)
    features = torch.randn(25, 7, dtype=torch.float64) + 3
    labels = torch.stack((features[:, 0] > 3, features[:, 1] + features[:, 2] > 7), dim=1).double()
    return features, torch.cat((labels, torch.zeros(25, 1), torch.ones(25, 1)), dim=1).double()


@pytest.mark.parametrize("images", [1, 2, 3, 7])
@pytest.mark.parametrize("value", [0.0, 0.3, 1e4])
def test_features_that_are_all_the_same_get_no_weight(images: int, value: float) -> None:
    labels = torch.eye(images, 4)
    logits = torch.randn(images, 4, dtype=torch.float64)
    weight, bias, honest = like_logits(ridge(torch.full((images, 6), value), labels), logits)
    assert all(part.isfinite().all() for part in (weight, bias, honest))
    assert float((weight.T @ torch.full((6,), value, dtype=torch.float64)).abs().max()) < 1e-3
    assert torch.allclose(bias, logits.mean(dim=0), atol=1e-3)


@pytest.mark.parametrize("images", [1, 2])
def test_one_or_two_images_are_enough(images: int) -> None:
    torch.manual_seed(0)
    parts = like_logits(ridge(torch.rand(images, 6), torch.eye(images, 4)), torch.randn(images, 4).double())
    assert all(part.isfinite().all() for part in parts)


def test_channels_that_differ_by_rounding_alone_are_not_blown_up() -> None:
    assert linear.deviation(torch.full((7, 5), 0.3, dtype=torch.float64)) == 1
    assert linear.deviation(torch.zeros(3, 5)) == 1
    assert linear.deviation(torch.tensor([[1.0, 2.0], [3.0, 2.0]])) == pytest.approx(0.5**0.5)


@pytest.mark.parametrize("words", [(), ("train.precision=fp64",), ("model.freeze=none",), ("train.flip_test=true",),
                                   ("method=an",), ("method=ssgrl",), ("method=pairs", "model.head=cnn")])  # fmt: skip
def test_the_network_scores_what_the_fit_says(experiment_of: Callable[..., Any], words: tuple[str, ...]) -> None:
    e = experiment_of("model.linear=true", *words)
    fitted = fit_linear(e)
    assert e.network.linear is not None and float(e.network.linear.share) == 0.5
    assert e.network.linear.weight.any() and fitted.scores.std() > 1e-3
    assert torch.allclose(e.scores("train"), fitted.scores, atol=1e-4)
    assert not torch.allclose(fitted.honest, fitted.scores, atol=1e-3)


def test_images_beyond_the_most_are_scored_without_being_fitted(
    experiment_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "MOST", 25)
    e = experiment_of("model.linear=true")
    rows = drawn_rows(40, e.config.train.seed)
    assert len(set(rows)) == 25 and list(rows) == sorted(rows)
    fitted = fit_linear(e)
    scores = e.scores("train")
    assert torch.allclose(scores, fitted.scores, atol=1e-4)
    others = np.setdiff1d(np.arange(40), rows)
    e.network.linear.share.fill_(linear.HONEST)
    assert torch.allclose(e.scores("train")[others], fitted.honest[others], atol=1e-4)
    assert not torch.allclose(e.scores("train")[rows], fitted.honest[rows], atol=1e-3)


def test_all_processes_get_what_the_first_has_computed(
    experiment_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first solves; what it copies to the others is all of the linear part, and both tables."""
    e = experiment_of("model.linear=true")
    copied: list[Tensor] = []
    monkeypatch.setattr(Processes, "copy_first", lambda self, tensors: copied.extend(t.clone() for t in tensors))
    fitted = fit_linear(e)
    state = {name: value for name, value in e.network.linear.state_dict().items() if name != "share"}
    assert all(any(torch.equal(value, sent) for sent in copied) for value in state.values())
    assert torch.equal(copied[-2], fitted.scores) and torch.equal(copied[-1], fitted.honest)
    e.processes.rank = 1
    monkeypatch.setattr(linear, "solve", lambda *args: pytest.fail("only the first process solves"))
    fit_linear(e)


def test_a_gpu_that_is_too_small_leaves_it_to_the_cpu(
    monkeypatch: pytest.MonkeyPatch, problem: tuple[Tensor, Tensor]
) -> None:
    features, labels = problem
    logits, calls = torch.randn(25, 4, dtype=torch.float64), []

    def small(*args: Tensor) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return ridge(*args)

    monkeypatch.setattr(linear, "ridge", small)
    monkeypatch.setattr(Tensor, "to", lambda self, *args, **kwargs: self)
    found = linear.solve(features, labels, logits, torch.device("cuda"))
    monkeypatch.undo()
    assert len(calls) == 2
    for one, other in zip(found, like_logits(ridge(features, labels), logits), strict=True):
        assert torch.equal(one, other)


def test_a_stop_is_heard_while_it_is_computed_and_the_run_resumes_to_the_same_bits(
    configure: Any, scenes_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure(*PAIRS)
    shared = SharedParts(scenes_of(config))
    train(config, tmp_path / "whole", shared=shared)
    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", shared=shared, listen=stop_at(7))
    monkeypatch.setattr("scob.training.loop.fit_linear", stopped := Stopped())
    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", resume=True, shared=shared)
    assert stopped.called
    monkeypatch.undo()
    train(config, tmp_path / "run", resume=True, shared=shared)
    for file in ("model/model.safetensors", "estimates.safetensors"):
        assert (tmp_path / "run" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


@pytest.mark.parametrize("epochs", [0, 1, 2, 3])
def test_labels_are_ranked_by_the_logits_at_the_end_of_the_likelihood_and_of_the_run(
    configure: Any, scenes_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int
) -> None:
    """Two epochs: with one of likelihood, another follows; with two, the early logits are the final ones."""
    config = configure(*PAIRS, f"pairs.epochs={epochs}")
    honest: list[Tensor] = []
    early: list[Tensor] = []

    def fitted(*args: Any) -> Any:
        fit = fit_linear(*args)
        honest.append(fit.honest.logit())
        return fit

    def keep(kept: KeptLogits, scores: Tensor) -> None:
        early.append(scores.logit())
        kept_as_usual(kept, scores)

    kept_as_usual = KeptLogits.keep
    monkeypatch.setattr("scob.training.loop.fit_linear", fitted)
    monkeypatch.setattr(KeptLogits, "keep", keep)
    run = train(config, tmp_path, shared=SharedParts(scenes_of(config)))
    assert len(early) == (epochs in (1, 2))
    expected = (honest[0] + early[0]) / 2 if epochs == 1 else honest[0]
    observed = run.data.observed
    ranked = torch.from_numpy(run.recovered())
    unknown = torch.from_numpy(observed.values == UNKNOWN)
    lowered = expected[unknown] - ranked[unknown].logit()
    assert torch.allclose(lowered, lowered.mean(), atol=0.02)  # one number, and the rounding of the stored estimates


def stop_while_scoring(event: Event) -> None:
    """Ask the run to stop while it computes the early logits."""
    if isinstance(event, Working) and event.what == SCORING["train"]:
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("listen", [stop_at(2), stop_while_scoring, stop_at(7)], ids=["before", "meanwhile", "after"])
def test_the_early_logits_survive_a_stop(configure: Any, scenes_of: Any, tmp_path: Path, listen: Any) -> None:
    config = configure(*PAIRS, "pairs.epochs=1", "data.evaluate=val", "train.evaluate_every=1")
    shared = SharedParts(scenes_of(config))
    whole = train(config, tmp_path / "whole", shared=shared)
    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", shared=shared, listen=listen)
    run = train(config, tmp_path / "run", resume=True, shared=shared)
    estimates = [(tmp_path / name / "estimates.safetensors").read_bytes() for name in ("run", "whole")]
    assert estimates[0] == estimates[1]
    assert [point["epoch"] for point in run.curve] == [0, 1] == [point["epoch"] for point in whole.curve]


class Stopped:
    """A stop that arrives while the images are read."""

    called = False

    def __call__(self, experiment: Any, progress: Callable[[int], None], batch: Any) -> Any:
        import os
        import signal

        self.called = True
        os.kill(os.getpid(), signal.SIGTERM)
        return fit_linear(experiment, progress, batch)


def test_a_finished_run_is_extended_without_its_linear_part(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    """Its last checkpoint is of the head alone, and the linear part is computed anew."""
    short, long = configure(*PAIRS), configure(*PAIRS, "train.epochs=3", "train.schedule=constant")
    short.train.schedule = "constant"
    shared = SharedParts(scenes_of(short))
    train(short, tmp_path / "run", shared=shared)
    train(long, tmp_path / "run", resume=True, shared=shared)
    run = FinishedRun.open(tmp_path / "run")
    assert run.summary["epochs"] == 3
    network, card = load_network(run.model)
    assert card.model["linear"] is True and network.linear is not None and float(network.linear.share) == 0.5


def test_a_model_of_a_stopped_run_is_the_heads(configure: Any, scenes_of: Any, tmp_path: Path) -> None:
    config = configure(*PAIRS)
    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", shared=SharedParts(scenes_of(config)), listen=stop_at(7))
    network, _ = load_network(FinishedRun.open(tmp_path / "run").model)
    assert network.linear is not None and float(network.linear.share) == 0 and not network.linear.weight.any()
