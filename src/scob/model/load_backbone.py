"""Load a backbone by name (embedded, `transformers` folder, torchvision file, hub name, that of another package), or
save one to a folder.

A model folder stores only the configuration of its backbone, beside the weights of the whole network.
"""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from scob.errors import UserError, first_line
from scob.files import write_atomically
from scob.model.backbone import Backbone
from scob.model.embedded import EMBEDDED, backbone_path
from scob.model.hub import hub_is_reachable
from scob.model.preprocessing import PREPROCESSING
from scob.model.resnet_weights import resnet_from_file
from scob.plugins import load_plugin, plugins

DEEPEST = 1000


def load_backbone(name: str, freeze: str = "all") -> Backbone:
    """A backbone by an embedded name, a local folder, a torchvision-format file, or a hub name."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # Scob shows its own
    path = backbone_path(name)
    if path.is_dir():
        return _from_folder(path, name, freeze)
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


# A model folder's backbone.


def backbone_from_config(config: Mapping[str, Any], name: str, freeze: str = "all") -> Backbone:
    """An untrained backbone with a stored configuration (a model folder has the weights)."""
    with torch.device("cpu"):  # the caller's may be meta, where the import of a library can fail
        from scob.model.vision_towers import KINDS, tower_from_config

    if "model_type" not in config:
        raise UserError("the stored backbone configuration has no model_type: the model folder is damaged")
    try:
        if config["model_type"] in KINDS:
            return Backbone(tower_from_config(config), name, freeze)
        with torch.device("cpu"):
            parsed = _auto_config(config["model_type"]).for_model(**config)
            body = _backbone_class(parsed)
        return Backbone(body(parsed), name, freeze)
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


def _auto_config(kind: str = "") -> Any:
    """`AutoConfig`, which knows our own kind too; for a kind that it does not know, also those of other packages."""
    from transformers import CONFIG_MAPPING, AutoConfig

    import scob.model.efficientnet_lite  # noqa: F401 (it registers itself)

    if kind and kind not in CONFIG_MAPPING:
        for entry in plugins("backbones").values():
            load_plugin(entry)  # its module registers its kind
    return AutoConfig


def _backbone_class(config: Any) -> Any:
    from transformers.models.auto.modeling_auto import MODEL_FOR_BACKBONE_MAPPING

    try:
        return MODEL_FOR_BACKBONE_MAPPING[type(config)]
    except KeyError:
        raise UserError(
            f"transformers has no backbone class for {config.model_type!r} models; use resnet, convnext, swin, dinov2, "
            "dinov3, clip, siglip or vit (docs/backbones.md)"
        ) from None


def refuse_custom_code(name: str, error: Exception) -> None:
    """If transformers refused to run Python code that came with a backbone, say so in our own words."""
    if "custom code" in str(error):
        raise UserError(
            f"the backbone {name} comes with its own Python code, which Scob never runs: use a backbone that "
            "transformers knows by itself, such as resnet, convnext, swin or dinov2"
        ) from error


def check_depth(config: Mapping[str, Any]) -> None:
    """Raise a ValueError if a configuration asks for more layers than any network has: building them would not end."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            check_depth(value)
        elif "layers" in str(key) or "depth" in str(key):
            numbers = value if isinstance(value, list | tuple) else [value]
            if any(isinstance(number, int | float) and number > DEEPEST for number in numbers):
                raise ValueError(f"{key} is {value}, but no network has more than {DEEPEST} layers")


def _load(name: str | Path, **how: Any) -> nn.Module:
    """The body of a stored model, in float32. Only safetensors are read, and no code that came with them is run."""
    from scob.model.vision_towers import KINDS, load_tower

    config = _auto_config().from_pretrained(name, trust_remote_code=False, **how)
    check_depth(config.to_dict())
    how |= {"dtype": torch.float32, "use_safetensors": True, "trust_remote_code": False}
    if config.model_type in KINDS:
        return load_tower(name, config.model_type, **how)
    how |= {"config": tap_two_stages(config), "output_loading_info": True}
    body: nn.Module
    body, loaded = _backbone_class(config).from_pretrained(name, **how)
    shapes = {key: value.shape for key, value in body.state_dict().items()}
    # transformers draws what is missing at random; norms that only a backbone has begin as ones and zeros.
    if missing := sorted(key for key in loaded["missing_keys"] if len(shapes.get(key, ())) > 1):
        raise ValueError(f"{len(missing)} of its weights are missing, the first: {missing[0]}")
    return body


def _from_folder(folder: Path, name: str, freeze: str) -> Backbone:
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} is not a transformers backbone folder: it has no config.json")
    try:
        return Backbone(_load(folder, local_files_only=True), name, freeze)
    except UserError:
        raise
    except Exception as error:  # transformers raises many kinds of exceptions for wrong values
        refuse_custom_code(str(folder), error)
        raise UserError(f"cannot load the backbone in {folder}: {first_line(error)}") from error


def _from_hub(name: str) -> nn.Module:
    try:
        return _load(name, local_files_only=not hub_is_reachable())
    except UserError:
        raise
    except Exception as error:  # the hub client raises many kinds; each means that the backbone cannot be fetched
        refuse_custom_code(name, error)
        embedded = " or ".join(EMBEDDED)
        raise UserError(
            f"the backbone {name!r} could not be fetched ({first_line(error)}); offline, put its "
            "config.json and model.safetensors into a folder and give that folder with --backbone FOLDER "
            f"(or give a torchvision ResNet-50 .pth file, or take one that comes with Scob: {embedded})"
        ) from error
