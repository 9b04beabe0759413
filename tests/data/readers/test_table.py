"""The user's own tables: every form, and every kind of bad input with its file and row."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scob.data.describe import describe
from scob.data.readers import infer_format, open_split, splits_of, taken_as
from scob.data.readers.table import read, splits
from scob.data.split import ReadOptions
from scob.errors import UserError

Painter = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path, paint: Painter) -> Path:
    for number, name in enumerate(("a.png", "b.png", "c.png", "deep/d, e.png")):
        paint(tmp_path / "root" / name, seed=number)
    return tmp_path / "root"


def table(root: Path, text: str, name: str = "labels.csv", encoding: str = "utf-8") -> str:
    (root / name).write_text(text, encoding=encoding)
    return str(root / name)


def refused(source: str, message: str, options: ReadOptions = ReadOptions()) -> None:
    with pytest.raises(UserError, match=message) as caught:
        open_split(source, None, options)
    assert "\n" not in str(caught.value)


def test_long_form(root: Path) -> None:
    source = table(root, "image,label,state\na.png,cat,\na.png,dog,absent\nb.png,dog,1\nb.png,cat,unknown\nc.png,,\n")
    split = open_split(source, None)
    assert split.labels.classes == ("cat", "dog")
    assert split.labels.images == ("a.png", "b.png", "c.png")
    np.testing.assert_array_equal(split.labels.values, [[1, -1], [0, 1], [0, 0]])
    assert split.images.where(1).endswith("b.png (labels.csv row 4)")
    assert split.images.load(1, 8).shape == (8, 8, 3)


def test_wide_form_keeps_column_order_and_blank_is_unknown(root: Path) -> None:
    source = table(root, "image,zebra,ant\na.png,1,\nb.png,-1,0\n")
    split = open_split(source, None)
    assert split.labels.classes == ("zebra", "ant")
    np.testing.assert_array_equal(split.labels.values, [[1, 0], [-1, 0]])


def test_json_lines(root: Path) -> None:
    rows = [
        {"image": "a.png", "labels": ["cat"], "absent": ["dog"], "split": "train"},
        {"image": "b.png", "labels": {"dog": 1, "cat": "absent"}, "split": "val"},
        {"image": "c.png", "label": "кот", "split": "val"},
    ]
    source = table(root, "\n".join(json.dumps(r) for r in rows), "labels.jsonl")
    assert splits_of(source) == ("train", "val")
    split = open_split(source, "val")
    assert split.labels.classes == ("cat", "dog", "кот")
    np.testing.assert_array_equal(split.labels.values, [[-1, 1, 0], [0, 0, 1]])


def test_forms_agree(root: Path) -> None:
    long = open_split(table(root, "image,label,state\na.png,x,1\na.png,y,-1\nb.png,y,1\n"), None)
    wide = open_split(table(root, "image,x,y\na.png,1,-1\nb.png,,1\n", "wide.csv"), None)
    lines = '{"image": "a.png", "labels": ["x"], "absent": ["y"]}\n{"image": "b.png", "label": "y"}\n'
    objects = open_split(table(root, lines, "o.jsonl"), None)
    assert long.labels == wide.labels == objects.labels


def test_split_column_and_split_files(root: Path, tmp_path: Path, paint: Painter) -> None:
    source = table(root, "image,label,split\na.png,cat,train\nb.png,dog,val\n")
    assert splits_of(source) == ("train", "val")
    assert open_split(source, "val").labels.images == ("b.png",)
    assert open_split(source, "val").labels.classes == ("cat", "dog")  # of both splits
    folder = tmp_path / "two"
    for name in ("a.png", "b.png"):
        paint(folder / name)
    table(folder, "image,label\na.png,cat\n", "train.csv")
    table(folder, "image,label\nb.png,dog\n", "val.csv")
    assert infer_format(str(folder)) == "table"
    assert splits_of(str(folder)) == ("train", "val")
    assert open_split(str(folder), "val").labels.images == ("b.png",)
    with pytest.raises(UserError, match=r"no split 'test'; it has: train, val"):
        open_split(str(folder), "test")


@pytest.mark.parametrize("text", ["", "image,label\n"])
def test_an_empty_table_beside_another_is_refused(root: Path, text: str) -> None:
    table(root, "image,label\na.png,cat\n", "train.csv")
    table(root, text, "val.csv")
    assert splits_of(str(root)) == ("train", "val")
    with pytest.raises(UserError, match=r"val\.csv (is empty|has no rows)"):
        open_split(str(root), "train")


def test_a_table_without_splits_is_one_called_train(root: Path) -> None:
    source = table(root, "image,label\na.png,cat\n")
    assert splits_of(source) == ("train",)
    assert len(open_split(source, "train")) == 1


def test_an_image_in_two_splits(root: Path) -> None:
    refused(table(root, "image,label,split\na.png,x,train\na.png,y,val\n"), r"row 3: 'a\.png' is in the split 'val'")


def test_missing_file(root: Path) -> None:
    refused(table(root, "image,label\na.png,x\nz.png,x\n"), r"labels\.csv row 3: the image 'z\.png' does not exist")


def test_duplicate_rows(root: Path) -> None:
    refused(table(root, "image,label\na.png,x\na.png,x\n"), r"row 3: 'a\.png', 'x' repeats labels\.csv row 2")
    refused(table(root, "image,x\na.png,1\n./a.png,1\n"), r"row 3: '\./a\.png' is already in labels\.csv row 2")
    refused(table(root, "image,label\na.png,\na.png,\n"), r"row 3: .*is already in labels\.csv row 2")


def test_conflicting_states(root: Path) -> None:
    text = "image,label,state\na.png,x,present\na.png,x,absent\n"
    refused(table(root, text), r"row 3: 'a\.png' has 'x' absent here and present in labels\.csv row 2")


def test_label_not_in_the_class_list(root: Path) -> None:
    source = table(root, "image,label\na.png,cat\nb.png,dgo\n")
    refused(
        source, r"row 3: the label 'dgo' is not in the list of 2 classes.*'dog'", ReadOptions(classes=("cat", "dog"))
    )
    (root / "classes.txt").write_text("dog\ncat\n")
    refused(source, "row 3: the label 'dgo'")
    split = open_split(table(root, "image,label\na.png,cat\n"), None)
    assert split.labels.classes == ("dog", "cat")
    (root / "classes.txt").write_text("dog\ncat\ndog\n")
    refused(source, r"classes\.txt line 3: the class 'dog' is already on line 1")


def test_empty_files(root: Path) -> None:
    refused(table(root, ""), r"labels\.csv is empty")
    refused(table(root, " \n\n"), r"labels\.csv is empty")
    refused(table(root, "image,label\n"), "has no rows below its header")
    refused(table(root, "image,label\na.png,\n"), "names no class")


def test_byte_order_mark(root: Path) -> None:
    split = open_split(table(root, "image,label\na.png,x\n", encoding="utf-8-sig"), None)
    assert split.labels.images == ("a.png",)
    refused(table(root, "image,label\na.png,x\n", encoding="utf-16"), "not UTF-8")


def test_quotes_and_commas_in_names(root: Path) -> None:
    text = 'image,label\n"deep/d, e.png","cat, ""big"""\n"a.png","two\nlines"\nb.png,x\nz.png,x\n'
    source = table(root, text)
    refused(source, r"row 6: the image 'z\.png'")  # rows are lines of the file
    split = open_split(source, None, ReadOptions(skip_bad=True))
    assert split.labels.images == ("deep/d, e.png", "a.png", "b.png")
    assert 'cat, "big"' in split.labels.classes
    refused(table(root, 'image,label\n"a.png,x\n'), "row 2: this is not CSV")


