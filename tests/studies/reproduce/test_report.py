"""Reports: numbers over seeds, in three formats that say the same."""

import csv
import io
import json
import math

import pytest

from scob.studies.reproduce.report import (
    Column,
    Report,
    SeedSpread,
    as_json,
    closed_share,
    comma_separated,
    markdown,
    spread,
    write_report,
)


def test_spread_is_mean_and_sample_deviation():
    three = SeedSpread((60.0, 61.0, 62.0))
    assert (three.mean, three.deviation, three.text()) == (61, 1, "61.0 ± 1.0")
    assert SeedSpread((5.25,)).text(2) == "5.25" and SeedSpread((5.25,)).deviation is None
    assert spread([math.nan]) is None and spread([1.0, math.nan]) == SeedSpread((1.0,))


def test_share_of_the_gap_closed():
    assert closed_share(74.8, 69.8, 77.2) == pytest.approx(67.57, abs=0.01)
    assert closed_share(80, 70, 80) == 100 and closed_share(65, 70, 80) == -50
    assert closed_share(75, 80, 80) is None and closed_share(75, 81, 80) is None
    assert closed_share(None, 70, 80) is None


def test_csv_and_json_hold_the_numbers(report):
    rows = list(csv.DictReader(io.StringIO(comma_separated(report))))
    assert (rows[0]["mAP"], rows[0]["mAP deviation"], rows[0]["mAP seeds"]) == ("61.0", "1.0", "3")
    assert (rows[2]["paper mAP"], rows[1]["mAP"], rows[3]["mAP"]) == ("74.2", "not run: no weights", "")
    tree = as_json(report)
    assert tree["rows"][0]["mAP"] == {"mean": 61.0, "deviation": 1.0, "values": [60.0, 61.0, 62.0]}
    assert tree["rows"][2]["paper mAP"] == {"value": 74.2, "printed": "74.2 (+4.3)"}


def test_three_files_are_written(report, tmp_path):
    paths = write_report(report, tmp_path / "new")
    assert [path.name for path in paths] == [f"table-optimisation.{e}" for e in ("md", "csv", "json")]
    assert json.loads(paths[2].read_text()) == as_json(report)
    assert paths[0].read_text() == markdown(report) and paths[1].read_text() == comma_separated(report)


def test_strokes_and_nan_do_not_break_the_table():
    columns = (Column("a", "A"), Column("b", "B"))
    report = Report("t", "T", columns, ({"a": "x|y\nz", "b": math.nan},))
    assert "| x\\|y z | - |" in markdown(report)
    assert as_json(report)["rows"] == [{"a": "x|y\nz", "b": None}]
