"""Times per image relative to the baseline."""

from scob.studies.reproduce import variants
from scob.studies.reproduce.beside_paper import MeasuredRow, beside_paper
from scob.studies.reproduce.paper import paper_table
from scob.studies.reproduce.speed import add_paper_ratio, rows


def test_every_row_of_the_paper_has_a_method_here():
    assert {row.id for row in paper_table("table-speed").rows} <= set(rows())
    assert rows()["full"] is variants.FULL


def test_the_papers_ratio_is_next_to_ours():
    measured = {"role": MeasuredRow({"ratio": [1.0]}), "scob": MeasuredRow({"ratio": [1.5]})}
    report = add_paper_ratio(beside_paper("table-speed", paper_table("table-speed"), measured))
    keys = [column.key for column in report.columns]
    assert keys[keys.index("ratio") + 1] == "paper ratio"
    by_name = {row["method"]: row["paper ratio"] for row in report.rows}
    assert by_name["Baseline (ROLE)"].printed == "1.00"
    assert by_name["Scob"].printed == f"{12.14 / 7.67:.2f}"
