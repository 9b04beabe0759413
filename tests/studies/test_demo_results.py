"""The demo's results as they are stored."""

import json

from scob.config import Config
from scob.studies.demo_results import COLUMNS, METHODS, Demo


def test_results_are_plain_json_without_the_pictures() -> None:
    results = Demo(Config(), values={"scob": {"mAP": [61.5]}}, pointing={"inside": 0.4})
    stored = json.loads(json.dumps(results.to_json()))
    assert stored["results"] == {"scob": {"mAP": [61.5]}} and stored["pointing"] == {"inside": 0.4}
    assert stored["settings"]["method"] == "scob" and "pictures" not in stored


def test_scob_stands_between_its_baselines_and_full_labels() -> None:
    assert list(METHODS) == ["an", "role", "role-smt", "scob", "full"]
    assert COLUMNS[0] == "mAP"
