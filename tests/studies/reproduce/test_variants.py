"""The rows of the paper's tables as settings."""

from scob.studies.reproduce import variants
from scob.studies.reproduce.paper import paper_table, paper_tables


def test_rows_carry_the_papers_ids_and_full_labels():
    files = {"detco": "x", "soco": "x", "up-detr": "x"}
    rows = {
        "table-ablation": variants.ABLATION,
        "table-contrastive": variants.contrastive_rows(files),
        "table-optimisation": variants.OPTIMISATION,
        "table-cams": variants.CAMS,
    }
    for name, made in rows.items():
        assert {row.id for row in paper_tables()[name].rows} <= set(made) and made["full"] is variants.FULL
    main = variants.main_rows(("role", "scob", "ml-gcn", "sst", "an", "full"), {})
    assert {"role", "scob", "scob-partial", "gcn-ml", "sst"} <= set(main)
    for row in paper_table("table-main").rows:
        if row.id in main:
            assert main[row.id].labels == row.names["labels"], row.id


def test_partial_labels_change_only_the_labels():
    single = variants.SCOB
    tenth = variants.partial(single)
    assert tenth.title == single.title and tenth.labels == "10% Pos. Neg."
    assert tenth.changes == {**single.changes, "labels": {"kind": "partial", "fraction": 0.1}}


def test_a_setting_is_varied_alone():
    rows = variants.setting_rows("scob.lambda_c", (0.1, 1.0))
    assert [row.changes["scob"]["lambda_c"] for row in rows.values()] == [0.1, 1.0]
    assert all(row.changes["scob"]["contrast"] == "ipt" for row in rows.values())
