"""Figures show what they are given, and are saved completely, with the same bytes each time, without a window."""

import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from scob.inference.plots import (
    calibration_curves,
    class_bars,
    precision_recall_curves,
    save_figure,
    training_curves,
)
from scob.training.metrics import Calibration, calibration


def words(figure):
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_class_bars_are_sorted_and_the_undefined_says_so():
    figure = class_bars({"cat": 40.0, "dog": 80.0, "unicorn": None})
    axes = figure.axes[0]
    assert [bar.get_width() for bar in axes.patches] == [80, 40]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["dog", "cat", "unicorn"]
    assert any(word.startswith("undefined") for word in words(figure)) and "mAP 60.0" in axes.get_title("left")


def test_class_bars_grow_with_the_classes():
    short, tall = (class_bars({str(i): 50.0 for i in range(n)}).get_figheight() for n in (20, 312))
    assert tall > 10 * short


def test_precision_recall_names_the_hardest():
    curves = {name: ([100.0, 50.0, 60.0], [30.0, 30.0, 100.0]) for name in "abcd"}
    figure = precision_recall_curves(curves, {"a": 90.0, "b": 10.0, "c": 50.0, "d": None}, named=2)
    assert [t.get_text() for t in figure.axes[0].get_legend().get_texts()] == [
        "b, AP 10.0",
        "c, AP 50.0",
        "the other 2",
    ]
    assert sum(len(line.get_xdata()) > 0 for line in figure.axes[0].lines) == 4


@pytest.mark.parametrize(("count", "shared"), [(2, 0), (3, 0), (4, 1), (6, 1)])
def test_panels_with_many_lines_share_one_legend_beside_them(count: int, shared: int):
    lines = {f"method {number}": ([1, 2], [number, number + 1.0]) for number in range(count)}
    figure = training_curves({"mAP": lines, "Loss": lines})
    assert len(figure.legends) == shared
    assert [axes.get_legend() is None for axes in figure.axes] == [bool(shared)] * 2


def test_training_curves_have_one_panel_per_quantity():
    figure = training_curves({"Loss": {"class": ([1, 2], [3.0, 2.0])}, "mAP": {"mAP": ([1, 2], [50.0, 60.0])}})
    assert [axes.get_title("left") for axes in figure.axes] == ["Loss", "mAP"]
    assert figure.axes[1].lines[0].get_ydata().tolist() == [50, 60]


def test_calibration_leaves_empty_bins_out():
    curve = calibration(np.array([[0.05], [0.95]]), np.array([[-1], [1]]))
    figure = calibration_curves({"ours": curve})
    assert figure.axes[0].lines[1].get_xdata() == pytest.approx([0.05, 0.95])
    empty = Calibration(np.zeros(10), np.zeros(10), np.zeros(10, dtype=np.int64))
    assert np.isnan(empty.error)


def test_a_figure_is_saved_as_png_and_svg_and_twice_the_same(tmp_path):
    figures = [class_bars({"cat": 40.0, "v1.5": 50.0}) for _ in range(2)]
    first, second = (save_figure(f, tmp_path / f"run.{n}" / "bars.v2") for n, f in enumerate(figures))
    assert [path.name for path in first] == ["bars.v2.png", "bars.v2.svg"]
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
    with Image.open(first[0]) as picture:
        assert picture.size[0] > 800 and len(picture.convert("RGB").getcolors(1 << 20)) > 10
    assert ElementTree.parse(first[1]).getroot().tag.endswith("svg") and "cat" in first[1].read_text()


def test_importing_the_module_imports_nothing_heavy():
    code = "import sys, scob.inference.plots; sys.exit('matplotlib' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
