"""Every setting, typed, with one line of help and the paper's value beside ours.

Settings come from YAML and from `key=value` words on the command line. The default preset is what trains best here;
`preset: paper` puts every value back to what the paper prints (docs/settings.md says why they differ).
Settings that belong to one method (`scob: {...}`, `ll-r: {...}`) are a section of that method's name.
"""

import contextlib
import reprlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from scob.errors import UserError, nearest

_SAME = object()
_BRIEF = reprlib.Repr()  # a message quotes what was wrong, not pages of it
_BRIEF.maxstring = _BRIEF.maxother = 200


def setting(default: Any, help: str, paper: Any = _SAME, **limits: Any) -> Any:
    """A field with its help and the paper's value (`paper=None`: the paper gives none)."""
    printed = default if paper is _SAME else paper
    return Field(default, description=help, json_schema_extra={"paper": printed}, **limits)


class Section(BaseModel):
    """A group of settings. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", validate_default=True, allow_inf_nan=False)


class DataSettings(Section):
    """Where the images are and how they are read."""

    source: str = setting("scenes", "a folder, a label table, or 'scenes' for the embedded drawings", None)
    format: str = setting("auto", "reader: auto|voc|coco|cub|table|folder|scenes", None)
    train: str = setting("train", "the split to learn from", "train")
    evaluate: str = setting("val", "the split that is reported", "val")
    size: int = setting(448, "side of the square input in pixels", 448, ge=16, le=4096)
    difficult: Literal["positive", "negative", "ignore"] = setting(
        "negative", "what a VOC object marked difficult counts as", "negative"
    )
    cache: str = setting("", "folder of the packed image cache; empty for none", None)
    workers: int = setting(2, "processes that decode images", None, ge=0, le=256)
    skip_bad: bool = setting(False, "train on the rest when some images are broken", None)
    limit: int = setting(0, "use only the first so many training images; 0 for all", 0, ge=0)


class LabelSettings(Section):
    """What of the labels the method may see."""

    kind: Literal["given", "single", "partial", "full"] = setting(
        "single", "given: as in the file; single: one positive an image; partial: a share of all labels; full"
    )
    fraction: float = setting(0.1, "the share of labels kept with kind: partial", 0.1, gt=0, le=1)
    seed: int = setting(0, "seed of the draw", None)
    file: str = setting("", "a saved label file to use instead of a new draw", None)
    k: float = setting(
        0.0,
        "expected positives an image (Eq. 11); 0: the data set's value (1.5 VOC, 3.0 COCO, 31.4 CUB)",
        None,
        ge=0,
    )


class ModelSettings(Section):
    """The network."""

    backbone: str = setting(
        "drawings", "hub name, local folder, torchvision .pth file, or 'drawings' (embedded)", "ResNet-50"
    )
    freeze: Literal["all", "stages", "none"] = setting(
        "all", "what of the backbone stays as it is; stages: all but the last stage", "all"
    )
    calibrate_bn: bool = setting(True, "re-estimate BatchNorm statistics on the unlabelled training images", False)
    head: Literal["smt", "cnn", "large-cnn", "linear"] = setting("smt", "what reads the backbone's two stages")
    width: int = setting(512, "channels inside the SMT", 512, ge=8)
    layers: int = setting(2, "encoder layers in each SMT", 2, ge=1)
    heads: int = setting(8, "attention heads", 8, ge=1)
    feedforward: int = setting(2048, "hidden units of the feed-forward part", 2048, ge=8)
    dropout: float = setting(0.1, "dropout inside the SMT", 0.1, ge=0, lt=1)
    position: Literal["input", "qk"] = setting(
        "input", "positions added once at the input, or to queries and keys of every layer", "qk"
    )
    norm: Literal["post", "pre"] = setting("post", "layer norm after (as in the paper) or before each part")
    projection: int = setting(512, "dimension of contrastive features", 512, ge=4)
    projector: Literal["map", "query-mlp"] = setting(
        "map", "map: Linear on queries and keys; query-mlp: an MLP on the query only"
    )


class ScobSettings(Section):
    """Semantic contrastive bootstrapping (Algorithm 1) and its ablations."""

    guidance: Literal["cam", "none", "gt-mask"] = setting("cam", "where the masks of the contrastive pass come from")
    contrast: Literal["ipt", "random", "none", "byol", "moco", "simclr"] = setting(
        "ipt", "what the query is set against"
    )
    optimisation: Literal["em", "joint", "two-stage"] = setting("em", "how masks and weights take turns")
    positive: Literal["class", "self"] = setting("class", "key: another image of the same label, or the same image")
    cam: Literal["grad", "grad++"] = setting("grad", "channel weights of Eq. 2, or those of Grad-CAM++")
    cam_source: Literal["each", "stage4"] = setting("each", "each stage has its own map, or stage 4's for both")
    cam_window: tuple[int, int] = setting((3, 1), "averaging window l of Eq. 3 at stage 3 and stage 4", None)
    gamma_cam: float = setting(0.5, "threshold of Eq. 3", 0.5, ge=0, le=1)
    lambda_c: float = setting(0.1, "weight of the contrastive loss (Eq. 8)", 0.1, ge=0)
    tau: float = setting(0.2, "temperature of Eq. 8", 1.0, gt=0)
    cont_scale: Literal["paper", "none"] = setting(
        "none", "paper: Eq. 8 divided by 1 + the number of negatives", "paper"
    )
    negatives: int = setting(1, "t, the most confident nodes taken of every other class", 1, ge=1)
    capacity: int = setting(80, "nodes a class's tree holds (at least t)", 80, ge=1)
    momentum: float = setting(0.999, "alpha of Eq. 13", 0.999, ge=0, lt=1)
    init_epochs: int = setting(1, "epochs of L_class alone before the bootstrapping (Theta^0)", None, ge=0)
    mask_classification: bool = setting(False, "classify the masked feature as well")


class TrainSettings(Section):
    """The loop around every method."""

    epochs: int = setting(12, "passes over the training images", 30, ge=1)
    batch: int = setting(16, "images a step, over all processes together", 8, ge=1)
    lr_smt: float = setting(1e-4, "learning rate of the SMT (4e-4 is unstable without a warm-up)", 4e-4, gt=0)
    lr_mapping: float = setting(1e-3, "learning rate of the mapping layers", 0.01, gt=0)
    lr_cnn: float = setting(1e-3, "learning rate of a convolutional head and its classifier", 0.001, gt=0)
    lr_other: float = setting(1e-3, "learning rate of the classifier and other new layers", 0.001, gt=0)
    lr_backbone: float = setting(1e-5, "learning rate of backbone stages that are not frozen", None, gt=0)
    lr_estimator: float = setting(
        1.0, "learning rate of the label estimator's row-wise Adam (docs/settings.md compares it with a dense one)",
        0.01, gt=0,
    )  # fmt: skip
    warmup: float = setting(0.05, "share of all steps in which the rates rise from 0", 0.0, ge=0, le=1)
    schedule: Literal["cosine", "constant"] = setting("cosine", "what the rates do after the warm-up", "constant")
    weight_decay: float = setting(0.0, "decoupled weight decay of new layers", 0.0, ge=0)
    seed: int = setting(0, "seed of initial weights and of every draw in training", None)
    device: str = setting("auto", "auto|cpu|cuda|cuda:1|mps", None)
    precision: Literal["auto", "fp32", "bf16", "fp64"] = setting(
        "auto", "auto: bf16 where the device is fast at it; fp64: for checking arithmetic, not for speed", None
    )
    deterministic: bool = setting(False, "bit-identical runs on a GPU, at a price", None)
    compile: bool = setting(False, "run each step as one CUDA graph (images are kept on the GPU)", None)
    feature_cache: Literal["none", "device", "host", "disk"] = setting(
        "none", "keep clean-view features of a frozen backbone: computed once, exact", None
    )
    rows: Literal["device", "host", "disk"] = setting(
        "device", "where estimates and masks of all images are kept; disk: a mapped file in the run folder", None
    )
    ema: float = setting(0.99, "decay of the averaged weights used for evaluation; 0 for none", 0.0, ge=0, lt=1)
    flip_test: bool = setting(False, "average predictions over the image and its mirror", False)
    holdout: float = setting(0.1, "share of the training images set aside to choose the epoch", None, ge=0, lt=1)
    holdout_labels: Literal["observed", "full"] = setting(
        "observed", "labels of the held-out images used for choosing", "full"
    )
    select: Literal["last", "holdout", "best-on-test"] = setting(
        "holdout", "which epoch becomes the model", "best-on-test"
    )
    evaluate_every: int = setting(1, "epochs between evaluations; 0 only at the end", 1, ge=0)
    log_every: int = setting(20, "steps between log lines", None, ge=1)
    check_processes: bool = setting(
        False, "at each log line, compare weights, estimates and tree over all processes by hash", None
    )
    checkpoint_minutes: float = setting(5.0, "minutes between checkpoints; 0 for none by time", None, ge=0)
    checkpoint_steps: int = setting(0, "steps between checkpoints; 0 for none by steps", None, ge=0)


class Config(BaseModel):
    """All settings of a run. Extra top-level sections belong to the method of that name."""

    model_config = ConfigDict(extra="allow", validate_default=True)

    preset: Literal["default", "paper"] = setting("default", "paper: every value as the paper prints it", "paper")
    method: str = setting("scob", "scob or one of its rivals; `scob compare --list` names them", "scob")
    data: DataSettings = Field(default_factory=DataSettings, description="where the images are")
    labels: LabelSettings = Field(default_factory=LabelSettings, description="what is known of them")
    model: ModelSettings = Field(default_factory=ModelSettings, description="the network")
    scob: ScobSettings = Field(default_factory=ScobSettings, description="the method")
    train: TrainSettings = Field(default_factory=TrainSettings, description="the loop")

    def method_section(self, name: str) -> dict[str, Any]:
        """The section of a rival, as written by the user ({} where there is none)."""
        return dict((self.model_extra or {}).get(name) or {})


SECTIONS: dict[str, type[Section]] = {
    "data": DataSettings,
    "labels": LabelSettings,
    "model": ModelSettings,
    "scob": ScobSettings,
    "train": TrainSettings,
}


def paper_values() -> dict[str, dict[str, Any]]:
    """What `preset: paper` changes: every setting whose paper value differs from the default."""
    values: dict[str, dict[str, Any]] = {}
    for name, section in SECTIONS.items():
        for key, field in section.model_fields.items():
            printed = cast(dict[str, Any], field.json_schema_extra)["paper"]
            if printed is None or key == "backbone" or printed == field.default:
                continue
            values.setdefault(name, {})[key] = printed
    return values


def known_keys() -> list[str]:
    """Every `section.key` there is, and the two top-level ones."""
    return ["preset", "method"] + [f"{s}.{k}" for s, section in SECTIONS.items() for k in section.model_fields]


def parse_overrides(words: Iterable[str]) -> dict[str, Any]:
    """`["train.epochs=3", "method=role"]` -> `{"train": {"epochs": 3}, "method": "role"}`; values are YAML."""
    tree: dict[str, Any] = {}
    for word in words:
        key, equals, raw = word.partition("=")
        if not equals or not key:
            raise UserError(f"{word!r} is not a setting: write key=value, as in train.epochs=3")
        try:
            value = parse_yaml(raw) if raw else ""
        except (yaml.YAMLError, ValueError, RecursionError):
            value = raw
        if isinstance(value, str):  # YAML 1.1 reads 4e-5 as a text
            with contextlib.suppress(ValueError):
                value = float(value)
        node = tree
        *path, last = key.split(".")
        for part in path:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise UserError(f"{key!r}: {part!r} is a value, not a section")
        node[last] = value
    return tree


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid upon `base`, section by section."""
    out = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = merge(out[key], value)
        else:
            out[key] = value
    return out


