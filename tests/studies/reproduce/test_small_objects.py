"""The smallest classes of a data set."""

from dataclasses import replace

import numpy as np
import pytest

from scob.data.readers import open_split
from scob.errors import UserError
from scob.studies.reproduce.small_objects import median_areas


def test_areas_are_medians_over_images():
    split = open_split("scenes:20x64", "train")
    areas = median_areas(split)
    name = split.labels.classes[0]
    own = [100 * m.present[0].mean() for m in (split.masks.load(row) for row in range(20)) if 0 in m.present]
    assert areas[name] == pytest.approx(np.median(own))


def test_without_masks_there_are_no_areas():
    split = replace(open_split("scenes:4x64", "train"), masks=None)
    with pytest.raises(UserError, match="needs segmentation masks"):
        median_areas(split)
