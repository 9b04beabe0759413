"""The splits of a run: a name is found by its kind, an unknown one is refused, and nothing is ignored."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scob.config import Config, resolve
from scob.data.split import ReadOptions
from scob.errors import UserError
from scob.training.run_splits import HELD_OUT, as_it_began, default_reported, how_measured, open_reported, run_splits


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.png", "b.png", "c.png"):
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / name)
    return tmp_path


def table(folder: Path, *rows: str, name: str = "labels.csv") -> str:
    path = folder / name
    header = "image,label,split" if rows[0].count(",") == 2 else "image,label"
    path.write_text("\n".join([header, *rows]) + "\n")
    return str(path)


def settings(source: str, **data: Any) -> Config:
    return resolve({"data": {"source": source, **data}})


def test_a_kind_means_the_only_split_of_that_kind(folder: Path) -> None:
    source = table(folder, "a.png,cat,train2014", "b.png,dog,val2014", "c.png,dog,more")
    splits = run_splits(settings(source))
    assert (splits.train, splits.reported, splits.unused) == ("train2014", "val2014", ("more",))
    assert run_splits(settings(source, evaluate="more")).reported == "more"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"evaluate": "vall"},
            r"no split 'vall'; it has: train, val2014 \(did you mean 'val2014'\?\); data\.evaluate=",
        ),
        ({"train": "trian"}, r"no split 'trian'.*did you mean 'train'\?\); data\.train="),
        ({"train": "nosuch"}, r"no split 'nosuch'; it has: train, val2014; data\.train="),
        ({"evaluate": "test"}, r"no split 'test'.*data\.evaluate=none"),
        ({"evaluate": "train"}, r"data\.evaluate=train is the split to train on"),
        ({"train": "val"}, r"data\.evaluate=val is the split to train on"),
        ({"evaluate": "missing.csv"}, r"no split 'missing\.csv'"),
    ],
)
def test_a_split_that_does_not_exist_is_refused(folder: Path, data: dict[str, str], message: str) -> None:
    source = table(folder, "a.png,cat,train", "b.png,dog,val2014")
    with pytest.raises(UserError, match=message):
        run_splits(settings(source, **data))


@pytest.mark.parametrize("train", ["nosuch", "val"])
def test_the_only_split_is_not_trained_on_under_another_name(folder: Path, train: str) -> None:
    source = table(folder, "a.png,cat", "b.png,dog")
    with pytest.raises(UserError, match=f"has no split '{train}'; it has: train"):
        run_splits(settings(source, train=train))


def test_images_that_are_not_split_report_nothing_by_default(folder: Path) -> None:
    source = table(folder, "a.png,cat", "b.png,dog")
    assert run_splits(settings(source)).reported is None
    with pytest.raises(UserError, match="no split 'test'"):
        run_splits(settings(source, evaluate="test"))


@pytest.mark.parametrize("nothing", ["", "none"])
def test_nothing_is_reported_if_the_user_says_so(nothing: str) -> None:
    splits = run_splits(settings("scenes:4x64", evaluate=nothing))
    assert (splits.reported, splits.table, splits.unused) == (None, None, ("val",))


def test_a_benchmark_without_its_val_list_is_refused(folder: Path) -> None:
    for name in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (folder / name).mkdir(parents=True)
    (folder / "ImageSets/Main/train.txt").write_text("a\n")
    config = settings(str(folder))
    with pytest.raises(UserError, match=r"no split 'val'; it has: train; .*data\.evaluate=none"):
        open_reported(config, run_splits(config), ReadOptions())


def test_a_voc_list_of_another_folder_is_reported_on(folder: Path) -> None:
    for name in ("JPEGImages", "Annotations", "ImageSets/Main", "ImageSets/Segmentation"):
        (folder / name).mkdir(parents=True)
    (folder / "ImageSets/Main/train.txt").write_text("a\n")
    (folder / "ImageSets/Segmentation/val.txt").write_text("b\nc\n")
    for name, label in (("b", "cat"), ("c", "dog")):
        (folder / f"{name}.png").rename(folder / f"JPEGImages/{name}.jpg")
        text = f"<annotation><object><name>{label}</name></object></annotation>"
        (folder / f"Annotations/{name}.xml").write_text(text)
    config = settings(str(folder), evaluate="Segmentation/val")
    reported = open_reported(config, run_splits(config), ReadOptions())
    assert reported is not None and reported.labels.images == ("b", "c")


def test_a_table_of_its_own_is_reported_on_by_its_name(folder: Path) -> None:
    source = table(folder, "a.png,cat", "b.png,dog")
    config = settings(source, evaluate=table(folder, "b.png,cat", "c.png,dog", name="held.csv"))
    reported = open_reported(config, run_splits(config), ReadOptions())
    assert reported is not None and (reported.name, len(reported)) == ("held.csv", 2)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (("a.png,cat,train", "b.png,cat,train", "c.png,,val"), "has a known label, so there is nothing to measure; "),
        (("a.png,cat,train", "b.png,dog,train", "c.png,cat,val"), "present in one image and absent from another"),
    ],
)
def test_a_split_on_which_nothing_can_be_measured_is_refused(folder: Path, rows: Any, message: str) -> None:
    config = settings(table(folder, *rows))
    with pytest.raises(UserError, match=message) as refused:
        open_reported(config, run_splits(config), ReadOptions(classes=("cat", "dog")))
    assert "data.evaluate=none" in str(refused.value)


def test_a_run_of_an_earlier_version_stays_as_it_began(folder: Path) -> None:
    config = settings(table(folder, "a.png,cat", "b.png,dog"), train="nosuch", evaluate="test")
    splits = run_splits(as_it_began(config, reports=False))
    assert (splits.train, splits.reported) == ("train", None)
    assert config.data.train == "nosuch"  # the run's settings are not touched
    two = settings("scenes:4x64", evaluate="val")
    assert as_it_began(two, reports=True) == two


def test_own_images_are_reported_on_their_val_split_else_test_else_nothing(folder: Path) -> None:
    assert default_reported(table(folder, "a.png,cat,train", "b.png,dog,validation", "c.png,dog,test")) == "validation"
    assert default_reported(table(folder, "a.png,cat,train", "c.png,dog,test")) == "test"
    assert default_reported(table(folder, "a.png,cat", "c.png,dog")) == ""


def test_held_out_is_not_a_split(folder: Path) -> None:
    splits = run_splits(settings(table(folder, "a.png,cat", "b.png,dog"), evaluate=HELD_OUT))
    assert (splits.train, splits.reported, splits.table) == ("train", None, None)


def test_what_unlisted_classes_count_as_is_said(folder: Path) -> None:
    listed = table(folder, "a.png,cat,train", "b.png,dog,val", "c.png,cat,val")
    complete = open_reported(settings(listed), run_splits(settings(listed)), ReadOptions(classes=("cat", "dog")))
    assert complete is not None and (complete.labels.values != 0).all()
    assert how_measured(complete) == "results are measured on val: a class that an image does not list counts as absent"
    path = folder / "states.csv"
    path.write_text("image,label,state,split\na.png,cat,1,train\nb.png,cat,1,val\nb.png,dog,1,val\nc.png,cat,-1,val\n")
    one = settings(str(path))
    partial = open_reported(one, run_splits(one), ReadOptions(classes=("cat", "dog")))
    assert partial is not None and (partial.labels.values == 0).sum() == 1
    assert "is unknown and is not counted" in how_measured(partial)
    assert how_measured(None) == ""


def test_one_folder_per_class_is_not_reported_on_by_itself(tmp_path: Path) -> None:
    """train/cat, val/cat: results on val would need labels that such folders cannot give, so nothing is reported."""
    for split in ("train", "val"):
        (tmp_path / split / "cat").mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / split / "cat" / "a.png")
    assert default_reported(str(tmp_path)) == ""


def test_a_folder_named_held_out_does_not_change_what_held_out_means(
    configure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / HELD_OUT).mkdir()
    monkeypatch.chdir(tmp_path)
    assert run_splits(configure("data.evaluate=held-out")).table is None
