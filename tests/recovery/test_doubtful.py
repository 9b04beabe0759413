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
from scob.recovery.doubtful import (
    FOLDS,
    doubts,
    find_doubtful,
    folds_of,
    out_of_fold,
    pooled_features,
    wrong_at_most,
)
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
    folds = folds_of(labels, FOLDS)
    assert len(np.unique(folds)) == FOLDS
    for fold in range(FOLDS):
        assert np.ptp(scores[folds == fold, 0]) < 0.2


def test_a_frequent_class_needs_a_higher_score_to_be_believed() -> None:
    values = np.array([[1, 0]] * 8 + [[0, 1]] * 2, np.int8)
    scores = np.full((10, 2), 0.3, np.float32)
    scores[0, 0] = 0.1
    found = doubts(scores, Labels(("common", "rare"), tuple(map(str, range(10))), values))
    assert found[0][:2] == (0, 0) and {column for _, column, _ in found[-2:]} == {1}
    assert [doubt for *_, doubt in found] == sorted((doubt for *_, doubt in found), reverse=True)
    assert all(0 <= doubt <= 1 for *_, doubt in found)


def test_a_class_with_one_label_is_not_judged() -> None:
    labels = Labels(("a", "b"), ("0", "1", "2"), np.array([[1, 0], [1, 0], [0, 1]], np.int8))
    assert {column for _, column, _ in doubts(np.full((3, 2), 0.5, np.float32), labels)} == {0}


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3])
def test_how_many_are_wrong_is_an_upper_estimate(share: float) -> None:
    """Right labels score high and wrong ones like the rest: the estimate is near, and seldom below."""
    rng = np.random.default_rng(3)
    given = np.eye(4, dtype=np.int8)[rng.integers(4, size=2000)]
    wrong = rng.random(2000) < share
    scores = rng.random((2000, 4)).astype(np.float32) * 0.6
    scores[(given == 1) & ~wrong[:, None]] += 0.35
    labels = Labels(tuple("abcd"), tuple(map(str, range(2000))), given)
    assert 0.85 * wrong.sum() <= wrong_at_most(scores, labels) <= 1.15 * wrong.sum() + 20


def test_missing_labels_do_not_lower_the_score_of_given_ones() -> None:
    """Every image shows both classes and has one label: at first each class looks absent half of the time."""
    values = np.eye(2, dtype=np.int8)[np.arange(200) % 2]
    names = tuple(map(str, range(200)))
    shows = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    unknown, absent = (Labels(("a", "b"), names, np.where(values == 1, 1, other).astype(np.int8)) for other in (0, -1))
    given = values == 1
    assert out_of_fold(shows, unknown)[given].mean() > 0.9 > 0.6 > out_of_fold(shows, absent)[given].mean()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("share", "times"), [(0.2, 3), (0.02, 5)])
def test_planted_wrong_labels_on_scenes(share: float, times: float, seed: int) -> None:
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
    labels, wrong = planted(scenes.labels, share, seed)
    scores = out_of_fold(features, labels)
    found = doubts(scores, labels)
    precision = average_precision_score([row in wrong for row, *_ in found], [doubt for *_, doubt in found])
    assert precision >= times * len(wrong) / len(found)
    assert len(wrong) <= wrong_at_most(scores, labels) <= 0.5 * len(found)


def test_answers_about_doubtful_labels_do_not_undo_those_about_suggestions(own_run: Path) -> None:
    found = find_doubtful(own_run, top=1)
    [given] = found.suggestions
    labels = RunFolder(own_run).labels()
    row, column = np.argwhere(labels.values == 0)[0]
    accepted = labels.images[row], labels.classes[column]
    (own_run / "recovered").mkdir(exist_ok=True)
    (own_run / "recovered" / "reviewed.csv").write_text(f"image,label,state\n{accepted[0]},{accepted[1]},+1\n")
    assert import_reviewed(own_run, own_run / "recovered" / "reviewed.csv").earlier == ()
    doubted = found.folder / "reviewed.csv"
    doubted.write_text(f"image,label,state\n{given.image},{given.label},-1\n")
    imported = import_reviewed(found.folder, doubted)
    assert imported.earlier == ((own_run / "recovered" / "reviewed.csv", 1),)
    values = Labels.load(imported.path).values
    assert values[row, column] == 1
    assert values[labels.images.index(given.image), labels.classes.index(given.label)] == -1
    doubted.write_text("image,label,state\n")  # nothing answered yet
    assert import_reviewed(own_run, own_run / "recovered" / "reviewed.csv").earlier == ()


def test_a_rejected_label_becomes_absent(own_run: Path) -> None:
    listed = find_doubtful(own_run)
    assert len(listed.suggestions) == listed.wrong_at_most <= listed.given
    found = find_doubtful(own_run, top=5)
    assert len(found.suggestions) == 5 and (found.folder / "suggestions.jsonl").is_file()
    first = found.suggestions[0]
    labels = RunFolder(own_run).labels()
    at = labels.images.index(first.image), labels.classes.index(first.label)
    assert labels.values[at] == 1
    (found.folder / "reviewed.csv").write_text(f"image,label,state\n{first.image},{first.label},-1\n")
    imported = import_reviewed(found.folder, found.folder / "reviewed.csv")
    assert imported.changed == 1 and Labels.load(imported.path).values[at] == -1
