"""Every table and figure, made for real on a few drawn scenes."""

import csv
import json

import pytest

from scob.errors import UserError
from scob.parallel import Processes
from scob.studies.reproduce.registry import REPRODUCTIONS, costs, reproduce
from scob.training.events import RunBegins

FIFTEEN = {
    "table-main", "table-metrics", "table-ablation", "fig-gamma", "table-contrastive", "fig-lambda", "fig-negatives",
    "table-masks", "table-cams", "table-optimisation", "table-speed", "table-small-objects", "fig-masks",
    "fig-class-masks", "fig-distribution",
}  # fmt: skip
QUICK = ("table-small-objects", "fig-distribution", "table-masks")


def test_all_fifteen_are_there_and_say_their_cost():
    assert set(REPRODUCTIONS) == FIFTEEN
    assert costs("table-ablation") == 9 and costs("fig-class-masks") == 1
    assert all(costs(name) > 0 for name in FIFTEEN)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduction")


@pytest.fixture(scope="module")
def made(out, small_words):
    """`made(name)`: its files by ending, all names sharing one folder of runs."""

    def make(name, **options):
        words = [*small_words, "data.evaluate=val", "data.source=scenes:60x64", "train.epochs=2", "train.holdout=0.1"]
        written = reproduce(name, out=out, overrides=words, processes=Processes(), **options)
        assert all(path.is_file() and path.stem == name for path in written)
        return {path.suffix[1:]: path for path in written}

    return make


@pytest.mark.parametrize("name", QUICK)
def test_quick(made, name):
    check(name, made(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in REPRODUCTIONS if n not in (*QUICK, "table-main")])
def test_the_others(made, name):
    check(name, made(name))


@pytest.mark.slow
def test_table_main_with_every_method(made):
    files = made("table-main")
    check("table-main", files)
    rows = json.loads(files["json"].read_text())["rows"]
    for row in rows:  # every row of ours was trained
        if row["paper voc2007"] is None:
            assert isinstance(row["scenes"], dict), row


def check(name, files):
    wanted = {"md", "csv", "json"} | ({"png", "svg"} if name.startswith("fig-") else set())
    assert set(files) == wanted
    report = json.loads(files["json"].read_text())
    assert {"Weights", "Images", "Observed labels", "Epoch", "Seeds"} <= set(report["used"])
    text = files["md"].read_text()
    assert "SHA-256" in text and "holdout_labels: observed" in text
    with files["csv"].open() as sheet:
        assert len(list(csv.reader(sheet))) == 1 + len(report["rows"])
    if name.startswith("table-"):
        assert any("paper" in key for key in report["columns"])
        assert any("share" in key for key in report["columns"])
        ours = [
            row for row in report["rows"] if any(isinstance(cell, dict) and "values" in cell for cell in row.values())
        ]
        assert len(ours) >= 3


def test_masks_of_the_ground_truth_are_counted(made):
    used = json.loads(made("table-masks")["json"].read_text())["used"]
    told = used["Ground-truth masks (scenes:60x64)"]
    assert told == "54 of 54 training images; the others used their CAM"


def test_nothing_is_trained_twice(made, out):
    made("table-small-objects")
    before = {run: (out / "runs" / run / "summary.json").stat().st_mtime_ns for run in sorted_runs(out)}
    assert before
    told = []
    made("table-small-objects", listen=told.append)
    assert [event.reused for event in told if isinstance(event, RunBegins)] == [True] * 3
    assert before == {run: (out / "runs" / run / "summary.json").stat().st_mtime_ns for run in sorted_runs(out)}


def sorted_runs(out):
    return sorted(path.name for path in (out / "runs").iterdir())


def test_two_seeds_give_a_deviation(made):
    files = made("table-small-objects", seeds=2)
    rows = json.loads(files["json"].read_text())["rows"]
    cells = [row["AP"] for row in rows if isinstance(row["AP"], dict)]
    assert cells and all(len(cell["values"]) == 2 and cell["deviation"] is not None for cell in cells)
    assert "±" in files["md"].read_text()


def test_what_cannot_be_made_is_told_before_anything_runs(tmp_path):
    for options, words in (
        ({"name": "table-ablatoin"}, "table-ablation"),
        ({"name": "table-ablation", "data": ["scenes", "scenes:40x64"]}, "one data set"),
        ({"name": "table-contrastive", "backbone_files": {"dtco": "x"}}, "detco"),
        ({"name": "table-contrastive", "backbone_files": {"detco": "missing.pth"}}, "no such file"),
        ({"name": "table-main", "only_methods": ["rol"]}, "role"),
    ):
        with pytest.raises(UserError, match=words):
            reproduce(**options, out=tmp_path, processes=Processes())
    assert not list(tmp_path.iterdir())
