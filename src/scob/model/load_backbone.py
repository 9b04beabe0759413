"""Load a backbone by name (embedded, `transformers` folder, torchvision file, hub name), or save one to a folder.

A model folder stores only the configuration of its backbone, beside the weights of the whole network.
"""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from scob.data.images import IMAGENET_MEAN, IMAGENET_STD
from scob.errors import UserError, first_line
from scob.files import write_atomically
from scob.model.backbone import Backbone
from scob.model.resnet_weights import resnet_from_file

EMBEDDED = "drawings"
PREPROCESSING = "preprocessor_config.json"


def load_backbone(name: str, freeze: str = "all") -> Backbone:
    """A backbone by the embedded name, a local folder, a torchvision-format file, or a hub name."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # Scob shows its own
    path = Path(name).expanduser()
    if name == EMBEDDED:
        path = Path(__file__).parent / EMBEDDED
    if path.is_dir():
        return Backbone(_from_folder(path), name, freeze)
    if path.is_file():
        return Backbone(resnet_from_file(path), name, freeze)
    if path.suffix in (".pth", ".pt", ".tar", ".safetensors") or name.startswith((".", "/", "~")):
        raise UserError(f"there is no backbone at {name}: give a folder with config.json or a ResNet weights file")
    return Backbone(_from_hub(name), name, freeze)


def save_backbone(backbone: Backbone, folder: Path, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    """Write a backbone as a `transformers` folder, with the mean and deviation its inputs are normalised by."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        backbone.body.save_pretrained(folder)  # type: ignore[operator]
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror or error}") from error
    write_atomically(folder / PREPROCESSING, json.dumps({"image_mean": list(mean), "image_std": list(std)}))


def preprocessing(name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of the inputs that a backbone folder asks for; ImageNet's if it does not specify any."""
    file = Path(name).expanduser() / PREPROCESSING
    if not file.is_file():
        return IMAGENET_MEAN, IMAGENET_STD
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        return tuple(stored["image_mean"]), tuple(stored["image_std"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} does not give image_mean and image_std: {error}") from error


# A model folder's backbone.


def backbone_from_config(config: Mapping[str, Any], name: str, freeze: str = "all") -> Backbone:
    """An untrained backbone with a stored configuration (a model folder has the weights)."""
    from transformers import AutoConfig

    if "model_type" not in config:
        raise UserError("the stored backbone configuration has no model_type: the model folder is damaged")
    try:
        parsed = AutoConfig.for_model(**config)
        return Backbone(_backbone_class(parsed)(parsed), name, freeze)
    except UserError:
        raise
    except Exception as error:  # transformers raises many kinds of exceptions for wrong values
        raise UserError(f"the stored backbone configuration cannot be used: {first_line(error)}") from error


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


# transformers.


def tap_two_stages(config: Any) -> Any:
    """Ask for two maps: the two that a stored configuration names, else the last two stages, or two depths of a ViT."""
    taps = list(getattr(config, "out_features", None) or [])
    names = list(config.stage_names)
    if len(taps) != 2:
        last = len(names) - 1
        taps = [names[last - 1], names[last]] if last <= 5 else [names[round(0.75 * last)], names[last]]
    config = copy.deepcopy(config)
    config.out_features = taps
    return config


def _backbone_class(config: Any) -> Any:
    from transformers.models.auto.modeling_auto import MODEL_FOR_BACKBONE_MAPPING

    try:
        return MODEL_FOR_BACKBONE_MAPPING[type(config)]
    except KeyError:
        raise UserError(
            f"transformers has no backbone class for {config.model_type!r} models; use resnet, convnext, swin or dinov2"
        ) from None


def _from_folder(folder: Path) -> nn.Module:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{folder} is not a transformers backbone folder (config.json): {first_line(error)}") from error
    cls = _backbone_class(config)
    try:
        body = cls.from_pretrained(folder, config=tap_two_stages(config), dtype=torch.float32, use_safetensors=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"cannot load the backbone in {folder}: {first_line(error)}") from error
    return body  # type: ignore[no-any-return]


def _from_hub(name: str) -> nn.Module:
    from transformers import AutoConfig

    offline = not _hub_is_reachable()
    try:
        config = AutoConfig.from_pretrained(name, local_files_only=offline)
        cls = _backbone_class(config)
        body = cls.from_pretrained(
            name, config=tap_two_stages(config), dtype=torch.float32, use_safetensors=True, local_files_only=offline
        )
    except UserError:
        raise
    except Exception as error:  # the hub client raises many kinds; each means that the backbone cannot be fetched
        raise UserError(
            f"the backbone {name!r} could not be fetched ({first_line(error)}); offline, put its "
            "config.json and model.safetensors into a folder and give that folder with --backbone FOLDER "
            "(or give a torchvision ResNet-50 .pth file)"
        ) from error
    return body  # type: ignore[no-any-return]


def _hub_is_reachable() -> bool:
    """Whether the hub can be reached. Its own client would retry for half a minute and print each attempt."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=10)
    except Exception:  # no name, no route, no certificate: each client library has its own exceptions
        return False
    return True
