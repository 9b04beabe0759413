"""Reports: ours beside the paper's, over seeds, in three formats that say the same."""

import csv
import io
import json
import math

import pytest

from scob.studies.reproduce.paper import paper_table
from scob.studies.reproduce.report import (
    Column,
    Measured,
    Report,
    Spread,
    as_json,
    beside_paper,
    closed_share,
    comma_separated,
    markdown,
    spread,
    write_report,
)


@pytest.fixture
def report():
    measured = {
        "baseline": Measured({"mAP": [60, 61, 62], "OP": [50.0]}),
        "joint": Measured(remark="not run: no weights"),
        "two-stage": Measured({"mAP": [64.0, 65.0]}),
        "full": Measured({"mAP": [71.0]}, {"method": "Full labels"}),
    }
    return beside_paper(
        "table-optimisation",
        paper_table("table-optimisation"),
        measured,
        data="scenes",
        role="baseline",
        full="full",
        used={"weights": "drawings"},
    )


def cells(report, row_number):
    lines = [line for line in markdown(report).splitlines() if line.startswith("| ")]
    heads = lines[0].strip("| ").split(" | ")
    return dict(zip(heads, lines[1 + row_number].strip("| ").split(" | "), strict=True))


def test_spread_is_mean_and_sample_deviation():
    three = Spread((60.0, 61.0, 62.0))
    assert (three.mean, three.deviation, three.text()) == (61, 1, "61.0 ± 1.0")
    assert Spread((5.25,)).text(2) == "5.25" and Spread((5.25,)).deviation is None
    assert spread([math.nan]) is None and spread([1.0, math.nan]) == Spread((1.0,))


def test_share_of_the_distance_closed():
    assert closed_share(74.8, 69.8, 77.2) == pytest.approx(67.57, abs=0.01)
    assert closed_share(80, 70, 80) == 100 and closed_share(65, 70, 80) == -50
    assert closed_share(75, 80, 80) is None and closed_share(75, 81, 80) is None
    assert closed_share(None, 70, 80) is None


def test_ours_stand_beside_the_papers(report):
    row = cells(report, 2)
    assert row["Method"] == "Two stage"
    assert row["mAP, ours on scenes"] == "64.5 ± 0.7" and row["mAP, paper"] == "74.2 (+4.3) [1]"
    assert row["mAP, ours over baseline"] == "+3.5"
    assert row["mAP: share of the distance from ROLE to full labels closed"] == "35%"
    assert row["OP, ours on scenes"] == "-" and row["OP, paper"] == "75.4"
    assert "1. Printed as 74.2 (+4.3)" in markdown(report) and "- weights: drawings" in markdown(report)


def test_a_row_not_run_says_so_and_a_row_of_ours_comes_last(report):
    assert cells(report, 1)["mAP, ours on scenes"] == "not run: no weights"
    assert cells(report, 1)["mAP, paper"] == "69.7 (-0.1)"
    last = cells(report, len(report.rows) - 1)
    assert (last["Method"], last["mAP, ours on scenes"], last["mAP, paper"]) == ("Full labels", "71.0", "-")


def test_csv_and_json_hold_the_numbers(report):
    rows = list(csv.DictReader(io.StringIO(comma_separated(report))))
    assert (rows[0]["mAP"], rows[0]["mAP deviation"], rows[0]["mAP seeds"]) == ("61.0", "1.0", "3")
    assert (rows[2]["paper mAP"], rows[1]["mAP"], rows[3]["mAP"]) == ("74.2", "not run: no weights", "")
    tree = as_json(report)
    assert tree["rows"][0]["mAP"] == {"mean": 61.0, "deviation": 1.0, "values": [60.0, 61.0, 62.0]}
    assert tree["rows"][2]["paper mAP"] == {"value": 74.2, "printed": "74.2 (+4.3)"}


def test_baselines_are_those_of_the_same_data_set():
    measured = {
        "voc2012/baseline": Measured({"mAP": [80.0]}),
        "voc2012/cam": Measured({"mAP": [84.0]}),
        "voc2012/full": Measured({"mAP": [88.0]}, {"data": "VOC 2012", "guidance": "Full labels"}),
        "coco2014/cam": Measured({"mAP": [70.0]}),
    }
    made = beside_paper("t", paper_table("table-masks"), measured, role="baseline", full="full")
    by_name = {(row["data"], row["guidance"]): row for row in made.rows}
    assert by_name["VOC 2012", "CAMs"]["share mAP"] == 50 and by_name["VOC 2012", "CAMs"]["gain mAP"] == 4
    assert by_name["COCO 2014", "CAMs"]["share mAP"] is None


def test_a_column_the_paper_lacks_is_added():
    made = beside_paper(
        "t", paper_table("table-main"), {"scob": Measured({"scenes": [50.0]})}, titles={"scenes": "Scenes"}
    )
    assert cells(made, 8)["Scenes, ours"] == "50.0" and cells(made, 8)["VOC 2012, paper"] == "89.7 [1]"


def test_three_files_are_written(report, tmp_path):
    paths = write_report(report, tmp_path / "new")
    assert [path.name for path in paths] == [f"table-optimisation.{e}" for e in ("md", "csv", "json")]
    assert json.loads(paths[2].read_text()) == as_json(report)
    assert paths[0].read_text() == markdown(report) and paths[1].read_text() == comma_separated(report)


def test_strokes_and_nan_do_not_break_the_table():
    columns = (Column("a", "A"), Column("b", "B"))
    made = Report("t", "T", columns, ({"a": "x|y\nz", "b": math.nan},))
    assert "| x\\|y z | - |" in markdown(made)
    assert as_json(made)["rows"] == [{"a": "x|y\nz", "b": None}]
