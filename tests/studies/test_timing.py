"""Timing: medians, warm-up, turns."""

import time

import torch

from scob.studies.timing import median_seconds, medians_in_turns, seconds_of

CPU = torch.device("cpu")


def test_a_call_is_timed() -> None:
    assert seconds_of(lambda: time.sleep(0.01), CPU) >= 0.01


def test_the_median_leaves_the_first_calls_out() -> None:
    calls: list[int] = []

    def run() -> None:
        calls.append(1)
        time.sleep(0.05 if len(calls) <= 2 else 0)

    assert median_seconds(run, CPU, repeats=3, warm=2) < 0.05
    assert len(calls) == 5


def test_times_are_taken_in_turns() -> None:
    order: list[str] = []
    taken = medians_in_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, CPU)
    assert set(taken) == {"a", "b"} and order[6:12] == ["a", "b"] * 3


def test_turns_stop_at_the_limit_after_five_rounds() -> None:
    calls: list[int] = []
    medians_in_turns({"a": lambda: calls.append(1)}, CPU, rounds=25, limit=0.0)
    assert len(calls) == 3 + 5
