"""Counts, notes, checks and the picture grid of a source."""

from collections.abc import Callable
from pathlib import Path

from PIL import Image

from scob.data.describe import check, describe, picture_grid
from scob.data.readers import open_split
from scob.data.split import ReadOptions

Painter = Callable[..., Path]


def test_splits_are_counted(voc: Path) -> None:
    description = describe(str(voc))
    assert description.format == "voc"
    assert [s.name for s in description.splits] == ["train", "val", "trainval"]
    train, val, _ = description.splits
    assert train.statistics["images"] == 2
    assert train.statistics["per class"]["chair"] == {"positive": 1, "negative": 1}
    assert any("1 images have no positive: they are kept" in note for note in val.notes)
    assert any("19 classes have no positive" in note and "left out of mAP" in note for note in train.notes)
    assert description.as_dict()["splits"][0]["statistics"]["observed positive"] == 1
    assert len(describe(str(voc), "val").splits) == 1


def test_a_source_without_negatives_says_so(tmp_path: Path, paint: Painter) -> None:
    paint(tmp_path / "cat" / "a.png")
    assert any("no label is marked absent" in note for note in describe(str(tmp_path)).splits[0].notes)


def test_check_lists_rows_and_files(tmp_path: Path, paint: Painter) -> None:
    paint(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"")
    (tmp_path / "labels.csv").write_text("image,label\na.png,x\nb.png,x\nc.png,x\n")
    good, problems = check(str(tmp_path / "labels.csv"), workers=1)
    assert good == 1
    assert len(problems) == 2
    assert "labels.csv row 4: the image 'c.png' does not exist" in problems[0]
    assert "b.png (labels.csv row 3): the file is empty" in problems[1]


def test_skip_bad_lists_what_it_skipped(voc: Path) -> None:
    (voc / "JPEGImages" / "000001.jpg").write_bytes(b"")
    summary = describe(str(voc), "train", ReadOptions(skip_bad=True)).splits[0]
    assert summary.statistics["images"] == 1
    assert "000001.jpg" in summary.skipped[0]


def test_picture_grid(voc: Path, tmp_path: Path) -> None:
    path = tmp_path / "grid.png"
    names = picture_grid(open_split(str(voc), "trainval"), path, columns=2)
    assert names == ["000001", "000002", "000003"]
    with Image.open(path) as image:
        assert image.size == (2 * 176, 2 * (176 + 36))
        assert image.convert("L").getextrema()[0] < 100
