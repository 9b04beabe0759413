"""The parts of tables and figures that compute something of their own."""

import numpy as np
import pytest
import torch

from scob.data.readers import open_split
from scob.data.split import ObjectMasks
from scob.studies.reproduce import pictures, variants
from scob.studies.reproduce.cams import true_cells
from scob.studies.reproduce.paper import paper_table, paper_tables
from scob.studies.reproduce.pictures import Seen
from scob.studies.reproduce.registry import REPRODUCTIONS, costs
from scob.studies.reproduce.small_objects import median_areas
from scob.studies.reproduce.speed import times

FIFTEEN = {
    "table-main", "table-metrics", "table-ablation", "fig-gamma", "table-contrastive", "fig-lambda", "fig-negatives",
    "table-masks", "table-cams", "table-optimisation", "table-speed", "table-small-objects", "fig-masks",
    "fig-class-masks", "fig-distribution",
}  # fmt: skip


def test_all_fifteen_are_there_and_say_their_cost():
    assert set(REPRODUCTIONS) == FIFTEEN
    assert costs("table-ablation") == 9 and costs("fig-class-masks") == 1
    assert all(costs(name) > 0 for name in FIFTEEN)


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


def test_cells_are_max_pooled_and_void_leaves_open_only_what_shows_no_object():
    shown, void = np.zeros((8, 8), bool), np.zeros((8, 8), bool)
    shown[0, 0] = void[0, 1] = void[7, 7] = True  # an object with its void border; void alone in the far corner
    truth, left_out = true_cells(ObjectMasks({3: shown}, void), 3, (2, 2))
    assert truth.tolist() == [[True, False], [False, False]]
    assert left_out.tolist() == [[False, False], [False, True]]


def test_areas_are_medians_over_images():
    split = open_split("scenes:20x64", "train")
    areas = median_areas(split)
    name = split.labels.classes[0]
    own = [100 * m.present[0].mean() for m in (split.masks.load(row) for row in range(20)) if 0 in m.present]
    assert areas[name] == pytest.approx(np.median(own))


def test_a_mask_keeps_what_it_covers():
    picture = np.full((8, 8, 3), 200, np.uint8)
    mask = torch.tensor([[True, False], [False, False]])
    seen = pictures.dim(picture, mask)
    assert (seen[:4, :4] == 200).all() and (seen[4:] == int(200 * pictures.DIMMED)).all()


def test_rows_of_fig_masks_show_other_images_and_classes():
    found = [Seen(0, 0, 0.2, 1), Seen(0, 1, 0.1, 1), Seen(1, 1, 0.05, 2), Seen(2, 2, 0.3, 0), Seen(3, 2, 0.001, 3)]
    chosen = pictures.choose_rows(found, 3)
    assert [(s.row, s.label) for s in chosen] == [(1, 1), (0, 0), (2, 2)]  # company first; specks are not shown
    found = [Seen(0, 0, 0.02, 1), Seen(1, 1, 0.2, 1), Seen(2, 2, 0.1, 1)]
    assert [s.row for s in pictures.choose_rows(found, 3)] == [2, 1, 0]  # what a coarse grid hardly shows comes last


def test_classes_show_a_large_a_small_and_an_accompanied_object():
    found = [Seen(0, 0, 0.5, 0), Seen(1, 0, 0.02, 1), Seen(2, 0, 0.2, 4), Seen(3, 1, None, 1)]
    groups = pictures.by_class(found, 3, 8)
    assert [s.row for s in groups[0]] == [0, 1, 2]
    assert [s.row for s in groups[1]] == [3, 3, 3] and len(groups) == 2


def test_company_is_shown_in_another_image_where_there_is_one():
    ends = [Seen(10 * label + row, label, area, 0) for label in (1, 2) for row, area in ((1, 0.5), (2, 0.02))]
    company = [Seen(0, 1, 0.1, 5), Seen(0, 2, 0.1, 5), Seen(7, 2, 0.1, 1)]
    groups = pictures.by_class([*ends, *company], 3, 3)
    assert {group[2].label: group[2].row for group in groups} == {2: 0, 1: 0}  # the first by frequency is class 2
    groups = pictures.by_class([*ends, *company, Seen(8, 1, 0.1, 1)], 3, 3)
    assert {group[2].label: group[2].row for group in groups} == {1: 0, 2: 7}


def test_times_are_taken_in_turns():
    order = []
    taken = times({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, torch.device("cpu"))
    assert set(taken) == {"a", "b"} and order[6:12] == ["a", "b"] * 3
