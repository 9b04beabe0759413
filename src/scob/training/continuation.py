"""Continuing from a model: its settings, its backbone, and its weights for the classes that old and new model share."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scob import methods
from scob.config import Config, merge, parse_overrides, resolve
from scob.errors import UserError
from scob.model.load_backbone import save_backbone
from scob.training.build import Experiment
from scob.training.events import ContinuedFrom
from scob.training.find_model import find_model
from scob.training.model_folder import load_network


def settings_of_model(model: Path, out: Path) -> dict[str, Any]:
    """The settings that a model was built with. Its backbone is copied to a folder of the new run."""
    if model.suffix == ".onnx":
        raise UserError(f"{model} is an ONNX file, which cannot be trained further: give its run or model folder")
    network, card = load_network(find_model(model).path)
    folder = out / "init-backbone"
    save_backbone(network.backbone, folder, card.mean, card.std)
    # The model has its BatchNorm statistics already.
    model_settings = {**card.model, "backbone": str(folder), "calibrate_bn": False}
    return {"data": {"size": card.size}, "model": model_settings, "method": card.method}


def config_from_model(config: Config, model: Path, out: Path, words: Iterable[str] = ()) -> Config:
    """The settings of a run in `out` that continues from a model: those it was built with, changed by `words`."""
    tree = merge(merge(config.model_dump(mode="json"), settings_of_model(model, out)), parse_overrides(words))
    return resolve(tree, "on the command line", methods.names())


def initialise(experiment: Experiment, model: str | Path) -> ContinuedFrom:
    """Give an experiment a model's head, and its classifier's rows for the classes that both know."""
    network, card = load_network(find_model(model).path, experiment.processes.device)
    classes = experiment.data.observed.classes
    asked = experiment.config.model.model_dump(mode="json")
    for key in ("head", "norm", "position"):  # the weights would fit, but mean something else
        if card.model.get(key, asked[key]) != asked[key]:
            raise UserError(
                f"the model in {model} was built with model.{key}={card.model[key]}, but these settings say "
                f"{asked[key]}: leave that setting out: --init sets it "
                "(in Python: prepare(init=...) or config_from_model)"
            )
    try:
        experiment.network.head.load_state_dict(network.head.state_dict())
    except RuntimeError as error:
        raise UserError(
            f"these settings build a different head from that of the model in {model}: "
            f"{str(error).splitlines()[-1].strip()}"
        ) from error
    old_row = {name: row for row, name in enumerate(card.classes)}
    kept = tuple(name for name in classes if name in old_row)
    rows, old_rows = [classes.index(name) for name in kept], [old_row[name] for name in kept]
    before = network.classifier.state_dict()
    after = experiment.network.classifier.state_dict()
    for key, value in after.items():
        if key in before and value.shape[1:] == before[key].shape[1:]:
            value[rows] = before[key][old_rows]
    experiment.network.classifier.load_state_dict(after)
    experiment.method.head_replaced()
    new = tuple(name for name in classes if name not in old_row)
    return ContinuedFrom(kept, new, tuple(name for name in card.classes if name not in set(classes)))
