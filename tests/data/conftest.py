"""Small images and small copies of the official layouts, written for the tests."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from scob.data.feed import Feed, FeedOptions
from scob.data.images import ImageFiles
from scob.data.split import Split
from scob.labels import Labels

Painter = Callable[..., Path]
Decoded = Callable[[Iterable[int]], torch.Tensor]


@pytest.fixture
def paint() -> Painter:
    """Write a small picture whose pixels depend on `seed`."""

    def write(path: Path, size: tuple[int, int] = (24, 18), seed: int = 0, **options: object) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize(size).save(path, **options)
        return path

    return write


@pytest.fixture
def split(tmp_path: Path, paint: Painter) -> Split:
    """Forty image files, 00.png to 39.png, all of class 'a'."""
    paths = [str(paint(tmp_path / "images" / f"{i:02}.png", seed=i)) for i in range(40)]
    values = np.ones((40, 1), np.int8)
    return Split("train", Labels(("a",), tuple(f"{i:02}" for i in range(40)), values), ImageFiles(tuple(paths)))


@pytest.fixture
def decoded(split: Split) -> Decoded:
    """What a feed must return: rows of `split`, decoded one by one at 16 pixels, (B, 3, 16, 16)."""

    def decode_each(rows: Iterable[int]) -> torch.Tensor:
        return torch.from_numpy(np.stack([split.images.load(int(row), 16).transpose(2, 0, 1) for row in rows]))

    return decode_each


@pytest.fixture
def voc(tmp_path: Path, paint: Painter) -> Path:
    """Three images: chair and a difficult person; only a difficult sofa; nothing."""
    root = tmp_path / "VOC2007"
    objects = {"000001": [("chair", 0), ("person", 1)], "000002": [("sofa", 1)], "000003": []}
    for number, (name, things) in enumerate(objects.items()):
        paint(root / "JPEGImages" / f"{name}.jpg", seed=number)
        inner = "".join(
            f"<object><name>{n}</name><difficult>{d}</difficult><part><name>head</name></part></object>"
            for n, d in things
        )
        path = root / "Annotations" / f"{name}.xml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"<annotation>{inner}</annotation>")
    main = root / "ImageSets" / "Main"
    main.mkdir(parents=True)
    (main / "train.txt").write_text("000001\n000002\n")
    (main / "val.txt").write_text("000003\n")
    (main / "trainval.txt").write_text("000001\n000002\n000003\n")
    (main / "chair_train.txt").write_text("000001  1\n000002 -1\n")
    (main / "train_train.txt").write_text("000001 -1\n000002 -1\n")
    return root


@pytest.fixture
def shared() -> Path:
    """The folder of real data, if there is one."""
    folder = Path(os.environ.get("SCOB_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "data"
    if not (folder / "VOC2007" / "JPEGImages").is_dir():
        pytest.skip("the real VOC folder is not here; set SCOB_SHARED to the folder that contains data/VOC2007")
    return folder


@pytest.fixture
def worked(split: Split) -> Iterator[Feed]:
    """A feed with two decoding processes."""
    with Feed(split, 16, torch.device("cpu"), FeedOptions(workers=2)) as feed:
        yield feed
