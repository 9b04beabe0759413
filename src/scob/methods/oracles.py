"""Oracles: what a method would reach if it knew labels that it may not see. They show where the distance to full lies.

Three questions about the unknown labels of the training images, each a method (docs/oracles.md): what
if no positive were ever mistaken for a negative, what if some of the unknown labels were known, and what if the
label estimator made no mistake after the first epoch? An entry that the data set itself leaves unknown has no cost.
"""

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from scob.algorithm.label_estimation import LabelEstimation
from scob.algorithm.method import LossMethod, Method, Optimiser, Problem
from scob.algorithm.sampling import Batch
from scob.config import Config, Section, setting
from scob.draws import seed_key, uniform
from scob.methods.entries import absent_cost, over_images, present_cost
from scob.model.features import FeatureSource
from scob.model.network import Network

ABSENT, LEFT_OUT, POSITIVES_LEFT_OUT = "absent", "left-out", "positives-left-out"


def bce_of(labels: Tensor, logits: Tensor, weight: Tensor) -> Tensor:
    """BCE against labels (B, L) in {-1, 0, 1}; an entry with 0 costs nothing."""
    known = torch.where(labels == 1, present_cost(logits), absent_cost(logits))
    return over_images(torch.where(labels == 0, 0.0, known), weight)


def nothing_to_tell(method: Method) -> tuple[str, ...]:
    """A remark if the data set knows no more than the method may see anyway."""
    truth = method.problem.truth
    assert truth is not None
    if bool(((truth != 0) & (method.problem.observed == 0)).any()):
        return ()
    return (f"{method.title}: the data set has no label that is not observed, so there is nothing to tell the oracle",)


class OracleNegatives(LossMethod):
    """Oracle: uses labels that no method may see. True negatives are known; unknown positives are left out."""

    name: ClassVar[str] = "oracle-negatives"
    title: ClassVar[str] = "Oracle, true negatives"
    labels = "oracle"
    capturable = True

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        assert self.problem.truth is not None
        negatives = self.problem.truth[batch.rows].clamp(max=0)
        return {"bce": bce_of(torch.where(observed == 0, negatives, observed), logits, batch.weight)}

    def remarks(self) -> tuple[str, ...]:
        return nothing_to_tell(self)


class OracleShareSettings(Section):
    """Unknown labels replaced by their truth."""

    probability: float = setting(0.5, "probability that an unknown label is replaced by its truth", None, ge=0, le=1)
    rest: Literal["absent", "left-out", "positives-left-out"] = setting(
        ABSENT, "the other unknown labels; absent: assumed negative; left-out: no cost; positives-left-out: the "
        "positives among them have no cost, the negatives are known", None,
    )  # fmt: skip


class OracleShare(LossMethod):
    """Oracle: uses labels that no method may see. Unknown labels are replaced by their truth with a probability."""

    name: ClassVar[str] = "oracle-share"
    title: ClassVar[str] = "Oracle, a share of labels"
    labels = "oracle"
    Settings: ClassVar[type[Section]] = OracleShareSettings
    settings: OracleShareSettings
    capturable = True
    told: Tensor

    def __init__(
        self, network: Network, problem: Problem, source: FeatureSource, config: Config, settings: Any
    ) -> None:
        super().__init__(network, problem, source, config, settings)
        draws = uniform(problem.keys, seed_key(problem.seed, "oracle"), len(problem.classes))
        self.register_buffer("told", draws < self.settings.probability)

    def targets(self, rows: Tensor, observed: Tensor) -> Tensor:
        """The labels to learn from, in {-1, 0, 1}, 0 for none: rows (B,), observed (B, L) -> (B, L)."""
        assert self.problem.truth is not None
        truth = self.problem.truth[rows]
        if self.settings.rest == ABSENT:
            rest = torch.full_like(truth, -1)
        elif self.settings.rest == LEFT_OUT:
            rest = torch.zeros_like(truth)
        else:
            rest = truth.clamp(max=0)
        return torch.where(observed == 0, torch.where(self.told[rows], truth, rest), observed)

    def losses(self, logits: Tensor, observed: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"bce": bce_of(self.targets(batch.rows, observed), logits, batch.weight)}

    def remarks(self) -> tuple[str, ...]:
        return nothing_to_tell(self)


class OracleEstimatorSettings(Section):
    """A label estimator that knows the truth."""

    begin: int = setting(1, "first epoch (counted from 0) with the true labels", None, ge=0)
    before: Literal["role", "absent"] = setting(
        "role", "the epochs before; role: L_class with label estimates; absent: unknown labels count as absent", None
    )


class OracleEstimator(LabelEstimation):
    """Oracle: uses labels that no method may see. From the second epoch on, the label estimates are the truth."""

    name: ClassVar[str] = "oracle-estimator"
    title: ClassVar[str] = "Oracle, perfect estimator"
    labels = "oracle"
    Settings: ClassVar[type[Section]] = OracleEstimatorSettings
    settings: OracleEstimatorSettings

    def phase(self, epoch: int) -> str:
        return f"true {epoch >= self.settings.begin}"

    def step(self, batch: Batch, optimiser: Optimiser) -> dict[str, Tensor]:
        knows = batch.epoch >= self.settings.begin
        if not knows and self.settings.before == "role":
            return self.class_step(batch, optimiser)
        assert self.problem.truth is not None
        observed = self.observed(batch)
        unknown = self.problem.truth[batch.rows] if knows else torch.full_like(observed, -1)
        labels = torch.where(observed == 0, unknown, observed)
        loss = bce_of(labels, self.logits(self.clean_features(batch)), batch.weight)
        optimiser.step(loss)
        return {"class": loss.detach()}

    def remarks(self) -> tuple[str, ...]:
        return nothing_to_tell(self)

    def estimates(self) -> Tensor | None:
        """None: the estimates of the first epochs are of no use to anybody."""
        return None
