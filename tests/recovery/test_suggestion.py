"""The suggestion record, written and read: nothing is lost, and a bad file is named by its line."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scob.errors import UserError
from scob.labels import Labels
from scob.recovery.suggestion import IMAGES, SUGGESTIONS, Suggestion, read_queue, recovered_folder, write_queue
from support.small_model import Small

GOOD = {"image": "a", "class": "dog", "score": 0.5}


SHARES = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)


@given(
    st.builds(
        Suggestion,
        image=NAMES,
        label=NAMES,
        score=SHARES,
        confidence=SHARES,
        estimate=st.none() | SHARES,
        mask=st.none() | st.just({"size": [2, 2], "counts": "04"}),
        boxes=st.none() | st.lists(st.tuples(SHARES, SHARES, SHARES, SHARES), max_size=3).map(tuple),
        nearest=st.lists(st.tuples(NAMES, SHARES), max_size=2).map(tuple),
        observed=st.lists(NAMES, max_size=2).map(tuple),
    )
)
def test_a_suggestion_is_read_as_it_was_written(suggestion: Suggestion) -> None:
    assert Suggestion.from_json(json.loads(json.dumps(suggestion.to_json()))) == suggestion


def test_a_queue_is_read_as_it_was_written(tmp_path: Path) -> None:
    suggestions = [Suggestion("a", "dog", 0.9, 0.8, nearest=(("b", 0.5),)), Suggestion("b", "cat", 0.7, 0.6)]
    files = {"a": str(tmp_path / "photos" / "a.png"), "b": str(tmp_path / "photos" / "more" / "b.png")}
    written = write_queue(tmp_path / "queue", suggestions, files, ("dog", "cat", "bird"))
    assert written == [tmp_path / "queue" / SUGGESTIONS, tmp_path / "queue" / IMAGES]
    queue = read_queue(tmp_path / "queue")
    assert queue.suggestions == tuple(suggestions) and queue.images == ("a", "b")
    assert {image: str(path) for image, path in queue.files.items()} == files
    assert queue.classes == ("bird", "cat", "dog")
    write_queue(tmp_path / "queue", suggestions, files)  # as an earlier version did: without the list
    assert read_queue(tmp_path / "queue").classes == ("cat", "dog")


def test_confidence_is_the_score_if_a_line_has_none() -> None:
    assert Suggestion.from_json(GOOD).confidence == 0.5


def test_a_line_from_before_there_was_a_box_per_part_has_one_box() -> None:
    assert Suggestion.from_json({**GOOD, "box": [0, 0, 0.5, 1]}).boxes == ((0, 0, 0.5, 1),)
    assert Suggestion.from_json({**GOOD, "box": None}).boxes is None  # unknown, not "no clear place"
    assert Suggestion.from_json({**GOOD, "box": None, "boxes": []}).boxes == ()


def test_the_queue_is_what_review_reads(small: Small, recovered: Path) -> None:
    queue = read_queue(recovered)
    labels = Labels.load(small.run / "labels.safetensors")
    row_of = {name: i for i, name in enumerate(labels.images)}
    assert len(queue.suggestions) == 25
    for s in queue.suggestions:
        row, c = row_of[s.image], labels.classes.index(s.label)
        assert labels.values[row, c] == 0 and labels.classes[int(labels.values[row].argmax())] in s.observed
        near = [(labels.values[row_of[image], c], image) for image, _ in s.nearest]
        assert all(state == 1 and image != s.image for state, image in near) or not near
    assert any(s.nearest for s in queue.suggestions) and any(s.mask for s in queue.suggestions)
    assert all(path.is_file() for path in queue.files.values())
    lines = [json.loads(line) for line in (recovered / SUGGESTIONS).read_text().splitlines()]
    ranked = [s["confidence"] for s in lines]
    assert ranked == sorted(ranked, reverse=True)
    assert [s.confidence for s in queue.suggestions] == pytest.approx(ranked, abs=1e-5)
    # One map from score to probability for images that were trained on (they have an estimate), and one for others.
    for group in ([s for s in lines if s["estimate"] is not None], [s for s in lines if s["estimate"] is None]):
        scores = [s["score"] for s in group]
        assert scores == sorted(scores, reverse=True)


def test_drawn_pictures_move_with_their_folder(recovered: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(recovered, tmp_path / "elsewhere"))
    files = read_queue(moved).files.values()
    assert files and all(path.is_file() and path.is_relative_to(moved) for path in files)


def test_a_queue_is_read_completely(run_folder: Path) -> None:
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
        (json.dumps({**GOOD, "boxes": [[0, 1]]}), "'box'"),
        (json.dumps({**GOOD, "boxes": 3}), "'boxes'"),
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
def test_a_bad_map_of_images_is_an_error(run_folder: Path, text: str) -> None:
    (run_folder / "recovered/images.json").write_text(text)
    with pytest.raises(UserError, match=r"images\.json does not map images to files"):
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


@pytest.mark.parametrize("score", ["Infinity", "-Infinity", "NaN", "1e999"])
def test_a_neighbour_without_a_real_score_is_refused_with_its_line(tmp_path: Path, score: str) -> None:
    line = f'{{"image": "a", "class": "b", "score": 0.5, "nearest": [{{"image": "c", "score": {score}}}]}}'
    (tmp_path / "suggestions.jsonl").write_text(line)
    with pytest.raises(UserError, match=r"line 1 is not a suggestion: the score of a nearest image"):
        read_queue(tmp_path)


def test_files_outside_the_root_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "suggestions.jsonl").write_text('{"image": "a", "class": "b", "score": 0.5}')
    root = tmp_path / "pictures"
    names = {"a": "/etc/passwd", "b": "../secret.png", "c": str(root / "c.png"), "d": "d.png", "e": "x/../../e.png"}
    (tmp_path / "images.json").write_text(json.dumps({"root": str(root), "files": names}))
    assert set(read_queue(tmp_path).files) == {"c", "d"}
