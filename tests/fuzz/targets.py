"""Every parser of files from outside: a target writes bytes to where a user's file would be, and reads that file.

A target may return or raise `UserError`. Anything else (another exception, a hang, memory without end) is a finding.
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fuzz.scratch import scratch
from scob.errors import UserError

Target = Callable[[bytes], None]


@cache
def picture() -> bytes:
    path = scratch("picture") / "a.png"
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(path)
    return path.read_bytes()


@cache
def table_folder() -> Path:
    folder = scratch("table")
    for name in ("a.jpg", "b.jpg", "c d.png"):
        (folder / name).write_bytes(picture())
    return folder


def label_table(data: bytes) -> None:
    """A CSV, TSV or JSON-lines table; the first byte chooses which, and whether bad rows may be skipped."""
    from scob.data.readers import table
    from scob.data.split import ReadOptions

    kind = data[0] if data else 0
    path = table_folder() / f"table{('.csv', '.jsonl', '.tsv')[kind % 3]}"
    path.write_bytes(data[1:])
    table.read(path, None, ReadOptions(skip_bad=bool(kind & 4)))


@cache
def voc_folder() -> Path:
    folder = scratch("voc")
    for name in ("JPEGImages", "ImageSets/Main", "Annotations"):
        (folder / name).mkdir(parents=True)
    (folder / "JPEGImages" / "a.jpg").write_bytes(picture())
    return folder


def voc_annotation(data: bytes) -> None:
    """An annotation file of VOC; the first byte chooses what a difficult object counts as."""
    from scob.data.readers import voc

    folder, kind = voc_folder(), data[0] if data else 0
    (folder / "Annotations" / "a.xml").write_bytes(data[1:])
    voc._labels(folder, "a", "train.txt line 1", voc.CLASSES, ("positive", "negative", "ignore")[kind % 3])
    voc.AnnotatedBoxes(folder, ("a",), voc.CLASSES).load(0)


def voc_list(data: bytes) -> None:
    """An image list of VOC."""
    from scob.data.readers import voc
    from scob.data.split import ReadOptions

    folder, kind = voc_folder(), data[0] if data else 0
    (folder / "Annotations" / "a.xml").write_text("<annotation><object><name>cat</name></object></annotation>")
    (folder / "ImageSets" / "Main" / "train.txt").write_bytes(data[1:])
    voc.read(folder, None if kind & 1 else "train", ReadOptions(skip_bad=bool(kind & 4)))


@cache
def coco_folder() -> Path:
    folder = scratch("coco")
    (folder / "annotations").mkdir()
    (folder / "train2014").mkdir()
    for name in ("a.jpg", "b.jpg"):
        (folder / "train2014" / name).write_bytes(picture())
    return folder


def coco_instances(data: bytes) -> None:
    """An instances file of COCO, and the masks of every image in it."""
    from scob.data.readers import coco
    from scob.data.split import ReadOptions

    folder, kind = coco_folder(), data[0] if data else 0
    (folder / "annotations" / "instances_train2014.json").write_bytes(data[1:])
    split = coco.read(folder, "train", ReadOptions(skip_bad=bool(kind & 4)))
    for row in range(min(2, len(split))):
        for truth in (split.boxes, split.masks):
            if truth is not None:
                truth.load(row)


def settings(data: bytes) -> None:
    """A settings file and the words of a command line."""
    from scob.config import load_config

    path = scratch("settings") / "settings.yaml"
    text, _, words = data.partition(b"\0")
    path.write_bytes(text)
    load_config(path, [w for w in words.decode(errors="replace").split("\n") if w], ["role", "an"])


@cache
def model_folder() -> tuple[Path, bytes]:
    """A valid model folder, and its config.json without the seal, which would refuse every change before it is read."""
    import torch
    from transformers import ResNetConfig
    from transformers.models.resnet.modeling_resnet import ResNetBackbone

    from scob.config import ModelSettings
    from scob.model.backbone import Backbone
    from scob.model.load_backbone import backbone_config
    from scob.model.network import build_network
    from scob.training.model_folder import ModelCard, write_model

    torch.manual_seed(0)
    shape = ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", out_features=["stage1", "stage2"]
    )
    backbone = Backbone(ResNetBackbone(shape), "tiny")
    model = ModelSettings(width=8, heads=2, feedforward=8, layers=1, projection=4)
    grids = backbone.grids(16)
    network = build_network(backbone, model, 2, 16, grids)
    card = ModelCard(
        ("cat", "dog"), 16, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), (0.5, 0.5), model.model_dump(mode="json"), grids,
        "tiny", backbone_config(backbone), "scob", {"origin": "full", "fingerprint": "0"},
    )  # fmt: skip
    folder = scratch("model")
    write_model(folder, network, card)
    config = json.loads((folder / "config.json").read_bytes())
    del config["sha256"]
    return folder, json.dumps(config, indent=1).encode()


def model_card(data: bytes) -> None:
    """The config.json of a model folder."""
    from scob.training.model_folder import ModelCard

    folder, _ = model_folder()
    (folder / "config.json").write_bytes(data)
    ModelCard.read(folder)


def model_load(data: bytes) -> None:
    """A model folder whose config.json has one value replaced: the first byte says which, the rest is its JSON."""
    from scob.training.model_folder import load_network

    folder, config = model_folder()
    (folder / "config.json").write_bytes(replaced(json.loads(config), data))
    load_network(folder)


def replaced(tree: Any, data: bytes) -> bytes:
    """`tree` as JSON, with one of its values replaced: the first byte chooses which, the rest is the new value."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                walk(node[key])

    walk(tree)
    node, key = places[(data[0] if data else 0) % len(places)]
    node[key] = "@@"
    return json.dumps(tree).encode().replace(b'"@@"', data[1:] or b"null")


