"""The images that suggestions are about, and the files that show them."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scob.data.readers import open_split
from scob.errors import UserError
from scob.recovery.calibration import Calibrated
from scob.recovery.images import ScoredImages, files_to_show, image_paths, unlabelled
from support.small_model import Small


def test_broken_files_are_left_out_and_counted(small: Small, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"x")
    paths = [str(small.files[0]), str(tmp_path / "bad.png"), str(small.files[1])]
    split, broken = unlabelled(paths, ("cat", "dog"))
    assert broken == 1 and split.labels.images == (paths[0], paths[2]) and not split.labels.values.any()
    assert image_paths(split) == {path: path for path in split.labels.images}
    (tmp_path / "worse.png").write_bytes(b"")
    with pytest.raises(UserError, match="none of the 2 images can be read"):
        unlabelled([paths[1], str(tmp_path / "worse.png")], ("cat",))


def test_a_probability_comes_from_the_score_alone_and_from_whether_the_image_was_trained_on() -> None:
    scores, estimates = np.array([[0.4, 0.6], [0.4, 0.6]], np.float32), np.array([[0.8, 0.1], [np.nan] * 2], np.float32)
    split, labels, map_ = None, None, Calibrated(2.0, 0.5, 1.5)
    images = ScoredImages(split, labels, scores, estimates, np.array([True, False]), map_)  # type: ignore[arg-type]
    odds = np.array([[0.4 / 0.6, 0.6 / 0.4]]) ** 0.5 * np.exp([[0.5], [1.5]])
    assert images.probability == pytest.approx(odds / (1 + odds), abs=1e-6)
    new = ScoredImages(split, labels, scores, calibrated=map_)  # type: ignore[arg-type]
    assert new.probability[0] == pytest.approx(images.probability[1])
    assert ScoredImages(split, labels, scores).probability == pytest.approx(scores)  # type: ignore[arg-type]


def test_files_are_shown_where_they_are_and_drawn_images_are_saved(small: Small, tmp_path: Path) -> None:
    split, _ = unlabelled([str(small.files[0])], ("cat",))
    assert files_to_show(tmp_path, [str(small.files[0]), "other"], split) == {str(small.files[0]): str(small.files[0])}
    drawn = open_split("scenes:20x64", "train")
    assert image_paths(drawn) is None
    name = drawn.labels.images[3]
    assert files_to_show(tmp_path, [name, "other"], drawn) == {name: str(tmp_path / "images" / "0000003.png")}
    with Image.open(tmp_path / "images" / "0000003.png") as picture:
        assert (np.asarray(picture) == drawn.images.load(3)).all()


def test_an_unfinished_picture_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    drawn = open_split("scenes:20x64", "train")
    (tmp_path / "images").mkdir()
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = tmp_path / "images" / f".0000007.png.{ended.pid}.part"
    left.write_bytes(b"half")
    files_to_show(tmp_path, [drawn.labels.images[3]], drawn)
    assert not left.exists()
