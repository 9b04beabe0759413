"""table-cams: our columns are named by grid, beside the paper's."""

import json
from dataclasses import replace

import numpy as np
import pytest

from scob.errors import UserError
from scob.inference.guidance_masks import guidance_settings, maps_of_pairs, observed_pairs, segmented_pairs
from scob.labels import ABSENT
from scob.studies.reproduce import variants
from scob.studies.reproduce.cams import model_of, table_cams
from scob.studies.reproduce.lab import ReproductionRequest
from scob.training.metrics import mask_metrics


def test_columns_are_named_by_grid_and_are_the_guidance_masks_of_observed_labels(lab, tmp_path):
    files = table_cams(ReproductionRequest((lab,), tmp_path / "tables"))
    text = next(path for path in files if path.suffix == ".md").read_text()
    for head in (f"F1 at 4 x 4, ours on {lab.title}", "F1, paper", f"Recall at 8 x 8, ours on {lab.title}"):
        assert f"| {head} |" in text
    assert "each stage has another grid than in the paper" in text and "max-pooled" in text
    # Stage 4's F1 of Scob, computed here from the masks themselves.
    run = lab.run(variants.SCOB)
    data, model = lab.data(lab.config(variants.SCOB)), model_of(run, lab.processes.device)
    pairs = segmented_pairs(data.train.masks, observed_pairs(data.observed), model.card.grids)
    _, masks = maps_of_pairs(model, guidance_settings(run.config), data.train, (pairs.rows, pairs.labels))
    expected = mask_metrics(masks[1], pairs.truth[1], pairs.void[1])
    assert (
        f"| Scob w/ CL | {expected.precision:.1f} | 50.0 | {expected.recall:.1f} | 68.2 | {expected.f1:.1f} |" in text
    )
    assert json.loads(next(path for path in files if path.suffix == ".json").read_text())


def test_without_a_segmented_label_there_is_nothing_to_compare(lab, tmp_path, monkeypatch):
    data = lab.data(lab.config(variants.SCOB))
    nothing = replace(data.observed, values=np.full_like(data.observed.values, ABSENT))
    monkeypatch.setattr(lab, "data", lambda config: replace(data, observed=nothing))
    with pytest.raises(UserError, match="table-cams needs segmentation"):
        table_cams(ReproductionRequest((lab,), tmp_path))
    assert not (lab.out / "runs").exists()  # it is said before anything is trained
