"""VOC: the difficult rule, the masks, what is refused, and the official counts if the real data is here."""

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scob.data.readers import infer_format, open_split, splits_of
from scob.data.readers.voc import CLASSES, PaletteMasks
from scob.data.split import ReadOptions
from scob.errors import UserError

Painter = Callable[..., Path]


def positives(root: Path, difficult: str) -> tuple[list[str], list[str]]:
    labels = open_split(str(root), "trainval", ReadOptions(difficult=difficult)).labels
    present = [CLASSES[c] for c in np.flatnonzero((labels.values == 1).any(axis=0))]
    unknown = [CLASSES[c] for c in np.flatnonzero((labels.values == 0).any(axis=0))]
    return present, unknown


def test_layout_is_recognised_and_splits_leave_out_class_lists(voc: Path) -> None:
    assert infer_format(str(voc)) == infer_format(str(voc.parent)) == "voc"
    assert splits_of(str(voc)) == ("train", "val", "trainval")
    split = open_split(str(voc), "train")
    assert split.labels.images == ("000001", "000002")
    assert split.expected_positives == 1.5
    assert split.images.where(1).endswith("000002.jpg (VOC2007/ImageSets/Main/train.txt line 2)")
    assert len(open_split(str(voc), None)) == 3


def test_difficult(voc: Path) -> None:
    assert positives(voc, "negative") == (["chair"], [])
    assert positives(voc, "positive") == (["chair", "person", "sofa"], [])
    assert positives(voc, "ignore") == (["chair"], ["person", "sofa"])


def test_an_image_with_no_positive_is_kept(voc: Path) -> None:
    split = open_split(str(voc), "val")
    assert split.labels.images == ("000003",)
    assert (split.labels.values == -1).all()


def test_masks(voc: Path) -> None:
    assert open_split(str(voc), "train").masks is None
    numbers = np.zeros((18, 24), np.uint8)
    numbers[:4], numbers[5:7], numbers[9] = CLASSES.index("chair") + 1, 15, 255
    (voc / "SegmentationClass").mkdir()
    image = Image.fromarray(numbers, "L").convert("P")
    image.putdata(numbers.ravel().tolist())
    image.save(voc / "SegmentationClass" / "000001.png")
    masks = open_split(str(voc), "train").masks
    assert masks is not None
    objects = masks.load(0)
    assert objects is not None
    assert sorted(objects.present) == [CLASSES.index("chair"), CLASSES.index("person")]
    np.testing.assert_array_equal(objects.present[CLASSES.index("chair")], numbers == CLASSES.index("chair") + 1)
    np.testing.assert_array_equal(objects.void, numbers == 255)
    assert masks.load(1) is None
    (voc / "SegmentationClass" / "000002.png").write_bytes(b"no")
    with pytest.raises(UserError, match=r"000002\.png: the mask is damaged"):
        masks.load(1)


def annotate(voc: Path, inner: str) -> None:
    (voc / "Annotations" / "000001.xml").write_text(f"<annotation>{inner}</annotation>")


SIZE = "<size><width>200</width><height>100</height></size>"
CHAIR = "<object><name>chair</name><bndbox><xmin>21</xmin><ymin>11</ymin><xmax>100</xmax><ymax>50</ymax></bndbox>"


def test_boxes_are_fractions_of_the_annotations_own_size(voc: Path) -> None:
    """The stored image is 24 x 18; the annotation's was 200 x 100. Pixels count from 1, and the last one is inside."""
    outside = "<bndbox><xmin>-9</xmin><ymin>1</ymin><xmax>230</xmax><ymax>100</ymax></bndbox>"
    person = f"<object><name>person</name><difficult>1</difficult>{outside}</object>"
    annotate(voc, f"{SIZE}{CHAIR}</object>{person}")
    boxes = open_split(str(voc), "train").boxes
    assert boxes is not None
    chair, other = boxes.load(0) or ()
    assert (chair.label, chair.corners, chair.difficult) == (CLASSES.index("chair"), (0.1, 0.1, 0.5, 0.5), False)
    assert (other.label, other.corners, other.difficult) == (CLASSES.index("person"), (0.0, 0.0, 1.0, 1.0), True)


