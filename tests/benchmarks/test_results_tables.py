"""Shares, verdicts and tables of the results page."""

from typing import Any

import pytest

from results_data import DataSet, spread
from results_tables import (
    ablation_table,
    all_images_table,
    candidate_table,
    claim_table,
    main_table,
    method_table,
    verdict,
)


def run(name: str, seed: int, last: float, **more: Any) -> dict[str, Any]:
    return {
        "data": "x",
        "name": name,
        "seed": seed,
        "last": last,
        "words": ["method=" + name],
        "candidate": False,
        **more,
    }


def data_set(**rows: list[float]) -> DataSet:
    """A data set with one run per row and seed; `_` stands for `-`."""
    runs = [run(name.replace("_", "-"), seed, v) for name, values in rows.items() for seed, v in enumerate(values)]
    return DataSet("x", tuple(runs))


@pytest.mark.parametrize(
    ("differences", "claimed", "expected"),
    [
        ([0.9, 1.0, 1.1], 1.0, "holds"),
        ([0.4, 0.5, 0.45], 1.0, "holds, but is smaller"),
        ([3.0, 3.1, 3.2], 1.0, "holds, and is larger"),
        ([0.1, -0.1, 0.0], 0.5, "not distinguishable, and smaller"),
        ([-2.0, -2.1, -1.9], 0.5, "does not hold"),
        ([1.5, -0.5, 0.5], 0.5, "not distinguishable"),
        ([5.0], 0.5, "one seed only"),
        ([], 0.5, "not run"),
    ],
)
def test_the_verdict_follows_from_the_interval(differences: list[float], claimed: float, expected: str) -> None:
    assert verdict(differences, claimed) == expected


def test_claims_are_differences_of_the_same_seeds() -> None:
    # The seeds differ by 10, the methods by 1 in each seed; a fourth seed of one row has no partner.
    data = data_set(scob=[51.0, 61.1, 70.9, 5.0], role_smt=[50.0, 60.0, 70.0])
    lines = claim_table([data])
    contrast = next(line for line in lines if "Contrastive bootstrapping" in line)
    assert "+1.0 (73.8 → 74.8)" in contrast and "+1.00 ± 0.10 (3): **holds**" in contrast
    assert [line.split("|")[2].split()[0] for line in lines[2:]] == ["+4.0", "+1.0", "+0.9", "+0.5"]
    assert sum("not run" in line for line in lines) == 3


def test_shares_are_measured_from_role_with_either_head() -> None:
    data = data_set(role_cnn=[50.0], role_smt=[60.0], scob=[65.0], full_smt=[70.0])
    cells = {line.split("|")[1].strip(): [c.strip() for c in line.split("|")[-3:-1]] for line in main_table(data)[2:]}
    assert cells["Scob"] == ["75%", "50%"]
    assert cells["ROLE + SMT (Scob without contrast)"] == ["50%", "0%"]
    assert cells["Full labels + SMT (the ceiling)"] == ["100%", "100%"]


def test_repeats_of_a_seed_count_once() -> None:
    data = DataSet("x", (run("scob", 0, 80.0), run("scob", 0, 90.0), run("scob", 1, 86.0)))
    assert data.by_seed("scob") == {0: 85.0, 1: 86.0}
    assert data.text("scob") == spread([85.0, 86.0]) == "85.50 ± 0.71"


def test_the_ablation_has_the_papers_numbers_beside_ours() -> None:
    lines = ablation_table([data_set(large_cnn=[40.0, 42.0])])
    assert len(lines) == 2 + 8
    assert "| 70.9 | 41.00 ± 1.41 (2) |" in lines[3] and "| 74.8 | – |" in lines[-1]


def test_methods_are_ranked_over_the_data_sets_that_have_them() -> None:
    rows = {"an": [50.0], "asl": [40.0], "em": [60.0], "role_smt": [70.0], "scob": [75.0], "full_smt": [80.0]}
    main_only = data_set(scob=[10.0])
    lines = method_table([data_set(**rows), main_only])
    assert [line.split("`")[1] for line in lines[2:]] == ["full", "scob", "role", "em", "an", "asl"]
    assert lines[3].split("|")[3:5] == [" 75.00 (1) ", " 50% "]
    assert method_table([main_only]) == []


def test_candidates_show_held_out_numbers_only() -> None:
    runs = [
        run(name, 0, 99.0, candidate=True, holdout_last=held_out)
        for name, held_out in (("role-smt", 60.0), ("a", 61.0), ("b", 59.0))
    ]
    lines = candidate_table(runs)
    assert [line.split(":")[0] for line in lines[2:]] == ["| a", "| role-smt", "| b"]
    assert "61.00 (+1.00)" in lines[2] and "99" not in "".join(lines)


def test_rows_trained_on_all_images_are_measured_by_their_own_seeds() -> None:
    def of(norm: str, *runs: dict[str, Any]) -> list[dict[str, Any]]:
        return [{**run, "settings": {"model": {"norm": norm}}} for run in runs]

    role = [run("role-smt", 0, 50.0, recovery_ap=40.0), run("role-smt", 1, 40.0, recovery_ap=42.0)]
    runs = of("pre", *role, run("full-smt", 0, 60.0), run("pairs", 0, 54.0, recovery_ap=47.0))
    lines = all_images_table([*runs, *of("post", run("scob", 0, 51.0))])
    assert lines[2:] == [
        "| Scob | post | 51.00 (1) | – | – |",
        "| ROLE + SMT (Scob without contrast) | pre | 45.00 ± 7.07 (2) | – | 41.0 |",
        "| Full labels + SMT (the ceiling) | pre | 60.00 (1) | 100% | – |",
        "| `pairs` | pre | 54.00 (1) | 40% | 47.0 |",
    ]
