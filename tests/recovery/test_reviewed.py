"""Importing decisions: into the run's labels, or into a table of new images; bad rows are named."""

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from scob.data.readers import infer_format, open_split
from scob.errors import UserError
from scob.labels import Labels
from scob.recovery.reviewed import Imported, import_reviewed
from scob.recovery.suggest import SuggestionLimits, recover
from scob.recovery.suggestion import read_queue
from scob.training.run_data import load_data
from scob.training.train import train
from support.review_runs import CPU, train_on
from support.small_model import Small, scob, small_config


def test_reviewed_labels_come_back_and_the_next_training_uses_them(
    own_run: Path, small: Small, recovered: Path, tmp_path: Path
) -> None:
    first, second = read_queue(recovered).suggestions[:2]
    reviewed = tmp_path / "reviewed.csv"
    reviewed.write_text(f"image,label,state\n{first.image},{first.label},+1\n{second.image},{second.label},-1\n")
    made = import_reviewed(own_run, reviewed)
    assert (made.confirmed, made.rejected, made.changed) == (1, 1, 0)
    config = small_config(small.backbone, labels={"file": str(made.path)}, train={"epochs": 1})
    drawn = load_data(config).drawn
    for s, state in ((first, 1), (second, -1)):
        assert drawn.values[drawn.images.index(s.image), drawn.classes.index(s.label)] == state
    before = Labels.load(own_run / "labels.safetensors")
    assert (drawn.values != before.values).sum() == 2
    assert train(config, tmp_path / "again").summary["labels"]["fingerprint"] == made.fingerprint
    again = recover(
        tmp_path / "again", out=tmp_path / "second", selection=SuggestionLimits(0.0), masks=False, running=CPU
    )
    decided = {(s.image, s.label) for s in (first, second)}
    assert not decided & {(s.image, s.label) for s in again.suggestions}


def test_decisions_about_new_images_become_a_table_that_trains(small: Small, tmp_path: Path) -> None:
    """From a folder of photographs to decisions about other photographs, and to a training with both."""
    for file in small.files[:20]:
        path = tmp_path / "photos" / file.parent.name / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, path)
    (tmp_path / "more").mkdir()
    for file in small.files[20:]:
        shutil.copy(file, tmp_path / "more" / file.name)
    run = tmp_path / "runs" / "photos"
    ready = train_on(tmp_path / "photos", small, run)
    found = recover(run, [tmp_path / "more"], selection=SuggestionLimits(0.0, 4), masks=False, running=CPU)
    (found.folder / "decisions.jsonl").write_text("".join(
        json.dumps({"image": s.image, "class": s.label, "decision": answer}) + "\n"
        for s, answer in zip(found.suggestions, ("accept", "reject", "reject", "skip"), strict=True)
    ))  # fmt: skip
    message = scob("review", found.folder, "--write").stderr
    again = shlex.split(message.split("Use them with: ")[1])
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
    assert f"continuing from the model: {len(labels.classes)} classes kept" in went_on.stderr
    # The second time nothing is overwritten, and the next command names another free folder.
    shown = scob(*again[1:])
    assert "labels-reviewed-2.csv" in shown.stderr and "photos-reviewed-2" in shown.stderr


@pytest.fixture
def decide(small: Small, tmp_path: Path) -> Any:
    """A run on tmp_path/photos; a function that rejects the first suggestion for other images and imports that."""
    photos = Path(shutil.copytree(small.photos, tmp_path / "photos"))
    train_on(photos, small, tmp_path / "runs/photos")

    def one_more(images: Path, out: Path | None = None) -> Imported:
        found = recover(
            tmp_path / "runs/photos", [images], selection=SuggestionLimits(0.0, 1), masks=False, running=CPU
        )
        with (tmp_path / "decided.csv").open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.write("" if file.tell() else "image,label,state\n")
            file.write(f"{found.suggestions[0].image},{found.suggestions[0].label},-1\n")
        return import_reviewed(found.folder, tmp_path / "decided.csv", out)

    return one_more


def test_the_table_is_never_among_the_images_of_the_run(small: Small, decide: Any, tmp_path: Path) -> None:
    """It would change how they are read. Decisions of an earlier round, about other images, stay in."""
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


def test_where_a_table_may_be(small: Small, decide: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store").mkdir()
    shutil.copy(small.files[0], tmp_path / "store" / "x.png")
    (tmp_path / "more").symlink_to(tmp_path / "store")
    for wrong in ("photos/t.csv", "t.safetensors"):
        with pytest.raises(UserError, match=r"must end in \.csv and be in"):
            decide(tmp_path / "more", tmp_path / wrong)
    (tmp_path / "decided.csv").unlink()
    monkeypatch.chdir(tmp_path / "photos")
    made = decide(Path("../more"), Path("../t.csv"))
    split = open_split(str(made.path), None)
    assert len(split) == 25 and "store/x.png" in split.labels.images and not split.skipped


def test_a_name_that_cannot_be_in_a_table_is_refused(small: Small, decide: Any, tmp_path: Path) -> None:
    shutil.copy(small.files[0], tmp_path / os.fsdecode(b"caf\xe9.png"))
    with pytest.raises(UserError, match=r"caf.*cannot be written in a table"):
        decide(tmp_path / os.fsdecode(b"caf\xe9.png"))
    assert not list(tmp_path.glob("labels-reviewed*"))


def test_the_folder_of_suggestions_may_be_given_for_its_run(own_run: Path, recovered: Path, tmp_path: Path) -> None:
    first = read_queue(recovered).suggestions[0]
    reviewed = tmp_path / "reviewed.csv"
    reviewed.write_text(f"image,label,state\n{first.image},{first.label},+1\n")
    shutil.copytree(recovered, own_run / "recovered", dirs_exist_ok=True)
    made = import_reviewed(own_run / "recovered", reviewed)
    assert made.path == own_run / "labels-reviewed.safetensors" and made.run == own_run


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
    assert shown.returncode == 2 and "the only other option it accepts is --out" in shown.stderr


def test_a_review_that_has_not_begun(own_run: Path) -> None:
    with pytest.raises(UserError, match="`scob review` writes reviewed"):
        import_reviewed(own_run, own_run / "recovered" / "reviewed.csv")