def onnx_metadata(data: bytes) -> None:
    """The metadata of an ONNX file: four texts separated by NUL."""
    from scob.inference.onnx.runtime import read_metadata

    texts = [part.decode(errors="replace") for part in data.split(b"\0")]
    names = ("classes", "thresholds", "preprocessing", "format")
    read_metadata({"format": "scob-onnx-1", **dict(zip(names, texts, strict=False))}, Path("model.onnx"))


@cache
def onnx_bytes() -> bytes:
    import onnx
    from onnx import TensorProto, helper

    pixels = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", 2])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 2])
    graph = helper.make_graph([helper.make_node("Sigmoid", ["pixels"], ["scores"])], "g", [pixels], [scores])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    stored = {
        "format": "scob-onnx-1", "classes": '["a", "b"]', "thresholds": "[0.5, 0.5]", "preprocessing": '{"size": 16}',
    }  # fmt: skip
    for key, value in stored.items():
        model.metadata_props.append(onnx.StringStringEntryProto(key=key, value=value))
    serialised: bytes = model.SerializeToString()
    return serialised


def onnx_file(data: bytes) -> None:
    """An ONNX file, opened as `scob predict` opens it."""
    from scob.inference.onnx.runtime import OnnxModel

    path = scratch("onnx") / "model.onnx"
    path.write_bytes(data)
    OnnxModel(path, threads=1, device="cpu")


def label_file(data: bytes) -> None:
    """A label file in safetensors format."""
    from scob.labels import Labels

    path = scratch("labels") / "labels.safetensors"
    path.write_bytes(data)
    Labels.load(path)


def checkpoint_file(data: bytes) -> None:
    """A checkpoint."""
    from scob.training.checkpoint import read_checkpoint

    path = scratch("checkpoint") / "step-1.safetensors"
    path.write_bytes(data)
    read_checkpoint(path)


def image(data: bytes) -> None:
    """An image file."""
    from scob.data.images import decode

    decode(data, 16)


@cache
def cub_folder() -> Path:
    folder = scratch("cub")
    (folder / "attributes").mkdir()
    (folder / "images").mkdir()
    (folder / "images" / "a.jpg").write_bytes(picture())
    return folder


def cub_lists(data: bytes) -> None:
    """The four lists of CUB, separated by NUL."""
    from scob.data.readers import cub
    from scob.data.split import ReadOptions

    folder, kind = cub_folder(), data[0] if data else 0
    parts = [*data[1:].split(b"\0"), b"", b"", b"", b""]
    names = ("images.txt", "train_test_split.txt", "attributes/attributes.txt", "attributes/image_attribute_labels.txt")
    for name, part in zip(names, parts, strict=False):
        (folder / name).write_bytes(part)
    cub.read(folder, None if kind & 1 else "train", ReadOptions(skip_bad=bool(kind & 4)))


def suggestions(data: bytes) -> None:
    """The queue of the review page: suggestions.jsonl and images.json, separated by NUL."""
    from scob.recovery.suggestion import read_queue

    folder = scratch("review")
    first, _, second = data.partition(b"\0")
    (folder / "suggestions.jsonl").write_bytes(first)
    (folder / "images.json").write_bytes(second or b'{"files": {}}')
    read_queue(folder)


TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        label_table, voc_annotation, voc_list, coco_instances, cub_lists, settings, model_card, model_load,
        onnx_metadata, onnx_file, label_file, checkpoint_file, suggestions, image,
    )
}  # fmt: skip


def survives(target: Target, data: bytes, hear: Callable[[str], None] = lambda message: None) -> bool:
    """Whether the target accepted the input (False: refused with a sentence, for `hear`); anything else is raised."""
    try:
        target(data)
    except UserError as error:
        message = str(error)
        assert 0 < len(message) <= 1_000, "an error without a message, or with one that is too long"
        hear(message)
        return False
    return True
