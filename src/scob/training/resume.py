"""Resuming a run: which settings may differ from those it began with, and which may not."""

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from scob import methods
from scob.config import Config, dump, merge, parse_overrides, parse_yaml, resolve, result_neutral_keys
from scob.errors import UserError, first_line
from scob.files import whole_number
from scob.labels import Labels
from scob.training.build import Experiment
from scob.training.checkpoint import Checkpoint, Judge, Origin, digest
from scob.training.run_folder import RunFolder, stored_config


def resume_config(folder: Path, words: Iterable[str] = (), extend: str = "", device: str = "") -> Config:
    """The settings of an interrupted run. `words` must agree with them; `extend` ("epochs=40") may add epochs.

    Fewer epochs than planned do not change the settings: the run only ends earlier (`scob.training.unfinished`).
    """
    stored = RunFolder(folder).read_config()
    methods.find(stored.method)
    asked = merge(stored.model_dump(mode="json"), parse_overrides(words))
    config = resolve(asked, "on the command line", methods.section_names(), stored=True)
    if device:
        config.train.device = device
    changed = differences(stored, config)
    if changed:
        raise UserError(f"{folder} was started with different settings ({'; '.join(changed)}): resume it without them")
    if extend:
        config.train.epochs = max(stored.train.epochs, extended_epochs(extend))
    return config


def with_choices_of(run: RunFolder, config: Config) -> Config:
    """Settings that leave a choice to us (`auto`), with the one that a run began with, if its settings name it."""
    if not run.config_file.exists():
        return config
    stored, train = run.read_config().train, config.train.model_copy()
    for key in ("compile", "feature_cache"):
        if getattr(train, key) == "auto":
            setattr(train, key, getattr(stored, key))
    return config.model_copy(update={"train": train})


def extended_epochs(extend: str) -> int:
    """ "epochs=40" -> 40."""
    key, _, value = extend.partition("=")
    epochs = whole_number(value, 9)
    if key != "epochs" or not epochs:
        raise UserError(f"--extend takes epochs=N, the number of epochs in all, not {extend!r}")
    return epochs


def check_same(run: RunFolder, config: Config, observed: Labels) -> None:
    """Refuse to resume with settings (except for more epochs), images or labels that the run did not begin with."""
    stored = run.read_config()
    changed = [
        c for c in differences(stored, config) if c.split(":")[0] not in result_neutral_keys() | {"train.epochs"}
    ]
    if config.train.epochs < stored.train.epochs:
        changed.append(f"train.epochs: {stored.train.epochs} -> {config.train.epochs}")
    if changed:
        raise UserError(
            f"{run.path} was started with different settings ({'; '.join(changed)}): resume it without them"
        )
    if run.labels_file.exists() and run.labels() != observed:
        raise UserError(
            f"the images or labels of {config.data.source} are no longer those the run in {run.path} began with: "
            "put them back, or start a new run"
        )


def origin_of(experiment: Experiment) -> Origin:
    """What the checkpoints of an experiment say about the run they are of. Call it before anything is trained."""
    e, backbone = experiment, experiment.inputs.backbone
    frozen: dict[str, Tensor] = {name: p for name, p in backbone.named_parameters() if not p.requires_grad}
    if backbone.frozen:
        frozen |= dict(backbone.named_buffers())
    frozen |= {"mean": torch.tensor(e.inputs.mean), "std": torch.tensor(e.inputs.std)}
    return Origin(dump(e.config), e.data.drawn.fingerprint, digest(frozen))


def judge_of(config: Config, observed: Labels) -> Judge:
    """What objects to checkpoints of other runs: other settings (except for fewer epochs), or other labels."""
    config = methods.class_for(config).adjust(config)

    def judge(checkpoint: Checkpoint) -> str:
        if checkpoint.origin is None:
            return ""
        try:
            before = stored_config(parse_yaml(checkpoint.origin.settings), "the settings in the checkpoint")
        except Exception as error:  # YAML has many exceptions of its own
            return f"names settings that cannot be read: {first_line(error)}"
        changed = [c for c in differences(before, config) if not c.startswith("train.epochs:")]
        if before.train.epochs > config.train.epochs:
            changed.append(f"train.epochs: {before.train.epochs} -> {config.train.epochs}")
        if changed:
            return f"was written with different settings ({'; '.join(changed)})"
        return "" if checkpoint.origin.labels == observed.fingerprint else "was written with different labels"

    return judge


def check_frozen(checkpoint: Checkpoint, origin: Origin, config: Config) -> None:
    """Refuse to continue on a backbone that has changed: its frozen weights are not in the checkpoint."""
    if checkpoint.origin is not None and checkpoint.origin.frozen != origin.frozen:
        raise UserError(
            f"the backbone {config.model.backbone} is no longer the one this run began with (its weights, or the mean "
            "and deviation in its preprocessor_config.json, differ): put it back, or start a new run"
        )


def differences(one: Config, two: Config) -> list[str]:
    """`key: before -> after` for every setting that differs and changes the result."""
    before, after = one.model_dump(mode="json"), two.model_dump(mode="json")
    changes = []
    for section in sorted({*before, *after}):
        a, b = before.get(section), after.get(section)
        if isinstance(a, dict) and isinstance(b, dict):
            changes += [f"{section}.{k}: {a.get(k)} -> {b.get(k)}" for k in {**a, **b} if a.get(k) != b.get(k)]
        elif a != b:
            changes.append(f"{section}: {a} -> {b}")
    return [change for change in changes if change.split(":")[0] not in result_neutral_keys()]
