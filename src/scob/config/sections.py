"""Every setting, typed, with one line of help, the paper's value and that of the authors' released code beside ours.

The default preset is what trains best here; `preset: paper` restores every value the paper gives, `preset: released`
those of the authors' code, both except the backbone (docs/settings.md explains the differences). Another method's
settings (`ll-r: {...}`) are in a section of its name.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from scob.config.setting import Section, setting
from scob.errors import UserError

RELEASED_K = {"coco": 3.9}  # by data.format: the authors' code has a k of its own for COCO


class DataSettings(Section):
    """Where the images are and how they are read."""

    source: str = setting("scenes", "a folder, a label table, or 'scenes' for the embedded drawings", None)
    format: str = setting("auto", "reader: auto, or one by name (scob data describe --help lists them)", None)
    train: str = setting(
        "train", "the split to train on; 'train' also means 'train2014' if that is the only one", "train"
    )
    evaluate: str = setting(
        "val",
        "the split to report results on ('val' also means 'val2014'), a label table, held-out (a fifth of the training "
        "images, measured by their observed labels), or none",
        "val",
    )
    size: int = setting(448, "side of the square input in pixels", 448, ge=16, le=4096)
    difficult: Literal["positive", "negative", "ignore"] = setting(
        "negative", "how to count a VOC object that is marked difficult", "negative"
    )
    cache: str = setting("", "folder for the packed image cache; empty: no cache", None, changes_result=False)
    workers: int = setting(2, "number of processes that decode images", None, changes_result=False, ge=0, le=256)
    separator: str = setting(
        "auto", "what separates labels in a table's cell: | ; , space, none (a cell is one label), or auto",
        None, before="none",
    )  # fmt: skip
    skip_bad: bool = setting(False, "skip images that cannot be read instead of stopping", None)
    limit: int = setting(
        0, "train on N images only, drawn by labels.seed as the labels are: the same for every method; 0: all",
        0, ge=0,
    )  # fmt: skip


class LabelSettings(Section):
    """Which labels the method may see."""

    kind: Literal["given", "single", "partial", "full"] = setting(
        "single",
        "given: as in the file; single: one positive per image; partial: a share of all labels; full: all",
        "single",
    )
    fraction: float = setting(0.1, "share of the labels to keep with labels.kind=partial", 0.1, gt=0, le=1)
    seed: int = setting(0, "seed of the label draw", None)
    bias: Literal["uniform", "size", "location", "common"] = setting(
        "uniform",
        "which positive labels.kind=single prefers: none; large or central objects (by their boxes); common classes",
        "uniform",
    )
    file: str = setting("", "a saved label file to use instead of a new draw", None)
    prior: str = setting(
        "", "for vlpl and aevlp: a CSV, Parquet or safetensors table of another model's scores, images x classes", None
    )
    k: float = setting(
        0.0,
        "expected positives per image (Eq. 11); 0: the data set's value (1.5 for VOC, 3.0 for COCO, 31.4 for CUB)",
        None,
        ge=0,
    )


class ModelSettings(Section):
    """The network."""

    backbone: str = setting(
        "drawings",
        "hub name, folder, torchvision .pth file, or embedded: 'photographs' or 'drawings'",
        "ResNet-50",
    )
    freeze: Literal["all", "stages", "none"] = setting(
        "all", "which parts of the backbone are frozen; stages: all but the last stage", "all"
    )
    calibrate_bn: bool = setting(
        True,
        "re-estimate BatchNorm statistics on the unlabelled training images (not those of 'photographs')",
        False,
        released=True,
    )
    head: Literal["smt", "cnn", "large-cnn", "linear"] = setting(
        "smt", "the head that reads the backbone's two stages", "smt"
    )
    linear: bool = setting(
        False, "add a linear classifier of the last stage's channels, which is computed when training has ended "
        "(for method=pairs, pairs.linear decides)", None,
    )  # fmt: skip
    width: int = setting(512, "channels inside the SMT", 512, ge=8)
    layers: int = setting(2, "encoder layers in each SMT", 2, ge=1)
    heads: int = setting(8, "attention heads in each layer", 8, ge=1)
    feedforward: int = setting(2048, "hidden units of the feed-forward sub-layer", 2048, ge=8)
    dropout: float = setting(0.1, "dropout inside the SMT", 0.1, ge=0, lt=1)
    position: Literal["input", "qk"] = setting(
        "input", "input: add positions once, at the input; qk: add them to the queries and keys of every layer", "qk",
        released="input",
    )  # fmt: skip
    norm: Literal["post", "pre"] = setting(
        "post", "layer norm after (as in the paper) or before each sub-layer", "post"
    )
    projection: int = setting(512, "dimension of the contrastive features", 512, ge=4)
    projector: Literal["map", "query-mlp"] = setting(
        "map", "map: a linear layer on queries and keys; query-mlp: an MLP on queries only", "map", released="query-mlp"
    )


class ScobSettings(Section):
    """Semantic contrastive bootstrapping (Algorithm 1) and its ablations."""

    guidance: Literal["cam", "none", "gt-mask"] = setting(
        "cam", "where the masks of the contrastive pass come from", "cam"
    )
    contrast: Literal["ipt", "random", "none", "byol", "moco", "simclr"] = setting(
        "ipt", "what each query is contrasted with", "ipt"
    )
    optimisation: Literal["em", "joint", "two-stage"] = setting(
        "em", "order in which masks and weights are updated", "em"
    )
    second_step: Literal["separate", "shared"] = setting(
        "separate", "how Adam steps on the contrastive loss; separate: a step of its own, which applies the momentum "
        "of L_class once more; shared: with the step on L_class, one step along both gradients", None,
    )  # fmt: skip
    positive: Literal["class", "self"] = setting(
        "class", "the positive key; class: another image with the same label; self: the same image", "class",
        released="self",
    )  # fmt: skip
    cam: Literal["grad", "grad++", "layer", "sharp"] = setting(
        "grad", "grad: the channel weights of Eq. 2; grad++: those of Grad-CAM++; layer: positive gradients, cell by "
        "cell; sharp: the geometric mean of grad and layer", "grad", released="grad++",
    )  # fmt: skip
    cam_source: Literal["each", "stage4", "spread"] = setting(
        "spread", "each: every stage has its own map; stage4: both use that of stage 4; spread: both use that of stage "
        "4, spread over cells with similar features", "each", released="stage4",
    )  # fmt: skip
    cam_steps: int = setting(4, "steps of scob.cam_source=spread", None, ge=0, le=100)
    cam_dropout: bool = setting(
        False, "take masks and tree scores from the training pass, with its dropout", None, released=False, before=True
    )
    cam_window: tuple[int, int] = setting(
        (3, 1), "averaging window l of Eq. 3 at stage 3 and stage 4, odd", None, released=(1, 1)
    )
    gamma_cam: float = setting(0.5, "threshold of Eq. 3", 0.5, ge=0, le=1)
    lambda_c: float = setting(0.1, "weight of the contrastive loss (Eq. 8)", 0.1, ge=0)
    tau: float = setting(0.2, "temperature of Eq. 8", 1.0, gt=0)
    cont_scale: Literal["root", "paper", "none"] = setting(
        "root", "what Eq. 8 is divided by; root: the square root of the number of classes; paper: 1 + the number of "
        "negatives; none: nothing", "paper", released="none",
    )  # fmt: skip
    negatives: int = setting(1, "t: how many of the most confident nodes to take from every other class", 1, ge=1)
    capacity: int = setting(80, "nodes in the tree of each class (at least t)", 80, released=2, ge=1)
    tree_lifetime: Literal["run", "epoch"] = setting(
        "run", "run: the tree lasts for the whole run; epoch: every epoch begins with an empty one", "run",
        released="epoch",
    )  # fmt: skip
    contrasted: float = setting(
        1.0, "share of each batch's images that are masked, inserted into the tree and contrasted (each epoch draws "
        "them anew); 0.5 is faster and about as accurate", 1.0, gt=0, le=1,
    )  # fmt: skip
    momentum: float = setting(0.999, "alpha of Eq. 13", 0.999, ge=0, lt=1)
    init_epochs: int = setting(
        1, "epochs of L_class alone before bootstrapping starts (Theta^0)", None, released=0, ge=0
    )
    mask_classification: bool = setting(False, "also classify the masked features", False)

    @field_validator("cam_window")
    @classmethod
    def has_a_middle_cell(cls, windows: tuple[int, int], info: ValidationInfo) -> tuple[int, int]:
        """Refuse an even window, which would move every mask by half a cell; runs stored with one stay readable."""
        stored = bool((info.context or {}).get("stored"))
        if not stored and any(window < 1 or window % 2 == 0 for window in windows):
            raise PydanticCustomError("even_window", "both windows must be odd (1, 3, 5, ...), to have a middle cell")
        return windows


class TrainSettings(Section):
    """The training loop, the same for every method."""

    epochs: int = setting(12, "passes over the training images", 30, released=20, ge=1)
    batch: int = setting(16, "images per step, over all processes together", 8, ge=1)
    lr_smt: float = setting(
        1e-4, "learning rate of the SMT (4e-4 is unstable without a warm-up)", 4e-4, released=4e-5, gt=0
    )
    lr_mapping: float = setting(1e-3, "learning rate of the mapping layers", 0.01, gt=0)
    lr_cnn: float = setting(1e-3, "learning rate of a convolutional head and its classifier", 0.001, gt=0)
    lr_other: float = setting(1e-3, "learning rate of the classifier and other new layers", 0.001, gt=0)
    lr_backbone: float = setting(1e-5, "learning rate of backbone stages that are not frozen", None, gt=0)
    estimator: Literal["rows", "dense"] = setting(
        "rows", "Adam of the label estimates; rows: moves the rows of the batch; dense: moves all rows in every step",
        "dense",
    )  # fmt: skip
    lr_estimator: float = setting(
        1.0, "learning rate of the label estimates; a row-wise Adam needs a higher one than a dense Adam", 0.01, gt=0
    )
    warmup: float = setting(0.05, "share of all steps in which the learning rates rise from 0", 0.0, ge=0, le=1)
    schedule: Literal["cosine", "constant", "step"] = setting(
        "cosine", "what the learning rates do after the warm-up; step: a tenth in the last fifth of the steps",
        "constant", released="step",
    )  # fmt: skip
    weight_decay: float = setting(0.0, "decoupled weight decay of the new layers", 0.0, ge=0)
    seed: int = setting(0, "seed of the initial weights and of every random draw in training", None)
    device: str = setting("auto", "auto|cpu|cuda|cuda:1|mps", None, changes_result=False)
    precision: Literal["auto", "fp32", "bf16", "fp64"] = setting(
        "auto", "auto: bf16 on a GPU that supports it, else fp32; fp64: slow, for checking arithmetic", None
    )
    deterministic: bool = setting(False, "bit-identical runs on a GPU, but slower", None)
    compile: Literal["auto", True, False] = setting(
        "auto", "run each step as one CUDA graph; auto: where the method, the device and its memory allow it", None,
        before=False,
    )  # fmt: skip
    feature_cache: Literal["auto", "none", "device", "host", "disk"] = setting(
        "auto",
        "where to cache a frozen backbone's features of the clean views (computed once; results unchanged); auto: on "
        "the device, else in main memory, else nowhere, by what is free",
        None,
        before="none",
    )
    rows: Literal["device", "host", "disk"] = setting(
        "device", "where to keep the estimates and masks of all images; disk: a mapped file in the run folder", None,
        changes_result=False,
    )  # fmt: skip
    ema: float = setting(0.99, "decay of the averaged weights used for evaluation; 0: no averaging", 0.0, ge=0, lt=1)
    flip_test: bool = setting(False, "average predictions over the image and its mirror image", False)
    holdout: float = setting(0.1, "share of the training images held out to choose the epoch", 0.0, ge=0, lt=1)
    holdout_labels: Literal["observed", "full"] = setting(
        "observed", "which labels of the held-out images choose the epoch", "full"
    )
    select: Literal["last", "holdout", "best-on-test"] = setting(
        "holdout", "which epoch becomes the model", "best-on-test"
    )
    evaluate_every: int = setting(1, "epochs between evaluations; 0: only at the end", 1, ge=0)
    log_every: int = setting(20, "steps between log lines", None, changes_result=False, ge=1)
    tracker: Literal["tensorboard", "wandb", "mlflow", "none"] = setting(
        "tensorboard", "tensorboard|wandb|mlflow|none: where losses and measurements go, as well as to the run folder",
        None, changes_result=False,
    )  # fmt: skip
    check_processes: bool = setting(
        False, "at each log line, compare hashes of weights, estimates and tree across all processes", None,
        changes_result=False,
    )  # fmt: skip
    checkpoint_minutes: float = setting(
        5.0, "minutes between checkpoints; 0: none by time", None, changes_result=False, ge=0
    )
    checkpoint_steps: int = setting(
        0, "steps between checkpoints; 0: none by number of steps", None, changes_result=False, ge=0
    )


class Config(BaseModel):
    """All settings of a run. Any other top-level section belongs to the method of that name."""

    model_config = ConfigDict(extra="allow", validate_default=True)

    preset: Literal["default", "paper", "released"] = setting(
        "default", "paper: every value the paper gives; released: those of the authors' code; except the backbone",
        "paper", released="released",
    )  # fmt: skip
    method: str = setting("scob", "scob or a competing method; see `scob compare --list`", "scob")
    data: DataSettings = Field(default_factory=DataSettings, description="where the images are")
    labels: LabelSettings = Field(default_factory=LabelSettings, description="which labels the method may see")
    model: ModelSettings = Field(default_factory=ModelSettings, description="the network")
    scob: ScobSettings = Field(default_factory=ScobSettings, description="the method")
    train: TrainSettings = Field(default_factory=TrainSettings, description="the training loop")

    def method_section(self, name: str) -> dict[str, Any]:
        """A method's own section as the user wrote it; {} if there is none."""
        section = (self.model_extra or {}).get(name) or {}
        if not isinstance(section, dict):
            raise UserError(f"{name} is a section of settings, not {section!r}: give its settings as {name}.KEY=VALUE")
        return dict(section)


SECTIONS: dict[str, type[Section]] = {
    "data": DataSettings,
    "labels": LabelSettings,
    "model": ModelSettings,
    "scob": ScobSettings,
    "train": TrainSettings,
}
