"""`scob evaluate --masks`: both populations, measured again by hand; what is left out; errors in one sentence."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scob.data.readers import open_split
from scob.data.readers.voc import CLASSES as VOC_CLASSES
from scob.data.split import Split
from scob.errors import UserError
from scob.inference.evaluate_masks import evaluate_masks, observed_names, trained_on
from scob.inference.guidance_masks import guidance_rates, guidance_settings, observed_pairs, segmented_pairs
from scob.inference.model import InferenceOptions, Scob
from scob.inference.predictions import NamingRule
from scob.labels import PRESENT, Labels
from scob.training.finished_run import FinishedRun
from support.small_model import Small

CPU = InferenceOptions(batch=7, device="cpu")
RunSmall = Callable[..., Path]


@pytest.fixture(scope="module")
def run(run_small: RunSmall) -> Path:
    return run_small("data.evaluate=val", "train.epochs=1")


def test_observed_labels_are_measured_as_drawn(run: Path, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    options = InferenceOptions(7, "cpu", lambda *done: steps.append(done))
    found = evaluate_masks(run, out=tmp_path, running=options)
    observed = found.observed
    assert observed is not None and observed.measures.pairs == observed.images == 40
    assert (observed.split, observed.not_there, observed.without_truth, observed.trained_on) == ("train", 0, 0, 0)
    assert steps[-1] == (2 * 60, 2 * 60) and steps == sorted(steps)
    assert json.loads((tmp_path / "masks.json").read_text()) == json.loads(json.dumps(found.to_json()))
    # Once more, by a loop over pairs.
    finished, model = FinishedRun.open(run), Scob.from_pretrained(run, "cpu")
    split, labels = finished.data.train, finished.folder.labels()
    ious, hits = [], []
    for row in range(40):
        [label] = np.flatnonzero(labels.values[row] == PRESENT)
        [e] = model.explain(split.images.load(row), classes=[model.classes[label]])
        truth = split.masks.load(row).present[label]  # type: ignore[union-attr]
        mask = e.mask(64, 64)
        ious.append((mask & truth).sum() / (mask | truth).sum())
        y, x = np.unravel_index(e.heat.argmax(), e.heat.shape)  # type: ignore[union-attr]
        cell = 64 // e.heat.shape[0]  # type: ignore[union-attr]
        hits.append(bool(truth[y * cell + cell // 2, x * cell + cell // 2]))
    assert observed.measures.masks is not None and observed.measures.pointing is not None
    assert observed.measures.masks.mean_iou == pytest.approx(100 * np.mean(ious), abs=0.01)
    assert (observed.measures.pointing.right, observed.measures.pointing.pairs) == (sum(hits), 40)
    pairs = segmented_pairs(split.masks, observed_pairs(labels), model.card.grids)  # type: ignore[arg-type]
    rates = guidance_rates(model, guidance_settings(finished.config), split, pairs)
    assert [(g.stage, g.grid, g.rates) for g in observed.guidance] == [
        (4, model.card.grids[1], rates[1]),
        (3, model.card.grids[0], rates[0]),
    ]


def test_predicted_labels_count_only_where_they_are_there(run: Path) -> None:
    """With a threshold of 0 every class is named: those present are measured, the others are counted apart."""
    predicted = evaluate_masks(run, naming=NamingRule(threshold=0.0), running=CPU).predicted
    assert predicted is not None and predicted.split == "val" and predicted.predicted
    val = open_split("scenes:40x64", "val")
    present = int((val.labels.values == PRESENT).sum())
    assert predicted.measures.pairs == present and predicted.guidance[0].pairs == present
    assert predicted.not_there == val.labels.values.size - present
    none = evaluate_masks(run, naming=NamingRule(threshold=1.0), running=CPU).predicted
    assert none is not None and (none.measures.pairs, none.not_there, none.guidance) == (0, 0, ())


def test_single_objects_have_boxes(run: Path) -> None:
    found = evaluate_masks(run, naming=NamingRule(threshold=0.0), running=CPU).predicted
    val = open_split("scenes:40x64", "val")
    assert val.boxes is not None and found is not None and found.measures.boxes is not None
    labels = [[box.label for box in val.boxes.load(row) or ()] for row in range(len(val))]
    assert found.measures.boxes.pairs == sum(own.count(label) == 1 for own in labels for label in set(own))


def test_held_out_images_serve_if_there_is_no_other_split(run: Path, small: Small) -> None:
    found = evaluate_masks(small.run, split="train", running=CPU)
    assert found.observed is not None and found.predicted is not None
    assert (found.observed.images, found.predicted.images, found.predicted.trained_on) == (77, 19, 77)
    everything = evaluate_masks(run, split="train", running=CPU)
    assert everything.predicted is None
    assert "every image of the split was trained on" in everything.notes[0]


def test_a_method_with_full_labels_is_measured_on_the_drawn_ones(run_small: RunSmall) -> None:
    finished = FinishedRun.open(run_small("method=full", "train.epochs=1"))
    names = observed_names(finished.data)
    assert [len(own) for own in names] == [1] * 40
    assert (finished.data.observed.values == PRESENT).sum() > 40


def test_photographs_without_boxes_cannot_be_measured(run: Path, small: Small, tmp_path: Path) -> None:
    for number in (0, 1):
        Image.open(small.files[number]).save(tmp_path / f"copy{number}.png")
    table = tmp_path / "own.csv"
    table.write_text("image,label\ncopy0.png,tree\ncopy1.png,car\n")
    found = evaluate_masks(run, str(table), running=CPU)
    assert found.predicted is None and found.observed is not None
    assert found.notes == (f"Predicted labels are not measured: {table} has neither segmentation nor boxes",)


def test_a_run_without_another_split_is_measured_on_what_it_held_out(run_small: RunSmall) -> None:
    run = run_small("data.evaluate=none", "train.epochs=1", "train.holdout=0.25")
    finished = FinishedRun.open(run)
    source = finished.config.data.source
    found = evaluate_masks(run, source, "train", running=CPU)
    assert found.observed is not None and found.predicted is not None
    assert (found.observed.images, found.predicted.images, found.predicted.trained_on) == (30, 10, 30)


def test_a_model_folder_is_not_enough(run: Path) -> None:
    with pytest.raises(UserError, match=r"model is not a run: .* give the run folder"):
        evaluate_masks(run / "model", running=CPU)


def named(split: Split, classes: tuple[str, ...], names: tuple[str, ...]) -> Split:
    values = np.ones((len(names), len(classes)), np.int8)
    return replace(split, labels=Labels(classes, names, values))


def test_voc_2012_repeats_images_of_voc_2007() -> None:
    scenes = open_split("scenes:4x64", "train").select([0, 1])
    train, other = named(scenes, VOC_CLASSES, ("000032", "000033")), named(scenes, VOC_CLASSES, ("2007_000032", "a"))
    assert trained_on(other, "VOC2012", train, "VOC2007").tolist() == [True, False]
    assert trained_on(train, "VOC2007", other, "VOC2012").tolist() == [True, False]
    own = ("cat",)
    train, other = named(scenes, own, ("000032", "000033")), named(scenes, own, ("2007_000032", "000033"))
    assert trained_on(other, "elsewhere", train, "here").tolist() == [False, False]
    assert trained_on(other, "here", train, "here").tolist() == [False, True]
