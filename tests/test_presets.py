"""The settings files that come with Scob, and what a preset makes of them."""

import importlib
from typing import Any

import pytest

from scob import methods
from scob.config import Config, load_config, resolve
from scob.errors import UserError
from scob.presets import packaged_config, packaged_configs

# Sec. 4.2 of the paper, 'Training details', and what follows from its equations, appendix and tables.
PAPER = {
    "labels": {"kind": "single", "fraction": 0.1},
    "model": {
        "freeze": "all", "calibrate_bn": False, "head": "smt", "width": 512, "layers": 2, "heads": 8,
        "feedforward": 2048, "dropout": 0.1, "position": "qk", "norm": "post", "projection": 512, "projector": "map",
    },
    "scob": {
        "guidance": "cam", "contrast": "ipt", "optimisation": "em", "positive": "class", "cam": "grad",
        "cam_source": "each", "gamma_cam": 0.5, "lambda_c": 0.1, "tau": 1.0, "cont_scale": "paper", "negatives": 1,
        "capacity": 80, "tree_lifetime": "run", "momentum": 0.999, "mask_classification": False,
    },
    "train": {
        "epochs": 30, "batch": 8, "lr_smt": 4e-4, "lr_mapping": 0.01, "lr_cnn": 0.001, "lr_other": 0.001,
        "estimator": "dense", "lr_estimator": 0.01, "warmup": 0.0, "schedule": "constant", "weight_decay": 0.0,
        "ema": 0.0, "flip_test": False, "holdout": 0.0, "holdout_labels": "full", "select": "best-on-test",
        "evaluate_every": 1,
    },
}  # fmt: skip
# The authors' code: main.py, models and cam.py.
RELEASED: dict[str, dict[str, Any]] = {
    "labels": PAPER["labels"],
    "model": {**PAPER["model"], "calibrate_bn": True, "position": "input", "projector": "query-mlp"},
    "scob": {
        **PAPER["scob"], "positive": "self", "cam": "grad++", "cam_source": "stage4", "cam_window": (1, 1),
        "cont_scale": "none", "capacity": 2, "tree_lifetime": "epoch", "init_epochs": 0,
    },
    "train": {**PAPER["train"], "epochs": 20, "lr_smt": 4e-5, "schedule": "step"},
}  # fmt: skip
PAPER_K = {"voc": 1.5, "cub": 31.4, "coco": 3.0}


def test_packaged_configs_resolve() -> None:
    assert "demo" in packaged_configs()
    for file in packaged_configs().values():
        load_config(file, (), methods.section_names())


@pytest.mark.parametrize("name", [name for name in packaged_configs() if name != "demo"])
def test_the_papers_data_sets_are_trained_on_all_images(name: str) -> None:
    train = load_config(packaged_configs()[name], ()).train
    assert (train.holdout, train.select) == (0, "last")


def expected_positives(config: Config) -> float:
    """k of Eq. 11 as a run has it: the setting, else the reader's value for the data set."""
    reader: Any = importlib.import_module(f"scob.data.readers.{config.data.format}")
    return config.labels.k or float(reader.EXPECTED_POSITIVES)


@pytest.mark.parametrize("name", packaged_configs())
@pytest.mark.parametrize(("preset", "values"), [("paper", PAPER), ("released", RELEASED)])
def test_a_preset_outranks_every_packaged_file_but_for_its_data_and_backbone(
    name: str, preset: str, values: dict[str, dict[str, Any]]
) -> None:
    plain, config = (load_config(packaged_configs()[name], words) for words in ([], [f"preset={preset}"]))
    for section, given in values.items():
        resolved = getattr(config, section).model_dump()
        assert {key: resolved[key] for key in given} == given, section
    assert config.preset == preset
    assert config.data == plain.data
    assert config.model.backbone == plain.model.backbone
    assert name == "demo" or config.data.size == 448
    if name != "demo":
        own_k = {"coco": 3.9} if preset == "released" else {}
        assert expected_positives(config) == (PAPER_K | own_k)[config.data.format]


def test_a_packaged_config_is_a_tree_by_name() -> None:
    tree = packaged_config("voc2007")
    assert resolve(tree).data.format == "voc"


def test_an_unknown_name_is_answered_with_the_nearest_and_all() -> None:
    with pytest.raises(UserError, match=r"'dmo'.*Did you mean 'demo'.*coco2014, cub, demo, voc2007, voc2012"):
        packaged_config("dmo")
