"""CAMs compared with segmentation."""

from dataclasses import replace

import numpy as np
import pytest

from scob.data.split import ObjectMasks
from scob.errors import UserError
from scob.labels import ABSENT
from scob.studies.reproduce.cams import observed_class, segmented_images, true_cells


def test_cells_are_max_pooled_and_void_leaves_open_only_what_shows_no_object():
    shown, void = np.zeros((8, 8), bool), np.zeros((8, 8), bool)
    shown[0, 0] = void[0, 1] = void[7, 7] = True  # an object with its void border; void alone in the far corner
    truth, left_out = true_cells(ObjectMasks({3: shown}, void), 3, (2, 2))
    assert truth.tolist() == [[True, False], [False, False]]
    assert left_out.tolist() == [[False, False], [False, True]]


def test_the_observed_class_is_that_of_the_draw(scenes_of, configure):
    data = scenes_of(configure())
    classes = observed_class(data)
    assert (data.observed.values[np.arange(len(classes)), classes] == 1).all()


def test_segmentations_are_those_of_the_observed_labels(scenes_of, configure):
    data = scenes_of(configure())
    images = segmented_images(data, ((8, 8), (4, 4)))
    assert images.truth[0].shape == (len(images.rows), 8, 8) and images.void[1].shape == (len(images.rows), 4, 4)
    first = data.train.masks.load(int(images.rows[0]))
    assert (images.truth[1][0] == true_cells(first, int(images.labels[0]), (4, 4))[0]).all()


def test_without_an_observed_label_there_is_nothing_to_compare(scenes_of, configure):
    data = scenes_of(configure())
    nothing = replace(data.observed, values=np.full_like(data.observed.values, ABSENT))
    with pytest.raises(UserError, match="table-cams needs segmentation"):
        segmented_images(replace(data, observed=nothing), ((8, 8), (4, 4)))
