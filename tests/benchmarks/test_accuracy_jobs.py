"""Which jobs there are, and in which order workers take them."""

import pytest

from accuracy_jobs import Job, Schedule, plan_jobs, rows_of

LONG, SHORT = ("method=scob",), ("method=role",)


def jobs(data: str, *rows: tuple[str, tuple[str, ...]], seeds: int = 1) -> list[Job]:
    return [Job(data, name, words, seed) for seed in range(seeds) for name, words in rows]


def test_groups_and_rows_of_ones_own() -> None:
    methods = ["an", "full", "role", "scob"]
    assert rows_of("methods", methods) == {
        "an": ("method=an",), "full-smt": ("method=full",), "role-smt": ("method=role",), "scob": ("method=scob",),
    }  # fmt: skip
    assert rows_of("role", methods) == {"role-smt": ("method=role",)}
    assert rows_of("large-cnn", methods) == {"large-cnn": ("method=role", "model.head=large-cnn")}
    assert rows_of("w:scob.cam_window=[3,1],scob.tau=1", methods)["w"] == (
        "method=scob", "scob.cam_window=[3,1]", "scob.tau=1",
    )  # fmt: skip
    with pytest.raises(SystemExit, match="'mian' is not a group"):
        rows_of("mian", methods)


def test_a_row_in_two_groups_is_run_once_and_candidates_bring_role() -> None:
    planned = plan_jobs(["voc", "coco"], [0, 1], ["main", "methods"], ["x:scob.tau=1"], ["role", "scob", "an"])
    assert len(planned) == len(set(planned)) == 2 * 2 * (5 + 2)
    assert {j.name for j in planned if j.candidate} == {"role-smt", "x"}
    assert [j.seed for j in planned] == sorted(j.seed for j in planned)


def test_workers_divide_the_data_sets_and_take_the_longest_job_first() -> None:
    schedule = Schedule(jobs("a", ("r", SHORT), ("s", LONG)) + jobs("b", ("r", SHORT), ("s", LONG)), 2)
    first, second = schedule.next(0, 1e9), schedule.next(1, 1e9)
    assert first is not None and second is not None
    assert {first.data, second.data} == {"a", "b"} and first.name == second.name == "s"
    after = schedule.next(0, 1e9)
    assert after is not None and (after.data, after.name) == (first.data, "r")


def test_a_worker_leaves_the_rest_to_others_rather_than_load_data_for_it() -> None:
    for rest, switches in ((1, False), (9, True)):
        schedule = Schedule(jobs("a", ("r", SHORT)) + jobs("b", ("r", SHORT), seeds=rest + 1), 2)
        mine, other = schedule.next(0, 1e9), schedule.next(1, 1e9)
        assert mine is not None and other is not None
        here, there = (0, 1) if mine.data == "a" else (1, 0)
        schedule.finished(mine if mine.data == "a" else other, seconds=10.0, loading=30.0)
        job = schedule.next(here, 1e9)
        assert (job is not None and job.data == "b") == switches
        assert schedule.next(there, 1e9) is not None


def test_no_job_starts_that_cannot_finish() -> None:
    schedule = Schedule(jobs("a", ("s", LONG), ("r", SHORT), seeds=3), 1)
    assert schedule.estimate(schedule.pending[0]) is None
    first = schedule.next(0, 1000)  # nothing is known yet
    assert first is not None
    schedule.finished(first, seconds=40.0, loading=0.0)
    assert schedule.estimate(Job("a", "s", LONG, 2)) == 40.0
    assert schedule.estimate(Job("a", "r", SHORT, 2)) == 10.0
    job = schedule.next(0, 30.0)
    assert job is not None and job.name == "r"
    assert schedule.next(0, 9.0) is None
    assert len(schedule.pending) == 4


def test_if_time_is_short_later_seeds_go_without() -> None:
    wanted = jobs("a", ("r", SHORT), ("s", LONG), seeds=3)
    schedule = Schedule(wanted, 1)
    schedule.finished(Job("a", "s", LONG, 9), seconds=40.0, loading=0.0)
    taken, left = [], 100.0
    while (job := schedule.next(0, left)) is not None:
        taken.append((job.name, job.seed))
        left -= schedule.estimate(job) or 0.0
    assert taken == [("r", 0), ("s", 0), ("r", 1), ("s", 1)]


def test_what_finds_no_room_is_left_to_another_worker() -> None:
    schedule = Schedule(jobs("a", ("s", LONG)), 2)
    job = schedule.next(0, 1e9)
    assert job is not None
    schedule.put_back(0, job)
    assert schedule.next(1, 1e9) == job
