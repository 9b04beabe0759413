"""What a fuzzer starts from."""

import base64
import json
from functools import cache

import numpy as np
from PIL import Image

from fuzz.scratch import scratch
from fuzz.targets import model_folder, onnx_bytes, picture, replaced


def seeds(name: str) -> list[bytes]:
    """Inputs that are valid, or nearly so, for a fuzzer to start from."""
    coco = {
        "images": [{"id": 1, "file_name": "a.jpg", "height": 4, "width": 4}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 1, "iscrowd": 0, "segmentation": [[0, 0, 0, 3, 3, 3]]},
            {"id": 2, "image_id": 1, "category_id": 1, "iscrowd": 1,
             "segmentation": {"size": [4, 4], "counts": [8, 8]}},
            {"id": 3, "image_id": 1, "category_id": 1, "segmentation": {"size": [4, 4], "counts": "88"}},
        ],
    }  # fmt: skip
    suggestion = {
        "image": "a", "class": "cat", "score": 0.5, "estimate": 0.5, "box": [0, 0, 1, 1], "observed": ["dog"],
        "nearest": [{"image": "b", "score": 0.1}], "mask": {"size": [4, 4], "counts": "88"},
    }  # fmt: skip
    found: dict[str, list[bytes]] = {
        "label_table": [
            b"\0image,label,state,split\na.jpg,cat,1,train\nb.jpg,dog,absent,val\n",
            b"\6image,cat,dog\na.jpg,1,-1\nb.jpg,0,\n",
            b'\1{"image": "a.jpg", "labels": ["cat"], "absent": ["dog"], "split": "train"}\n',
            b'\4{"image": "b.jpg", "labels": {"cat": -1}, "label": "dog", "state": 1}\n',
            b"\2image\tlabel\na.jpg\tcat\n",
        ],
        "voc_annotation": [
            b"\0<annotation><object><name>cat</name><difficult>1</difficult></object></annotation>",
            b"\2<?xml version='1.0' encoding='utf-16'?><annotation/>",
            b'\1<!DOCTYPE a [<!ENTITY b "cat">]><a><object><name>&b;</name></object></a>',
        ],
        "voc_list": [b"\0a\n", b"\1a 1\n", b"\4../a\n"],
        "coco_instances": [b"\0" + json.dumps(coco).encode(), b"\4" + json.dumps(coco).encode()],
        "cub_lists": [b"\0001 a.jpg\n\0001 1\n\0001 has_bill::dagger\n\0001 1 1 3 2.5\n"],
        "settings": [
            b"preset: paper\ntrain: {epochs: 3, lr_smt: 4e-5}\n\0train.epochs=3\nmethod=role",
            b"scob:\n  cam_window: [3, 1]\ndata: {source: scenes}\n",
            b"role: {a: 1}\nmodel: {head: smt}\n\0scob.tau=.inf",
        ],
        "model_card": [_card()],
        "model_load": [
            _replacing(b'["cat", "dog"]', "classes"), _replacing(b"16", "size"), _replacing(b"8", "model", "width"),
            _replacing(b"[4, 8]", "backbone", "hidden_sizes"), _replacing(b'"bottleneck"', "backbone", "layer_type"),
        ],
        "onnx_metadata": [b'["a", "b"]\0[0.5, 0.5]\0{"size": 16}', b'["a"]\0[1]\0{"size": 448, "mean": [0, 0, 0]}'],
        "onnx_file": [_onnx()],
        "label_file": [_labels()],
        "checkpoint_file": [_checkpoint()],
        "suggestions": [json.dumps(suggestion).encode() + b'\n\0{"root": null, "files": {"a": "a.png"}}'],
        "image": [picture(), base64.b64decode(b"R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"), _jpeg()],
    }  # fmt: skip
    return found[name]


def _card() -> bytes:
    return model_folder()[1]


@cache
def _replacing(value: bytes, *keys: str) -> bytes:
    """An input of `model_load` that puts a value at `keys` of the config.json: the number of that place comes first."""
    for place in range(256):
        node = json.loads(replaced(json.loads(_card()), bytes([place]) + b'"here"'))
        for key in keys:
            node = node[key] if isinstance(node, dict) else None
        if node == "here":
            return bytes([place]) + value
    raise AssertionError(f"config.json has no {keys}")


def _onnx() -> bytes:
    return onnx_bytes()


def _labels() -> bytes:
    from scob.labels import Labels

    path = scratch("labels") / "seed.safetensors"
    Labels(("cat", "dog"), ("a", "b"), np.array([[1, 0], [-1, 1]], np.int8)).save(path)
    return path.read_bytes()


def _checkpoint() -> bytes:
    import torch

    from scob.training.checkpoint import Progress, save_checkpoint

    folder = scratch("checkpoint") / "seed"
    return save_checkpoint(folder, {"a": torch.ones(2), "b": torch.tensor(True)}, Progress(step=1)).read_bytes()


def _jpeg() -> bytes:
    path = scratch("picture") / "a.jpg"
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(path)
    return path.read_bytes()
