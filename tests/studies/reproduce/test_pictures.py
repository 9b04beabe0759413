"""Which objects the figures of masks show, and how."""

import numpy as np
import torch

from scob.data.readers import open_split
from scob.labels import PRESENT
from scob.studies.reproduce import pictures
from scob.studies.reproduce.pictures import ShownObject


def test_a_mask_keeps_what_it_covers():
    picture = np.full((8, 8, 3), 200, np.uint8)
    mask = torch.tensor([[True, False], [False, False]])
    dimmed = pictures.dim(picture, mask)
    assert (dimmed[:4, :4] == 200).all() and (dimmed[4:] == int(200 * pictures.DIMMED)).all()


def test_rows_of_fig_masks_show_other_images_and_classes():
    objects = [
        ShownObject(0, 0, 0.2, 1),
        ShownObject(0, 1, 0.1, 1),
        ShownObject(1, 1, 0.05, 2),
        ShownObject(2, 2, 0.3, 0),
        ShownObject(3, 2, 0.001, 3),
    ]
    selection = pictures.choose_objects(objects, 3)
    assert [(s.row, s.label) for s in selection] == [(1, 1), (0, 0), (2, 2)]  # others around first; no specks
    objects = [ShownObject(0, 0, 0.02, 1), ShownObject(1, 1, 0.2, 1), ShownObject(2, 2, 0.1, 1)]
    selection = pictures.choose_objects(objects, 3)
    assert [s.row for s in selection] == [2, 1, 0]  # what a coarse grid hardly shows comes last


def test_classes_show_a_large_a_small_and_a_crowded_object():
    objects = [
        ShownObject(0, 0, 0.5, 0),
        ShownObject(1, 0, 0.02, 1),
        ShownObject(2, 0, 0.2, 4),
        ShownObject(3, 1, None, 1),
    ]
    groups = pictures.by_class(objects, 3, 8)
    assert [s.row for s in groups[0]] == [0, 1, 2]
    assert [s.row for s in groups[1]] == [3, 3, 3] and len(groups) == 2


def test_a_crowded_object_is_from_a_new_image_if_there_is_one():
    ends = [ShownObject(10 * label + row, label, area, 0) for label in (1, 2) for row, area in ((1, 0.5), (2, 0.02))]
    crowded = [ShownObject(0, 1, 0.1, 5), ShownObject(0, 2, 0.1, 5), ShownObject(7, 2, 0.1, 1)]
    groups = pictures.by_class([*ends, *crowded], 3, 3)
    assert {group[2].label: group[2].row for group in groups} == {2: 0, 1: 0}  # the first by frequency is class 2
    groups = pictures.by_class([*ends, *crowded, ShownObject(8, 1, 0.1, 1)], 3, 3)
    assert {group[2].label: group[2].row for group in groups} == {1: 0, 2: 7}


def test_objects_are_the_known_positives_with_their_areas():
    split = open_split("scenes:10x64", "train")
    objects = pictures.objects_of(split)
    assert len(objects) == int((split.labels.values == PRESENT).sum())
    for shown in objects[:5]:
        assert split.labels.values[shown.row, shown.label] == PRESENT
        assert shown.area == float(split.masks.load(shown.row).present[shown.label].mean())
