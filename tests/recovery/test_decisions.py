"""The decision log: what it keeps, what it repairs, what it refuses."""

import csv
import errno
import json
import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scob.errors import UserError
from scob.recovery import decisions
from scob.recovery.answers import read_given
from scob.recovery.decisions import Decision, DecisionLog


def test_the_latest_decision_of_a_pair_wins_and_undo_forgets_it(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    for image, answer in [("a", "accept"), ("b", "reject"), ("a", "reject"), ("b", "undo"), ("c", "skip")]:
        log.append(Decision(image, "dog", answer))
    assert decisions.decisions_in(tmp_path) == {("a", "dog"): "reject", ("c", "dog"): "skip"} == log.state()


def test_no_log_is_no_decision(tmp_path: Path) -> None:
    assert decisions.decisions_in(tmp_path) == {}


@given(
    answers=st.lists(
        st.tuples(
            st.text(min_size=1, max_size=5), st.sampled_from(["dog", "ca,t", '"']), st.sampled_from(decisions.ANSWERS)
        ),
        min_size=1,
        max_size=8,
    ),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_a_log_cut_anywhere_keeps_every_line_before_the_cut(tmp_path_factory, answers, data) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = DecisionLog(folder)
    answers = [a for a in answers if not any("\ud800" <= c <= "\udfff" for c in a[0])] or [("a", "dog", "skip")]
    for answer in answers:
        log.append(Decision(*answer))
    raw = log.path.read_bytes()
    cut = data.draw(st.integers(0, len(raw)))
    log.path.write_bytes(raw[:cut])
    # A last line that lacks only its newline is complete.
    complete = raw[:cut].count(b"\n") + (raw[cut : cut + 1] == b"\n" and raw[:cut][-1:] not in (b"", b"\n"))
    expected: dict[tuple[str, str], str] = {}
    for image, label, answer in answers[:complete]:
        expected.pop((image, label), None)
        if answer != "undo":
            expected[image, label] = answer
    assert decisions.decisions_in(folder) == expected
    # Appending after a kill neither continues the torn line nor loses a complete one.
    DecisionLog(folder).append(Decision("after", "dog", "accept"))
    assert decisions.decisions_in(folder) == {**expected, ("after", "dog"): "accept"}
    assert all(json.loads(line) for line in log.path.read_text().splitlines())


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    good = Decision("a", "dog", "accept").line()
    (tmp_path / decisions.DECISIONS).write_text(good + '{"image": "b", "cl\n' + good)
    with pytest.raises(UserError, match=r"decisions\.jsonl, line 2 is damaged"):
        decisions.decisions_in(tmp_path)


@pytest.mark.parametrize(
    "line", ["[]", "3", '{"image": "a", "class": "b", "decision": "maybe"}', '{"decision": "skip"}']
)
def test_a_line_that_is_not_a_decision_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / decisions.DECISIONS).write_text(line + "\n")
    with pytest.raises(UserError, match="line 1 is damaged"):
        decisions.decisions_in(tmp_path)


def test_two_logs_on_one_folder_see_each_other(tmp_path: Path) -> None:
    one, two = DecisionLog(tmp_path), DecisionLog(tmp_path)
    one.append(Decision("a", "dog", "accept"))
    two.append(Decision("a", "dog", "reject"))
    one.refresh()
    assert one.state() == two.state() == {("a", "dog"): "reject"}
    one.path.unlink()
    two.refresh()
    assert two.state() == {}


def _append_many(folder: Path, who: int) -> None:
    log = DecisionLog(folder)
    for i in range(25):
        log.append(Decision(f"{who}-{i}", "dog", "accept"))


def test_processes_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    workers = [multiprocessing.get_context("spawn").Process(target=_append_many, args=(tmp_path, n)) for n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(decisions.decisions_in(tmp_path)) == 50


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this machine to stand for a full disk")
def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    (tmp_path / decisions.DECISIONS).symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"cannot write .*No space left"):
        DecisionLog(tmp_path).append(Decision("a", "dog", "accept"))


def test_reviewed_lists_what_was_accepted_and_rejected(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    named = 'odd, "name"\n.png'
    for image, answer in [("b", "reject"), (named, "accept"), ("c", "skip"), ("d", "accept"), ("d", "undo")]:
        log.append(Decision(image, "dog", answer))
    path = decisions.write_reviewed(decisions.DecisionLog(tmp_path))
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert path.name == "reviewed.csv"
    assert rows == [["image", "label", "state"], ["b", "dog", "-1"], [named, "dog", "+1"]]
    assert [int(row[2]) for row in rows[1:]] == [-1, 1]


@pytest.mark.parametrize(
    "content", [b"image,label,state\nz,dog,+1\n", b"image,label,state\nb,dog,+1\n", b'"torn', b"a\nb\n"]
)
def test_a_table_with_other_decisions_is_kept(tmp_path: Path, content: bytes) -> None:
    log = DecisionLog(tmp_path)
    log.append(Decision("b", "dog", "reject"))
    (tmp_path / "reviewed.csv").write_bytes(content)
    assert decisions.write_reviewed(log).read_text().splitlines()[1:] == ["b,dog,-1"]
    assert (tmp_path / "reviewed-2.csv").read_bytes() == content
    log.append(Decision("b", "dog", "undo"))
    decisions.write_reviewed(log)  # what it replaces was decided here
    assert not (tmp_path / "reviewed-3.csv").exists()


def test_a_carriage_return_in_a_name_reads_back(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    for image in ("a\rb.png", "c.png"):
        log.append(Decision(image, "dog", "accept"))
        path = decisions.write_reviewed(log)
    assert [answer.image for answer in read_given(path, (), {})] == ["a\rb.png", "c.png"]
    assert sorted(p.name for p in tmp_path.iterdir()) == [".decisions.lock", "decisions.jsonl", "reviewed.csv"]


def test_a_table_that_another_server_has_just_written_is_not_foreign(tmp_path: Path) -> None:
    own, other = DecisionLog(tmp_path), DecisionLog(tmp_path)
    other.append(Decision("b", "dog", "accept"))
    decisions.write_reviewed(other)
    assert decisions.set_aside(own) is None and len(own.lines) == 1


def test_a_file_name_that_is_not_utf8_survives(tmp_path: Path) -> None:
    image = os.fsdecode(b"caf\xe9.jpg")
    DecisionLog(tmp_path).append(Decision(image, "dog", "accept"))
    assert decisions.decisions_in(tmp_path) == {(image, "dog"): "accept"}
    assert b"caf\xe9.jpg,dog,+1" in decisions.write_reviewed(decisions.DecisionLog(tmp_path)).read_bytes()


def test_without_file_locks_there_is_one_writer_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def missing(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", missing)
    log = DecisionLog(tmp_path)
    assert "has no locks" in log.check_writable()
    log.append(Decision("a.png", "cat", "accept"))
    assert log.state() == {("a.png", "cat"): "accept"}
    with pytest.raises(UserError, match="another review is writing to"):
        DecisionLog(tmp_path).check_writable()
