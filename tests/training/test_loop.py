"""The loop: it can fit, logs and evaluates when it should, and keeps the epoch that the rule names."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scob.parallel import Processes
from scob.training.loop import Training
from scob.training.metrics import mean_average_precision
from scob.training.run_folder import RunFolder
from scob.training.stopping import agree
from support.runs import logged, step_epoch


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


@pytest.mark.parametrize("preset", ["paper", "released"])
def test_a_preset_trains_on_every_image_and_chooses_the_epoch_on_the_reported_split(
    run_small: Any, preset: str
) -> None:
    run = run_small(f"preset={preset}", "data.evaluate=val", "data.source=scenes:64x64")
    summary = json.loads((run / "summary.json").read_text())
    assert summary["train_images"] == 64
    assert summary["selected_epoch"] == int(np.argmax([c["mAP"] for c in summary["curve"]]))
    assert all("holdout" not in c for c in summary["curve"])


def test_without_a_reported_split_a_preset_keeps_the_last_epoch(run_small: Any) -> None:
    summary = json.loads((run_small("preset=paper") / "summary.json").read_text())
    assert summary["selected_epoch"] == 3


def test_the_last_epoch_is_evaluated_even_if_it_is_not_due(run_small: Any) -> None:
    run = run_small("data.evaluate=val", "train.evaluate_every=3")
    curve = json.loads((run / "summary.json").read_text())["curve"]
    assert [point["epoch"] for point in curve] == [2, 3]


def test_a_log_line_has_the_mean_losses_since_the_last_one(run_small: Any) -> None:
    each = logged(run_small(), "class")
    grouped = logged(run_small("train.log_every=5"), "class")
    assert grouped == pytest.approx([np.mean(each[n : n + 5]) for n in range(0, 20, 5)], rel=1e-5)


def test_the_first_log_line_has_the_true_rate(run_small: Any) -> None:
    rates = logged(run_small("method=role", "train.log_every=5"), "images_per_second")
    assert rates[0] < 2.5 * min(rates[1:])  # it was five times too high: five steps, divided by the time of one


def test_batches_have_the_images_that_their_rows_name(experiment_of: Any, tmp_path: Path) -> None:
    training = Training(experiment_of(), RunFolder(tmp_path))
    e = training.experiment
    try:
        steps = []
        for batch in training.batches(1, skip=2):
            assert torch.equal(batch.images, e.inputs.feeds["train"].fetch(batch.rows.numpy()))
            assert torch.equal(batch.positive_images, e.inputs.feeds["train"].fetch(batch.positives.numpy()))
            steps.append(batch.step)
        assert steps == [7, 8, 9]
    finally:
        training.close()


def test_a_single_process_decides_alone_when_to_stop_and_save(experiment_of: Any, tmp_path: Path) -> None:
    training = Training(experiment_of(), RunFolder(tmp_path))
    training.close()
    assert agree(Processes(), 1, 15, True) == (15, True)
    assert agree(Processes(), 1, 0, False) == (0, False)
    assert training.graphed is None  # there is no CUDA graph on a CPU
