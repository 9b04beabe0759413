"""The demo's page, piece by piece."""

import numpy as np
import pytest

from scob.config import Config, resolve
from scob.studies.demo_report import epoch_choice, gap_closed, overlay, scene, spread
from scob.studies.demo_results import Demo, Picture


def test_spread() -> None:
    assert spread([80.0]) == "80.0"
    assert spread([80.0, 82.0]) == "81.0 ± 1.4"
    assert spread([float("nan")]) == "–"


def test_how_much_of_the_gap_is_closed() -> None:
    results = Demo(
        Config(), {m: {"mAP": v} for m, v in {"role": [60, 62], "pairs": [64, 65], "full": [70, 72]}.items()}
    )
    assert gap_closed(results, "pairs") == pytest.approx(35)
    results.values["full"]["mAP"] = [61, 61]
    assert np.isnan(gap_closed(results, "pairs"))


@pytest.mark.parametrize(
    ("select", "words"), [("last", "last epoch"), ("best-on-test", "reported split itself"), ("holdout", "held-out")]
)
def test_the_page_says_which_epoch_its_numbers_are_of(select: str, words: str) -> None:
    assert words in epoch_choice(resolve({"train": {"select": select}}))


def test_a_label_that_is_not_there_is_struck_through_and_names_are_escaped() -> None:
    mask = np.zeros((4, 4), bool)
    mask[1:3, 1:3] = True
    pixels = np.zeros((16, 16, 3), np.uint8)
    card = scene(Picture(pixels, ["<cat>"], [("dog", 0.9, True, mask), ("fish", 0.6, False, mask)], ["bird"]))
    assert "&lt;cat&gt;" in card and "<cat>" not in card
    assert card.count("tag wrong") == 1 and "fish 0.60" in card and "missed: bird" in card


def test_a_mask_is_outlined_in_its_colour_on_a_picture_twice_the_size() -> None:
    mask = np.zeros((4, 4), bool)
    mask[1:3, 1:3] = True
    drawn = np.asarray(overlay(np.zeros((16, 16, 3), np.uint8), [mask]))
    assert drawn.shape == (32, 32, 3)
    assert tuple(drawn[0, 0]) == (0, 0, 0) and (drawn == (214, 39, 40)).all(axis=2).any()
