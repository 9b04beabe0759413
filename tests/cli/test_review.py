"""`scob review` as a user runs it."""

import json
from collections.abc import Callable
from pathlib import Path


def test_help_shows_every_option(options_of: Callable[..., list[str]]) -> None:
    assert options_of("review") == [
        "--host",
        "--port",
        "--token",
        "--open",
        "--order",
        "--sample",
        "--blind",
        "--write",
    ]


def test_decisions_so_far_are_written(scob: Callable[..., tuple[int, str, str]], own_run: Path) -> None:
    assert scob("recover", own_run, "--min", 0, "--top", 3, "--no-masks", "--device", "cpu")[0] == 0
    code, out, err = scob("review", own_run, "--write")
    assert (code, out) == (0, "")
    path = own_run / "recovered" / "reviewed.csv"
    assert path.is_file()
    assert err == f"0 accepted, 0 rejected: {path}\nUse them with: scob recover {own_run} --import {path}\n"


def test_no_suggestions(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "scob recover" in refused("review", tmp_path)


def test_an_audit_is_written_beside_the_decisions(scob: Callable[..., tuple[int, str, str]], own_run: Path) -> None:
    assert scob("recover", own_run, "--min", 0, "--top", 3, "--no-masks", "--device", "cpu")[0] == 0
    suggestion = json.loads((own_run / "recovered" / "suggestions.jsonl").read_text().splitlines()[0])
    decision = {"image": suggestion["image"], "class": suggestion["class"], "decision": "accept"}
    (own_run / "recovered" / "decisions.jsonl").write_text(json.dumps(decision) + "\n")
    code, out, err = scob("review", own_run, "--order", "audit", "--write")
    assert code == 0 and "How many suggestions are right" in out and "audit.csv" in err
    lines = (own_run / "recovered" / "audit.csv").read_text().splitlines()
    assert lines[1].startswith("all,3,1,1,1.0000,0.20")


def test_a_sample_needs_an_audit(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "--sample needs --order audit" in refused("review", tmp_path, "--sample", 5)
    assert "no order 'best'" in refused("review", tmp_path, "--order", "best")
