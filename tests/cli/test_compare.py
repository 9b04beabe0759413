"""`scob compare` as a user runs it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scob.cli.compare import label_settings, print_rows
from scob.errors import UserError
from support.own_images import SMALL
from support.small_model import Small, write_scenes


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("compare") == [
        "--data",
        "--val",
        "--config",
        "--backbone",
        "--labels",
        "--seeds",
        "--top",
        "--out",
        "--methods-folder",
        "--list",
    ]


def test_observed_labels_as_settings() -> None:
    assert label_settings("") == []
    assert label_settings("single") == ["labels.kind=single"]
    assert label_settings("partial:0.1") == ["labels.kind=partial", "labels.fraction=0.1"]
    for wrong in ("half", "full:0.1"):
        with pytest.raises(UserError, match=f"--labels {wrong}"):
            label_settings(wrong)


def test_no_methods(refused: Callable[..., str]) -> None:
    assert "name the methods to compare" in refused("compare", "--data", "scenes")


def test_the_list_names_every_method(scob: Callable[..., tuple[int, str, str]]) -> None:
    from scob import methods

    code, out, _ = scob("compare", "--list")
    assert code == 0
    assert all(name in out for name in methods.names())


def test_the_list_describes_every_method_in_its_own_words(scob: Callable[..., tuple[int, str, str]]) -> None:
    from scob import methods

    _, out, _ = scob("compare", "--list")
    summaries = [(methods.find(name).__doc__ or "").partition("\n")[0] for name in methods.names()]
    assert all(summary.endswith(".") for summary in summaries)
    assert len(set(summaries)) == len(summaries)
    assert all(" ".join(summary.split()[:3]) in out for summary in summaries)  # the rest may be on the next line


def test_rows_without_numbers_are_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    row = dict.fromkeys(("mAP", "deviation", "share", "images per second", "seconds per epoch"))
    print_rows([{**row, "title": "Mine", "name": "mine"}])
    shown = capsys.readouterr().out
    assert shown.count("-") == 3 and "gap closed" not in shown  # a column that would be empty is left out
    print_rows([{**row, "title": "Mine", "name": "mine", "share": 40.0}])
    assert "40%" in capsys.readouterr().out


def test_own_images_are_compared_on_held_out_ones_or_on_a_table(
    scob: Callable[..., tuple[int, str, str]], small: Small, tmp_path: Path
) -> None:
    photos = write_scenes(tmp_path / "photos", 60)
    words = ("compare", "an", "role", "--data", tmp_path / "photos", "--backbone", small.backbone, *SMALL,
             "train.epochs=1", "train.device=cpu")  # fmt: skip
    code, out, err = scob(*words, "--out", tmp_path / "held-out")
    assert code == 0 and "ROLE" in out and "Assume negative" in out
    said = " ".join(err.split())
    assert said.count("epoch 1/1 mAP") == 2  # a line for each epoch, where there is no bar
    assert "12 held-out images by the labels you gave" in said and "to compare methods, not as accuracy" in said
    assert "by the labels you gave" in (tmp_path / "held-out" / "compare.md").read_text()
    lines = [f"photos/{f.relative_to(tmp_path / 'photos')},{f.parent.name}\n" for f in photos[:9]]
    (tmp_path / "val.csv").write_text("image,label\n" + "".join(lines))
    code, out, err = scob(*words, "--val", tmp_path / "val.csv", "--out", tmp_path / "val")
    assert code == 0 and "ROLE" in out
    assert "val.csv: a class that an image does not list counts as absent" in " ".join(err.split())


def test_full_labels_cannot_be_compared_without_them(scob: Callable[..., tuple[int, str, str]], small: Small) -> None:
    words = ("compare", "full", "role", "--data", small.photos, "--backbone", small.backbone, *SMALL)
    code, out, err = scob(*words)
    layout, refusal = err.splitlines()
    assert (code, out, layout) == (2, "", "taken as: one folder per class, 12 classes")
    assert refusal.startswith("scob: the method full needs every label of every image")


def test_val_needs_own_images(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "--val is for your own images" in refused("compare", "an", "--data", "scenes", "--val", tmp_path / "v.csv")
