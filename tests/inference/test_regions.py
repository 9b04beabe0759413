"""From maps to regions: masks at any size, boxes, run lengths."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pycocotools import mask as coco

from scob.inference.regions import box_of, enlarge, rle


@given(arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_run_lengths_come_back_as_the_mask_and_the_box_fits_exactly(mask: np.ndarray) -> None:
    packed = rle(mask)
    assert (coco.decode({**packed, "counts": packed["counts"].encode()}) == mask).all()
    box = box_of(mask)
    assert (box is None) == (not mask.any())
    if box is not None:
        height, width = mask.shape
        x0, y0, x1, y1 = (round(side * length) for side, length in zip(box, (width, height) * 2, strict=True))
        assert mask[y0:y1, x0:x1].sum() == mask.sum()
        assert mask[y0].any() and mask[y1 - 1].any() and mask[:, x0].any() and mask[:, x1 - 1].any()


def test_a_map_grows_without_moving() -> None:
    heat = np.zeros((4, 4), np.float32)
    heat[1, 2] = 1
    grown = enlarge(heat, 40, 80)
    y, x = (grown > 0.9).nonzero()
    assert abs(y.mean() + 0.5 - 15) < 1 and abs(x.mean() + 0.5 - 50) < 1
