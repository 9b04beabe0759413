"""A report with rows over seeds, a row that was not run, and a row that the paper does not have."""

import pytest

from scob.config import merge, parse_overrides
from scob.studies.reproduce.beside_paper import ClosedGap, MeasuredRow, beside_paper
from scob.studies.reproduce.lab import Lab
from scob.studies.reproduce.paper import paper_table


@pytest.fixture(scope="module")
def tree(small_words):
    return merge(parse_overrides(small_words), {"data": {"evaluate": "val"}, "train": {"epochs": 2, "holdout": 0.1}})


@pytest.fixture
def lab(tree, tmp_path):
    return Lab(tree, tmp_path)


@pytest.fixture
def report():
    measured = {
        "baseline": MeasuredRow({"mAP": [60, 61, 62], "OP": [50.0]}),
        "joint": MeasuredRow(remark="not run: no weights"),
        "two-stage": MeasuredRow({"mAP": [64.0, 65.0]}),
        "full": MeasuredRow({"mAP": [71.0]}, {"method": "Full labels"}),
    }
    return beside_paper(
        "table-optimisation",
        paper_table("table-optimisation"),
        measured,
        data="scenes",
        gap=ClosedGap("baseline"),
        used={"weights": "drawings"},
    )
