"""The file of the paper's numbers: complete, consistent where the paper is, and annotated where it is not."""

import pytest

from scob.config import known_keys
from scob.errors import UserError
from scob.studies.reproduce.paper import paper_figure, paper_figures, paper_table, paper_tables


def test_every_table_and_figure_is_there():
    counts = {name: sum(len(row.values) for row in table.rows) for name, table in paper_tables().items()}
    assert counts == {
        "table-main": 25,
        "table-metrics": 54,
        "table-ablation": 16,
        "table-contrastive": 8,
        "table-masks": 42,
        "table-optimisation": 28,
        "table-cams": 6,
        "table-speed": 8,
        "table-small-objects": 10,
    }
    assert len(paper_figures()) == 6


def test_figures_state_only_what_the_text_states():
    chosen = {name: figure.chosen for name, figure in paper_figures().items() if figure.setting}
    assert chosen == {"fig-gamma": 0.5, "fig-lambda": 0.1, "fig-negatives": 1}
    assert paper_figure("fig-negatives").values == (1, 10, 100, 1000)
    assert all(figure.setting in (None, *known_keys()) for figure in paper_figures().values())


def test_f1_is_the_harmonic_mean_to_a_rounding():
    for table in paper_tables().values():
        for row in table.rows:
            for p, r, f1 in (("OP", "OR", "OF1"), ("CP", "CR", "CF1"), ("precision", "recall", "f1")):
                if f1 in row.values:
                    a, b = row.values[p], row.values[r]
                    assert row.values[f1] == pytest.approx(2 * a * b / (a + b), abs=0.11), (
                        table.label,
                        row.id,
                    )


def test_every_wrong_difference_is_noted():
    wrong = []
    for name, table in paper_tables().items():
        for row in table.rows:
            base = table.baseline_of(row.id)
            for column, gain in row.gains.items():
                if abs(row.values[column] - table.value(base, column) - gain) > 0.01:
                    wrong.append((name, row.id, column))
    assert wrong == [("table-optimisation", "two-stage", "mAP")]
    assert any(n.row == "two-stage" and "4.4" in n.text for n in paper_table("table-optimisation").notes)


def test_both_values_of_voc_2012_stay_as_printed():
    main, masks = paper_table("table-main"), paper_table("table-masks")
    assert (main.value("scob", "voc2012"), masks.value("voc2012/cam", "mAP")) == (89.7, 89.8)
    assert any(n.row == "scob" and n.column == "voc2012" for n in main.notes)
    assert any(n.row == "voc2012/cam" and n.column == "mAP" for n in masks.notes)


def test_the_same_number_in_two_tables_is_the_same():
    metrics, masks, optimisation = (paper_table(f"table-{n}") for n in ("metrics", "masks", "optimisation"))
    for column in metrics.columns:
        for ours, theirs in (("scob", "cam"), ("role", "baseline")):
            for data in ("voc2012", "coco2014"):
                assert metrics.value(f"{data}/{ours}", column) == masks.value(f"{data}/{theirs}", column)
        assert metrics.value("coco2014/scob", column) == optimisation.value("scob", column)


def test_cells_print_as_in_the_paper():
    assert paper_table("table-optimisation").printed("two-stage", "mAP") == "74.2 (+4.3)"
    assert paper_table("table-speed").printed("scob", "speed") == "12.14"
    assert paper_table("table-masks").printed("voc2012/gt-mask", "mAP") == "90.0 (+1.8)"
    assert paper_table("table-main").printed("role", "voc2007") == ""


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(UserError, match="Did you mean 'table-masks'"):
        paper_table("table-mask")
