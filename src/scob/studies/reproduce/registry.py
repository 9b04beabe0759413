"""`scob reproduce NAME`: every table and figure by name, what it runs and what it costs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scob import methods
from scob.config import merge, parse_overrides, read_yaml, resolve
from scob.data.readers import is_scenes, splits_of
from scob.errors import UserError, nearest
from scob.model.load_backbone import EMBEDDED
from scob.parallel import Processes, start
from scob.presets import packaged_config
from scob.studies.reproduce import cams, curves, distribution, pictures, small_objects, speed, tables, variants
from scob.studies.reproduce.lab import Lab, Work
from scob.studies.reproduce.variants import Variant
from scob.training.events import Listener, RunsPlanned, silent


@dataclass(frozen=True)
class Reproduction:
    """A table or figure: what it shows, the runs it needs (a data set and a seed), and what else."""

    shows: str
    make: Callable[[Work], list[Path]]
    runs: Callable[[Work], Sequence[Variant]]
    needs: str = "a reported split"
    several: bool = False  # takes more than one data set


def _of(rows: Mapping[Any, Variant]) -> Callable[[Work], Sequence[Variant]]:
    return lambda work: list(rows.values())


def _over(setting: str, values: tuple[float, ...]) -> Callable[[Work], Sequence[Variant]]:
    return lambda work: [variants.ROLE, variants.FULL, *variants.setting_rows(setting, values).values()]


def _main(work: Work) -> Sequence[Variant]:
    return list(variants.main_rows(work.methods or tuple(methods.names()), {}).values())


SEGMENTATION = "segmentation masks"
SCENE_RUN_MINUTES = 1.5  # of an average run on two cores; the nine of table-ablation took 19 on one
REPRODUCTIONS: dict[str, Reproduction] = {
    "table-main": Reproduction(
        "every method, one positive and a tenth of the labels", tables.table_main, _main, several=True
    ),
    "table-metrics": Reproduction(
        "OP to CF1 of ROLE, Scob, full labels", tables.table_metrics, _of(variants.METRICS), several=True
    ),
    "table-ablation": Reproduction("head, guidance, contrast", tables.table_ablation, _of(variants.ABLATION)),
    "fig-gamma": Reproduction(
        "CAM thresholds", curves.fig_gamma, _over("scob.gamma_cam", variants.GAMMAS), several=True
    ),
    "table-contrastive": Reproduction(
        "image-level contrast and other pre-training",
        tables.table_contrastive,
        lambda work: list(variants.contrastive_rows(work.backbone_files).values()),
        "a reported split; DetCo's, SoCo's, UP-DETR's weights by --backbone-file for their rows",
    ),
    "fig-lambda": Reproduction(
        "weights of the contrastive loss", curves.fig_lambda, _over("scob.lambda_c", variants.LAMBDAS), several=True
    ),
    "fig-negatives": Reproduction(
        "t = 1, 10, 100, 1000", curves.fig_negatives, _over("scob.negatives", variants.NEGATIVES), several=True
    ),
    "table-masks": Reproduction(
        "ground-truth masks and CAMs as guidance",
        tables.table_masks,
        _of(variants.MASKS),
        f"a reported split; {SEGMENTATION} for its second row",
        several=True,
    ),
    "table-cams": Reproduction("CAMs against segmentation", cams.table_cams, _of(variants.CAMS), SEGMENTATION),
    "table-optimisation": Reproduction("EM, joint, two-stage", tables.table_optimisation, _of(variants.OPTIMISATION)),
    "table-speed": Reproduction(
        "time per image", speed.table_speed, lambda work: list(speed.rows().values()), "nothing"
    ),
    "table-small-objects": Reproduction(
        "AP of ten small classes",
        small_objects.table_small_objects,
        _of(variants.ENDS),
        f"a reported split; {SEGMENTATION} where the data is not COCO",
    ),
    "fig-masks": Reproduction(
        "image, Scob, Scob without contrast",
        pictures.fig_masks,
        lambda work: [variants.SCOB, variants.WITHOUT_CONTRAST],
        "nothing",
    ),
    "fig-class-masks": Reproduction(
        "masks by class, small and co-occurring objects",
        pictures.fig_class_masks,
        lambda work: [variants.SCOB],
        "nothing",
    ),
    "fig-distribution": Reproduction(
        "predictions for unknown negatives over the epochs",
        distribution.fig_distribution,
        _of(variants.ENDS),
        "full labels of the training split",
    ),
}


def find(name: str) -> Reproduction:
    """The reproduction of that name."""
    if name not in REPRODUCTIONS:
        raise UserError(
            f"there is no table or figure {name!r}.{nearest(name, REPRODUCTIONS)} Known: {', '.join(REPRODUCTIONS)}"
        )
    return REPRODUCTIONS[name]


def costs(name: str, work: Work | None = None) -> int:
    """How many runs a reproduction needs for one data set and one seed."""
    return len(find(name).runs(work or Work((), Path())))


def settings_for(
    source: str,
    config: Path | None = None,
    overrides: Sequence[str] = (),
    backbone: str | None = None,
    epochs: int | None = None,
    paper_parity: bool = False,
) -> dict[str, Any]:
    """The settings all runs of a reproduction share: for scenes the demo's; then what was asked."""
    tree: dict[str, Any] = {}
    if config is not None:
        tree = read_yaml(config)
        resolve(tree, str(config), methods.section_names())
    elif is_scenes(source):
        # Tables choose the epoch on held-out training images, whatever the demo does.
        tree = merge(packaged_config("demo"), {"train": {"select": "holdout"}})
    asked: dict[str, Any] = {"data": {"source": source}}
    if source == "scenes" and is_scenes(str(tree.get("data", {}).get("source", ""))):
        asked = {}  # plain 'scenes' means as many and as large as the settings say
    if backbone:
        asked["model"] = {"backbone": backbone}
    train: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    if paper_parity:
        train |= {"select": "best-on-test", "holdout": 0.0}  # nothing need be set aside to choose by
    tree = merge(merge(tree, merge(asked, {"train": train})), parse_overrides(overrides))
    found = resolve(tree, "on the command line", methods.section_names())
    if not is_scenes(found.data.source) and found.model.backbone == EMBEDDED:
        splits_of(found.data.source, found.data.format)  # a wrong path is the first thing to hear of
        raise UserError("the embedded backbone knows drawings only: for these images name another with --backbone")
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
    """Run what a table or figure needs and write it into `out`; returns the files.

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
    if len(data) > 1 and not asked.several:
        raise UserError(f"{name} is of one data set: give --data once")
    for method in only_methods:
        methods.find(method)
    trees = [settings_for(source, config, overrides, backbone, epochs, paper_parity) for source in data]
    device = resolve(trees[0], "the settings", methods.section_names()).train.device
    processes = processes or start(device)
    labs = tuple(Lab(tree, Path(out), seeds, processes, listen) for tree in trees)
    if len({lab.id for lab in labs}) < len(labs):
        raise UserError(f"--data names the same data set twice: {', '.join(data)}")
    chosen = tuple(only_methods)
    if chosen:
        chosen = tuple(dict.fromkeys((*chosen, "role", "scob")))
    work = Work(labs, Path(out), files, chosen)
    listen(RunsPlanned(len(asked.runs(work)) * seeds * len(labs)))
    with ExitStack() as stack:
        for lab in labs:
            stack.callback(lab.close)
        written = asked.make(work)
    processes.wait()
    return written
