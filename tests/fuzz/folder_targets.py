"""Parsers of what is in the folders of runs, backbones and reviews, and of archives."""

import json
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save as save_tensors

from fuzz.scratch import scratch
from fuzz.targets import Target, model_folder
from scob.config import Config
from scob.labels import Labels

CHECKPOINTED = {"method": "role", "data": {"source": "scenes"}}


def archive(data: bytes) -> None:
    """A tar or zip file; nothing may appear outside the folder it is unpacked into."""
    from scob.data.download import unpack

    folder = scratch("archive") / "outer"
    shutil.rmtree(folder, ignore_errors=True)
    into = folder / "inner" / "into"
    into.mkdir(parents=True)
    file = folder / "archive"
    file.write_bytes(data)
    try:
        unpack(file, into)
    finally:
        assert {p.name for p in folder.iterdir()} == {"archive", "inner"}, "written outside the folder"
        assert [p.name for p in into.parent.iterdir()] == ["into"], "written outside the folder"
        assert not any(p.is_symlink() for p in into.rglob("*")), "a link was unpacked"


def decisions_log(data: bytes) -> None:
    """decisions.jsonl of a review, read, and appended to as if the review went on."""
    from scob.recovery.decisions import Decision, DecisionLog, decisions_in

    folder = scratch("decisions")
    (folder / "decisions.jsonl").write_bytes(data)
    before = decisions_in(folder)
    log = DecisionLog(folder)
    log.append(Decision("new image", "cat", "accept"))
    assert log.state() == {**before, ("new image", "cat"): "accept"}, "a decision was lost"


def reviewed_table(data: bytes) -> None:
    """reviewed.csv, for `scob recover --import`."""
    from scob.recovery.decisions import DecisionLog, set_aside
    from scob.recovery.reviewed import checked_decisions

    folder = scratch("reviewed")
    for old in folder.iterdir():
        old.unlink()
    path = folder / "reviewed.csv"
    path.write_bytes(data)
    (folder / "decisions.jsonl").write_bytes(b"")
    try:
        checked_decisions(path, ("a", "b"), ("cat", "dog"), "in the run")
    finally:
        set_aside(DecisionLog(folder))


def review_request(data: bytes) -> None:
    """The body of a decision that a browser sends."""
    from scob.errors import UserError
    from scob.recovery.web.desk import Refused, _read_decision

    try:
        _read_decision(data)
    except Refused as refusal:
        raise UserError(str(refusal)) from None


def review_mask(data: bytes) -> None:
    """The mask of a suggestion, decoded and drawn as the review page does."""
    from scob.recovery.web.pictures import spotlight

    try:
        mask = json.loads(data)
    except (ValueError, RecursionError):
        return  # the target `suggestions` parses the line itself
    if isinstance(mask, dict) and "size" in mask and "counts" in mask:
        spotlight(mask, side=32)


def review_picture(data: bytes) -> None:
    """An image file, as the review page shows it."""
    from scob.recovery.web.pictures import _picture

    path = scratch("review-picture") / "a.png"
    path.write_bytes(data)
    _picture.__wrapped__(path, 0, 0, 6)


def mask_file(data: bytes) -> None:
    """A mask of VOC."""
    from scob.data.readers.voc import PaletteMasks

    path = scratch("mask") / "a.png"
    path.write_bytes(data)
    PaletteMasks((str(path),), 20).load(0)


def class_names(data: bytes) -> None:
    """A classes.txt."""
    from scob.data.readers.text_lists import class_list
    from scob.data.split import ReadOptions

    folder = scratch("classes")
    (folder / "classes.txt").write_bytes(data)
    class_list(folder, ReadOptions())


def class_vectors(data: bytes) -> None:
    """A file of word vectors; the first byte chooses JSON or text."""
    from scob.methods.semantics import read_vectors

    path = scratch("vectors") / ("vectors.json" if data[:1] == b"\1" else "vectors.txt")
    path.write_bytes(data[1:])
    read_vectors(path, ["cat", "big dog"])


def estimates_file(data: bytes) -> None:
    """estimates.safetensors of a run."""
    from scob.training.estimates import FILE, load_estimates

    folder = scratch("estimates")
    (folder / FILE).write_bytes(data)
    load_estimates(folder, ("a", "b"), ("cat", "dog"))


def best_weights(data: bytes) -> None:
    """The weights of the best epoch, of a version without digests."""
    from scob.training.best_weights import best_file, read_best

    folder = scratch("best")
    best_file(folder, 1).write_bytes(data)
    read_best(folder, 1, None)


