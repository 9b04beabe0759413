"""A report with rows over seeds, a row that was not run, and a row that the paper does not have."""

import pytest

from scob.studies.reproduce.beside_paper import ClosedGap, MeasuredRow, beside_paper
from scob.studies.reproduce.paper import paper_table


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
