"""The lab: runs named by what they are, shared, reused, on one file of observed labels."""

import json

import pytest

from scob.config import merge
from scob.errors import UserError
from scob.labels import Labels
from scob.presets import packaged_config, packaged_configs
from scob.studies.reproduce import variants
from scob.studies.reproduce.distribution import BINS, Watched, every_epoch, shares_of
from scob.studies.reproduce.lab import Lab
from scob.studies.reproduce.registry import settings_for
from scob.training.events import RunBegins
from support.runs import same, trained_weights


def test_a_finished_run_is_reused_by_a_later_process(lab, tree, tmp_path):
    first = lab.run(variants.ROLE)
    log = first.run.log_file.read_bytes()
    told = []
    later = Lab(tree, tmp_path, listen=told.append)
    second = later.run(variants.ROLE)
    assert told == [RunBegins(second.run.path.name, reused=True)] and second.summary == first.summary
    assert second.run.log_file.read_bytes() == log


def test_all_methods_see_one_label_file_and_full_labels_see_all(lab):
    runs = {key: lab.run(v) for key, v in variants.ROLE_SCOB_FULL.items()}
    files = list((lab.out / "labels").iterdir())
    assert len(files) == 1
    drawn = Labels.load(files[0])
    for outcome in runs.values():
        assert outcome.run.labels() == drawn and outcome.summary["labels"]["fingerprint"] == drawn.fingerprint
    assert ((drawn.values == 1).sum(axis=1) == 1).all()
    scob, full = (lab.data(lab.config(v)) for v in (variants.SCOB, variants.FULL))
    assert full.observed == full.train.labels and scob.observed != full.observed
    assert full.train is scob.train and full.holdout is scob.holdout
    # What `scob train --resume` would read from the run folder is the same data.
    from scob.training.run_data import load_data

    again = load_data(runs["scob"].run.read_config())
    assert again.observed == scob.observed and again.drawn == drawn


def test_a_watched_run_trains_the_same_and_serves_as_a_plain_one(lab):
    watched = lab.run(variants.SCOB, loop=Watched)
    shares = shares_of(watched)
    assert shares.shape == (2, BINS) and shares.sum(axis=1) == pytest.approx([1, 1])
    told = []
    lab.listen = told.append
    again = lab.run(variants.SCOB)
    assert again.run.path == watched.run.path and told == [RunBegins(again.run.path.name, reused=True)]
    plain = Lab(lab.tree, lab.out / "other").run(variants.SCOB)
    drop = ("curve", "seconds")
    assert {k: v for k, v in plain.summary.items() if k not in drop} == {
        k: v for k, v in watched.summary.items() if k not in drop
    }


def test_the_map_has_a_column_for_each_epoch(tree, tmp_path):
    lab = Lab(merge(tree, {"train": {"evaluate_every": 2}}), tmp_path)
    assert shares_of(lab.run(every_epoch(variants.ROLE), loop=Watched)).shape == (2, BINS)


def test_used_says_what_the_numbers_rest_on(lab):
    used = lab.used([lab.run(variants.ROLE)])
    assert "SHA-256" in used["Weights"] and str(lab.out.parent) not in json.dumps(used)
    assert "36 training images" in used["Images"] and "20 of the split 'val'" in used["Images"]
    assert "single-positive seed 0" in used["Observed labels"]
    assert "holdout_labels: observed" in used["Epoch"]
    assert "Caution" not in used


def test_runs_that_end_before_masks_are_cautioned_about(tree, tmp_path):
    lab = Lab(merge(tree, {"train": {"epochs": 1}}), tmp_path)
    runs = [lab.run(variant) for variant in (variants.SCOB, variants.WITHOUT_CONTRAST, variants.ROLE)]
    assert lab.used(runs)["Caution"].startswith("in 1 of Scob's runs")