def run_settings(data: bytes) -> None:
    """config.yaml of a run, of a version without a seal."""
    from scob.training.run_folder import RunFolder

    run = RunFolder(scratch("run-settings"))
    run.config_file.write_bytes(data)
    run.read_config()


def run_log(data: bytes) -> None:
    """metrics.jsonl of a run, read, and cut at a checkpoint."""
    from scob.training.checkpoint import Progress
    from scob.training.run_folder import RunFolder

    run = RunFolder(scratch("run-log"))
    run.log_file.write_bytes(data)
    run.records("epoch")
    run.cut_log(Progress(step=3, epoch=1, log=len(data) // 2, log_digest="0"))
    run.records()


def run_summary(data: bytes) -> None:
    """summary.json of a run, of a version without a seal."""
    from scob.training.run_folder import RunFolder

    run = RunFolder(scratch("run-summary"))
    run.summary_file.write_bytes(data)
    run.summary()


def model_weights(data: bytes) -> None:
    """model.safetensors of a model folder, of a version without digests."""
    from scob.training.model_folder import load_network

    source, config = model_folder()
    folder = scratch("model-weights")
    (folder / "config.json").write_bytes(json.dumps({**json.loads(config), "weights": ""}).encode())
    (folder / "model.safetensors").write_bytes(data)
    load_network(folder)
    assert source.is_dir()


def checkpoint_contents(data: bytes) -> None:
    """What a checkpoint says of its progress and its run, two texts separated by NUL, correctly sealed."""
    from scob.training.checkpoint import FORMAT, digest, latest_checkpoint, seal
    from scob.training.resume import judge_of

    folder = scratch("checkpoint-contents")
    tensors = {"a": torch.ones(2)}
    progress, _, origin = data.decode(errors="replace").partition("\0")
    metadata = {"format": FORMAT, "digest": digest(tensors), "progress": progress, "origin": origin or "null"}
    metadata["seal"] = seal(metadata["digest"], progress, metadata["origin"])
    (folder / "step-000000001.safetensors").write_bytes(save_tensors(tensors, metadata=metadata))
    latest_checkpoint(folder, judge_of(*checkpointed_run()))


@cache
def checkpointed_run() -> tuple[Config, Labels]:
    """The settings and labels of the run that the checkpoint is of."""
    from scob.training.run_folder import stored_config

    return stored_config(CHECKPOINTED, "the run"), Labels(("cat",), ("a",), np.ones((1, 1), np.int8))


def packed_manifest(data: bytes) -> None:
    """The description of a packed cache: anything that is not right means that it is built again."""
    from scob.data.packed_cache import _open

    path = scratch("packed") / "cache.json"
    path.with_suffix(".u8").write_bytes(bytes(2 * 3 * 4 * 4))
    path.write_bytes(data)
    _open(path, "0", 2, 4)


def weights_file(data: bytes) -> None:
    """A ResNet in torchvision's naming; the first byte chooses .pth or .safetensors."""
    from scob.model.resnet_weights import resnet_from_file

    path = scratch("weights") / ("resnet.safetensors" if data[:1] == b"\1" else "resnet.pth")
    path.write_bytes(data[1:])
    resnet_from_file(path)


def preprocessor(data: bytes) -> None:
    """preprocessor_config.json (or, with another first byte, processor_config.json) of a backbone folder."""
    from scob.model.preprocessing import preprocessing

    folder = scratch("preprocessor")
    for name in ("preprocessor_config.json", "processor_config.json", "config.json"):
        (folder / name).unlink(missing_ok=True)
    kind = data[0] % 3 if data else 0
    (folder / ("preprocessor_config.json", "processor_config.json", "config.json")[kind]).write_bytes(data[1:])
    preprocessing(str(folder))


def backbone_config(data: bytes) -> None:
    """config.json of a backbone folder."""
    from scob.model.load_backbone import load_backbone

    folder, _ = backbone_folder()
    (folder / "config.json").write_bytes(data)
    load_backbone(str(folder))


@cache
def backbone_folder() -> tuple[Path, bytes]:
    """A valid backbone folder, and its config.json."""
    from transformers import ResNetConfig
    from transformers.models.resnet.modeling_resnet import ResNetBackbone

    torch.manual_seed(0)
    folder = scratch("backbone")
    shape = ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", out_features=["stage1", "stage2"]
    )
    ResNetBackbone(shape).save_pretrained(folder)
    return folder, (folder / "config.json").read_bytes()


FOLDER_TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        archive, decisions_log, reviewed_table, review_request, review_mask, review_picture, mask_file, class_names,
        class_vectors, estimates_file, best_weights, run_settings, run_log, run_summary, model_weights,
        checkpoint_contents, packed_manifest, weights_file, preprocessor, backbone_config,
    )
}  # fmt: skip
