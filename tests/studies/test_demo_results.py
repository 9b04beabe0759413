"""The demo's results as they are stored."""

import json

from scob.config import Config
from scob.studies.demo_results import COLUMNS, LONGEST_FIRST, METHODS, OURS, Demo, Row


def test_results_are_plain_json_without_the_pictures() -> None:
    results = Demo(Config(), values={"scob": {"mAP": [61.5]}}, pointing={"inside": 0.4})
    stored = json.loads(json.dumps(results.to_json()))
    assert stored["results"] == {"scob": {"mAP": [61.5]}} and stored["pointing"] == {"inside": 0.4}
    assert stored["settings"]["method"] == "scob" and "pictures" not in stored


def test_scob_stands_between_its_baselines_and_full_labels() -> None:
    assert list(METHODS) == ["an", "role", "role-smt", "scob", "pairs", "full"]
    assert list(OURS) == ["scob", "pairs"]
    assert COLUMNS[0] == "mAP"


def test_the_longest_rows_begin_first_and_none_is_left_out() -> None:
    assert LONGEST_FIRST[:2] == ("pairs", "scob") and sorted(LONGEST_FIRST) == sorted(METHODS)


def test_seeds_are_added_up_and_the_first_gives_the_curve_and_the_pictures() -> None:
    results = Demo(Config())
    results.add("scob", Row({"mAP": 61.5}, [{"epoch": 0}], {"cat": 1.0}, pointing={"inside": 0.4}))
    results.add("scob", Row({"mAP": 62.5}, [{"epoch": 1}], {"cat": 2.0}))
    assert results.values == {"scob": {"mAP": [61.5, 62.5]}} and results.curves == {"scob": [{"epoch": 0}]}
    assert results.per_class == {"scob": {"cat": 1.0}} and results.pointing == {"inside": 0.4}
