"""Reading settings: unknown keys and wrong values are refused by name; words override files."""

from pathlib import Path

import pytest
import yaml

from scob import methods
from scob.config import PACKAGED, dump, load_config, merge, parse_overrides, resolve
from scob.errors import UserError


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
def test_words_that_are_not_settings(word: str) -> None:
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


def test_a_preset_on_the_command_line_outranks_a_packaged_file_but_not_a_users(tmp_path: Path) -> None:
    packaged = PACKAGED / "coco2014.yaml"
    assert load_config(packaged).train.epochs == 12
    config = load_config(packaged, ["preset=paper", "train.batch=64"])
    assert (config.train.epochs, config.train.batch) == (30, 64)
    assert (config.data.source, config.model.backbone) == ("coco2014", "microsoft/resnet-50")
    copy, changed = tmp_path / "coco2014.yaml", tmp_path / "mine.yaml"
    copy.write_bytes(packaged.read_bytes())
    changed.write_bytes(packaged.read_bytes())
    assert load_config(copy, ["preset=paper"]) == load_config(packaged, ["preset=paper"])  # as in a checkout
    assert load_config(changed, ["preset=paper"]).train.batch == 32  # a user's own file
    copy.write_text(packaged.read_text().replace("12", "13"))
    mine = load_config(copy, ["preset=paper"])
    assert (mine.train.epochs, mine.train.batch, mine.train.lr_smt) == (13, 32, 4e-4)


def test_the_default_preset_leaves_a_packaged_file_as_it_is() -> None:
    assert load_config(PACKAGED / "demo.yaml", ["preset=default"]) == load_config(PACKAGED / "demo.yaml")
    with pytest.raises(UserError, match="preset is 'papre', but"):
        load_config(PACKAGED / "demo.yaml", ["preset=papre"])


def test_the_released_preset_has_its_own_k_for_coco() -> None:
    assert load_config(None, ["preset=released", "data.format=coco"]).labels.k == 3.9
    assert load_config(None, ["preset=released", "data.format=coco", "labels.k=2"]).labels.k == 2
    assert load_config(None, ["preset=released", "data.format=voc"]).labels.k == 0


def test_complete_settings_take_defaults_for_what_came_later_whatever_their_preset() -> None:
    tree = load_config(None, ["preset=paper"]).model_dump(mode="json")
    del tree["train"]["estimator"]
    assert resolve(tree).train.estimator == "dense"
    assert resolve(tree, stored=True).train.estimator == "rows"


def test_what_is_dumped_resolves_to_itself() -> None:
    config = load_config(None, ["preset=paper", "train.epochs=3", "scob.cam_window=[5, 3]"])
    assert resolve(yaml.safe_load(dump(config))) == config


def test_broken_files_are_named(tmp_path: Path) -> None:
    for text, words in (
        ("train: [", "not valid YAML"),
        ("- 1", "must contain settings"),
        ("train: {epoch: 1}", "train.epochs"),
    ):
        file = tmp_path / "broken.yaml"
        file.write_text(text)
        with pytest.raises(UserError, match=words) as caught:
            load_config(file)
        assert "broken.yaml" in str(caught.value)
    with pytest.raises(UserError, match="no settings file"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(UserError, match="is a folder, not a settings file; to train on images, write --images"):
        load_config(tmp_path)
    file.write_text("")
    assert load_config(file) == load_config(None)


def test_sections_of_other_methods() -> None:
    config = load_config(None, ["an.surprise=1"], methods.section_names())
    with pytest.raises(UserError, match="surprise"):
        methods.settings_of(config, "an")
    with pytest.raises(UserError, match="'nobody'"):
        load_config(None, ["nobody.x=1"], methods.section_names())
    with pytest.raises(UserError, match="'role'"):
        methods.find("roel")


def test_merging_keeps_what_is_not_named() -> None:
    assert merge({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}}) == {"a": {"b": 1, "c": 4}, "d": 3}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("train.epochs=many", "train.epochs is 'many', but it must be a whole number"),
        ("train.epochs=1.5", "it must be a whole number"),
        ("train.epochs=0", "it must be at least 1"),
        ("data.size=9000", "it must be at most 4096"),
        ("train.holdout=often", "it must be a number"),
        ("data.skip_bad=perhaps", "it must be true or false"),
        ("labels.kind=some", "it must be given, single, partial or full"),
        ("train=3", "it must be settings, as in key: value"),
        ("model.backbone=[1]", "it must be text"),
    ],
)
def test_a_wrong_value_is_explained_in_plain_words(word: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        load_config(None, [word])
    assert said in str(error.value) and "input should" not in str(error.value).lower()
