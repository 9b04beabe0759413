"""What a run measures, and what it writes at its end."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from scob.config import TrainSettings
from scob.training.metrics import mean_average_precision
from scob.training.model_folder import ModelCard
from scob.training.results import measure, model_card, reference


def test_full_holdout_labels_are_named_where_they_are_used(run_small: Any) -> None:
    run = run_small("train.holdout=0.25", "train.holdout_labels=full", "train.epochs=1")
    curve = json.loads((run / "summary.json").read_text())["curve"]
    assert "mAP-holdout-full" in curve[0]
    assert curve[0]["holdout"] == curve[0]["mAP-holdout-full"] != curve[0]["mAP-observed"]


def test_held_out_labels_count_unknown_as_absent_only_where_negatives_are_not_known() -> None:
    single = np.array([[1, 0, 0], [0, 1, 0]], np.int8)
    assert reference(single).tolist() == [[1, -1, -1], [-1, 1, -1]]
    partial = np.array([[1, -1, 0], [0, -1, -1]], np.int8)
    assert reference(partial).tolist() == partial.tolist()
    reviewed = np.array([[1, 0, -1], [0, 1, 0], [1, 0, 0]], np.int8)  # one negative somebody happened to give
    assert reference(reviewed).tolist() == [[1, -1, -1], [-1, 1, -1], [1, -1, -1]]


def test_what_is_measured_depends_on_the_splits_and_on_whose_labels_may_choose(configure: Any, scenes_of: Any) -> None:
    data = scenes_of(configure("train.holdout=0.25", "data.evaluate=val"))
    random = np.random.default_rng(0)
    scores = {
        name: torch.from_numpy(random.random(split.labels.values.shape).astype(np.float32))
        for name, split in (("evaluate", data.evaluate), ("holdout", data.holdout))
    }
    measured = measure(data, TrainSettings(holdout_labels="observed"), scores.__getitem__)
    assert measured.keys() == {"mAP", "mAP-observed", "holdout"}
    assert measured["mAP"] == mean_average_precision(scores["evaluate"], data.evaluate.labels.values)
    known = reference(data.holdout_observed.values)
    assert measured["holdout"] == measured["mAP-observed"] == mean_average_precision(scores["holdout"], known)
    full = measure(data, TrainSettings(holdout_labels="full"), scores.__getitem__)
    assert full["holdout"] == full["mAP-holdout-full"]
    assert full["holdout"] == mean_average_precision(scores["holdout"], data.holdout.labels.values)
    assert measure(replace(data, evaluate=None, holdout=None), TrainSettings(), scores.__getitem__) == {}


def test_the_model_card_and_the_summary_agree(run_small: Any) -> None:
    run = run_small("data.evaluate=val", "train.epochs=1")
    card, summary = ModelCard.read(run / "model"), json.loads((run / "summary.json").read_text())
    assert list(card.classes) == summary["classes"] and card.method == summary["method"] == "scob"
    assert card.labels == summary["labels"] and card.evaluation == summary["evaluation"]
    assert card.backbone_name == summary["backbone"] and card.thresholds == (0.5,) * len(card.classes)
    assert card.head is None and card.size == 64 and card.grids == ((8, 8), (4, 4))


def test_a_head_that_belongs_to_the_method_leaves_its_recipe(experiment_of: Any) -> None:
    e = experiment_of("method=ssgrl")
    card = model_card(e, {"labels": {"origin": "given", "fingerprint": ""}})
    assert card.head is not None and card.head == e.network.head.recipe
    assert json.loads(json.dumps(card.head)) == card.head and card.evaluation is None
