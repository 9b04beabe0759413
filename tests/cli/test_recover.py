"""`scob recover` as a user runs it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scob.cli.recover import print_suggestions
from scob.recovery.suggestion import Suggestion


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("recover") == [
        "--images",
        "--format",
        "--out",
        "--min",
        "--top",
        "--masks",
        "--doubtful",
        "--import",
        "--batch",
        "--device",
    ]


def test_suggestions_and_what_to_do_next(scob: Callable[..., tuple[int, str, str]], own_run: Path) -> None:
    code, out, err = scob("recover", own_run, "--min", 0, "--top", 3, "--no-masks", "--device", "cpu")
    assert code == 0
    assert "The most confident suggestions" in out
    assert err.startswith("3 labels suggested for ")
    assert "the confidences are rough: calibrating them takes 30 images" in err and "there are 19 " in err
    assert f"next: scob review {own_run}\n" in err


@pytest.mark.parametrize(("estimate", "column"), [(0.4, True), (0.8, False), (None, False)])
def test_estimates_have_a_column_if_they_are_not_the_scores(
    estimate: float | None, column: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    print_suggestions([Suggestion("a.jpg", "cat", 0.8, 0.7, estimate), Suggestion("b.jpg", "dog", 0.6, 0.5, None)])
    shown = capsys.readouterr().out
    assert ("estimate" in shown) == column and "confidence" in shown and "b.jpg" in shown


def test_an_import_takes_no_other_option(refused: Callable[..., str]) -> None:
    said = refused("recover", "run", "--import", "reviewed.csv", "--top", 3)
    assert "the only other option it accepts is --out" in said


def test_no_run(refused: Callable[..., str]) -> None:
    assert "nowhere" in refused("recover", "nowhere")


def test_doubtful_labels_are_listed_for_review(scob: Callable[..., tuple[int, str, str]], own_run: Path) -> None:
    code, out, err = scob("recover", own_run, "--doubtful", "--top", 3, "--device", "cpu")
    assert code == 0 and "The most doubtful labels" in out
    assert f"next: scob review {own_run / 'doubtful'}" in err


def test_doubt_takes_no_other_images(refused: Callable[..., str]) -> None:
    assert "--doubtful looks at the run's own labels" in refused("recover", "run", "--doubtful", "--min", 0.5)
