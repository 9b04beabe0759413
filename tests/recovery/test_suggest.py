"""Recovering: ranked suggestions with evidence, in every format, and reviewed ones back into training."""

import csv
import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools.coco import COCO

from scob.data.readers import infer_format, open_split
from scob.errors import UserError
from scob.labels import Labels
from scob.recovery.exchange import FORMATS
from scob.recovery.reviewed import Imported, import_reviewed
from scob.recovery.suggest import confidence_of, rank, read_suggestions, recover
from scob.recovery.suggestion import read_queue
from scob.training.events import Note
from scob.training.prepare import Prepared, prepare
from scob.training.run_data import load_data
from scob.training.train import Shared, train
from support.small_model import Small, scob, small_config


@pytest.fixture(scope="module")
def recovered(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recovered")
    recover(small.run, out=folder, formats=FORMATS, minimum=0.3, top=25, device="cpu")
    return folder


def test_only_unknown_entries_are_ranked_the_surest_first() -> None:
    confidence = np.array([[0.9, 0.8, 0.2], [0.7, 0.95, 0.6]], np.float32)
    observed = np.array([[1, 0, 0], [0, -1, 0]], np.int8)
    assert rank(confidence, observed, 0.5) == [(0, 1), (1, 0), (1, 2)]
    assert rank(confidence, observed, np.array([0, 0.85, 0.65], np.float32), 1) == [(1, 0)]


def test_confidence_is_the_score_where_there_is_no_estimate() -> None:
    scores, estimates = np.array([[0.4, 0.4]], np.float32), np.array([[0.8, np.nan]], np.float32)
    assert confidence_of(scores, estimates) == pytest.approx(np.array([[0.6, 0.4]]))


def test_the_queue_is_what_review_reads(small: Small, recovered: Path) -> None:
    queue = read_queue(recovered)
    labels = Labels.load(small.run / "labels.safetensors")
    place = {name: i for i, name in enumerate(labels.images)}
    assert len(queue.suggestions) == 25
    for s in queue.suggestions:
        row, c = place[s.image], labels.classes.index(s.label)
        assert labels.values[row, c] == 0 and labels.classes[int(labels.values[row].argmax())] in s.observed
        near = [(labels.values[place[image], c], image) for image, _ in s.nearest]
        assert all(state == 1 and image != s.image for state, image in near) or not near
    assert any(s.nearest for s in queue.suggestions) and any(s.mask for s in queue.suggestions)
    assert all(path.is_file() for path in queue.files.values())
    made = read_suggestions(recovered)
    tops = [(s["score"] + (s["score"] if s["estimate"] is None else s["estimate"])) / 2 for s in made]
    assert tops == sorted(tops, reverse=True)
    assert [s.confidence for s in queue.suggestions] == pytest.approx(tops, abs=1e-5)


def test_drawn_pictures_move_with_their_folder(recovered: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(recovered, tmp_path / "elsewhere"))
    files = read_queue(moved).files.values()
    assert files and all(path.is_file() and path.is_relative_to(moved) for path in files)


def test_every_format_names_every_suggestion(recovered: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = read_suggestions(recovered)
    pairs = [(s["image"], s["class"]) for s in lines]
    with (recovered / "suggestions.csv").open() as file:
        assert [(r["image"], r["label"]) for r in csv.DictReader(file)] == pairs
    coco = COCO(str(recovered / "coco.json"))
    assert len(coco.anns) == 25
    for annotation in coco.anns.values():
        assert coco.annToMask(annotation).shape == (64, 64)
        assert Path(coco.imgs[annotation["image_id"]]["file_name"]).is_file()
    tasks = json.loads((recovered / "labelstudio" / "tasks.json").read_text())
    chosen = [(t["data"]["name"], c) for t in tasks for r in t["predictions"][0]["result"] if r["type"] == "choices"
              for c in r["value"]["choices"]]  # fmt: skip
    assert sorted(chosen) == sorted(pairs)
    labels = json.loads((recovered / "fiftyone" / "labels.json").read_text())
    manifest = json.loads((recovered / "fiftyone" / "data.json").read_text())
    found = [(image, labels["classes"][d["label"]]) for image, ds in labels["labels"].items() for d in ds]
    assert sorted(found) == sorted(pairs) and all(Path(manifest[image]).is_file() for image, _ in found)
    probabilities = np.load(recovered / "cleanlab" / "pred_probs.npy")
    given = json.loads((recovered / "cleanlab" / "labels.json").read_text())
    assert probabilities.shape == (96, 16) and len(given) == 96 and all(len(g) == 1 for g in given if g)


def test_an_unknown_format_is_refused_before_any_work(small: Small) -> None:
    with pytest.raises(UserError, match="no format 'yolo'"):
        recover(small.run, formats=["yolo"])


def test_images_never_seen_get_suggestions_and_broken_ones_are_counted(small: Small, tmp_path: Path) -> None:
    photos = tmp_path / "new"
    photos.mkdir()
    for file in small.files[:4]:
        (photos / file.name).write_bytes(file.read_bytes())
    (photos / "notes.txt").write_text("x")
    (photos / "bad.png").write_bytes(b"x")
    found = recover(small.run, [photos], tmp_path / "out", minimum=0.0, top=6, device="cpu")
    assert found.images == 4 and found.skipped == 2 and len(found.suggestions) == 6
    assert any(s.nearest for s in found.suggestions)  # from the run's own images
    bare = recover(small.run / "model", [photos], tmp_path / "bare", minimum=0.0, top=6, device="cpu")
    assert [s.to_json()["class"] for s in bare.suggestions] == [s.label for s in found.suggestions]
    assert not any(s.nearest for s in bare.suggestions)
    assert len(read_queue(tmp_path / "out").suggestions) == 6


def test_a_lone_broken_image_is_told_without_advice_that_does_not_apply(small: Small, tmp_path: Path) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"x")
    with pytest.raises(UserError, match=r"^the image cannot be read: .*bad\.jpg: this is not an image of a .*kind$"):
        recover(small.run, [tmp_path / "bad.jpg"], device="cpu")


def test_a_model_without_a_run_needs_images(small: Small) -> None:
    with pytest.raises(UserError, match="--images"):
        recover(small.run / "model")


def test_reviewed_labels_come_back_and_the_next_training_uses_them(
    own_run: Path, small: Small, recovered: Path, tmp_path: Path
) -> None:
    first, second = read_suggestions(recovered)[:2]
    reviewed = tmp_path / "reviewed.csv"
    reviewed.write_text(
        f"image,label,state\n{first['image']},{first['class']},+1\n{second['image']},{second['class']},-1\n"
    )
    made = import_reviewed(own_run, reviewed)
    assert (made.confirmed, made.rejected, made.changed) == (1, 1, 0)
    config = small_config(small.backbone, labels={"file": str(made.path)}, train={"epochs": 1})
    drawn = load_data(config).drawn
    for s, state in ((first, 1), (second, -1)):
        assert drawn.values[drawn.images.index(s["image"]), drawn.classes.index(s["class"])] == state
    before = Labels.load(own_run / "labels.safetensors")
    assert (drawn.values != before.values).sum() == 2
    assert train(config, tmp_path / "again")["labels"]["fingerprint"] == made.fingerprint
    again = recover(tmp_path / "again", out=tmp_path / "second", minimum=0.0, masks=False, device="cpu")
    decided = {(s["image"], s["class"]) for s in (first, second)}
    assert not decided & {(s.image, s.label) for s in again.suggestions}


def train_on(photos: Path, small: Small, run: Path) -> Prepared:
    """A run of an epoch on a folder of photographs."""
    words = ("train.epochs=1", "data.workers=0", "model.layers=1", "scob.init_epochs=0")
    ready = prepare(photos, backbone=str(small.backbone), device="cpu", estimate=False, overrides=words)
    train(ready.config, run, shared=Shared(ready.data))
    return ready


def test_decisions_about_new_images_become_a_table_that_trains(small: Small, tmp_path: Path) -> None:
    """From a folder of photographs to decisions about others, and on from the model with both."""
    for file in small.files[:20]:
        place = tmp_path / "photos" / file.parent.name / file.name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    (tmp_path / "more").mkdir()
    for file in small.files[20:]:
        shutil.copy(file, tmp_path / "more" / file.name)
    run = tmp_path / "runs" / "photos"
    ready = train_on(tmp_path / "photos", small, run)
    found = recover(run, [tmp_path / "more"], minimum=0.0, top=4, masks=False, device="cpu")
    (found.folder / "decisions.jsonl").write_text("".join(
        json.dumps({"image": s.image, "class": s.label, "decision": answer}) + "\n"
        for s, answer in zip(found.suggestions, ("accept", "reject", "reject", "skip"), strict=True)
    ))  # fmt: skip
    told = scob("review", found.folder, "--write").stderr
    again = shlex.split(told.split("Use them with: ")[1])
    shown = scob(*again[1:])
    assert shown.returncode == 0 and "1 confirmed, 2 rejected" in shown.stderr
    table = tmp_path / "labels-reviewed.csv"
    follows = shlex.split(shown.stderr.split("next: ")[1])
    assert Path(follows[3]).resolve() == table and follows[4:6] == ["--init", str(run)]
    labels = open_split(str(table), None).labels
    assert len(labels) >= 21 and set(labels.classes) == set(ready.data.drawn.classes)
    first = found.suggestions[0]
    assert labels.values[labels.images.index(f"more/{Path(first.image).name}"), labels.classes.index(first.label)] == 1
    went_on = scob(*follows[1:], "train.epochs=1", "data.workers=0", "--device", "cpu")
    assert went_on.returncode == 0, went_on.stderr
    assert f"continues from the model: {len(labels.classes)} classes kept" in went_on.stderr
    # A second time nothing is written over, and the folder that is named is free.
    shown = scob(*again[1:])
    assert "labels-reviewed-2.csv" in shown.stderr and "photos-reviewed-2" in shown.stderr


@pytest.fixture
def decide(small: Small, tmp_path: Path) -> Any:
    """A run on tmp_path/photos; a function that rejects the surest label of other images and takes all of it back."""
    photos = Path(shutil.copytree(small.photos, tmp_path / "photos"))
    train_on(photos, small, tmp_path / "runs/photos")

    def one_more(images: Path, out: Path | None = None) -> Imported:
        found = recover(tmp_path / "runs/photos", [images], minimum=0.0, top=1, masks=False, device="cpu")
        with (tmp_path / "decided.csv").open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.write("" if file.tell() else "image,label,state\n")
            file.write(f"{found.suggestions[0].image},{found.suggestions[0].label},-1\n")
        return import_reviewed(found.folder, tmp_path / "decided.csv", out)

    return one_more


def test_the_table_never_stands_among_the_images_of_the_run(small: Small, decide: Any, tmp_path: Path) -> None:
    """It would make another data set of them. Decisions of an earlier round, about other images, stay in."""
    folder = small.files[0].parent.name
    for number, file in enumerate(small.files[1:3]):
        shutil.copy(file, tmp_path / "photos" / folder / f"later-{number}.png")
    first = decide(tmp_path / "photos" / folder / "later-0.png")
    assert first.path.resolve() == tmp_path / "labels-reviewed.csv" and first.rejected == 1
    second = decide(tmp_path / "photos" / folder / "later-1.png")
    assert second.path.resolve() == tmp_path / "labels-reviewed-2.csv" and second.rejected == 2
    assert infer_format(str(tmp_path / "photos")) == "folder"
    labels = open_split(str(second.path), None).labels
    assert len(labels) == 26 and (labels.values == -1).sum() == 2 and (labels.values == 1).sum() == 24


def test_where_a_table_may_stand(small: Small, decide: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store").mkdir()
    shutil.copy(small.files[0], tmp_path / "store" / "x.png")
    (tmp_path / "more").symlink_to(tmp_path / "store")
    for wrong in ("photos/t.csv", "t.safetensors"):
        with pytest.raises(UserError, match=r"must end in \.csv and stand in"):
            decide(tmp_path / "more", tmp_path / wrong)
    (tmp_path / "decided.csv").unlink()
    monkeypatch.chdir(tmp_path / "photos")
    made = decide(Path("../more"), Path("../t.csv"))
    split = open_split(str(made.path), None)
    assert len(split) == 25 and "store/x.png" in split.labels.images and not split.skipped


def test_a_name_that_no_table_can_hold_is_refused(small: Small, decide: Any, tmp_path: Path) -> None:
    shutil.copy(small.files[0], tmp_path / os.fsdecode(b"caf\xe9.png"))
    with pytest.raises(UserError, match=r"caf.*cannot stand in a table"):
        decide(tmp_path / os.fsdecode(b"caf\xe9.png"))
    assert not list(tmp_path.glob("labels-reviewed*"))


def test_the_folder_of_suggestions_stands_for_its_run(own_run: Path, recovered: Path, tmp_path: Path) -> None:
    first = read_suggestions(recovered)[0]
    reviewed = tmp_path / "reviewed.csv"
    reviewed.write_text(f"image,label,state\n{first['image']},{first['class']},+1\n")
    shutil.copytree(recovered, own_run / "recovered", dirs_exist_ok=True)
    made = import_reviewed(own_run / "recovered", reviewed)
    assert made.path == own_run / "labels-reviewed.safetensors" and made.run == own_run


def test_a_photograph_that_came_later_is_left_out_and_counted(small: Small, tmp_path: Path) -> None:
    photos = Path(shutil.copytree(small.photos, tmp_path / "photos"))
    run = tmp_path / "run"
    ready = train_on(photos, small, run)
    shutil.copy(small.files[0], next(photos.iterdir()) / "new.png")
    found = recover(run, minimum=0.0, top=3, masks=False, device="cpu")
    assert found.images == 24 and found.skipped == 1
    said = []
    config = ready.config.model_copy(deep=True)
    config.labels.file = str(run / "labels.safetensors")
    train(config, tmp_path / "again", listen=said.append)
    assert any("images left out: 1" in event.message for event in said if isinstance(event, Note))
    config.data.skip_bad = False
    with pytest.raises(UserError, match=r"does not list the image .*new\.png.*data\.skip_bad=true"):
        load_data(config)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("", "no decision"),
        ("lost.png,tree,+1\n", "row 2: the image 'lost.png' is not in the run"),
        ("train-000001,tre,+1\n", "no class 'tre'.*Did you mean 'tree'"),
        ("train-000001,tree,maybe\n", "row 2: 'maybe' is not a state"),
        ("train-000001,tree,+1\ntrain-000001,tree,-1\n", "row 3: .*both confirmed and rejected"),
        ("train-000001\n", "row 2: it has 1 cells"),
    ],
)
def test_a_bad_review_names_its_row(own_run: Path, tmp_path: Path, rows: str, said: str) -> None:
    reviewed = tmp_path / "reviewed.csv"
    reviewed.write_text("image,label,state\n" + rows)
    with pytest.raises(UserError, match=said):
        import_reviewed(own_run, reviewed)
    assert not (own_run / "labels-reviewed.safetensors").exists()


def test_taking_decisions_back_refuses_options_it_would_ignore(small: Small, tmp_path: Path) -> None:
    shown = scob("recover", small.run, "--import", tmp_path / "reviewed.csv", "--format", "coco")
    assert shown.returncode == 2 and "the only option it accepts is --out" in shown.stderr