def test_non_latin_class_names(root: Path) -> None:
    split = open_split(table(root, "image,label\na.png,猫\na.png,собака\nb.png,كلب\n"), None)
    assert set(split.labels.classes) == {"猫", "собака", "كلب"}
    assert (split.labels.values == 1).sum() == 3


def test_image_outside_the_root(root: Path, tmp_path: Path, paint: Painter) -> None:
    paint(tmp_path / "secret.png")
    refused(table(root, "image,label\n../secret.png,x\n"), r"row 2: '\.\./secret\.png' is outside the data folder")
    (root / "link.png").symlink_to(tmp_path / "secret.png")
    refused(table(root, "image,label\nlink.png,x\n"), r"row 2: 'link\.png' is outside the data folder")


def test_skip_bad_keeps_the_rest_and_lists_each(root: Path) -> None:
    (root / "c.png").write_bytes(b"")
    text = "image,label\na.png,x\nz.png,x\nc.png,y\nb.png,y\na.png,x\n"
    split = open_split(table(root, text), None, ReadOptions(skip_bad=True))
    assert split.labels.images == ("a.png", "b.png")
    assert len(split.skipped) == 3
    joined = " ".join(split.skipped)
    for part in ("row 3", "row 6", "c.png (labels.csv row 4): the file is empty"):
        assert part in joined


def test_an_image_with_no_positive_is_kept(root: Path) -> None:
    split = open_split(table(root, "image,x,y\na.png,-1,-1\nb.png,1,-1\n"), None)
    assert len(split) == 2
    assert (split.labels.single_positive(0).values[0] == 0).all()


# Any text a cell can hold: no NUL, no lone carriage return, no space at its ends, which are trimmed.
cells = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Z"]) | st.sampled_from(" ,;\"'\t"), min_size=1, max_size=9
)
labels = cells.map(str.strip).filter(bool)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from(("a.png", "b.png", "deep/d, e.png")), st.dictionaries(labels, st.integers(-1, 1)))
)
def test_any_names_survive_a_csv(root: Path, states: dict[str, dict[str, int]]) -> None:
    rows = [(image, label, state) for image, by_label in states.items() for label, state in by_label.items()]
    if not rows:
        return
    with (root / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("image", "label", "state"), *rows])
    read = open_split(str(root / "labels.csv"), None).labels
    for image, label, state in rows:
        assert read.values[read.images.index(image), read.classes.index(label)] == state
    assert len(read.classes) == len({label for _, label, _ in rows})


