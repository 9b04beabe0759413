"""The formats of other tools: every suggestion is in each of them."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from pycocotools.coco import COCO

from scob.errors import UserError
from scob.recovery.exchange import as_csv, check_formats
from scob.recovery.suggest import recover
from scob.recovery.suggestion import Suggestion, read_queue
from support.small_model import Small


def test_every_format_names_every_suggestion(recovered: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [(s.image, s.label) for s in read_queue(recovered).suggestions]
    with (recovered / "suggestions.csv").open() as file:
        assert [(r["image"], r["label"]) for r in csv.DictReader(file)] == pairs
    coco = COCO(str(recovered / "coco.json"))
    assert len(coco.anns) == 25
    for annotation in coco.anns.values():
        assert coco.annToMask(annotation).shape == (64, 64)
        assert Path(coco.imgs[annotation["image_id"]]["file_name"]).is_file()
    tasks = json.loads((recovered / "labelstudio" / "tasks.json").read_text())
    chosen = [(t["data"]["name"], c) for t in tasks for r in t["predictions"][0]["result"] if r["type"] == "choices"
              for c in r["value"]["choices"]]  # fmt: skip
    assert sorted(chosen) == sorted(pairs)
    labels = json.loads((recovered / "fiftyone" / "labels.json").read_text())
    manifest = json.loads((recovered / "fiftyone" / "data.json").read_text())
    found = [(image, labels["classes"][d["label"]]) for image, ds in labels["labels"].items() for d in ds]
    assert sorted(found) == sorted(pairs) and all(Path(manifest[image]).is_file() for image, _ in found)
    probabilities = np.load(recovered / "cleanlab" / "pred_probs.npy")
    given = json.loads((recovered / "cleanlab" / "labels.json").read_text())
    assert probabilities.shape == (96, 16) and len(given) == 96 and all(len(g) == 1 for g in given if g)


def test_an_unknown_format_is_refused_before_any_work(small: Small) -> None:
    with pytest.raises(UserError, match="no format 'yolo'"):
        recover(small.run, formats=["yolo"])


def test_a_format_that_is_asked_for_twice_is_written_once() -> None:
    assert check_formats(["coco", "csv", "coco"]) == ("coco", "csv")


def test_missing_evidence_leaves_its_cells_empty() -> None:
    rows = list(csv.reader(as_csv([Suggestion("a,1", "dog", 0.5, 0.25)]).decode().splitlines()))
    assert rows[1] == ["1", "a,1", "dog", "0.250000", "0.500000", "", "", "", "", "", ""]
