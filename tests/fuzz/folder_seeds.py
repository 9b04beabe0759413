"""What a fuzzer starts from: folders of runs, backbones and reviews, and archives."""

import io
import json
import tarfile
import zipfile

import numpy as np
import torch
from PIL import Image
from safetensors.numpy import save
from safetensors.torch import save as save_tensors

from fuzz.folder_targets import CHECKPOINTED, backbone_folder, checkpointed_run
from fuzz.targets import model_folder, picture


def folder_seeds(name: str) -> list[bytes]:
    """Valid inputs of the targets above."""
    decision = {"image": "a", "class": "cat", "decision": "accept", "time": "2026-01-01T00:00:00+00:00", "order": 3}
    mean = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "do_rescale": True, "rescale_factor": 0.004}
    record = {"kind": "epoch", "epoch": 0, "step": 5, "mAP": 12.5, "time": 1.0}
    text: dict[str, list[str]] = {
        "decisions_log": [
            json.dumps(decision) + "\n" + json.dumps({**decision, "decision": "undo"}) + "\n",
            json.dumps(decision)[:-3],
        ],
        "reviewed_table": ["image,label,state\na,cat,+1\nb,dog,-1\n", "image,label,state\n'=a,\"c\nat\",+1\n"],
        "review_request": [json.dumps({**decision, "age": 2.5, "session": "s"})],
        "review_mask": ['{"size": [4, 4], "counts": "88"}', '{"size": [4, 4], "counts": [3, 5, 8]}'],
        "class_names": ["cat\ndog\n", "\ufeffcat\r\n\r\ndog"],
        "class_vectors": ['\1{"cat": [0.5, 1], "big_dog": [1, 0]}', "\0002 2\ncat 1 2\nbig 1 0\ndog 0 1"],
        "run_log": [2 * (json.dumps(record) + "\n" + json.dumps({"kind": "step", "step": 3, "loss": 0.5}) + "\n")],
        "run_summary": [json.dumps({"epochs": 2, "curve": [record], "selected_epoch": 1})],
        "packed_manifest": [json.dumps({"format": "scob-packed-1", "fingerprint": "0", "file": "cache.u8", "bad": {}})],
        "preprocessor": [
            "\0" + json.dumps(mean), "\1" + json.dumps({"image_processor": mean}), '\2{"model_type": "vit"}',
        ],
    }  # fmt: skip
    if name in text:
        return [seed.encode() for seed in text[name]]
    return binary_seeds(name)


def binary_seeds(name: str) -> list[bytes]:
    """Valid inputs of the targets that do not read text."""
    if name == "archive":
        return [*(tar_bytes(mode) for mode in ("w", "w:gz", "w:bz2", "w:xz")), zip_bytes()]
    if name in ("review_picture", "mask_file"):
        palette, content = Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4)).convert("P"), io.BytesIO()
        palette.save(content, "PNG")
        return [content.getvalue(), picture()]
    if name == "estimates_file":
        values, names = np.ones((2, 2), np.float16), np.frombuffer(b'["a", "b"]', np.uint8)
        metadata = {"format": "scob-estimates-1", "classes": '["cat", "dog"]'}
        return [save({"estimates": values, "images": names}, metadata=metadata)]
    if name == "best_weights":
        return [save_tensors({"head.weight": torch.ones(2, 2), "head.bias": torch.ones(2)}, metadata={"digest": "0"})]
    if name == "model_weights":
        return [(model_folder()[0] / "model.safetensors").read_bytes()]
    if name == "backbone_config":
        return [backbone_folder()[1]]
    if name == "run_settings":
        from scob.config import dump, load_config

        config = load_config(None, ["data.source=scenes"], ["role", "an"])
        return [
            dump(config).encode(),
            b"method: role\ndata: {source: scenes}\nlabels: {}\nmodel: {}\ntrain: {epochs: 3}\n",
        ]
    if name == "checkpoint_contents":
        from scob.config import dump

        config, labels = checkpointed_run()
        progress = {"epoch": 0, "step": 1, "log": 3, "best": 0.5, "best_epoch": 0, "count": 2, "best_digest": None}
        origins = [
            {"settings": settings, "labels": labels.fingerprint, "frozen": "0"}
            for settings in (dump(config), json.dumps(CHECKPOINTED))
        ]
        return [f"{json.dumps(progress)}\0{json.dumps(origin)}".encode() for origin in origins]
    assert name == "weights_file"
    weights, content = resnet_weights(), io.BytesIO()
    torch.save({"state_dict": {f"module.{k}": v for k, v in weights.items()}}, content)
    return [b"\1" + save_tensors(weights), b"\0" + content.getvalue()]


def tar_bytes(mode: str) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode) as tar:  # type: ignore[call-overload]
        folder = tarfile.TarInfo("VOC")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(folder)
        member = tarfile.TarInfo("VOC/a.txt")
        member.size = 5
        tar.addfile(member, io.BytesIO(b"hello"))
    return content.getvalue()


def zip_bytes() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("annotations/a.json", '{"a": 1}' * 5)
        file.writestr("b.txt", "b")
    return content.getvalue()


def resnet_weights() -> dict[str, torch.Tensor]:
    """A ResNet of a few hundred weights, in torchvision's names."""
    weights = {"conv1.weight": torch.ones(2, 3, 7, 7), **normalisation("bn1")}
    for stage in (1, 2, 3, 4):
        for conv in (1, 2):
            weights[f"layer{stage}.0.conv{conv}.weight"] = torch.ones(2, 2, 3, 3)
            weights |= normalisation(f"layer{stage}.0.bn{conv}")
        if stage > 1:
            weights[f"layer{stage}.0.downsample.0.weight"] = torch.ones(2, 2, 1, 1)
            weights |= normalisation(f"layer{stage}.0.downsample.1")
    return weights


def normalisation(name: str) -> dict[str, torch.Tensor]:
    return {f"{name}.{part}": torch.ones(2) for part in ("weight", "bias", "running_mean", "running_var")}
