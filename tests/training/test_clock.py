"""The time of a run and of its steps."""

import pytest

from scob.training import clock as module
from scob.training.clock import Clock


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [50.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_the_rate_covers_all_steps_since_the_last_line_but_no_evaluation(hands: list[float]) -> None:
    clock = Clock()
    clock.start()
    for _ in range(4):
        hands[0] += 2
        clock.start()
        clock.step()
    assert clock.images_per_second(16) == pytest.approx(8)  # the first line too
    hands[0] += 2
    clock.step()
    hands[0] += 100
    clock.leave_out(hands[0] - 100)
    assert clock.images_per_second(16) == pytest.approx(8)


def test_the_time_of_earlier_parts_is_added(hands: list[float]) -> None:
    clock = Clock()
    clock.before = 60.0
    hands[0] += 5
    assert clock.seconds == pytest.approx(65)