def test_settings_start_from_the_demo_on_scenes_only(tmp_path):
    tree = settings_for("scenes", epochs=3, overrides=["model.width=64"], paper_parity=True)
    assert tree["model"]["width"] == 64 and tree["model"]["feedforward"] == 256
    assert tree["data"]["source"] == packaged_config("demo")["data"]["source"]
    assert settings_for("scenes:40x64")["data"]["source"] == "scenes:40x64"
    assert tree["train"]["epochs"] == 3 and tree["train"]["select"] == "best-on-test"
    assert settings_for("scenes")["train"]["select"] == "holdout"  # whatever the demo does
    with pytest.raises(UserError, match="no data at somewhere"):
        settings_for("somewhere")
    (tmp_path / "JPEGImages").mkdir()
    (tmp_path / "ImageSets" / "Main").mkdir(parents=True)
    with pytest.raises(UserError, match="--backbone"):
        settings_for(str(tmp_path))
    assert settings_for("somewhere", backbone="elsewhere") == {
        "data": {"source": "somewhere"}, "model": {"backbone": "elsewhere"}, "train": {},
    }  # fmt: skip
    with pytest.raises(UserError, match=r"train\.epochs"):
        settings_for("scenes", overrides=["train.epoch=3"])


def test_a_preset_outranks_packaged_settings_and_options_outrank_both(tmp_path):
    tree = settings_for("scenes", epochs=3, overrides=["preset=paper", "model.width=64"])
    assert tree["train"]["epochs"] == 3 and tree["train"]["batch"] == 8 and tree["train"]["select"] == "best-on-test"
    assert tree["model"]["width"] == 64 and tree["model"]["feedforward"] == 2048
    packaged = packaged_configs()["coco2014"]
    assert settings_for("x", packaged, ["preset=paper"])["train"]["batch"] == 8
    (tmp_path / "mine.yaml").write_bytes(packaged.read_bytes())
    assert settings_for("x", tmp_path / "mine.yaml", ["preset=paper"])["train"]["batch"] == 32


def test_without_a_reported_split_the_table_says_so(tree, tmp_path):
    lab = Lab(merge(tree, {"data": {"evaluate": "test"}}), tmp_path)
    with pytest.raises(UserError, match=r"no split 'test'; it has: train, val"):
        lab.need_reported_split("table-x")
    lab = Lab(merge(tree, {"data": {"evaluate": "none"}}), tmp_path)
    assert not lab.reports
    with pytest.raises(UserError, match=r"table-x needs .* data\.evaluate=SPLIT .*train, val"):
        lab.need_reported_split("table-x")


def test_a_study_keeps_the_images_of_its_label_file(tree, tmp_path):
    lab = Lab(merge(tree, {"data": {"limit": 16}}), tmp_path)
    config = lab.config(variants.SCOB)
    first = Lab(tree, tmp_path / "all").data(config.model_copy(update={"data": Lab(tree, tmp_path).base.data})).drawn
    first.select(range(16)).save(lab.labels_file(config))  # as an earlier version left it: the first images
    assert lab.data(config).drawn.images == first.images[:16]
    fresh = Lab(merge(tree, {"data": {"limit": 16}}), tmp_path / "fresh")
    assert len(fresh.data(config).drawn) == 16 and fresh.data(config).drawn.images != first.images[:16]
    assert fresh.data(fresh.config(variants.ROLE, seed=1)) is fresh.data(config)


def test_runs_share_one_look_at_the_images_and_come_out_as_on_their_own(tree, tmp_path, monkeypatch):
    import scob.studies.reproduce.lab as place
    from scob.training.train import SharedParts, train

    looks = []
    real = place.open_inputs

    def watch(config, *rest, **named):
        looks.append(config.method)
        return real(config, *rest, **named)

    monkeypatch.setattr(place, "open_inputs", watch)
    lab = Lab(merge(tree, {"train": {"feature_cache": "device"}}), tmp_path / "lab")
    lab.run(variants.ROLE)
    shared = lab.run(variants.SCOB)
    assert looks == ["role"]
    train(shared.config, tmp_path / "alone", shared=SharedParts(lab.data(shared.config)))
    assert same(trained_weights(shared.run.path), trained_weights(tmp_path / "alone"))
    lab.run(variants.ROLE, seed=1)  # other draws of the views: its own look
    assert looks == ["role", "role"]
