"""Settings: what is unknown is named, what is wrong is refused, presets are what they say."""

from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from scob import methods
from scob.config import (
    SECTIONS,
    Config,
    dump,
    known_keys,
    load_config,
    merge,
    paper_values,
    parse_overrides,
    resolve,
)
from scob.errors import UserError


def test_every_setting_has_help_and_the_papers_value() -> None:
    for name, section in SECTIONS.items():
        for key, field in section.model_fields.items():
            assert field.description, f"{name}.{key}"
            assert "paper" in cast(dict[str, Any], field.json_schema_extra), f"{name}.{key}"
    assert all(field.description for field in Config.model_fields.values())


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("train.epoch=3", "train.epochs"), ("trian.epochs=3", "train"), ("epochs=3", "train.epochs"),
        ("scob.gama_cam=0.4", "scob.gamma_cam"),
        ("scob.lambda=1", "scob.lambda_c"), ("metod=scob", "method"), ("model.calibrate=true", "model.calibrate_bn"),
    ],
)  # fmt: skip
def test_an_unknown_key_names_the_nearest(word: str, nearest: str) -> None:
    with pytest.raises(UserError) as caught:
        load_config(None, [word])
    assert repr(nearest) in str(caught.value)
    assert word.split("=")[0].split(".")[0] in str(caught.value)


def test_an_unknown_key_near_nothing_is_refused_without_a_guess() -> None:
    with pytest.raises(UserError, match="'qqqqqq'") as caught:
        load_config(None, ["qqqqqq=1"])
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    "word",
    [
        "train.epochs=many", "train.epochs=0", "train.epochs=2.5", "scob.guidance=gradcam", "scob.gamma_cam=1.5",
        "scob.tau=0", "scob.tau=nan", "scob.tau=inf", "labels.fraction=0", "model.dropout=1", "train.seed=first",
        "scob.cam_window=3", "model.freeze=some", "scob.momentum=1", "train.batch=-1", "data.size=1",
    ],
)  # fmt: skip
def test_wrong_values_are_refused_by_their_full_key(word: str) -> None:
    with pytest.raises(UserError) as caught:
        load_config(None, [word])
    assert word.split("=")[0] in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("word", ["train.epochs", "=3", "", "method=scob.x=1=", "train.epochs.more=1"])
def test_words_that_are_no_settings(word: str) -> None:
    if word.startswith("method"):
        assert load_config(None, [word]).method == "scob.x=1="
    else:
        with pytest.raises(UserError):
            load_config(None, [word])


def test_values_are_yaml() -> None:
    tree = parse_overrides(["train.lr_smt=4e-5", "scob.cam_window=[5, 3]", "data.skip_bad=true", "data.evaluate="])
    assert tree == {
        "train": {"lr_smt": 4e-5}, "scob": {"cam_window": [5, 3]}, "data": {"skip_bad": True, "evaluate": ""}
    }  # fmt: skip
    assert load_config(None, ["scob.cam_window=[5, 3]"]).scob.cam_window == (5, 3)


def test_words_override_the_file_and_both_override_the_preset(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("preset: paper\ntrain: {epochs: 7, lr_smt: 1.0e-3}\n")
    config = load_config(file, ["train.epochs=9"])
    assert (config.train.epochs, config.train.lr_smt, config.train.batch) == (9, 1e-3, 8)


def test_the_papers_preset_is_the_papers_values() -> None:
    config = load_config(None, ["preset=paper"])
    t, s, m = config.train, config.scob, config.model
    assert (t.lr_estimator, t.lr_smt, t.lr_mapping, t.lr_other) == (0.01, 4e-4, 0.01, 0.001)
    assert (t.epochs, t.batch, t.schedule, t.warmup) == (30, 8, "constant", 0)
    assert (s.gamma_cam, s.lambda_c, s.tau, s.momentum, s.capacity, s.negatives) == (0.5, 0.1, 1.0, 0.999, 80, 1)
    assert (s.guidance, s.contrast, s.optimisation, s.positive, s.cont_scale) == ("cam", "ipt", "em", "class", "paper")
    assert (m.width, m.layers, m.heads, m.feedforward, m.position) == (512, 2, 8, 2048, "qk")
    assert (m.calibrate_bn, m.freeze, m.head, config.data.size) == (False, "all", "smt", 448)


def test_the_default_differs_from_the_paper_only_where_it_says() -> None:
    default, paper = load_config(None), load_config(None, ["preset=paper"])
    differing = {
        (name, key)
        for name, section in SECTIONS.items()
        for key in section.model_fields
        if getattr(getattr(default, name), key) != getattr(getattr(paper, name), key)
    }
    assert differing == {(name, key) for name, section in paper_values().items() for key in section}
    assert ("train", "lr_smt") in differing


def test_what_is_dumped_resolves_to_itself() -> None:
    config = load_config(None, ["preset=paper", "train.epochs=3", "scob.cam_window=[5, 3]"])
    assert resolve(yaml.safe_load(dump(config))) == config


def test_broken_files_are_named(tmp_path: Path) -> None:
    for text, words in (
        ("train: [", "not valid YAML"),
        ("- 1", "must hold settings"),
        ("train: {epoch: 1}", "train.epochs"),
    ):
        file = tmp_path / "broken.yaml"
        file.write_text(text)
        with pytest.raises(UserError, match=words) as caught:
            load_config(file)
        assert "broken.yaml" in str(caught.value)
    with pytest.raises(UserError, match="no settings file"):
        load_config(tmp_path / "none.yaml")
    file.write_text("")
    assert load_config(file) == load_config(None)


def test_sections_of_rivals() -> None:
    from scob import methods

    config = load_config(None, ["an.surprise=1"], methods.section_names())
    with pytest.raises(UserError, match="surprise"):
        methods.settings_of(config, "an")
    with pytest.raises(UserError, match="'nobody'"):
        load_config(None, ["nobody.x=1"], methods.section_names())
    with pytest.raises(UserError, match="'role'"):
        methods.find("roel")


def test_merging_keeps_what_is_not_named() -> None:
    assert merge({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}}) == {"a": {"b": 1, "c": 4}, "d": 3}
    assert set(known_keys()) >= {"preset", "method", "scob.tau"}


def test_packaged_configs_resolve() -> None:
    from scob.presets import packaged_configs

    assert "demo" in packaged_configs()
    for file in packaged_configs().values():
        load_config(file, (), methods.section_names())
