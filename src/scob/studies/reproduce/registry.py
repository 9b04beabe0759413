"""Every table and figure of the paper by name: what it shows, which runs it needs, and how it is produced."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scob import methods
from scob.config import is_packaged, merge, parse_overrides, read_yaml, resolve, with_preset
from scob.data.readers import is_scenes, splits_of
from scob.errors import UserError, nearest
from scob.model.embedded import DRAWINGS
from scob.parallel import Processes, start
from scob.presets import packaged_config
from scob.studies.reproduce import cams, curves, distribution, pictures, small_objects, speed, tables, variants
from scob.studies.reproduce.lab import Lab, ReproductionRequest
from scob.studies.reproduce.variants import Variant
from scob.training.events import Listener, RunsPlanned, silent


@dataclass(frozen=True)
class Reproduction:
    """A table or figure: what it shows, how it is produced, its runs per data set and seed, and what it needs."""

    shows: str
    make: Callable[[ReproductionRequest], list[Path]]
    runs: Callable[[ReproductionRequest], Sequence[Variant]]
    needs: str = "a reported split"
    takes_several: bool = False  # data sets


def _rows(rows: Mapping[Any, Variant]) -> Callable[[ReproductionRequest], Sequence[Variant]]:
    return lambda request: list(rows.values())


def _values(setting: str, values: tuple[float, ...]) -> Callable[[ReproductionRequest], Sequence[Variant]]:
    return lambda request: [variants.ROLE, variants.FULL, *variants.setting_rows(setting, values).values()]


def _main_rows(request: ReproductionRequest) -> Sequence[Variant]:
    return list(variants.main_rows(request.methods or tuple(methods.comparable()), {}).values())


SEGMENTATION = "segmentation masks"
SCENE_RUN_MINUTES = 1.5  # for an average run on two cores; the nine of table-ablation took 19 minutes on one
REPRODUCTIONS: dict[str, Reproduction] = {
    "table-main": Reproduction(
        "every method with one positive per image and with a tenth of the labels",
        tables.table_main,
        _main_rows,
        takes_several=True,
    ),
    "table-metrics": Reproduction(
        "precision, recall and F1 of ROLE, Scob and full labels",
        tables.table_metrics,
        _rows(variants.METRICS),
        takes_several=True,
    ),
    "table-ablation": Reproduction("head, guidance and contrast", tables.table_ablation, _rows(variants.ABLATION)),
    "fig-gamma": Reproduction(
        "mAP by CAM threshold", curves.fig_gamma, _values("scob.gamma_cam", variants.GAMMAS), takes_several=True
    ),
    "table-contrastive": Reproduction(
        "Scob against image-level contrast and other pre-training",
        tables.table_contrastive,
        lambda request: list(variants.contrastive_rows(request.backbone_files).values()),
        "a reported split; --backbone-file for the rows of DetCo, SoCo and UP-DETR",
    ),
    "fig-lambda": Reproduction(
        "mAP by weight of the contrastive loss",
        curves.fig_lambda,
        _values("scob.lambda_c", variants.LAMBDAS),
        takes_several=True,
    ),
    "fig-negatives": Reproduction(
        "mAP by number of negatives: t = 1, 10, 100, 1000",
        curves.fig_negatives,
        _values("scob.negatives", variants.NEGATIVES),
        takes_several=True,
    ),
    "table-masks": Reproduction(
        "guidance by ground-truth masks and by CAMs",
        tables.table_masks,
        _rows(variants.MASKS),
        f"a reported split; {SEGMENTATION} for its second row",
        takes_several=True,
    ),
    "table-cams": Reproduction("CAMs compared with segmentation", cams.table_cams, _rows(variants.CAMS), SEGMENTATION),
    "table-optimisation": Reproduction(
        "EM, joint and two-stage optimisation", tables.table_optimisation, _rows(variants.OPTIMISATION)
    ),
    "table-speed": Reproduction("time per image", speed.table_speed, lambda request: list(speed.rows().values()), "-"),
    "table-small-objects": Reproduction(
        "AP of ten small classes",
        small_objects.table_small_objects,
        _rows(variants.ROLE_SCOB_FULL),
        f"a reported split; {SEGMENTATION} unless the data is COCO",
    ),
    "fig-masks": Reproduction(
        "masks of Scob with and without contrast",
        pictures.fig_masks,
        lambda request: [variants.SCOB, variants.WITHOUT_CONTRAST],
        "-",
    ),
    "fig-class-masks": Reproduction(
        "masks by class, of small and co-occurring objects",
        pictures.fig_class_masks,
        lambda request: [variants.SCOB],
        "-",
    ),
    "fig-distribution": Reproduction(
        "predictions for unknown negatives, epoch by epoch",
        distribution.fig_distribution,
        _rows(variants.ROLE_SCOB_FULL),
        "a fully labelled training split",
    ),
}


def find(name: str) -> Reproduction:
    """The reproduction with that name."""
    if name not in REPRODUCTIONS:
        raise UserError(
            f"there is no table or figure {name!r}.{nearest(name, REPRODUCTIONS)} Known: {', '.join(REPRODUCTIONS)}"
        )
    return REPRODUCTIONS[name]


def costs(name: str, request: ReproductionRequest | None = None) -> int:
    """How many runs a reproduction needs for one data set and one seed."""
    return len(find(name).runs(request or ReproductionRequest((), Path())))


def settings_for(
    source: str,
    config: Path | None = None,
    overrides: Sequence[str] = (),
    backbone: str | None = None,
    epochs: int | None = None,
    paper_parity: bool = False,
) -> dict[str, Any]:
    """The settings that all runs of a reproduction share: the demo's for scenes, then what was asked for."""
    tree: dict[str, Any] = {}
    if config is not None:
        tree = read_yaml(config)
        resolve(tree, str(config), methods.section_names())
    elif is_scenes(source):
        # Tables on scenes choose the epoch on held-out training images, even if the demo does not.
        tree = merge(packaged_config("demo"), {"train": {"select": "holdout"}})
    asked: dict[str, Any] = {"data": {"source": source}}
    if source == "scenes" and is_scenes(str(tree.get("data", {}).get("source", ""))):
        asked = {}  # plain 'scenes' means the number and size in the settings
    if backbone:
        asked["model"] = {"backbone": backbone}
    train: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    if paper_parity:
        train |= {"select": "best-on-test", "holdout": 0.0}  # no images are needed to choose by
    asked = merge(merge(asked, {"train": train}), parse_overrides(overrides))
    tree = with_preset(tree, asked) if config is None or is_packaged(config) else merge(tree, asked)
    resolved = resolve(tree, "on the command line", methods.section_names())
    if not is_scenes(resolved.data.source) and resolved.model.backbone == DRAWINGS:
        splits_of(resolved.data.source, resolved.data.format)  # report a wrong path first
        raise UserError(
            "the backbone drawings was trained on drawings only: choose another with --backbone, e.g. photographs"
        )
    return tree


