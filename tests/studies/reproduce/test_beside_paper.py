"""Our numbers next to the paper's."""

from scob.studies.reproduce.beside_paper import ClosedGap, MeasuredRow, beside_paper
from scob.studies.reproduce.paper import paper_table
from scob.studies.reproduce.report import markdown


def cells(report, row_number):
    lines = [line for line in markdown(report).splitlines() if line.startswith("| ")]
    heads = lines[0].strip("| ").split(" | ")
    return dict(zip(heads, lines[1 + row_number].strip("| ").split(" | "), strict=True))


def test_ours_are_next_to_the_papers(report):
    row = cells(report, 2)
    assert row["Method"] == "Two stage"
    assert row["mAP, ours on scenes"] == "64.5 ± 0.7" and row["mAP, paper"] == "74.2 (+4.3) [1]"
    assert row["mAP, ours over baseline"] == "+3.5"
    assert row["mAP: gap closed (ROLE to full labels)"] == "35%"
    assert row["OP, ours on scenes"] == "-" and row["OP, paper"] == "75.4"
    assert "1. Printed as 74.2 (+4.3)" in markdown(report) and "- weights: drawings" in markdown(report)


def test_a_row_not_run_says_so_and_a_row_of_ours_comes_last(report):
    assert cells(report, 1)["mAP, ours on scenes"] == "not run: no weights"
    assert cells(report, 1)["mAP, paper"] == "69.7 (-0.1)"
    last = cells(report, len(report.rows) - 1)
    assert (last["Method"], last["mAP, ours on scenes"], last["mAP, paper"]) == ("Full labels", "71.0", "-")


def test_baselines_are_those_of_the_same_data_set():
    measured = {
        "voc2012/baseline": MeasuredRow({"mAP": [80.0]}),
        "voc2012/cam": MeasuredRow({"mAP": [84.0]}),
        "voc2012/full": MeasuredRow({"mAP": [88.0]}, {"data": "VOC 2012", "guidance": "Full labels"}),
        "coco2014/cam": MeasuredRow({"mAP": [70.0]}),
    }
    report = beside_paper("t", paper_table("table-masks"), measured, gap=ClosedGap("baseline"))
    by_name = {(row["data"], row["guidance"]): row for row in report.rows}
    assert by_name["VOC 2012", "CAMs"]["share mAP"] == 50 and by_name["VOC 2012", "CAMs"]["gain mAP"] == 4
    assert by_name["COCO 2014", "CAMs"]["share mAP"] is None


def test_a_column_that_the_paper_does_not_have_is_added():
    report = beside_paper(
        "t", paper_table("table-main"), {"scob": MeasuredRow({"scenes": [50.0]})}, titles={"scenes": "Scenes"}
    )
    assert cells(report, 8)["Scenes, ours"] == "50.0" and cells(report, 8)["VOC 2012, paper"] == "89.7 [1]"


def test_the_row_with_cam_but_without_contrast_says_that_it_uses_no_cam():
    report = beside_paper("t", paper_table("table-ablation"), {"smt": MeasuredRow({"mAP": [50.0]})}, data="scenes")
    row = cells(report, 2)
    assert (row["Rec. SMT"], row["CL"], row["Parameters (M), paper"]) == ("CAM", "/", "38.3 [1]")
    assert "1. Ours is ROLE with the SMT and uses no CAM" in markdown(report)


def test_a_column_of_ours_may_be_named_more_exactly_than_the_papers():
    measured = {"scob": MeasuredRow({"f1": [50.0]})}
    report = beside_paper("t", paper_table("table-cams"), measured, data="VOC", titles={"f1": "F1 at 14 x 14"})
    assert cells(report, 1)["F1 at 14 x 14, ours on VOC"] == "50.0" and cells(report, 1)["F1, paper"] == "57.7"
