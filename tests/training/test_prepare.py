"""Settings chosen from somebody's own images."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from scob import methods
from scob.errors import UserError
from scob.inference.model import InferenceOptions, Scob
from scob.recovery.suggest import SuggestionLimits, recover
from scob.training import run_data
from scob.training.prepare import prepare
from scob.training.train import SharedParts, train
from support.own_images import picture, prepared
from support.small_model import Small, scob


def test_a_folder_of_photographs_trains_predicts_and_recovers(small: Small, tmp_path: Path) -> None:
    ready = prepared(small.photos, small, "train.epochs=1")
    assert ready.images == 24 and ready.config.data.size == 64 and ready.config.labels.k == 1.5
    assert "guess" in ready.k_reason and ready.seconds > 0
    finished = train(ready.config, tmp_path / "run", shared=SharedParts(ready.data))
    assert finished.summary["k"] == 1.5
    model = Scob.from_pretrained(tmp_path / "run", "cpu")
    assert model.predict(small.files[0], topk=1)[0].labels[0] in model.classes
    cpu = InferenceOptions(device="cpu")
    assert recover(tmp_path / "run", selection=SuggestionLimits(0.0, 3), masks=False, running=cpu).suggestions


def test_files_that_are_not_images_are_counted_and_broken_ones_skipped(small: Small, tmp_path: Path) -> None:
    for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        picture(tmp_path / name)
    (tmp_path / "cat" / "notes.txt").write_text("x")
    (tmp_path / "dog" / "bad.jpg").write_bytes(b"x")
    (tmp_path / "nothing").mkdir()
    ready = prepared(tmp_path, small)
    assert "classes without any image: 1 (nothing)" in ready.notes
    assert ready.images == 4 and ready.other_files == 1 and len(ready.skipped) == 1
    assert any("skipped files that are not images: 1" in note for note in ready.notes)
    assert any("dog/bad.jpg" in note and "--skip-bad" not in note for note in ready.notes)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "contains no images"),
        (("readme.txt",), "contains no images .it has 1 files"),
        (("a.png", "b.png"), "no folder per class"),
        (("cat/a.png", "cat/b.png"), "one class only .'cat'"),
    ],
)
def test_images_that_cannot_be_learned_from_are_refused(
    small: Small, tmp_path: Path, names: tuple[str, ...], said: str
) -> None:
    for name in names:
        picture(tmp_path / name) if name.endswith(".png") else (tmp_path / name).write_text("x")
    with pytest.raises(UserError, match=said):
        prepared(tmp_path, small)


def test_a_class_with_one_image_is_named_and_trained_with(small: Small, tmp_path: Path) -> None:
    for name in ("cat/1.png", "cat/2.png", "cat/3.png", "dog/1.png"):
        picture(tmp_path / "photos" / name)
    ready = prepared(tmp_path / "photos", small, "train.epochs=2", "train.holdout=0.3")
    assert ready.single_image_classes == ("dog",)
    assert train(ready.config, tmp_path / "run", shared=SharedParts(ready.data)).summary["classes"] == ["cat", "dog"]


def test_five_thousand_classes_train_and_predict(small: Small, tmp_path: Path) -> None:
    names = [f"class {n:04d}" for n in range(5000)]
    picture(tmp_path / "one.png")
    picture(tmp_path / "two.png", (60, 30))
    rows = [f"{('one.png', 'two.png')[n % 2]},{name},{(1, -1)[n % 3 == 0]}" for n, name in enumerate(names)]
    (tmp_path / "labels.csv").write_text("\n".join(["image,label,state", *rows]))
    ready = prepared(tmp_path / "labels.csv", small, "train.epochs=2", "train.batch=2", "model.projection=512")
    assert ready.classes == 5000 and ready.config.scob.capacity == 26
    train(ready.config, tmp_path / "run", shared=SharedParts(ready.data))
    predictions = Scob.from_pretrained(tmp_path / "run", "cpu").predict(tmp_path / "one.png", topk=3)
    assert len(predictions[0].labels) == 3


def test_a_validation_table_is_reported_and_gives_k(small: Small, tmp_path: Path) -> None:
    shutil.copytree(small.photos, tmp_path / "photos")
    inside = [f.relative_to(small.photos) for f in small.files[:6]]
    table = tmp_path / "val.csv"
    table.write_text("image,label\n" + "".join(f"photos/{f},{f.parent}\nphotos/{f},sky\n" for f in inside))
    with pytest.raises(UserError, match=r"names the class 'sky', but .*photos has no image of it: add some"):
        prepared(tmp_path / "photos", small, val=table, estimate=False)
    other = {"tree": "car"}
    rows = [f"photos/{f},{f.parent}\nphotos/{f},{other.get(str(f.parent), 'tree')}\n" for f in inside]
    table.write_text("image,label\n" + "".join(rows))
    ready = prepared(tmp_path / "photos", small, "train.epochs=1", val=table, estimate=False)
    assert ready.config.labels.k == 2.0 and "validation" in ready.k_reason
    assert (ready.data.evaluate.labels.values != 0).all()
    finished = train(ready.config, tmp_path / "run", shared=SharedParts(ready.data))
    assert finished.summary["evaluate_images"] == 6
    with pytest.raises(UserError, match="--val"):
        prepared(tmp_path / "photos", small, val=tmp_path / "photos", estimate=False)


def test_a_backbone_that_cannot_be_had_is_one_sentence(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # the variable is read at import
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=r"put its config.json and model.safetensors into a folder"):
        prepare(small.photos, backbone="nobody/resnet-none", device="cpu")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--images", "photos", "--init", "run", "--backbone", "drawings"), "--init uses its model's own backbone"),
        (("demo", "--init", "model.onnx", "--out", "new-run"), "cannot be trained further"),
        (("--resume", "run", "--out", "other"), "leave out --images, --init, --backbone and --out"),
        (("--resume", "run", "--backbone", "drawings"), "leave out --images, --init, --backbone and --out"),
    ],
)
def test_options_that_would_be_ignored_are_refused(words: tuple[str, ...], said: str) -> None:
    shown = scob("train", *words)
    assert shown.returncode == 2 and said in shown.stderr


def test_a_run_folder_that_is_taken_is_left_as_it_is(small: Small, own_run: Path) -> None:
    before = sorted(own_run.rglob("*"))
    shown = scob("train", "--images", small.photos, "--init", small.run, "--out", own_run)
    assert shown.returncode == 2 and "already contains a run" in shown.stderr
    assert sorted(own_run.rglob("*")) == before


def test_overrides_win_over_chosen_settings(small: Small) -> None:
    ready = prepared(small.photos, small, "labels.k=3", "data.size=96", "train.holdout=0.25", estimate=False)
    assert ready.config.labels.k == 3 and ready.config.data.size == 96 and ready.data.holdout is not None


def test_a_preset_outranks_chosen_settings_but_not_the_data_labels_and_backbone(small: Small) -> None:
    config = prepared(small.photos, small, "preset=paper", estimate=False).config
    plain = prepared(small.photos, small, estimate=False).config
    assert (config.train.epochs, config.train.batch, config.train.holdout) == (30, 8, 0)
    assert (config.data, config.labels, config.model.backbone) == (plain.data, plain.labels, plain.model.backbone)


def test_norms_come_first_unless_the_network_is_settled_and_the_rate_fits(small: Small, tmp_path: Path) -> None:
    def chosen(*words: str, **how: object) -> tuple[str, float]:
        ready = prepare(
            small.photos, device="cpu", estimate=False, overrides=words, **{"backbone": str(small.backbone), **how}
        )  # type: ignore[arg-type]
        return ready.config.model.norm, ready.config.train.lr_smt

    assert chosen("model.width=512") == ("pre", 2e-4)
    assert chosen("model.width=64") == ("pre", 2e-3)
    assert chosen("model.width=512", "model.norm=post") == ("post", 1e-4)
    assert chosen("model.width=512", "train.lr_smt=3e-4") == ("pre", 3e-4)
    assert chosen("preset=paper") == ("post", 4e-4)
    assert chosen("preset=paper", "model.norm=pre", "train.lr_smt=1e-3") == ("pre", 1e-3)
    kept = Scob.from_pretrained(small.run, "cpu").card.model["norm"]
    assert chosen(init=small.run, out=tmp_path / "next")[0] == kept == "post"


def test_the_run_folder_may_not_be_among_the_images(small: Small, tmp_path: Path) -> None:
    photos = Path(shutil.copytree(small.photos, tmp_path / "photos"))
    for out in ("photos/runs/photos", "photos"):
        with pytest.raises(UserError, match="would be among the images"):
            prepare(photos, backbone=str(small.backbone), device="cpu", out=tmp_path / out)
    shown = scob("train", "--images", ".", "--backbone", small.backbone, "--device", "cpu", cwd=photos)
    assert shown.returncode == 2 and "the run folder runs/photos would be among the images of ." in shown.stderr
    assert sorted(p.name for p in photos.iterdir()) == sorted(p.name for p in small.photos.iterdir())


def test_several_processes_do_not_begin_from_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from scob.cli.train import TrainOptions
    from scob.cli.train import train as verb

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(UserError, match=r"single process only.*in several with --resume RUN"):
        verb(TrainOptions(["demo"], init=Path("run")))


def test_the_images_are_read_once(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    real, opened = run_data.open_split, []

    def watch(source: str, *rest: Any, **options: Any) -> Any:
        opened.append(source)
        return real(source, *rest, **options)

    monkeypatch.setattr(run_data, "open_split", watch)
    prepare(small.photos, backbone=str(small.backbone), device="cpu", estimate=False)
    assert opened == [str(small.photos)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("pairs.shft=true", "shft"),
        ("pairs.epochs=-1", "epochs"),
        ("method=pears", "pears"),
        ("ll-r.delta=much", "delta"),
        ("pairs=5", r"pairs is a section of settings, not 5: give its settings as pairs\.KEY=VALUE"),
        ("method=pairs scob.contrast=byol", "cannot be combined with scob.contrast=byol"),
        ("method=vlpl", "needs another model's scores"),
    ],
)
def test_wrong_settings_of_a_method_are_refused_before_the_images_are_read(
    small: Small, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.setattr("scob.training.prepare.read_images", lambda *_, **__: pytest.fail("the images were read"))
    with pytest.raises(UserError, match=said):
        prepared(small.photos, small, *words.split(), estimate=False)


def test_every_unknown_class_of_a_validation_table_is_listed(small: Small, tmp_path: Path) -> None:
    shutil.copytree(small.photos, tmp_path / "photos")
    table, first = tmp_path / "val.csv", small.files[0].relative_to(small.photos)
    table.write_text(f"image,label\nphotos/{first},sky\nphotos/{first},cloud\n")
    with pytest.raises(UserError, match=r"names classes 'cloud', 'sky', but .* has no image of them: add some"):
        prepared(tmp_path / "photos", small, val=table, estimate=False)


def test_the_val_split_of_a_table_is_reported_on(small: Small, tmp_path: Path) -> None:
    shutil.copytree(small.photos, tmp_path / "photos")
    rows = [f"photos/{f.relative_to(small.photos)},{f.parent.name},{'val' if n % 4 == 3 else 'train'}\n"
            for n, f in enumerate(small.files)]  # fmt: skip
    (tmp_path / "labels.csv").write_text("image,label,split\n" + "".join(rows))
    ready = prepared(tmp_path / "labels.csv", small, estimate=False)
    assert ready.config.data.evaluate == "val" and ready.data.evaluate is not None and len(ready.data.evaluate) == 6
    assert any("a class that an image does not list counts as absent" in note for note in ready.notes)
    one = "".join(row for row in rows if not row.endswith(",val\n")) + rows[3]
    (tmp_path / "labels.csv").write_text("image,label,split\n" + one)
    with pytest.raises(UserError, match="nothing to measure"):  # before anything is trained
        prepared(tmp_path / "labels.csv", small, estimate=False)


def test_a_cpu_gets_a_narrow_head_without_dropout_and_fewer_epochs(small: Small) -> None:
    def chosen(*words: str) -> tuple[int, float, int]:
        config = prepare(small.photos, device="cpu", backbone="photographs", estimate=False, overrides=words).config
        return config.model.width, config.model.dropout, config.train.epochs

    count = len(prepared(small.photos, small, estimate=False).data.drawn)
    assert chosen() == (128, 0.0, min(30, round(5 * (3000 / count) ** 0.5)))
    assert chosen("model.width=256", "model.dropout=0.2", "train.epochs=3") == (256, 0.2, 3)


def test_the_method_is_the_best_one_known_unless_another_is_asked_for(small: Small) -> None:
    def chosen(*words: str) -> tuple[str, str]:
        config = prepare(small.photos, device="cpu", backbone="photographs", estimate=False, overrides=words).config
        return config.method, config.scob.contrast

    assert chosen() == ("pairs", "ipt")
    assert chosen("method=scob") == ("scob", "ipt")
    assert chosen("preset=paper") == ("scob", "ipt")
    assert chosen("scob.contrast=byol") == ("scob", "byol")  # pairs cannot have it
    assert chosen("scob.lambda_c=0.3") == ("scob", "ipt")  # a setting of the contrast is not without effect
    assert chosen("pairs.contrast=true", "scob.lambda_c=0.3") == ("pairs", "ipt")
    assert chosen("method=pairs", "scob.lambda_c=0.3") == ("pairs", "ipt")


def test_the_last_epoch_is_taken_unless_asked_otherwise(small: Small) -> None:
    def chosen(*words: str) -> str:
        return prepare(
            small.photos, device="cpu", backbone="photographs", estimate=False, overrides=words
        ).config.train.select

    assert chosen() == "last" and chosen("train.select=holdout") == "holdout"


def test_the_settings_of_the_method_are_its_defaults_or_what_is_asked_for(small: Small) -> None:
    def chosen(*words: str) -> Any:
        config = prepare(small.photos, device="cpu", backbone="photographs", estimate=False, overrides=words).config
        return methods.settings_of(config, "pairs").model_dump()

    defaults = {"weight": 1, "trust": 0.5, "shift": True, "channels": 8192, "choice": 6, "rate": 2, "linear": True}
    assert chosen() == {**defaults, "epochs": 6, "contrast": False}
    assert chosen("pairs.contrast=true", "pairs.epochs=2") == {**defaults, "epochs": 2, "contrast": True}
