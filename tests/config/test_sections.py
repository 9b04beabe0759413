"""The settings themselves: help, the paper's values, and which of them do not change a result."""

from pathlib import Path
from typing import Any, cast

import pytest

from scob.config import (
    SECTIONS,
    Config,
    changed_values,
    known_keys,
    load_config,
    merge,
    parse_overrides,
    preset_values,
    result_neutral_keys,
)
from scob.errors import UserError
from scob.studies.reproduce.lab import Lab
from scob.studies.reproduce.naming import run_name
from scob.studies.reproduce.variants import SCOB
from scob.training.resume import resume_config
from scob.training.run_folder import RunFolder

# Every setting that does not change a result, with a value that is not its default.
NEUTRAL = {
    "data.cache": "packed", "data.workers": 7, "train.device": "cpu", "train.rows": "host", "train.log_every": 7,
    "train.check_processes": "true", "train.checkpoint_minutes": 7, "train.checkpoint_steps": 7,
    "train.tracker": "none",
}  # fmt: skip


def test_every_setting_has_help_and_the_papers_value() -> None:
    for name, section in SECTIONS.items():
        for key, field in section.model_fields.items():
            assert field.description, f"{name}.{key}"
            assert {"paper", "released"} <= cast(dict[str, Any], field.json_schema_extra).keys(), f"{name}.{key}"
    assert all(field.description for field in Config.model_fields.values())


def test_known_keys_are_the_settings_and_the_two_at_the_top() -> None:
    assert set(known_keys()) >= {"preset", "method", "scob.tau"}
    assert len(known_keys()) == 2 + sum(len(section.model_fields) for section in SECTIONS.values())


@pytest.mark.parametrize("windows", ["[2, 1]", "[3, 4]", "[0, 1]", "[3, -1]"])
def test_a_window_without_a_middle_cell_is_refused(windows: str) -> None:
    with pytest.raises(UserError, match=r"scob.cam_window is .* both windows must be odd") as caught:
        load_config(None, [f"scob.cam_window={windows}"])
    assert "\n" not in str(caught.value)


def test_a_run_stored_with_an_even_window_can_still_be_read_and_resumed(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_config(load_config(None))
    settings = run.config_file.read_text().partition("\n")[2]  # without the seal, which came later
    run.config_file.write_text(settings.replace("cam_window:\n  - 3", "cam_window:\n  - 2"))
    assert run.read_config().scob.cam_window == (2, 1)
    assert resume_config(tmp_path).scob.cam_window == (2, 1)


def test_the_papers_preset_is_the_papers_values() -> None:
    config = load_config(None, ["preset=paper"])
    t, s, m = config.train, config.scob, config.model
    assert (t.lr_estimator, t.estimator, t.lr_smt, t.lr_mapping, t.lr_other) == (0.01, "dense", 4e-4, 0.01, 0.001)
    assert (t.epochs, t.batch, t.schedule, t.warmup) == (30, 8, "constant", 0)
    assert (s.gamma_cam, s.lambda_c, s.tau, s.momentum, s.capacity, s.negatives) == (0.5, 0.1, 1.0, 0.999, 80, 1)
    assert (s.guidance, s.contrast, s.optimisation, s.positive, s.cont_scale) == ("cam", "ipt", "em", "class", "paper")
    assert (m.width, m.layers, m.heads, m.feedforward, m.position) == (512, 2, 8, 2048, "qk")
    assert (m.calibrate_bn, m.freeze, m.head, config.data.size) == (False, "all", "smt", 448)


def test_the_released_preset_is_the_paper_but_for_the_authors_own_choices() -> None:
    paper, released = preset_values("paper"), preset_values("released")
    assert {
        f"{name}.{key}": value
        for name, section in released.items()
        for key, value in section.items()
        if value != paper[name].get(key)
    } == {
        "model.calibrate_bn": True, "model.position": "input", "model.projector": "query-mlp",
        "scob.positive": "self", "scob.cam": "grad++", "scob.cam_source": "stage4", "scob.cam_window": (1, 1),
        "scob.cam_dropout": False,
        "scob.cont_scale": "none", "scob.capacity": 2, "scob.tree_lifetime": "epoch", "scob.init_epochs": 0,
        "train.epochs": 20, "train.lr_smt": 4e-5, "train.schedule": "step",
    }  # fmt: skip
    assert all(paper[name].keys() <= released[name].keys() for name in paper)


def test_a_presets_value_does_not_follow_a_default() -> None:
    """What a preset gives is all there, also where it is the default today: a file may say something else."""
    assert preset_values("paper")["scob"]["lambda_c"] == 0.1
    for unknown in ("default", "papre", None, 3, ["paper"], {"paper": 1}):
        assert preset_values(unknown) == {}


@pytest.mark.parametrize("preset", ["paper", "released"])
def test_the_default_differs_from_a_preset_only_where_it_says(preset: str) -> None:
    default, paper = load_config(None), load_config(None, [f"preset={preset}"])
    differing = {
        (name, key)
        for name, section in SECTIONS.items()
        for key in section.model_fields
        if getattr(getattr(default, name), key) != getattr(getattr(paper, name), key)
    }
    assert differing == {(name, key) for name, section in changed_values(preset).items() for key in section}
    assert ("train", "lr_smt") in differing


def test_the_marked_settings_are_these() -> None:
    assert result_neutral_keys() == set(NEUTRAL)


def lab_name(words: list[str], folder: Path) -> str:
    """The name of a reproduction's run under these settings."""
    lab = Lab(merge({"data": {"source": "scenes:40x64"}}, parse_overrides(words)), folder)
    return run_name(lab.id, lab.base, lab.config(SCOB))


@pytest.mark.parametrize("key", sorted(NEUTRAL))
def test_a_marked_setting_may_change_on_resume_and_does_not_name_a_run(key: str, tmp_path: Path) -> None:
    word = f"{key}={NEUTRAL[key]}"
    RunFolder(tmp_path / "run").write_config(load_config(None))
    assert resume_config(tmp_path / "run", [word]) == load_config(None, [word]) != load_config(None)
    assert lab_name([word], tmp_path) == lab_name([], tmp_path)


@pytest.mark.parametrize("word", ["train.batch=4", "train.precision=fp64", "data.size=64", "scob.tau=0.5"])
def test_an_unmarked_setting_may_not_change_on_resume_and_names_another_run(word: str, tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").write_config(load_config(None))
    with pytest.raises(UserError, match=rf"{word.split('=')[0]}: .* -> "):
        resume_config(tmp_path / "run", [word])
    assert lab_name([word], tmp_path) != lab_name([], tmp_path)
