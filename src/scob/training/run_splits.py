"""Which splits of its source a run learns from and reports on. A split that is asked for is never ignored."""

from dataclasses import dataclass, replace
from pathlib import Path

from scob.config import Config
from scob.data.readers import OWN_IMAGES, SplitError, find_split, infer_format, match_split, open_complete, splits_of
from scob.data.readers.folder import SPLIT_NAMES
from scob.data.split import ReadOptions, Split
from scob.errors import UserError

NOTHING = ("", "none")
HELD_OUT = "held-out"  # no split of the source: a part of its training images, which no run trains on
DEFAULT = "val"
WAY_OUT = "data.evaluate=SPLIT chooses the one to report on, data.evaluate=none reports nothing"


@dataclass(frozen=True)
class RunSplits:
    """The splits of a run: the one to learn from, the one or the other source to report on, and those not used."""

    train: str
    reported: str | None
    table: Path | None
    unused: tuple[str, ...]


def run_splits(config: Config) -> RunSplits:
    """What `data.train` and `data.evaluate` mean; a UserError for a split that does not exist."""
    d = config.data
    kind = infer_format(d.source) if d.format == "auto" else d.format
    names = splits_of(d.source, kind)
    train = _find(d.source, kind, d.train, names, "data.train=SPLIT chooses the one to train on")
    reported, table = (None if d.evaluate == HELD_OUT else match_split(d.evaluate, names)), None
    unsplit = d.evaluate == DEFAULT and len(names) == 1 and kind in OWN_IMAGES
    elsewhere = Path(d.evaluate)
    is_source = elsewhere.is_file() or (elsewhere.is_dir() and d.evaluate not in (*SPLIT_NAMES, ""))
    if reported is None and is_source and d.evaluate != HELD_OUT:
        table = elsewhere
    elif reported is None and d.evaluate not in (*NOTHING, HELD_OUT) and not unsplit:
        reported = _find(d.source, kind, d.evaluate, names, WAY_OUT)
    if reported == train:
        raise UserError(
            f"data.evaluate={d.evaluate} is the split to train on, and results on it would mean little: name another "
            f"(there are: {', '.join(names)}), or set data.evaluate=none to report nothing"
        )
    return RunSplits(train, reported, table, tuple(name for name in names if name not in (train, reported)))


def _find(source: str, kind: str, split: str, names: tuple[str, ...], advice: str) -> str:
    if kind == "voc":  # it has more lists than it names, which its reader finds: Segmentation/val
        return match_split(split, names) or split
    try:
        return find_split(source, split, names)
    except SplitError as error:
        raise SplitError(f"{error}; {advice}") from None


def open_reported(config: Config, splits: RunSplits, options: ReadOptions) -> Split | None:
    """The images to report on, with complete labels; None if there are none."""
    if splits.table is not None:
        return replace(open_complete(str(splits.table), None, options), name=splits.table.name)
    if splits.reported is None:
        return None
    try:
        return open_complete(config.data.source, splits.reported, options, config.data.format)
    except SplitError as error:
        raise SplitError(f"{error}; {WAY_OUT}") from None


def default_reported(source: str) -> str:
    """The split of somebody's own images to report on if none was named: 'val', else 'test', else '' (none)."""
    if infer_format(source) == "folder":  # nothing can be measured on one folder per class
        return ""
    names = splits_of(source)
    splits = (match_split(name, names) for name in ("val", "test"))
    return next((name for name in splits if name is not None and name != names[0]), "")


def how_measured(split: Split | None) -> str:
    """What the numbers measured on a split mean, where that is not obvious; '' where it is."""
    if split is None:
        return ""
    if split.name == HELD_OUT:
        return (
            f"results are measured on {len(split):,} held-out images by the labels you gave: what an image shows but "
            "nobody labelled counts as wrong, so use the numbers to compare methods, not as accuracy; a table with "
            "complete labels (--val) gives true ones"
        )
    if split.unlisted == "absent":
        return f"results are measured on {split.name}: a class that an image does not list counts as absent"
    if split.unlisted == "unknown":
        return (
            f"results are measured on {split.name}: because it says which classes some images do not show, a class "
            "that an image does not list is unknown and is not counted"
        )
    return ""


def as_it_began(config: Config, reports: bool) -> Config:
    """The settings by which the data of a run that has begun are read again; `reports`: whether it measured mAP.

    Earlier versions trained on the only split, whatever `data.train` said, and reported nothing if the split of
    `data.evaluate` did not exist. Such a run stays as it began.
    """
    d = config.data
    names = splits_of(d.source, d.format)
    changes = {} if reports else {"evaluate": ""}
    if len(names) == 1 and match_split(d.train, names) is None:
        changes["train"] = names[0]
    return config.model_copy(update={"data": d.model_copy(update=changes)})