class _PlainLoader(yaml.SafeLoader):
    """YAML without aliases: a few lines of them can stand for more than memory holds, and settings need none."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.constructor.ConstructorError(None, None, "aliases (*name) are not allowed in settings")
        return super().compose_node(parent, index)


def parse_yaml(text: str) -> Any:
    """One YAML document of plain values."""
    return yaml.load(text, Loader=_PlainLoader)


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file that holds a mapping."""
    try:
        tree = parse_yaml(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"there is no settings file at {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the settings file {path}: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict) or not all(isinstance(k, str) for k in tree):
        raise UserError(f"{path} must hold settings as 'section: {{key: value}}'")
    return cast(dict[str, Any], tree)


def resolve(tree: Mapping[str, Any], where: str = "the settings", methods: Iterable[str] = ()) -> Config:
    """Check a tree of settings and fill in the rest; `methods` are the names whose sections are allowed."""
    allowed = {"preset", "method", *SECTIONS, *methods}
    for key in tree:
        if key not in allowed:
            near = nearest(key, allowed) or nearest(key, known_keys())  # a section misspelt, or left out
            raise UserError(f"{where}: there is no setting {key!r}.{near}")
    if tree.get("preset") == "paper":
        tree = merge(paper_values(), tree)
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise UserError(f"{where}: {explain(error)}") from None


def explain(error: ValidationError, prefix: str = "", keys: Iterable[str] | None = None) -> str:
    """The first thing pydantic objects to, in one sentence with the full key."""
    first = error.errors(include_url=False)[0]
    key = ".".join([*([prefix] if prefix else []), *(str(part) for part in first["loc"])])
    if first["type"] == "extra_forbidden":
        return f"there is no setting {key!r}.{nearest(key, known_keys() if keys is None else keys)}"
    message = first["msg"][0].lower() + first["msg"][1:]
    return f"{key} is {_BRIEF.repr(first['input'])}, but {message}"


def load_config(path: Path | None, overrides: Iterable[str] = (), methods: Iterable[str] = ()) -> Config:
    """Settings from a YAML file (or none) and `key=value` words."""
    names = list(methods)
    words = list(overrides)
    tree = read_yaml(path) if path is not None else {}
    if path is not None:
        resolve(tree, str(path), names)
    return resolve(merge(tree, parse_overrides(words)), "on the command line" if words else "the settings", names)


def dump(config: Config) -> str:
    """The resolved settings as YAML."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
