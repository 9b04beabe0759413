"""Measures of images: sharpness, darkness, and which look the same."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from scob.data.images import ImageFiles
from scob.data.measure_images import look, measure, near_duplicates, sharpness
from scob.data.split import Split
from scob.labels import Labels


def photo(seed: int) -> Image.Image:
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)).resize((320, 240))
    return Image.fromarray((np.asarray(coarse) * 0.9 + rng.integers(0, 25, (240, 320, 3))).astype(np.uint8))


def split(folder: Path, images: dict[str, Image.Image]) -> Split:
    folder.mkdir(parents=True, exist_ok=True)
    for name, image in images.items():
        image.save(folder / name)
    labels = Labels(("a",), tuple(images), np.ones((len(images), 1), np.int8))
    return Split(folder.name, labels, ImageFiles(tuple(str(folder / name) for name in images)))


def test_copies_are_found_within_and_across_splits(tmp_path: Path) -> None:
    one = photo(0)
    train = {"a.png": one, "again.jpg": one.resize((200, 150)), **{f"{n}.png": photo(n) for n in range(1, 12)}}
    val = {"leak.jpg": one.point(lambda v: min(255, v + 4)), "other.png": photo(50)}
    measured = [measure(split(tmp_path / "train", train)), measure(split(tmp_path / "val", val))]
    assert near_duplicates(measured) == [[(0, 0), (0, 1), (1, 0)]]


def test_flat_pictures_of_other_colours_are_not_copies(tmp_path: Path) -> None:
    flat = {f"{n}.png": Image.new("RGB", (64, 64), colour) for n, colour in enumerate(("red", "blue", "white"))}
    assert near_duplicates([measure(split(tmp_path / "flat", flat))]) == []


def test_dark_blurred_and_broken(tmp_path: Path) -> None:
    images = {f"{n}.png": photo(n) for n in range(8)}
    images["dark.png"] = photo(9).point(lambda v: v // 20)
    images["soft.png"] = photo(10).filter(ImageFilter.GaussianBlur(12))
    data = split(tmp_path / "x", images)
    (tmp_path / "x" / "3.png").write_bytes(b"no")
    found = measure(data)
    assert (found.dark(), found.blurred(), list(found.broken)) == ([8], [9], [3])
    assert (found.width[0], found.height[0]) == (320, 240)


def test_what_is_measured_is_what_it_says() -> None:
    step = np.tile(np.linspace(0, 255, 128, dtype=np.float32), (128, 1))
    assert sharpness(step) < 1e-3 < sharpness(np.random.default_rng(0).normal(0, 9, (128, 128)).astype(np.float32))
    assert int(np.unpackbits(look(step)).sum()) == 64  # brighter to the right in every place, and nowhere downwards
