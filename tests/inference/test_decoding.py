"""Decoding ahead: order, errors, and nothing left over when the reader stops."""

import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scob.errors import UserError
from scob.inference.decoding import as_list, decoded_ahead, decoded_batches, load_picture, name_of, reason


def test_batches_have_every_picture_in_order_and_name_what_is_broken(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"x")
    pictures = [np.full((4, 4, 3), n, np.uint8) for n in range(5)]
    pictures.insert(3, tmp_path / "bad.png")
    batches = list(decoded_batches(pictures, 8, 2))
    assert [[number for number, _, _ in group] for group in batches] == [[0, 1], [2, 3], [4, 5]]
    values = [None if pixels is None else int(pixels.max()) for group in batches for _, pixels, _ in group]
    assert values == [0, 1, 2, None, 3, 4]
    errors = [error for group in batches for _, _, error in group]
    assert [bool(error) for error in errors] == [False, False, False, True, False, False]
    assert "bad.png" not in errors[3]


def test_a_batch_without_images_is_refused() -> None:
    with pytest.raises(UserError, match="at least one image, not 0"):
        next(decoded_batches([], 8, 0))


def test_a_reader_that_stops_early_leaves_the_rest_undone() -> None:
    loaded: list[int] = []
    lock = threading.Lock()

    def load(number: int) -> int:
        with lock:
            loaded.append(number)
        return number

    with decoded_ahead(load, range(1000), ahead=4, threads=2) as results:
        assert [next(results), next(results)] == [0, 1]
    assert len(loaded) <= 6


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 4)])
def test_an_array_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"must be \(H, W, 3\) uint8"):
        load_picture(np.zeros(shape, np.uint8), 8)


def test_one_picture_or_several_are_a_list() -> None:
    array = np.zeros((4, 4, 3), np.uint8)
    picture = Image.fromarray(array)
    assert as_list("a.png") == ["a.png"] and as_list(Path("a.png")) == [Path("a.png")]
    assert len(as_list(array)) == len(as_list(picture)) == 1 and len(as_list(np.stack([array, array]))) == 2
    assert [name_of(p, n) for n, p in enumerate(["a.png", array])] == ["a.png", "image 1"]


def test_the_reason_has_neither_name_nor_advice() -> None:
    assert reason(UserError("a.png: this is not an image; remove it"), "a.png") == "this is not an image"
