"""The loop: it can fit, evaluates when it should, and keeps the epoch that the rule names."""

import json
from typing import Any

import numpy as np
import pytest

from scob.training.metrics import mean_average_precision
from support.runs import step_epoch


@pytest.mark.parametrize("method", ["full", pytest.param("scob", marks=pytest.mark.slow)])
def test_full_labels_of_32_scenes_can_be_learnt_by_heart(experiment_of: Any, method: str) -> None:
    e = experiment_of(
        f"method={method}", "labels.kind=full", "data.source=scenes:32x64", "model.dropout=0", "train.epochs=60",
        "train.lr_smt=5e-3", "train.lr_other=2e-2", "train.feature_cache=device", "model.width=64",
    )  # fmt: skip
    reached = 0.0
    for epoch in range(60):
        step_epoch(e, epoch)
        if epoch % 5 == 4:
            scores = e.scores("train")
            reached = mean_average_precision(scores, e.data.train.labels.values)
        if reached == 100:
            break
    assert reached == pytest.approx(100)


@pytest.mark.parametrize(("select", "figure"), [("last", None), ("holdout", "mAP-observed"), ("best-on-test", "mAP")])
def test_the_chosen_epoch_is_the_one_the_rule_names(run_small: Any, select: str, figure: str | None) -> None:
    run = run_small("train.holdout=0.25", "data.evaluate=val", "data.source=scenes:64x64", f"train.select={select}")
    summary = json.loads((run / "summary.json").read_text())
    curve = summary["curve"]
    assert [c["epoch"] for c in curve] == [0, 1, 2, 3]
    expected = 3 if figure is None else int(np.argmax([c[figure] for c in curve]))
    assert summary["selected_epoch"] == expected
    assert summary["evaluation"]["mAP"] == pytest.approx(curve[expected]["mAP"], abs=1e-4)
    assert summary["select"] == select
