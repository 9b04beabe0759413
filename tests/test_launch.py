"""How many processes we are, by the environment."""

import pytest

from scob.errors import UserError
from scob.launch import Launch, launch, peer_timeout


def test_a_process_that_nobody_launched_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert launch() == Launch(0, 1, 0) and launch().first


def test_a_launcher_says_who_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WORLD_SIZE", "6"), ("RANK", "5"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    assert launch() == Launch(5, 6, 1) and not launch().first


@pytest.mark.parametrize(("count", "rank"), [("2", None), ("2", "2"), ("0", "0"), ("two", "0"), ("2", "-1")])
def test_what_does_not_fit_together_is_an_error(count: str, rank: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", count)
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    with pytest.raises(UserError, match=r"does not fit together|must be a whole number"):
        launch()


def test_the_time_a_process_may_be_silent_is_stated_and_can_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCOB_PEER_TIMEOUT", raising=False)
    assert peer_timeout() == 600
    monkeypatch.setenv("SCOB_PEER_TIMEOUT", "3600")
    assert peer_timeout() == 3600
    for wrong in ("0", "soon"):
        monkeypatch.setenv("SCOB_PEER_TIMEOUT", wrong)
        with pytest.raises(UserError, match="SCOB_PEER_TIMEOUT"):
            peer_timeout()
