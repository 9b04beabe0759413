"""`scob train` as a user runs it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from scob.cli.train import read_config


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("train") == [
        "--images",
        "--val",
        "--separator",
        "--backbone",
        "--size",
        "--epochs",
        "--batch",
        "--device",
        "--init",
        "--out",
        "--resume",
        "--extend",
        "--finish",
        "--methods-folder",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name a settings file"),
        (("demo", "--val", "labels.csv"), "--val needs --images"),
        (("demo", "--extend", "epochs=9"), "--extend needs --resume RUN"),
        (("demo", "--init", "run", "--backbone", "x"), "leave out --backbone"),
        (("--resume", "run", "--out", "other"), "leave out --images, --init, --backbone and --out"),
        (("demo", "train.epoch=3"), "train.epochs"),
    ],
)
def test_wrong_uses(refused: Callable[..., str], words: tuple[str, ...], message: str) -> None:
    assert message in refused("train", *words)


def test_settings_come_from_a_packaged_file_then_from_words() -> None:
    config = read_config(["demo", "train.epochs=3"], "", "cpu")
    assert (config.train.epochs, config.train.device) == (3, "cpu")
    assert config.data.source.startswith("scenes")


@pytest.mark.parametrize("name", ["coco2014", "configs/coco2014.yaml"])
def test_a_preset_outranks_a_packaged_file_by_name_or_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    config = read_config([name, "data.source=elsewhere", "preset=paper"], "", "")
    assert (config.train.epochs, config.train.batch, config.train.holdout) == (30, 8, 0)
    assert (config.data.source, config.data.format) == ("elsewhere", "coco")
    assert read_config([name, "train.epochs=3", "preset=paper"], "", "").train.epochs == 3


def test_words_alone_are_settings_too() -> None:
    words = ["train.epochs=3"]
    assert read_config(words, "somewhere", "").model.backbone == "somewhere"
    assert words == ["train.epochs=3"]


@pytest.fixture
def coco(tmp_path: Path) -> Callable[..., Path]:
    """`coco(val={"images": []})`: two images for training and two for val, in the layout of COCO 2014, with changes."""

    def write(**changes: dict[str, object]) -> Path:
        for number, split in enumerate(("train", "val")):
            ids = [2 * number + 1, 2 * number + 2]
            marks = [{"id": i, "image_id": i, "category_id": 1 + i % 2} for i in ids]
            content: dict[str, object] = {
                "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
                "images": [{"id": i, "file_name": f"{i}.png", "width": 32, "height": 32} for i in ids],
                "annotations": marks,
            }
            (tmp_path / "annotations").mkdir(exist_ok=True)
            (tmp_path / f"{split}2014").mkdir(exist_ok=True)
            for i in ids:
                Image.new("RGB", (32, 32), (60 * i, 0, 0)).save(tmp_path / f"{split}2014" / f"{i}.png")
            file = tmp_path / "annotations" / f"instances_{split}2014.json"
            file.write_text(json.dumps({**content, **changes.get(split, {})}))
        return tmp_path

    return write


UNKNOWN = {"annotations": [{"id": 1, "image_id": 3, "category_id": 9}]}
NO_IMAGE = {"annotations": [{"id": 1, "image_id": 9, "category_id": 1}]}


@pytest.mark.parametrize(
    ("changes", "words", "message"),
    [
        ({}, ("data.evaluate=vall",), "did you mean 'val2014'?"),
        ({}, ("data.train=trainn",), "did you mean 'train2014'?"),
        ({}, ("data.evaluate=train",), "is the split to train on"),
        ({"train": {"categories": []}}, (), "its list of categories is empty"),
        ({"val": {"categories": None}}, (), "it has no list of categories"),
        ({"val": UNKNOWN}, (), "annotation 1: the category 9 is not in the list of 2 categories"),
        ({"val": NO_IMAGE}, (), "annotation 1: there is no image with id 9"),
        ({"val": {"images": [], "annotations": []}}, (), "the split 'val2014' has no usable images"),
        ({"val": {"annotations": []}}, (), "so there is nothing to measure"),
        ({}, ("scob.guidance=gt-mask",), "needs a data set with segmentation masks; this one has none"),
    ],
)
def test_bad_splits_and_annotations_are_one_sentence(
    coco: Callable[..., Path], small_words: tuple[str, ...], tmp_path: Path, scob: Callable[..., tuple[int, str, str]],
    changes: dict[str, dict[str, object]], words: tuple[str, ...], message: str,
) -> None:  # fmt: skip
    source = coco(**changes)
    given = [*small_words, "data.format=coco", f"data.source={source}", "data.evaluate=val", "train.epochs=1", *words]
    code, out, err = scob("train", *given, "--out", tmp_path / "run")
    assert (code, out) == (2, "") and "Traceback" not in err
    assert " ".join(err.split()).count("scob: ") == 1 and message in " ".join(err.split())


def test_val_of_the_packaged_coco_settings_is_val2014(
    coco: Callable[..., Path], small_words: tuple[str, ...], tmp_path: Path, scob: Callable[..., tuple[int, str, str]]
) -> None:
    words = [word for word in small_words if not word.startswith(("data.source", "data.evaluate"))]
    run = tmp_path / "run"
    code, out, err = scob("train", "coco2014", *words, f"data.source={coco()}", "train.epochs=2", "--out", run)
    assert code == 0
    assert [line.split()[3] for line in err.splitlines() if "epoch " in line] == ["mAP", "mAP"]
    assert "mAP on 2 images (val2014)" in out
    none = scob("train", "coco2014", *words, f"data.source={coco()}", "train.epochs=1", "data.evaluate=none",
                "--out", tmp_path / "none")  # fmt: skip
    assert "no evaluation split, so mAP is not reported" in " ".join(none[2].split())
    assert "not reported (no evaluation split)" in none[1]
