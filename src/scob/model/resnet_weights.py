"""A weights file in torchvision's naming (conv1, bn1, layer1.0.conv1, ...) as a `transformers` ResNet."""

import re
import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn

from scob.errors import UserError, first_line

# What training code puts before the names: DataParallel, MoCo, BYOL, DETR and others.
PREFIXES = (
    "module.",
    "state_dict.",
    "model.",
    "encoder_q.",
    "base_encoder.",
    "encoder.",
    "backbone.",
    "0.body.",
    "body.",
    "resnet.",
    "online_network.",
    "online_encoder.",
)
DEEPEST = 8  # dictionaries around the tensors; a file may also contain itself


def resnet_from_file(path: Path) -> nn.Module:
    """The ResNet whose depth and widths the tensors themselves describe; its classifier is left out."""
    from transformers import ResNetConfig
    from transformers.models.resnet.modeling_resnet import ResNetBackbone

    weights = strip_prefixes(read_weights(path))
    if "conv1.weight" not in weights or "layer4.0.conv1.weight" not in weights:
        raise UserError(
            f"{path} is not a torchvision-format ResNet: it should contain 'conv1.weight' and "
            f"'layer4.0.conv1.weight', but has {', '.join(list(weights)[:4]) or 'no tensors'}"
        )
    bottleneck = "layer1.0.conv3.weight" in weights
    last = 3 if bottleneck else 2
    blocks = [{match[1] for k in weights if (match := re.match(rf"layer{s}\.(\d+)\.", k))} for s in (1, 2, 3, 4)]
    try:
        config = ResNetConfig(
            embedding_size=weights["conv1.weight"].shape[0],
            hidden_sizes=[weights[f"layer{s}.0.conv{last}.weight"].shape[0] for s in (1, 2, 3, 4)],
            depths=[len(stage) for stage in blocks],
            layer_type="bottleneck" if bottleneck else "basic",
            out_features=["stage3", "stage4"],
        )
        with torch.device("meta"):  # nothing is allocated before the sizes are known to be those of the file
            expected = {k: v.shape for k, v in ResNetBackbone(config).state_dict().items()}
        renamed = {new: weights[old] for old in weights if (new := transformers_name(old)) is not None}
        missing = [k for k in expected if k not in renamed and not k.endswith("num_batches_tracked")]
        if missing:
            raise UserError(f"{path} lacks {len(missing)} of the ResNet's tensors, for example {missing[0]}")
        for name in expected.keys() & renamed.keys():
            if renamed[name].shape != expected[name]:
                raise ValueError(f"{name} has the shape {tuple(renamed[name].shape)}, not {tuple(expected[name])}")
        body = ResNetBackbone(config)
        body.load_state_dict(renamed, strict=False)
    except (RuntimeError, ValueError, KeyError, IndexError, TypeError) as error:
        raise UserError(f"{path} does not fit the ResNet that its names describe: {first_line(error)}") from error
    return body  # type: ignore[no-any-return]


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors or torch file. Nothing but tensors is ever unpickled."""
    import pickle

    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            stored: dict[str, Tensor] = load_file(path)
            return stored
        if zipfile.is_zipfile(path):  # torch never compresses its records
            with zipfile.ZipFile(path) as archive:
                if any(record.compress_type != zipfile.ZIP_STORED for record in archive.infolist()):
                    raise UserError(f"{path} is a packed archive, not a file that torch has written")
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} was not loaded: it is not a weights file, or contains more than tensors; save plain tensors"
        ) from error
    except UserError:
        raise
    except Exception as error:  # a damaged file can make torch raise anything
        raise UserError(f"cannot read the weights file {path}: {first_line(error)}") from error
    for _ in range(DEEPEST):
        if not isinstance(loaded, dict) or any(isinstance(v, Tensor) for v in loaded.values()):
            break
        inner = [loaded[k] for k in ("state_dict", "model", "teacher", "student") if isinstance(loaded.get(k), dict)]
        if not inner:
            break
        loaded = inner[0]
    if not isinstance(loaded, dict):
        raise UserError(f"{path} does not contain a dictionary of tensors")
    return {str(k): v for k, v in loaded.items() if isinstance(v, Tensor)}


def strip_prefixes(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Remove prefixes such as 'module.encoder_q.' from every name; floating-point tensors become float32."""
    stripped: dict[str, Tensor] = {}
    for key, value in weights.items():
        name, changed = key, True
        while changed:
            changed = False
            for prefix in PREFIXES:
                if name.startswith(prefix):
                    name, changed = name[len(prefix) :], True
        stripped[name] = value.float() if value.is_floating_point() else value
    return stripped


def transformers_name(name: str) -> str | None:
    """torchvision's name of a ResNet tensor -> the name in transformers; None for the classifier and unknown names."""
    part = name.rpartition(".")[2]
    if name.startswith("conv1."):
        return f"embedder.embedder.convolution.{part}"
    if name.startswith("bn1."):
        return f"embedder.embedder.normalization.{part}"
    match = re.fullmatch(r"layer(\d)\.(\d+)\.(conv|bn|downsample\.)(\d)\.(\w+)", name)
    if match is None:
        return None
    stage, block, kind, number = int(match[1]) - 1, match[2], match[3], int(match[4])
    prefix = f"encoder.stages.{stage}.layers.{block}"
    if kind == "downsample.":
        return f"{prefix}.shortcut.{'convolution' if number == 0 else 'normalization'}.{part}"
    return f"{prefix}.layer.{number - 1}.{'convolution' if kind == 'conv' else 'normalization'}.{part}"
