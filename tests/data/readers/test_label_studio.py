"""Label Studio's three exports say the same; the latest answer of a task counts."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scob.data.readers import infer_format, open_split, taken_as
from scob.data.readers.label_studio import file_name, read_answers
from scob.errors import UserError

Painter = Callable[..., Path]
BOX = {"x": 1, "y": 1, "width": 9, "height": 9, "rotation": 0}


def choices(*names: str) -> dict[str, Any]:
    return {"type": "choices", "from_name": "present", "to_name": "image", "value": {"choices": list(names)}}


def full(folder: Path) -> Path:
    later = {"id": 2, "updated_at": "2024-02-01T00:00:00Z", "was_cancelled": False, "result": [choices("cat")]}
    earlier = {"id": 1, "updated_at": "2024-01-01T00:00:00Z", "was_cancelled": False, "result": [choices("dog")]}
    drawn = {"type": "rectanglelabels", "value": {**BOX, "rectanglelabels": ["dog"]}}
    tasks = [
        {"id": 1, "data": {"image": "/data/upload/1/0a1b2c3d-a.png"}, "annotations": [later, earlier]},
        {
            "id": 2,
            "data": {"image": "/data/local-files/?d=home/me/photos/b%20b.png"},
            "annotations": [{"id": 3, "result": [choices("cat"), drawn]}],
            "predictions": [{"result": [choices("cat", "cup")]}],
        },
        {"id": 3, "data": {"image": "/data/upload/1/0a1b2c3d-c.png"}, "annotations": [{"was_cancelled": True}]},
    ]
    (folder / "full.json").write_text(json.dumps(tasks))
    return folder / "full.json"


def flat(folder: Path) -> Path:
    common = {"annotator": 1, "lead_time": 3.5, "created_at": "", "updated_at": ""}
    rows = [
        {"image": "/data/upload/1/0a1b2c3d-a.png", "id": 1, "present": "cat", "annotation_id": 1, **common},
        {
            "image": "/data/upload/1/0a1b2c3d-b b.png",
            "id": 2,
            "present": {"choices": ["cat", "dog"]},
            "where": [{**BOX, "rectanglelabels": ["dog"]}],
            "annotation_id": 2,
            **common,
        },
    ]
    (folder / "min.json").write_text(json.dumps(rows))
    with (folder / "flat.csv").open("w", newline="") as file:
        heads = ["image", "id", "present", "where", "annotation_id", *common]
        table = csv.writer(file)
        table.writerow(heads)
        for row in rows:
            table.writerow(
                [json.dumps(v) if isinstance(v, dict | list) else v for v in (row.get(h, "") for h in heads)]
            )
    return folder / "min.json"


def test_the_three_exports(tmp_path: Path, paint: Painter) -> None:
    for name in ("a.png", "b b.png", "c.png"):
        paint(tmp_path / "photos" / name)
    flat(tmp_path)
    for source in (full(tmp_path), tmp_path / "min.json", tmp_path / "flat.csv"):
        assert infer_format(str(source)) == "labelstudio"
        labels = open_split(str(source), "train").labels
        assert labels.images == ("photos/a.png", "photos/b b.png")
        assert labels.classes == ("cat", "dog")
        np.testing.assert_array_equal(labels.values, [[1, 0], [1, 1]])
    assert taken_as(str(tmp_path / "full.json")) == "an export of Label Studio, 2 of 3 tasks answered, 2 classes"


def test_what_was_suggested_is_kept_apart(tmp_path: Path) -> None:
    answers = read_answers(full(tmp_path))
    assert [(a.chosen, a.suggested, a.answered) for a in answers] == [
        (("cat",), (), True),
        (("cat", "dog"), ("cat", "cup"), True),
        ((), (), False),
    ]


def test_addresses() -> None:
    assert file_name("/data/local-files/?d=a%2Fb.png", "") == "a/b.png"
    assert file_name("s3://bucket/x/a.png", "") == "a.png"
    with pytest.raises(UserError, match=r"task 4: 'https://x\.org/a\.png' is on another machine"):
        file_name("https://x.org/a.png", "task 4")


def test_a_task_without_an_image(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps([{"data": {"text": "hello"}, "annotations": []}]))
    with pytest.raises(UserError, match=r"x\.json task 1: it does not name one image"):
        read_answers(tmp_path / "x.json")
