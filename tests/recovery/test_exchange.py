"""The formats of other tools: every suggestion is in each of them."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from pycocotools.coco import COCO

from scob.errors import UserError
from scob.inference.regions import rle
from scob.recovery.exchange import as_coco, as_csv, as_fiftyone, check_formats, how_to_load
from scob.recovery.label_studio_tasks import as_label_studio
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
    known = {(s.image, label) for s in read_queue(recovered).suggestions for label in s.observed}
    assert sorted(chosen) == sorted([*pairs, *known])  # what is known is ticked too
    labels = json.loads((recovered / "fiftyone" / "labels.json").read_text())
    manifest = json.loads((recovered / "fiftyone" / "data.json").read_text())
    found = [(d["attributes"]["image"], labels["classes"][d["label"]]) for ds in labels["labels"].values() for d in ds]
    assert sorted(set(found)) == sorted(pairs)
    assert manifest.keys() == labels["labels"].keys() and all(Path(file).is_file() for file in manifest.values())
    assert not any("." in key for key in manifest)  # FiftyOne takes what follows a dot for a suffix
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


def in_two_parts() -> Suggestion:
    """A dog in two places of a small mask."""
    mask = np.zeros((10, 20), bool)
    mask[2:6, 2:8] = mask[1:4, 14:18] = True
    return Suggestion("a", "dog", 0.5, 0.25, None, rle(mask), ((0.1, 0.2, 0.4, 0.6), (0.7, 0.1, 0.9, 0.4)))


@pytest.mark.parametrize("scale", [1, 3])
def test_a_coco_box_is_the_box_of_its_mask(scale: int) -> None:
    size = (10 * scale, 20 * scale)
    [annotation] = as_coco([in_two_parts()], {}, {"a": size}, ["dog"])["annotations"]
    coco = COCO()
    coco.imgs = {1: {"height": size[0], "width": size[1]}}
    ys, xs = coco.annToMask(annotation).nonzero()
    x, y, width, height = annotation["bbox"]
    assert (x, y, x + width, y + height) == (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)
    assert annotation["area"] == len(ys) and abs(x - 2 * scale) <= 1 and abs(x + width - 18 * scale) <= 1


def test_tools_that_draw_boxes_get_one_for_each_part() -> None:
    [task] = as_label_studio([in_two_parts()], {}, {"a": (10, 20)})
    drawn = [r["value"] for r in task["predictions"][0]["result"] if r["type"] == "rectanglelabels"]
    assert [(round(v["x"]), round(v["width"])) for v in drawn] == [(10, 30), (70, 20)]
    labels, _ = as_fiftyone([in_two_parts()], {}, ["dog"])
    assert [d["bounding_box"][0] for d in labels["labels"]["0000000"]] == [0.1, 0.7]


def test_no_clear_place_draws_nothing_where_a_format_allows_it() -> None:
    nowhere = Suggestion("a", "dog", 0.5, 0.25, boxes=())
    [task] = as_label_studio([nowhere], {}, {"a": (10, 20)})
    assert [r["type"] for r in task["predictions"][0]["result"]] == ["choices"]
    [annotation] = as_coco([nowhere], {}, {"a": (10, 20)}, ["dog"])["annotations"]
    assert annotation["bbox"] == [0, 0, 0, 0] and annotation["area"] == 0


def test_a_place_that_was_not_looked_for_is_the_whole_image() -> None:
    [annotation] = as_coco([Suggestion("a", "dog", 0.5, 0.25)], {}, {"a": (10, 20)}, ["dog"])["annotations"]
    assert annotation["bbox"] == [0, 0, 20, 10] and annotation["area"] == 200


def test_each_format_says_how_to_load_it(tmp_path: Path) -> None:
    lines = " ".join(how_to_load(tmp_path, ["labelstudio", "fiftyone", "cleanlab"], {"a": "/data/photos/a.png"}))
    for part in ("LOCAL_FILES_SERVING_ENABLED=true", "DOCUMENT_ROOT=/data ", "local path /data/photos", "from_dir("):
        assert part in lines
    assert "counts as absent" in lines
    assert how_to_load(tmp_path, ["csv", "coco"], {}) == []
