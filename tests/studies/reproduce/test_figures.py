"""Figures of the reproduction show what they are given."""

import numpy as np
import pytest

from scob.studies.reproduce.figures import distribution_maps, picture_grid, setting_lines


def words(figure):
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_distribution_map_has_epochs_to_the_right_and_probability_upwards():
    shares = np.zeros((5, 10))
    shares[4, 0] = 1
    figure = distribution_maps({"ROLE": shares, "Scob": shares})
    image = figure.axes[0].images[0]
    assert image.get_array().shape == (10, 5) and image.get_array()[0, 4] == 1
    assert image.origin == "lower" and image.get_extent() == [0.5, 5.5, 0, 1]


def test_setting_lines_show_means_levels_and_the_paper():
    figure = setting_lines(
        {"Scob": {10: [60.0, 62.0], 1: [50.0, 50.0]}},
        "t",
        levels={"Baseline": 45.0},
        paper_chosen=1,
        paper_points={"Scob": {1: 74.8}},
        log_x=True,
    )
    axes = figure.axes[0]
    assert axes.lines[0].get_ydata().tolist() == [50, 61] and axes.lines[0].get_xdata() == pytest.approx([0, 1])
    assert {"Scob", "Baseline, 45.0", "Scob, paper", "the paper's choice", "1", "10"} <= set(words(figure))


def test_zero_has_a_position_on_a_logarithmic_axis():
    axes = setting_lines({"Scob": {0: [1.0], 0.1: [2.0], 1: [3.0]}}, "lambda", log_x=True).axes[0]
    assert axes.lines[0].get_xdata() == pytest.approx([-2, -1, 0])


def test_pictures_are_in_their_rows():
    black, white = np.zeros((4, 6, 3), dtype=np.uint8), np.full((4, 6, 3), 255, dtype=np.uint8)
    figure = picture_grid([[black, white], [white, black]], ["Image", "Scob"], ["dog", "cat"])
    assert [int(axes.images[0].get_array().max()) for axes in figure.axes] == [0, 255, 255, 0]
    assert {"Image", "Scob", "dog", "cat"} <= set(words(figure))