def reproduce(
    name: str,
    data: Sequence[str] = ("scenes",),
    *,
    out: Path,
    backbone: str | None = None,
    seeds: int = 1,
    epochs: int | None = None,
    config: Path | None = None,
    overrides: Sequence[str] = (),
    paper_parity: bool = False,
    backbone_files: Mapping[str, str] | None = None,
    only_methods: Sequence[str] = (),
    processes: Processes | None = None,
    listen: Listener = silent,
) -> list[Path]:
    """Run what a table or figure needs, write it into `out`, and return the files.

    Finished runs under `out` are reused and interrupted ones continued. `only_methods` shortens table-main.
    """
    asked = find(name)
    files = dict(backbone_files or {})
    for key, path in files.items():
        if key not in variants.PRETRAINED:
            raise UserError(
                f"--backbone-file {key}={path}: there is no row {key!r}.{nearest(key, variants.PRETRAINED)} "
                f"Known: {', '.join(variants.PRETRAINED)}"
            )
        if not Path(path).exists():
            raise UserError(f"--backbone-file {key}={path}: there is no such file")
    if len(data) > 1 and not asked.takes_several:
        raise UserError(f"{name} takes one data set: give --data once")
    for method in only_methods:
        methods.find(method)
    trees = [settings_for(source, config, overrides, backbone, epochs, paper_parity) for source in data]
    device = resolve(trees[0], "the settings", methods.section_names()).train.device
    processes = processes or start(device)
    labs = tuple(Lab(tree, Path(out), seeds, processes, listen) for tree in trees)
    if len({lab.id for lab in labs}) < len(labs):
        raise UserError(f"--data names the same data set twice: {', '.join(data)}")
    main_methods = tuple(dict.fromkeys((*only_methods, "role", "scob"))) if only_methods else ()
    request = ReproductionRequest(labs, Path(out), files, main_methods)
    listen(RunsPlanned(len(asked.runs(request)) * seeds * len(labs)))
    with ExitStack() as stack:
        for lab in labs:
            stack.callback(lab.close)
        written = asked.make(request)
    processes.wait()
    return written
