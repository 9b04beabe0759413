"""The linear part of a trained network: the regression, its units, and what a run makes of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scob.config import Config
from scob.inference.model import InferenceOptions, Scob
from scob.inference.onnx.export import export
from scob.labels import UNKNOWN
from scob.recovery.suggest import SuggestionLimits, recover
from scob.training.estimates import ranked_by
from scob.training.finished_run import FinishedRun
from scob.training.linear import PENALTIES, Fitted, Ridge, drawn_rows, fit_linear, like_logits, ridge
from scob.training.train import train

CPU = InferenceOptions(device="cpu")
FINISHED = ("method=pairs", "train.epochs=2", "data.evaluate=val", "train.holdout=0.25", "train.select=last")


def regression_on(features: torch.Tensor, labels: torch.Tensor, penalty: float) -> Callable[[torch.Tensor], Any]:
    """A ridge regression with an intercept, from its normal equations."""
    middle, shown = features.mean(dim=0), labels.mean(dim=0)
    x, y = features - middle, labels - shown
    weight = torch.linalg.solve(x.T @ x + penalty * torch.eye(x.shape[1], dtype=x.dtype), x.T @ y)
    return lambda other: (other - middle) @ weight + shown


@pytest.mark.parametrize("images", [12, 40])
def test_leave_one_out_predictions_are_those_of_regressions_without_the_image(images: int) -> None:
    """With more features than images as well."""
    random = torch.Generator().manual_seed(images)
    features = (
        torch.randn(images, 20, generator=random, dtype=torch.float64) @ torch.diag(torch.arange(1.0, 21)).double()
    )
    labels = (torch.rand(images, 3, generator=random) < 0.3).double()
    labels[:, 2] = 0  # a class that was never observed
    fit = ridge(features, labels)
    centred = features - features.mean(dim=0)
    unit = float(centred.square().sum()) / 20
    errors = {}
    for penalty in PENALTIES:
        others = []
        for image in range(images):
            rest = torch.arange(images) != image
            others.append(regression_on(features[rest], labels[rest], penalty * unit)(features[image]))
        if penalty == fit.penalty:
            # Centring the rest again changes the mean a little, which the closed form accounts for exactly.
            assert torch.allclose(fit.honest, torch.stack(others), atol=1e-8)
        errors[penalty] = float((labels - torch.stack(others)).square().mean())
    assert fit.penalty == min(errors, key=lambda penalty: errors[penalty])
    whole = regression_on(features, labels, fit.penalty * unit)(features)
    assert torch.allclose(features @ fit.weight + fit.bias, whole, atol=1e-8)
    assert torch.allclose(fit.honest[:, 2], torch.zeros(images, dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize("images", [1, 2, 9])
def test_features_that_say_nothing_give_finite_numbers(images: int) -> None:
    features, labels = torch.full((images, 4), 0.1).double(), torch.zeros(images, 2).double()
    labels[0, 0] = 1
    fit = ridge(features, labels)
    parts = like_logits(fit, torch.randn(images, 2).double())
    assert all(part.isfinite().all() for part in (fit.weight, fit.bias, fit.honest, *parts))


def test_the_predictions_get_mean_and_deviation_of_the_logits() -> None:
    honest = torch.rand(50, 3).double()
    honest[:, 1] = 0.25  # says nothing
    logits = 3 * torch.randn(50, 3).double() - 2
    weight, bias, scaled = like_logits(Ridge(torch.ones(4, 3).double(), torch.zeros(3).double(), honest, 1.0), logits)
    assert torch.allclose(scaled.mean(dim=0), logits.mean(dim=0))
    deviations = scaled.std(dim=0, correction=0)
    assert torch.allclose(deviations[[0, 2]], logits.std(dim=0, correction=0)[[0, 2]]) and deviations[1] < 1e-12
    assert torch.equal(weight[:, 1], torch.zeros(4).double()) and torch.allclose(bias[1], logits[:, 1].mean())


def test_few_images_are_all_used_and_many_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scob.training.linear.MOST", 10)
    assert drawn_rows(10, 0).tolist() == list(range(10))
    drawn = drawn_rows(30, 0)
    assert len(set(drawn.tolist())) == 10 and drawn.tolist() == sorted(drawn.tolist()) and drawn.max() < 30
    assert drawn.tolist() != drawn_rows(30, 1).tolist()


@pytest.mark.parametrize("most", [1000, 7])
@pytest.mark.parametrize("mirror", [False, True])
def test_what_the_fit_returns_are_the_scores_of_the_network(
    experiment_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, most: int, mirror: bool
) -> None:
    monkeypatch.setattr("scob.training.linear.MOST", most)
    e = experiment_of("method=role", "model.linear=true", f"train.flip_test={mirror}")
    head = e.scores("train")
    fitted = fit_linear(e)
    assert torch.allclose(fitted.scores, e.scores("train"), atol=1e-4)
    assert not torch.allclose(fitted.scores, head, atol=1e-2) and not torch.allclose(fitted.honest, head, atol=1e-3)


@pytest.fixture(scope="module")
def finished(configure: Callable[..., Config], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Fitted]:
    """A run of `pairs`, and what its fit returned."""
    returned: list[Fitted] = []

    def fit(*arguments: Any) -> Fitted:
        returned.append(fit_linear(*arguments))
        return returned[0]

    folder = tmp_path_factory.mktemp("linear") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scob.training.loop.fit_linear", fit)
        train(configure(*FINISHED), folder)
    return folder, returned[0]


def test_the_stored_model_has_it(finished: tuple[Path, Fitted], tmp_path: Path) -> None:
    folder, _ = finished
    model = Scob.from_pretrained(folder, "cpu")
    assert model.network.linear is not None and float(model.network.linear.share) == 0.5
    assert model.network.linear.weight.abs().sum() > 0
    assert export(folder, tmp_path / "model.onnx").difference < 1e-4


def test_unknown_labels_of_training_images_are_ranked_by_the_estimates(finished: tuple[Path, Fitted]) -> None:
    """Which are the honest scores, lowered as the model's were; held-out images have no other than the model's."""
    folder, fitted = finished
    run = FinishedRun.open(folder)
    images = run.images
    assert images.estimates is not None
    of_training = images.estimates[~images.held_out]
    shift = (torch.from_numpy(of_training).double().logit() - fitted.honest.double().logit()).median()
    expected = (fitted.honest.double().logit() + shift).sigmoid().numpy()
    assert shift < 0 and np.abs(of_training - expected).max() < 2e-3  # stored in 16 bits
    unknown = images.observed.values == UNKNOWN
    found = recover(folder, selection=SuggestionLimits(0.0), masks=False, running=CPU).suggestions
    row_of = {name: row for row, name in enumerate(images.observed.images)}
    column_of = {name: column for column, name in enumerate(images.observed.classes)}
    assert len(found) == unknown.sum()
    for suggestion in found[:: len(found) // 40]:
        row, column = row_of[suggestion.image], column_of[suggestion.label]
        estimate = images.estimates[row, column]
        assert np.isnan(estimate) == images.held_out[row]
        if not images.held_out[row]:
            assert suggestion.score == pytest.approx(float(estimate), abs=1e-6)


@pytest.mark.parametrize("split", ["train", "holdout"])
def test_a_finished_run_names_as_many_labels_as_expected(
    configure: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    monkeypatch.setattr("scob.training.run_data.ENOUGH", 10 if split == "holdout" else 1000)
    run = train(configure(*FINISHED), tmp_path / "run")
    stored = FinishedRun.open(tmp_path / "run")
    scores = stored.scores(split, "cpu")
    assert torch.allclose(scores, run.scores(split), atol=1e-5)
    assert float((scores > 0.5).sum(dim=1).float().mean()) == pytest.approx(stored.summary["k"], abs=0.5 / len(scores))


def test_without_a_linear_part_scores_rank(experiment_of: Callable[..., Any]) -> None:
    network = experiment_of("method=role").network
    scores, estimates = np.full((2, 3), 0.2, np.float32), np.full((2, 3), 0.9, np.float32)
    assert ranked_by(network, scores, estimates, np.zeros((2, 3), np.int8)) is scores


def test_memory_that_is_short_is_said_in_a_sentence(
    experiment_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from scob.errors import UserError

    def short(*_: Any) -> Ridge:
        raise MemoryError

    monkeypatch.setattr("scob.training.linear.ridge", short)
    with pytest.raises(UserError, match=r"pairs\.linear=false"):
        fit_linear(experiment_of("method=role", "model.linear=true"))
