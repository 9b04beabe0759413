"""A split: its images, labels and masks stay together when some of them are selected."""

import numpy as np

from scob.data.split import ArrayImages, ObjectBox, ObjectMasks, Split
from scob.labels import Labels


class NumberedMasks:
    """Image i has one mask, of class i."""

    def load(self, index: int) -> ObjectMasks:
        return ObjectMasks({index: np.ones((2, 2), np.bool_)}, np.zeros((2, 2), np.bool_))


class NumberedBoxes:
    """Image i has one box, of class i."""

    def load(self, index: int) -> tuple[ObjectBox, ...]:
        return (ObjectBox(index, (0.0, 0.0, 1.0, 1.0)),)


def numbered(count: int, masks: bool = True) -> Split:
    """Image i is filled with the value i."""
    pixels = np.arange(count, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    labels = Labels(("a",), tuple(str(i) for i in range(count)), np.ones((count, 1), np.int8))
    known = {"masks": NumberedMasks(), "boxes": NumberedBoxes()} if masks else {}
    return Split("train", labels, ArrayImages(pixels, "drawing"), **known)  # type: ignore[arg-type]


def test_a_selection_keeps_images_labels_masks_and_boxes_together() -> None:
    some = numbered(6).select([5, 2]).select([1])
    assert len(some) == len(some.images) == 1
    assert some.labels.images == ("2",)
    assert some.images.load(0)[0, 0, 0] == 2
    assert some.images.where(0) == "drawing 2"
    assert some.masks is not None
    mask = some.masks.load(0)
    assert mask is not None and list(mask.present) == [2]
    assert some.boxes is not None
    boxes = some.boxes.load(0)
    assert boxes is not None and [box.label for box in boxes] == [2]


def test_a_selection_of_a_split_without_masks_and_boxes_has_none() -> None:
    some = numbered(3, masks=False).select([0])
    assert some.masks is None and some.boxes is None


def test_a_class_without_a_known_pixel_has_no_mask() -> None:
    shown, void = np.array([[True, False]]), np.array([[False, True]])
    objects = ObjectMasks({1: shown, 2: ~shown, 3: np.zeros_like(shown)}, void)
    assert objects.of(1) is shown
    assert objects.of(2) is objects.of(3) is objects.of(4) is None


def test_images_in_memory_are_resized_only_when_asked() -> None:
    images = numbered(3).images
    assert images.load(1).shape == (2, 2, 3)
    assert images.load(1, 2).shape == (2, 2, 3)
    larger = images.load(1, 5)
    assert larger.shape == (5, 5, 3) and (larger == 1).all()
