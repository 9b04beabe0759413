"""Figures over the values of one setting."""

import csv

from scob.parallel import Processes
from scob.studies.reproduce.curves import LABELS, setting_figure
from scob.studies.reproduce.lab import Lab, ReproductionRequest
from scob.studies.reproduce.paper import paper_figures
from scob.studies.reproduce.registry import settings_for


def test_every_figure_of_a_setting_has_an_axis_label():
    assert set(LABELS) == {name for name, figure in paper_figures().items() if figure.setting}


def test_the_figure_and_its_numbers(small_words, tmp_path):
    words = [*small_words, "data.evaluate=val", "train.epochs=1"]
    lab = Lab(settings_for("scenes", overrides=words), tmp_path, processes=Processes())
    written = setting_figure(ReproductionRequest((lab,), tmp_path), "fig-gamma", (0.5,))
    lab.close()
    assert {path.suffix for path in written} == {".png", ".svg", ".md", ".csv", ".json"}
    with (tmp_path / "fig-gamma.csv").open() as sheet:
        assert [row["value"] for row in csv.DictReader(sheet)] == ["0.5", "ROLE", "full labels"]
    text = (tmp_path / "fig-gamma.md").read_text()
    assert "The paper says about its own figure: Above 0.5" in text and "89.7" in text
