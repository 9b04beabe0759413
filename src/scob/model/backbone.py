"""Any `transformers` backbone, or a torchvision-format ResNet file, as two feature maps of an image.

A ResNet gives stage 3 and stage 4, as in the paper; a ViT, whose layers share one resolution, gives a layer at three
quarters of its depth and its last. BatchNorm always runs on stored statistics.
"""

import copy
import json
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from scob.data.images import IMAGENET_MEAN, IMAGENET_STD
from scob.errors import UserError

Features = tuple[Tensor, Tensor]
EMBEDDED = "drawings"
_PREFIXES = (
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


class Backbone(nn.Module):
    """Images to two feature maps: (B, 3, S, S) -> (B, C3, h3, w3), (B, C4, h4, w4)."""

    def __init__(self, body: nn.Module, name: str, freeze: str = "all") -> None:
        super().__init__()
        self.body, self.name, self.freeze = body, name, freeze
        self.channels: tuple[int, int] = tuple(body.channels[-2:])  # type: ignore[index]
        for parameter in self.body.parameters():
            parameter.requires_grad_(freeze == "none")
        if freeze == "stages":
            for parameter in self._last_stage():
                parameter.requires_grad_(True)
        self.train(False)

    def _last_stage(self) -> Iterable[nn.Parameter]:
        """Parameters of the last stage (the last quarter of the layers of a ViT)."""
        numbered = [
            (int(match.group(1)), p)
            for n, p in self.body.named_parameters()
            if (match := re.search(r"(?:stages|layers|layer)\.(\d+)\.", n))
        ]
        if not numbered:
            raise UserError(f"the backbone {self.name} has no numbered stages: use model.freeze=all or none")
        count = 1 + max(number for number, _ in numbered)
        first = count - max(1, count // 4)
        return [p for number, p in numbered if number >= first]

    @property
    def frozen(self) -> bool:
        return self.freeze == "all"

    def train(self, mode: bool = True) -> "Backbone":
        """Fine-tuned or not, statistics and stochastic depth stay as at test time."""
        return super().train(False)

    def forward(self, images: Tensor) -> Features:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            maps = self.body(images).feature_maps
        return maps[-2], maps[-1]

    def grids(self, size: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Spatial shapes of the two maps for square inputs of `size`."""
        device = next(self.body.parameters()).device
        with torch.no_grad():
            third, fourth = self(torch.zeros(1, 3, size, size, device=device))
        return (third.shape[2], third.shape[3]), (fourth.shape[2], fourth.shape[3])

    @torch.no_grad()
    def calibrate(self, batches: Iterable[Tensor]) -> int:
        """Re-estimate BatchNorm statistics as the plain average over `batches` of views; returns images seen."""
        norms = [m for m in self.modules() if isinstance(m, nn.BatchNorm2d)]
        if not norms:
            return 0
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # cumulative average
            norm.training = True
        seen = 0
        for views in batches:
            self.body(views)
            seen += len(views)
        for norm in norms:
            norm.momentum, norm.training = 0.1, False
        return seen


def load_backbone(name: str, freeze: str = "all") -> Backbone:
    """A backbone by the embedded name, a local folder, a torchvision-format file, or a hub name."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # our own bars tell what is happening
    path = Path(name).expanduser()
    if name == EMBEDDED:
        path = Path(__file__).parent / EMBEDDED
    if path.is_dir():
        return Backbone(_from_folder(path), name, freeze)
    if path.is_file():
        return Backbone(_from_file(path), name, freeze)
    if path.suffix in (".pth", ".pt", ".tar", ".safetensors") or name.startswith((".", "/", "~")):
        raise UserError(f"there is no backbone at {name}: give a folder with config.json or a ResNet weights file")
    return Backbone(_from_hub(name), name, freeze)


def backbone_from_config(config: Mapping[str, Any], name: str, freeze: str = "all") -> Backbone:
    """An untrained backbone of a stored configuration (a model folder brings its own weights)."""
    from transformers import AutoConfig

    if "model_type" not in config:
        raise UserError("the stored backbone configuration has no model_type: the model folder is damaged")
    try:
        made = AutoConfig.for_model(**config)
        return Backbone(_backbone_class(made)(made), name, freeze)
    except UserError:
        raise
    except Exception as error:  # transformers has an exception of its own for many a wrong value
        raise UserError(f"the stored backbone configuration cannot be used: {_first_line(error)}") from error


def backbone_config(backbone: Backbone) -> dict[str, Any]:
    """What `backbone_from_config` needs."""
    config: dict[str, Any] = backbone.body.config.to_dict()  # type: ignore[union-attr,operator]
    for noise in (
        "dtype",
        "torch_dtype",
        "_name_or_path",
        "architectures",
        "transformers_version",
        "id2label",
        "label2id",
    ):
        config.pop(noise, None)
    return config


def _backbone_class(config: Any) -> Any:
    from transformers.models.auto.modeling_auto import MODEL_FOR_BACKBONE_MAPPING

    try:
        return MODEL_FOR_BACKBONE_MAPPING[type(config)]
    except KeyError:
        raise UserError(
            f"{config.model_type!r} models have no backbone form in transformers; use resnet, convnext, swin, dinov2"
        ) from None


def tap_two_stages(config: Any) -> Any:
    """Ask for two maps: the two a stored configuration names, else the last two stages, or two depths of a ViT."""
    chosen = list(getattr(config, "out_features", None) or [])
    names = list(config.stage_names)
    if len(chosen) != 2:
        last = len(names) - 1
        chosen = [names[last - 1], names[last]] if last <= 5 else [names[round(0.75 * last)], names[last]]
    config = copy.deepcopy(config)
    config.out_features = chosen
    return config


def _from_folder(folder: Path) -> nn.Module:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{folder} is no transformers backbone folder (config.json): {_first_line(error)}") from error
    cls = _backbone_class(config)
    try:
        body = cls.from_pretrained(folder, config=tap_two_stages(config), dtype=torch.float32, use_safetensors=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"cannot load the backbone in {folder}: {_first_line(error)}") from error
    return body  # type: ignore[no-any-return]


def _from_hub(name: str) -> nn.Module:
    from transformers import AutoConfig

    cached = not _hub_answers()
    try:
        config = AutoConfig.from_pretrained(name, local_files_only=cached)
        cls = _backbone_class(config)
        body = cls.from_pretrained(
            name, config=tap_two_stages(config), dtype=torch.float32, use_safetensors=True, local_files_only=cached
        )
    except UserError:
        raise
    except Exception as error:  # the hub client raises many kinds, all meaning: not to be had
        raise UserError(
            f"the backbone {name!r} could not be fetched ({_first_line(error)}); without a network, place its "
            "config.json and model.safetensors in a folder and give that folder with --backbone FOLDER "
            "(or a torchvision ResNet-50 .pth file)"
        ) from error
    return body  # type: ignore[no-any-return]


def _hub_answers() -> bool:
    """Whether the hub can be reached: its client would retry for half a minute, and say so each time."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=10)
    except Exception:  # no name, no route, no certificate: each client library has its own exceptions
        return False
    return True


def _from_file(path: Path) -> nn.Module:
    """A ResNet in torchvision's naming: conv1, bn1, layer1.0.conv1, ..., with or without common prefixes."""
    from transformers import ResNetConfig
    from transformers.models.resnet.modeling_resnet import ResNetBackbone

    weights = _strip(_read_weights(path))
    if "conv1.weight" not in weights or "layer4.0.conv1.weight" not in weights:
        raise UserError(
            f"{path} holds no torchvision-format ResNet: 'conv1.weight' and 'layer4.0.conv1.weight' are expected, "
            f"found {', '.join(list(weights)[:4]) or 'nothing'}"
        )
    bottleneck = "layer1.0.conv3.weight" in weights
    last = 3 if bottleneck else 2
    depths = [1 + max(int(k.split(".")[1]) for k in weights if k.startswith(f"layer{s}.")) for s in (1, 2, 3, 4)]
    config = ResNetConfig(
        embedding_size=weights["conv1.weight"].shape[0],
        hidden_sizes=[weights[f"layer{s}.0.conv{last}.weight"].shape[0] for s in (1, 2, 3, 4)],
        depths=depths,
        layer_type="bottleneck" if bottleneck else "basic",
        out_features=["stage3", "stage4"],
    )
    body = ResNetBackbone(config)
    renamed = {new: weights[old] for old in weights if (new := _rename(old)) is not None}
    missing = [k for k in body.state_dict() if k not in renamed and not k.endswith("num_batches_tracked")]
    if missing:
        raise UserError(f"{path} lacks {len(missing)} of the ResNet's tensors, {missing[0]} among them")
    try:
        body.load_state_dict(renamed, strict=False)
    except RuntimeError as error:
        raise UserError(f"{path} does not fit the ResNet its names describe: {_first_line(error)}") from error
    return body  # type: ignore[no-any-return]


def _read_weights(path: Path) -> dict[str, Tensor]:
    import pickle

    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            stored: dict[str, Tensor] = load_file(path)
            return stored
        if zipfile.is_zipfile(path):  # torch stores its records as they are: one that is packed is not torch's
            with zipfile.ZipFile(path) as archive:
                if any(record.compress_type != zipfile.ZIP_STORED for record in archive.infolist()):
                    raise UserError(f"{path} is a packed archive, not a file that torch has written")
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} is no weights file, or holds more than tensors, and is not loaded: it must be plain tensors"
        ) from error
    except (SafetensorError, RuntimeError, OSError, EOFError, ValueError, KeyError) as error:
        raise UserError(f"cannot read the weights file {path}: {_first_line(error)}") from error
    while isinstance(loaded, dict) and not any(isinstance(v, Tensor) for v in loaded.values()):
        inner = [loaded[k] for k in ("state_dict", "model", "teacher", "student") if isinstance(loaded.get(k), dict)]
        if not inner:
            break
        loaded = inner[0]
    if not isinstance(loaded, dict):
        raise UserError(f"{path} holds no dictionary of tensors")
    return {str(k): v for k, v in loaded.items() if isinstance(v, Tensor)}


def _strip(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Take prefixes such as 'module.encoder_q.' off every name that leads to the ResNet's own."""
    found: dict[str, Tensor] = {}
    for key, value in weights.items():
        name, changed = key, True
        while changed:
            changed = False
            for prefix in _PREFIXES:
                if name.startswith(prefix):
                    name, changed = name[len(prefix) :], True
        found[name] = value.float() if value.is_floating_point() else value
    return found


def _rename(old: str) -> str | None:
    """torchvision's name of a ResNet tensor -> transformers' name; None for the classifier."""
    part = old.rpartition(".")[2]
    if old.startswith("conv1."):
        return f"embedder.embedder.convolution.{part}"
    if old.startswith("bn1."):
        return f"embedder.embedder.normalization.{part}"
    match = re.fullmatch(r"layer(\d)\.(\d+)\.(conv|bn|downsample\.)(\d)\.(\w+)", old)
    if match is None:
        return None
    stage, block, kind, number = int(match[1]) - 1, match[2], match[3], int(match[4])
    prefix = f"encoder.stages.{stage}.layers.{block}"
    if kind == "downsample.":
        return f"{prefix}.shortcut.{'convolution' if number == 0 else 'normalization'}.{part}"
    return f"{prefix}.layer.{number - 1}.{'convolution' if kind == 'conv' else 'normalization'}.{part}"


def preprocessing(name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of the inputs a backbone folder asks for; ImageNet's where it does not say."""
    file = Path(name).expanduser() / "preprocessor_config.json"
    if not file.is_file():
        return IMAGENET_MEAN, IMAGENET_STD
    try:
        stored = json.loads(file.read_text())
        return tuple(stored["image_mean"]), tuple(stored["image_std"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} does not name image_mean and image_std: {error}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