def test_a_folder_without_a_table_is_refused_whoever_asks(tmp_path: Path) -> None:
    for ask in (lambda: splits(tmp_path), lambda: read(tmp_path, None, ReadOptions())):
        with pytest.raises(UserError, match="there is no table in"):
            ask()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("deep.jsonl", '{"image": "a.png", "labels": ' + "[" * 100_000 + "]" * 100_000 + "}", "this is not JSON"),
        ("nul.csv", "image,label\na.png,x\0y\n", "it contains a NUL character"),
        ("nul.jsonl", '{"image": "a.png", "labels": ["x\\u0000y"]}', "is not a label"),
        ("empty.csv", "", "is empty"),
        ("blank.csv", "\n \n", "is empty"),
        ("header.csv", "image,label\n", "has no rows"),
    ],
)
def test_a_table_without_a_usable_row_says_why(tmp_path: Path, name: str, content: str, reason: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=reason):
        read(tmp_path / name, None, ReadOptions())
    with pytest.raises(UserError, match=reason):
        describe(str(tmp_path / name), format="table")


def test_a_tag_table_as_kaggle_writes_it(tmp_path: Path, paint: Painter) -> None:
    for number in range(3):
        paint(tmp_path / "train-jpg" / f"train_{number}.jpg", seed=number)
    text = "image_name,tags\ntrain_0,haze primary\ntrain_1,agriculture clear primary\ntrain_2,clear haze\n"
    source = table(tmp_path, text, "train_v2.csv")
    split = open_split(source, None)
    assert split.labels.classes == ("agriculture", "clear", "haze", "primary")
    assert split.labels.images == tuple(f"train-jpg/train_{number}.jpg" for number in range(3))
    np.testing.assert_array_equal(split.labels.values, [[0, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0]])
    assert open_split(source, None, ReadOptions(separator="none")).labels.classes[0] == "agriculture clear primary"
    assert "separated by a space," in taken_as(source)
    assert infer_format(str(tmp_path)) == "table"  # the folder of images is not a class


def test_one_hot_with_true_and_false(root: Path) -> None:
    source = table(root, "filename,cat,dog\na.png,True,False\nb.png,false,TRUE\n")
    np.testing.assert_array_equal(open_split(source, None).labels.values, [[1, 0], [0, 1]])


@pytest.mark.parametrize("name", ["metadata.csv", "metadata.jsonl"])
def test_image_folder_metadata(tmp_path: Path, paint: Painter, name: str) -> None:
    rows = [("a.png", "cat"), ("b.png", "dog")]
    for part in ("train", "test"):
        for image, _ in rows:
            paint(tmp_path / part / image)
        lines = [json.dumps({"file_name": image, "label": label}) for image, label in rows]
        text = "file_name,label\na.png,cat\nb.png,dog\n" if name.endswith("csv") else "\n".join(lines)
        (tmp_path / part / name).write_text(text)
    source = str(tmp_path)
    assert infer_format(source) == "table"
    assert splits_of(source) == ("train", "test")
    split = open_split(source, "test")
    assert split.labels.images == ("test/a.png", "test/b.png")
    assert split.labels.classes == ("cat", "dog")
    assert infer_format(str(tmp_path / "train")) == "table"


def test_our_suggestions_are_a_table(tmp_path: Path, paint: Painter) -> None:
    paint(tmp_path / "photos" / "a.png")
    folder = tmp_path / "recovered"
    folder.mkdir()
    line = {"image": "id-1", "class": "cup", "score": 0.9, "confidence": 0.9, "observed": ["cat"]}
    (folder / "suggestions.jsonl").write_text(json.dumps(line) + "\n")
    (folder / "images.json").write_text(json.dumps({"root": str(tmp_path / "photos"), "files": {"id-1": "a.png"}}))
    for source in (folder, folder / "suggestions.jsonl"):
        labels = open_split(str(source), None).labels
        assert (labels.images, labels.classes, labels.values.tolist()) == (("a.png",), ("cat", "cup"), [[1, 1]])


def test_a_csv_beside_class_folders_is_a_table_only_if_it_says_image(tmp_path: Path, paint: Painter) -> None:
    for name in ("cat/a.png", "dog/b.png"):
        paint(tmp_path / name)
    (tmp_path / "notes.csv").write_text("path,label\ncat/a.png,cat\n")
    assert infer_format(str(tmp_path)) == "folder"
    (tmp_path / "notes.csv").write_text("image,label\ncat/a.png,cat\n")
    assert infer_format(str(tmp_path)) == "table"
