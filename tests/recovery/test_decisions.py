"""The decision log and the readers of suggestions: what is kept, what is forgiven, what is refused."""

import csv
import json
import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scob.errors import UserError
from scob.recovery import decisions as store
from scob.recovery.decisions import Decision, DecisionLog
from scob.recovery.reviewed import read_reviewed
from scob.recovery.suggestion import read_queue, recovered_folder
from scob.recovery.web.desk import Desk


def test_the_latest_decision_of_a_pair_wins_and_undo_forgets_it(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    for image, answer in [("a", "accept"), ("b", "reject"), ("a", "reject"), ("b", "undo"), ("c", "skip")]:
        log.append(Decision(image, "dog", answer))
    assert store.decisions(tmp_path) == {("a", "dog"): "reject", ("c", "dog"): "skip"} == log.state()


def test_no_log_is_no_decision(tmp_path: Path) -> None:
    assert store.decisions(tmp_path) == {}


@given(
    answers=st.lists(
        st.tuples(
            st.text(min_size=1, max_size=5), st.sampled_from(["dog", "ca,t", '"']), st.sampled_from(store.ANSWERS)
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
    # A last line that lacks only its newline is whole.
    whole = raw[:cut].count(b"\n") + (raw[cut : cut + 1] == b"\n" and raw[:cut][-1:] not in (b"", b"\n"))
    expected: dict[tuple[str, str], str] = {}
    for image, label, answer in answers[:whole]:
        expected.pop((image, label), None)
        if answer != "undo":
            expected[image, label] = answer
    assert store.decisions(folder) == expected
    # Appending after a kill neither joins the torn line nor loses a whole one.
    DecisionLog(folder).append(Decision("after", "dog", "accept"))
    assert store.decisions(folder) == {**expected, ("after", "dog"): "accept"}
    assert all(json.loads(line) for line in log.path.read_text().splitlines())


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    good = Decision("a", "dog", "accept").line()
    (tmp_path / store.DECISIONS).write_text(good + '{"image": "b", "cl\n' + good)
    with pytest.raises(UserError, match=r"decisions\.jsonl, line 2 is damaged"):
        store.decisions(tmp_path)


@pytest.mark.parametrize(
    "line", ["[]", "3", '{"image": "a", "class": "b", "decision": "maybe"}', '{"decision": "skip"}']
)
def test_a_line_that_is_no_decision_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / store.DECISIONS).write_text(line + "\n")
    with pytest.raises(UserError, match="line 1 is damaged"):
        store.decisions(tmp_path)


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
    assert len(store.decisions(tmp_path)) == 50


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this machine to stand for a full disk")
def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / store.DECISIONS).symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"cannot write .*No space left"):
        DecisionLog(tmp_path).append(Decision("a", "dog", "accept"))


def test_reviewed_holds_what_was_accepted_and_rejected(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    named = 'odd, "name"\n.png'
    for image, answer in [("b", "reject"), (named, "accept"), ("c", "skip"), ("d", "accept"), ("d", "undo")]:
        log.append(Decision(image, "dog", answer))
    path = store.write_reviewed(store.DecisionLog(tmp_path))
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert path.name == "reviewed.csv"
    assert rows == [["image", "label", "state"], ["b", "dog", "-1"], [named, "dog", "+1"]]
    assert [int(row[2]) for row in rows[1:]] == [-1, 1]


@pytest.mark.parametrize(
    "content", [b"image,label,state\nz,dog,+1\n", b"image,label,state\nb,dog,+1\n", b'"torn', b"a\nb\n"]
)
def test_a_table_that_says_what_was_never_decided_here_is_kept(tmp_path: Path, content: bytes) -> None:
    log = DecisionLog(tmp_path)
    log.append(Decision("b", "dog", "reject"))
    (tmp_path / "reviewed.csv").write_bytes(content)
    assert store.write_reviewed(log).read_text().splitlines()[1:] == ["b,dog,-1"]
    assert (tmp_path / "reviewed-2.csv").read_bytes() == content
    log.append(Decision("b", "dog", "undo"))
    store.write_reviewed(log)  # what it replaces was decided here
    assert not (tmp_path / "reviewed-3.csv").exists()


def test_a_log_that_was_replaced_by_one_as_long_is_written_down(run_folder: Path) -> None:
    folder = recovered_folder(run_folder)
    log = DecisionLog(folder)
    desk = Desk(read_queue(folder), log)
    for answer, sign in (("accept", "+1"), ("reject", "-1")):
        (folder / "other").write_text(Decision("meadow-00.png", "ball", answer).line())
        (folder / "other").rename(folder / store.DECISIONS)
        desk.write()
        assert (folder / store.REVIEWED).read_text().endswith(f"meadow-00.png,ball,{sign}\n")


def test_a_carriage_return_in_a_name_reads_back(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    for image in ("a\rb.png", "c.png"):
        log.append(Decision(image, "dog", "accept"))
        path = store.write_reviewed(log)
    assert [row[1] for row in read_reviewed(path)] == ["a\rb.png", "c.png"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["decisions.jsonl", "reviewed.csv"]


def test_a_table_that_another_server_has_just_written_is_not_foreign(tmp_path: Path) -> None:
    mine, other = DecisionLog(tmp_path), DecisionLog(tmp_path)
    other.append(Decision("b", "dog", "accept"))
    store.write_reviewed(other)
    assert store.set_aside(mine) is None and len(mine.lines) == 1


def test_a_file_name_that_is_no_utf8_survives(tmp_path: Path) -> None:
    image = os.fsdecode(b"caf\xe9.jpg")
    DecisionLog(tmp_path).append(Decision(image, "dog", "accept"))
    assert store.decisions(tmp_path) == {(image, "dog"): "accept"}
    assert b"caf\xe9.jpg,dog,+1" in store.write_reviewed(store.DecisionLog(tmp_path)).read_bytes()


def test_a_queue_is_read_whole(run_folder: Path) -> None:
    queue = read_queue(recovered_folder(run_folder))
    assert len(queue.suggestions) == 8 and len(queue.images) == 8
    first = queue.suggestions[0]
    assert (first.image, first.label, first.score, first.observed) == ("meadow-00.png", "ball", 0.97, ("box",))
    assert queue.file(0) == run_folder / "recovered/images/meadow-00.png"
    assert queue.file(8) is None
    assert recovered_folder(run_folder / "recovered") == run_folder / "recovered"


def test_images_are_found_without_a_map(run_folder: Path) -> None:
    folder = run_folder / "recovered"
    (folder / "images.json").unlink()
    assert read_queue(folder).files["meadow-03"] == folder / "images/meadow-03.png"


GOOD = {"image": "a", "class": "dog", "score": 0.5}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("not json", "line 2 is not a suggestion"),
        ("[1]", "not a JSON object"),
        (json.dumps({"image": "a", "class": "b"}), "'score' is missing"),
        (json.dumps({**GOOD, "score": float("nan")}), "'score' is nan"),
        (json.dumps({**GOOD, "score": 1.5}), "outside 0 to 1"),
        (json.dumps({**GOOD, "score": True}), "not a number"),
        (json.dumps({**GOOD, "image": 3}), "'image' is 3"),
        (json.dumps({**GOOD, "class": ""}), "'class' is ''"),
        (json.dumps({**GOOD, "box": [0, 1]}), "'box'"),
        (json.dumps({**GOOD, "mask": {"size": [2, 2]}}), "'mask'"),
        (json.dumps({**GOOD, "nearest": [{"score": 1}]}), "'image' is missing"),
        (json.dumps({**GOOD, "image": "\ud800"}), "line 2 is not a suggestion"),
        (json.dumps({**GOOD, "image": "first"}), "repeats the image and class of line 1"),
    ],
)
def test_a_bad_suggestion_is_named_by_its_line(tmp_path: Path, line: str, why: str) -> None:
    (tmp_path / "suggestions.jsonl").write_text(json.dumps({**GOOD, "image": "first"}) + "\n" + line + "\n")
    with pytest.raises(UserError, match=r"suggestions\.jsonl, line 2") as caught:
        read_queue(tmp_path)
    assert why in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", '{"root": null}', '{"files": {"a": 3}}', '{"files": [], "root": 3}'])
def test_a_bad_map_of_images_is_a_sentence(run_folder: Path, text: str) -> None:
    (run_folder / "recovered/images.json").write_text(text)
    with pytest.raises(UserError, match=r"images\.json is not a map"):
        read_queue(run_folder / "recovered")


def test_a_map_cannot_climb_out_of_its_root(run_folder: Path) -> None:
    mapped = {
        "root": "images",
        "files": {"meadow-00.png": "../../../secret.png", "meadow-01.png": "x/../meadow-01.png"},
    }
    (run_folder / "recovered/images.json").write_text(json.dumps(mapped))
    assert set(read_queue(run_folder / "recovered").files) == {"meadow-01.png"}


def test_a_folder_without_suggestions_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="scob recover"):
        recovered_folder(tmp_path)
    with pytest.raises(UserError, match="no run folder"):
        recovered_folder(tmp_path / "missing")
