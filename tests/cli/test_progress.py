"""The bar stays silent where nobody watches."""

import pytest

from scob.cli.progress import bar


def test_nothing_is_drawn_if_stderr_is_not_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with bar("scoring") as progress:
        progress(1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_bar_can_be_hidden(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from scob.cli.console import err

    monkeypatch.setattr(err, "_force_terminal", True)
    with bar("scoring", shown=False) as progress:
        progress(1, 2)
    assert capsys.readouterr().err == ""
    with bar("scoring") as progress:
        progress(1, 2)
    assert capsys.readouterr().err != ""
