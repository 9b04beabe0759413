"""Answers from every file that may be imported."""

import json
from pathlib import Path

import pytest

from scob.errors import UserError
from scob.recovery.answers import GivenAnswer, read_given
from scob.recovery.decisions import ACCEPT, REJECT, SKIP, UNDO, Decision, DecisionLog


def choices(*names: str) -> dict[str, object]:
    return {"type": "choices", "value": {"choices": list(names)}}


def states(path: Path, images: tuple[str, ...] = (), **suggested: list[str]) -> dict[tuple[str, str], int]:
    return {(a.image, a.label): a.state for a in read_given(path, images, suggested)}


def test_what_was_suggested_and_left_unticked_is_not_there(tmp_path: Path) -> None:
    tasks = [
        {
            "data": {"image": "/data/local-files/?d=x/a.png", "name": "a"},
            "annotations": [{"result": [choices("cat", "tree")]}],
            "predictions": [{"result": [choices("cat", "cup")]}],
        },
        {"data": {"image": "/data/local-files/?d=x/b.png", "name": "b"}, "annotations": []},
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    expected = {("a", "cat"): 1, ("a", "tree"): 1, ("a", "cup"): -1}
    assert states(tmp_path / "export.json") == expected
    # The smaller exports do not have the predictions: what we asked about is in our own suggestions.
    flat = [{"image": "/data/local-files/?d=x/a.png", "name": "a", "id": 1, "annotation_id": 1, "lead_time": 1,
             "present": {"choices": ["cat", "tree"]}}]  # fmt: skip
    (tmp_path / "min.json").write_text(json.dumps(flat))
    assert states(tmp_path / "min.json", a=["cat", "cup"]) == expected


def test_images_that_were_uploaded_are_found_by_their_names(tmp_path: Path) -> None:
    task = {"data": {"image": "/data/upload/2/0123abcd-a.png"}, "annotations": [{"result": [choices("cat")]}]}
    (tmp_path / "e.json").write_text(json.dumps([task]))
    assert states(tmp_path / "e.json", ("cat/a.png", "dog/b.png")) == {("cat/a.png", "cat"): 1}
    with pytest.raises(UserError, match=r"'a\.png' could be cat/a\.png or dog/a\.png"):
        states(tmp_path / "e.json", ("cat/a.png", "dog/a.png"))


def test_our_own_files(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("image,label,state\na,cat,+1\n\nb, dog ,-1\n")
    assert read_given(tmp_path / "r.csv", (), {}) == [
        GivenAnswer(f"{tmp_path / 'r.csv'} row 2", "a", "cat", 1),
        GivenAnswer(f"{tmp_path / 'r.csv'} row 4", "b", " dog ", -1),
    ]
    log = DecisionLog(tmp_path)
    for label, answer in (
        ("cat", REJECT),
        ("cat", ACCEPT),
        ("dog", REJECT),
        ("cup", SKIP),
        ("tree", ACCEPT),
        ("tree", UNDO),
    ):
        log.append(Decision("a", label, answer))
    assert states(tmp_path / "decisions.jsonl") == {("a", "cat"): 1, ("a", "dog"): -1}


@pytest.mark.parametrize(("name", "text", "message"), [
    ("x.json", "{}", "is not an export of Label Studio"),
    ("x.jsonl", '{"image": "a"}', "is not a log of decisions"),
    ("x.csv", "a,b\n", "its first line must be image,label,state"),
])  # fmt: skip
def test_other_files_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        states(tmp_path / name)
