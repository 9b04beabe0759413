"""`scob serve`: its help, and bad input in one sentence."""

from pathlib import Path

from support.small_model import Small, scob


def test_help_shows_every_option() -> None:
    text = scob("serve", "--help").stdout
    for option in ("--host", "--port", "--token", "--images", "--allow-urls", "--max-megabytes", "--at-once", "--open"):
        assert option in text


def test_bad_input_is_one_sentence(small: Small, tmp_path: Path) -> None:
    for words, why in (
        ((tmp_path / "none",), "there is no model at"),
        ((small.run, "--host", "0.0.0.0"), "set a secret with --token"),
        ((small.run, "--max-seconds", "0"), "the limit of seconds must be above 0"),
    ):
        done = scob("serve", *words)
        assert done.returncode == 2 and why in done.stderr, done
        assert len(done.stderr.strip().splitlines()) == 1
