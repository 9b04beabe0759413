"""Names in tables that are not paths: the end of a path, without a suffix, or from another folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scob.data.readers.named_images import NamedImages
from scob.errors import UserError

Painter = Callable[..., Path]


@pytest.fixture
def images(tmp_path: Path, paint: Painter) -> NamedImages:
    for name in ("a.png", "train/b.jpg", "train/x/c.png", "val/x/c.png"):
        paint(tmp_path / name)
    return NamedImages(tmp_path)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.png", "a.png"),
        ("./train/../a.png", "a.png"),
        ("b.jpg", "train/b.jpg"),
        ("b", "train/b.jpg"),
        ("photos/a.png", "a.png"),
        ("val/x/c", "val/x/c.png"),
    ],
)
def test_a_name_fits_one_image(images: NamedImages, name: str, found: str) -> None:
    path, shown = images.find(name, "row 1")
    assert shown == found
    assert Path(path) == images.root.folder / found


def test_a_name_that_fits_two_images_is_refused(images: NamedImages) -> None:
    with pytest.raises(UserError, match=r"row 7: 'c' could be train/x/c\.png or val/x/c\.png; write the whole path"):
        images.find("c", "row 7")


@pytest.mark.parametrize("name", ["nothing.png", "../a.png", "b.png", "http://example.org/a.png"])
def test_a_name_that_fits_none_says_so(images: NamedImages, name: str) -> None:
    with pytest.raises(UserError, match=r"row 2: .*(does not exist|outside)"):
        images.find(name, "row 2")
