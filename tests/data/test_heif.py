"""Photographs as phones make them."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scob.data import heif
from scob.data.check import without_broken
from scob.data.images import decode, image_names
from scob.data.readers import open_split
from scob.errors import UserError
from scob.installation import install_line
from scob.recovery.web.pictures import picture

pillow_heif = pytest.importorskip("pillow_heif")


def photograph(path: Path, colour: tuple[int, int, int] = (200, 40, 40), size: tuple[int, int] = (96, 64)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pillow_heif.from_pillow(Image.new("RGB", size, colour)).save(path, quality=90)
    return path


@pytest.fixture
def without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    monkeypatch.setattr(heif, "register", heif.register.__wrapped__)
    Image.init()
    monkeypatch.setattr(Image, "OPEN", {kind: how for kind, how in Image.OPEN.items() if kind != "HEIF"})
    monkeypatch.setattr(Image, "ID", [kind for kind in Image.ID if kind != "HEIF"])


def test_a_heic_photograph_is_an_image(tmp_path: Path) -> None:
    path = photograph(tmp_path / "cat" / "IMG_0001.HEIC")
    assert image_names(tmp_path) == ["cat/IMG_0001.HEIC"]
    pixels = decode(path)
    assert pixels.shape == (64, 96, 3) and np.abs(pixels.mean(axis=(0, 1)) - (200, 40, 40)).max() < 8
    assert decode(path, 32).shape == (32, 32, 3) and decode(path.read_bytes()).shape == (64, 96, 3)
    assert picture(path, 192)[1] == "image/jpeg"


def test_a_folder_of_them_is_read(tmp_path: Path) -> None:
    for name in ("cat/a.heic", "dog/b.HEIC", "dog/c.heif"):
        photograph(tmp_path / name)
    split = without_broken(open_split(str(tmp_path), None))
    assert len(split) == 3 and split.labels.classes == ("cat", "dog") and split.skipped == ()


def test_without_the_extra_there_is_one_sentence(tmp_path: Path, without_the_extra: None) -> None:
    path = tmp_path / "a.heic"
    path.write_bytes(b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic" + bytes(64))
    with pytest.raises(UserError) as said:
        decode(path)
    assert str(said.value) == f"{path}: {heif.NEEDED}: {install_line('heic')}"
    with pytest.raises(UserError, match="pip install pillow-heif"):
        picture(path, 192)


def test_what_is_no_photograph_is_still_named_so(tmp_path: Path) -> None:
    path = tmp_path / "a.heic"
    path.write_bytes(b"not an image at all")
    with pytest.raises(UserError, match="not an image of a known kind"):
        decode(path)
    assert not heif.is_heif(b"") and heif.is_heif(b"\x00\x00\x00\x18ftypheic")
