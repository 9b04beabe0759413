"""The time left, from the pace of the steps and evaluations so far."""

import pytest

from scob.cli.time_left import TimeLeft, clock_text


class Hands:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_said_before_the_first_step() -> None:
    assert TimeLeft(Hands()).seconds(10) is None


def test_steps_and_evaluations_are_counted_and_the_slow_first_step_is_forgotten() -> None:
    clock = Hands()
    left = TimeLeft(clock)
    clock.now += 9
    left.step()
    assert left.seconds(10) == pytest.approx(90)
    for _ in range(4):
        clock.now += 2
        left.step()
    assert left.seconds(10) == pytest.approx(20)
    clock.now += 5  # an evaluation after five steps: one second more for each
    left.evaluated()
    assert left.seconds(10) == pytest.approx(30)


def test_only_recent_steps_count() -> None:
    clock = Hands()
    left = TimeLeft(clock)
    for seconds in [1] * 50 + [3] * 40:
        clock.now += seconds
        left.step()
    assert left.seconds(2) == pytest.approx(6)


def test_cheap_first_epochs_do_not_shorten_the_estimate() -> None:
    clock = Hands()
    left = TimeLeft(clock, expected=clock.now + 500)
    for _ in range(3):
        clock.now += 1
        left.step(settled=False)
    assert left.seconds(100) == pytest.approx(497)  # one second for each of them, but the others will be slower
    clock.now += 4
    left.step(settled=True)
    assert left.seconds(100) == pytest.approx(400)  # known now: the cheap ones no longer count


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (7.2, "0:07"), (59.6, "1:00"), (750, "12:30"), (11100, "3:05:00")]
)
def test_a_time_as_on_a_clock(seconds: float | None, text: str) -> None:
    assert clock_text(seconds) == text
