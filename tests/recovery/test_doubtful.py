"""Planted wrong labels are found by classifiers that did not see them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from scob.data.readers import open_split
from scob.inference.model import Scob
from scob.labels import PRESENT, Labels
from scob.model.load_backbone import load_backbone
from scob.recovery.doubtful import doubts, find_doubtful, folds_of, out_of_fold, pooled_features
from scob.recovery.reviewed import import_reviewed
from scob.training.run_folder import RunFolder


def planted(full: Labels, share: float, seed: int = 0) -> tuple[Labels, set[int]]:
    """Single labels, a share of them replaced by a class that the image does not show; and the rows of these."""
    rng = np.random.default_rng(seed)
    values = full.single_positive(seed).values.copy()
    rows = np.flatnonzero((values == PRESENT).any(axis=1))
    wrong = rng.choice(rows, int(share * len(rows)), replace=False)
    for row in wrong:
        values[row] = 0
        values[row, rng.choice(np.flatnonzero(full.values[row] != PRESENT))] = PRESENT
    return Labels(full.classes, full.images, values), set(wrong.tolist())


def test_no_image_is_judged_by_what_saw_it() -> None:
    """Features that are the image's own number: whoever has seen an image knows its label, and nobody else can."""
    labels = Labels(("a", "b"), tuple(f"{n}" for n in range(40)), np.eye(2, dtype=np.int8)[np.arange(40) % 2])
    scores = out_of_fold(torch.eye(40), labels)
    folds = folds_of(labels, 5)
    assert len(np.unique(folds)) == 5
    for fold in range(5):
        assert np.ptp(scores[folds == fold, 0]) < 0.2


def test_doubt_compares_classes_fairly() -> None:
    values = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], np.int8)
    scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.1, 0.03], [0.3, 0.01]], np.float32)
    found = doubts(scores, Labels(("a", "b"), ("0", "1", "2", "3"), values))
    assert [(row, column) for row, column, _ in found][:2] in ([(3, 1), (1, 0)], [(1, 0), (3, 1)])
    assert all(0 <= doubt <= 1 for *_, doubt in found)


@pytest.mark.slow
@pytest.mark.parametrize(("share", "times"), [(0.2, 2.5), (0.02, 5)])
def test_planted_wrong_labels_on_scenes(share: float, times: float) -> None:
    """With a fifth of the labels wrong, chance is 0.2, and 5 times chance would be perfection."""
    scenes = open_split("scenes:500x128", "train")

    class Features:
        size = 128

        class network:
            backbone = load_backbone("drawings", "all").eval()

        prepare = Scob.prepare
        device = torch.device("cpu")

        class card:
            mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

    features = pooled_features(Features(), scenes.images, 32)  # type: ignore[arg-type]
    labels, wrong = planted(scenes.labels, share)
    found = doubts(out_of_fold(features, labels), labels)
    precision = average_precision_score([row in wrong for row, *_ in found], [doubt for *_, doubt in found])
    assert precision >= times * len(wrong) / len(found)


def test_a_rejected_label_becomes_absent(own_run: Path) -> None:
    found = find_doubtful(own_run, top=5)
    assert len(found.suggestions) == 5 and (found.folder / "suggestions.jsonl").is_file()
    first = found.suggestions[0]
    labels = RunFolder(own_run).labels()
    at = labels.images.index(first.image), labels.classes.index(first.label)
    assert labels.values[at] == 1
    (found.folder / "reviewed.csv").write_text(f"image,label,state\n{first.image},{first.label},-1\n")
    imported = import_reviewed(found.folder, found.folder / "reviewed.csv")
    assert imported.changed == 1 and Labels.load(imported.path).values[at] == -1
