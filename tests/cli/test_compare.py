"""`scob compare` as a user runs it."""

from collections.abc import Callable

import pytest

from scob.cli.compare import label_settings, print_rows
from scob.errors import UserError


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("compare") == [
        "--data",
        "--config",
        "--backbone",
        "--labels",
        "--seeds",
        "--top",
        "--out",
        "--methods-folder",
        "--list",
    ]


def test_observed_labels_as_settings() -> None:
    assert label_settings("") == []
    assert label_settings("single") == ["labels.kind=single"]
    assert label_settings("partial:0.1") == ["labels.kind=partial", "labels.fraction=0.1"]
    for wrong in ("half", "full:0.1"):
        with pytest.raises(UserError, match=f"--labels {wrong}"):
            label_settings(wrong)


def test_no_methods(refused: Callable[..., str]) -> None:
    assert "name the methods to compare" in refused("compare", "--data", "scenes")


def test_the_list_names_every_method(scob: Callable[..., tuple[int, str, str]]) -> None:
    from scob import methods

    code, out, _ = scob("compare", "--list")
    assert code == 0
    assert all(name in out for name in methods.names())


def test_the_list_describes_every_method_in_its_own_words(scob: Callable[..., tuple[int, str, str]]) -> None:
    from scob import methods

    _, out, _ = scob("compare", "--list")
    summaries = [(methods.find(name).__doc__ or "").partition("\n")[0] for name in methods.names()]
    assert all(summary.endswith(".") for summary in summaries)
    assert len(set(summaries)) == len(summaries)
    assert all(" ".join(summary.split()[:3]) in out for summary in summaries)  # the rest may be on the next line


def test_rows_without_numbers_are_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    row = dict.fromkeys(("mAP", "deviation", "share", "images per second", "seconds per epoch"))
    print_rows([{**row, "title": "Mine", "name": "mine"}])
    assert capsys.readouterr().out.count("-") >= 4
