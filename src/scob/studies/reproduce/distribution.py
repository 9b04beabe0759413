"""fig-distribution: what ROLE and Scob predict in each epoch for the unknown true negatives of the training set."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from scob.config import merge
from scob.inference import plots
from scob.labels import ABSENT, UNKNOWN
from scob.studies.reproduce import figures, variants
from scob.studies.reproduce.lab import ReproductionRequest, VariantRun
from scob.studies.reproduce.paper import paper_figure
from scob.studies.reproduce.report import Cell, Column, Report, write_report
from scob.studies.reproduce.variants import Variant
from scob.training.loop import Training
from scob.training.metrics import Array, checked

BINS = 50


class Watched(Training):
    """A run that also logs, at each evaluation, the distribution of its predictions for unknown true negatives.

    It uses the run's own log, so that a resumed run logs each epoch once.
    """

    def evaluate(self) -> dict[str, float | None]:
        d = self.experiment.data
        shares = unknown_negative_shares(self.scores("train"), d.observed.values, d.train.labels.values, BINS)
        self.write({"kind": "distribution", "epoch": self.progress.epoch, "shares": shares.tolist()})
        return super().evaluate()


def unknown_negative_shares(scores: Array, observed: Array, truth: Array, bins: int = BINS) -> NDArray[np.float64]:
    """One column of fig-distribution, (bins,): the distribution of predictions for unknown true negatives."""
    s, t = checked(scores, truth)
    _, seen = checked(scores, observed)
    probabilities = s[(seen == UNKNOWN) & (t == ABSENT)].double()
    counts = torch.bincount((probabilities * bins).long().clamp(max=bins - 1), minlength=bins).double()
    return np.asarray((counts / max(1, len(probabilities))).cpu().numpy(), dtype=np.float64)


def shares_of(outcome: VariantRun) -> NDArray[np.float64]:
    """(epochs, BINS) from a watched run's log."""
    return np.array([record["shares"] for record in outcome.run.records("distribution")], dtype=np.float64)


def every_epoch(variant: Variant) -> Variant:
    """The same run, evaluated after each epoch: the map has one column per epoch."""
    return replace(variant, changes=merge(variant.changes, {"train": {"evaluate_every": 1}}))


def fig_distribution(request: ReproductionRequest) -> list[Path]:
    """ROLE on the left, Scob on the right; the numbers behind the maps are in the JSON file."""
    lab = request.lab
    outcomes = {
        name: lab.run(every_epoch(variant), loop=Watched)
        for name, variant in (("ROLE", variants.ROLE), ("Scob", variants.SCOB))
    }
    full = [lab.run(variants.FULL)] if lab.reports else []
    shares = {name: shares_of(outcome) for name, outcome in outcomes.items()}
    paper = paper_figure("fig-distribution")
    title = f"Unknown true negatives of the training set, {lab.title}"
    rows: list[dict[str, Cell]] = []
    for name, by_epoch in shares.items():
        low = by_epoch[:, : BINS // 10].sum(axis=1)
        for epoch, line in enumerate(by_epoch):
            rows.append(
                {
                    "method": name,
                    "epoch": epoch + 1,
                    "below 0.1": 100 * float(low[epoch]),
                    "above 0.5": 100 * float(line[BINS // 2 :].sum()),
                }
            )
    columns = (
        Column("method", "Method"),
        Column("epoch", "Epoch"),
        Column("below 0.1", "Predicted below 0.1", 1, "%"),
        Column("above 0.5", "Predicted 0.5 or more", 1, "%"),
    )
    used = lab.used([*outcomes.values(), *full])
    for name, outcome in (*outcomes.items(), *(("full labels", o) for o in full)):
        if lab.reports:
            used[f"mAP of {name}"] = f"{outcome.mAP:.1f}"
    report = Report("fig-distribution", paper.title, columns, tuple(rows), paper.claim_notes, used)
    figure = figures.distribution_maps(shares, title)
    return [*plots.save_figure(figure, request.out / "fig-distribution"), *write_report(report, request.out)]