def test_an_annotation_without_boxes_or_size_has_none(voc: Path) -> None:
    boxes = open_split(str(voc), "train").boxes
    assert boxes is not None and boxes.load(0) is None
    annotate(voc, f"{CHAIR}</object>")
    assert boxes.load(0) is None
    annotate(voc, SIZE)
    assert boxes.load(0) == ()


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (SIZE.replace("200", "0") + CHAIR + "</object>", r"000001\.xml: the image cannot have 0 x 100 pixels"),
        (SIZE.replace("200", "wide") + CHAIR + "</object>", r"000001\.xml: <width> is 'wide', not a number"),
        (SIZE + CHAIR.replace("21", "nan") + "</object>", r"000001\.xml: <xmin> is 'nan', not a number"),
        (SIZE + CHAIR.replace("21", "101") + "</object>", r"000001\.xml: the box of a chair ends before it begins"),
    ],
)
def test_an_impossible_box_names_its_file(voc: Path, inner: str, message: str) -> None:
    annotate(voc, inner)
    boxes = open_split(str(voc), "train").boxes
    assert boxes is not None
    with pytest.raises(UserError, match=message):
        boxes.load(0)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda v: (v / "JPEGImages/000002.jpg").unlink(),
            r"train\.txt line 2: the image .*000002\.jpg' does not exist",
        ),
        (lambda v: (v / "Annotations/000002.xml").unlink(), r"train\.txt line 2: there is no annotation"),
        (lambda v: (v / "Annotations/000002.xml").write_text("<a>"), r"train\.txt line 2: .*cannot be read"),
        (
            lambda v: (v / "Annotations/000002.xml").write_text("<a><object><name>dgo</name></object></a>"),
            r"000002\.xml: the label 'dgo' is not in the list of 20 classes.*'dog'",
        ),
        (lambda v: (v / "ImageSets/Main/train.txt").write_text("000001\n000001\n"), r"train\.txt line 2: .*already"),
        (lambda v: (v / "ImageSets/Main/train.txt").write_text("000001\n../../x\n"), r"train\.txt line 2: .*outside"),
    ],
)
def test_bad_input_names_the_row_and_can_be_skipped(voc: Path, spoil: Callable[[Path], object], message: str) -> None:
    spoil(voc)
    with pytest.raises(UserError, match=message):
        open_split(str(voc), "train")
    split = open_split(str(voc), "train", ReadOptions(skip_bad=True))
    assert split.labels.images == ("000001",)
    assert len(split.skipped) == 1


def test_no_such_split(voc: Path) -> None:
    for name in ("test", "../Main/train", "Main/none"):
        with pytest.raises(UserError, match="it has: train, val, trainval"):
            open_split(str(voc), name)
    assert len(open_split(str(voc), "Main/train")) == 2


@pytest.mark.parametrize(("split", "count"), [("train", 2500), ("val", 2510)])
def test_real_counts_are_those_of_the_official_lists(shared: Path, split: str, count: int) -> None:
    root = shared / "VOC2007"
    for difficult, words in (("negative", {"1"}), ("positive", {"1", "0"})):
        labels = open_split(str(root), split, ReadOptions(difficult=difficult)).labels
        assert len(labels) == count
        for column, name in enumerate(CLASSES):
            lines = (root / "ImageSets" / "Main" / f"{name}_{split}.txt").read_text().splitlines()
            official = {line.split()[0] for line in lines if line.split()[1] in words}
            ours = {labels.images[i] for i in np.flatnonzero(labels.values[:, column] == 1)}
            assert ours == official


def test_real_masks_fit_their_images(shared: Path) -> None:
    split = open_split(str(shared / "VOC2012seg"), "train")
    assert len(split) == 732
    assert split.masks is not None
    for row in range(0, 732, 100):
        mask = split.masks.load(row)
        assert mask is not None
        assert mask.void.shape == split.images.load(row).shape[:2]
        assert set(np.flatnonzero(split.labels.values[row] == 1)) <= set(mask.present)


def test_real_boxes_are_of_the_classes_that_are_there(shared: Path) -> None:
    split = open_split(str(shared / "VOC2007"), "val", ReadOptions(difficult="positive"))
    assert split.boxes is not None
    for row in range(0, len(split), 25):
        boxes = split.boxes.load(row)
        assert boxes
        assert {box.label for box in boxes} == set(np.flatnonzero(split.labels.values[row] == 1))
        assert all(0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1 for x0, y0, x1, y1 in (box.corners for box in boxes))


@pytest.mark.parametrize("side", [10_000, 20_000])  # below and above Pillow's own limit
def test_a_mask_with_too_many_pixels_is_refused_before_it_is_decoded(tmp_path: Path, side: int) -> None:
    path = tmp_path / "a.png"
    Image.new("L", (4, 4)).save(path)
    raw = bytearray(path.read_bytes())
    raw[16:24] = side.to_bytes(4, "big") * 2
    raw[29:33] = zlib.crc32(raw[12:29]).to_bytes(4, "big")
    path.write_bytes(raw)
    with pytest.raises(UserError, match=r"million pixels|exceeds limit"):
        PaletteMasks((str(path),), 20).load(0)
