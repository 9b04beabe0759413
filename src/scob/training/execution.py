"""How a run executes its steps: captured as a CUDA graph or plainly, with cached features or without.

This is decided once, from the settings and what is free, and stored in the run folder (execution.json), so that a
resumed run does the same. It does not change what is computed, beyond rounding (docs/reliability.md).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from scob import methods
from scob.config import Config
from scob.errors import UserError
from scob.files import open_sealed, sealed, write_atomically
from scob.model.backbone import Backbone
from scob.model.features import resolve_precision
from scob.model.heads import Grids
from scob.parallel import Processes
from scob.training.memory_plan import (
    FreeMemory,
    MemoryPlan,
    Needs,
    feature_bytes,
    free_memory,
    gigabytes,
    plan_memory,
    step_bytes,
    step_down,
    worth_caching,
)

FILE = "execution.json"
PLACES = ("device", "host", "disk", "none")  # of cached features, the most wanted first
WHERE = {"device": "cached on the GPU", "host": "cached in memory", "disk": "cached on disk", "none": "not cached"}


@dataclass(frozen=True)
class Execution:
    """`graph`: each step is a CUDA graph. `padded`: the last batch of an epoch is as large as the others, as a graph
    needs it. `features`: where they are cached (device, host or disk), or none. `reasons` says why, for people.
    """

    graph: bool = False
    padded: bool = False
    features: str = "none"
    reasons: tuple[str, ...] = ()

    def save(self, folder: Path) -> None:
        """Write the record of a run."""
        write_atomically(folder / FILE, json.dumps(sealed(asdict(self)), indent=1))

    def lower(self, config: Config) -> "Execution | None":
        """One step down, where the settings leave the choice to us: no graph, then features further away, then none."""
        if self.graph and config.train.compile == "auto":
            return replace(self, graph=False, reasons=("without a CUDA graph",))
        if self.features in ("device", "host") and config.train.feature_cache == "auto":
            features = step_down(self.features)
            return replace(self, features=features, reasons=(f"with features that are {WHERE[features]}",))
        return None


def read_execution(folder: Path | None) -> Execution | None:
    """The record of a run that has begun; None if there is none (a new run, or one from before there were records)."""
    if folder is None or not (folder / FILE).is_file():
        return None
    try:
        stored = open_sealed(json.loads((folder / FILE).read_bytes()))
        record = Execution(
            bool(stored["graph"]), bool(stored["padded"]), str(stored["features"]), tuple(stored.get("reasons", ()))
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"cannot read {folder / FILE}, which says how the run's steps are executed: delete it, and that is decided "
            "again"
        ) from error
    return record


def plan_inputs(
    config: Config,
    images: Mapping[str, int],
    processes: Processes,
    backbone: tuple[Backbone, Grids],
    record: Execution | None = None,
) -> tuple[MemoryPlan, str]:
    """Where features and images go, by what is free, and why. `images` counts those of each split.

    A place that the settings name must have room for them. A run that has begun (`record`) keeps its own if it can.
    """
    t, (body, grids) = config.train, backbone
    size = feature_bytes(body.channels, grids, sum(images.values()), resolve_precision(processes.device, t.precision))
    needs = Needs(size, images["train"] * 3 * config.data.size**2, step_bytes(config, body.channels, grids))
    free = free_memory(processes.device, processes.count)
    if t.feature_cache != "auto":
        if body.frozen:
            check_room(t.feature_cache, size, free)
        plan = plan_memory(needs, free, t.feature_cache)
        return replace(plan, features=t.feature_cache), f"features are {WHERE[t.feature_cache]}, as asked"
    asked = "auto" if worth_caching(config, body.frozen) else "none"
    asked = record.features if record is not None else asked
    plan = plan_memory(needs, free, asked, may_capture(config, processes))
    plan = replace(plan, features=PLACES[agree_on(PLACES.index(plan.features), processes)])
    room = free.host if free.device is None or plan.features == "host" else free.device
    why = f"{gigabytes(size)} of {gigabytes(room)} free"
    if plan.features == "none":
        why = f"they would need {gigabytes(size)}, and {gigabytes(room)} are free"
        if not body.frozen:
            why = "the backbone is trained"
        elif asked == "none":
            few = "1 epoch gains" if t.epochs == 1 else f"{t.epochs} epochs gain"
            why = f"{few} too little" if record is None else "as when the run began"
    elif record is not None and plan.features != record.features:
        why += f"; {WHERE[record.features]} when the run began"
    return plan, f"features are {WHERE[plan.features]} ({why})"


def check_room(place: str, size: int, free: FreeMemory) -> None:
    """Refuse a place that the settings name, if the features do not fit there, before any work is done."""
    on_device = place == "device" and free.device is not None
    room = free.device if on_device and free.device is not None else free.host
    if place in ("device", "host") and size > room:
        raise UserError(
            f"train.feature_cache={place} needs {gigabytes(size)}, but only {gigabytes(room)} are free "
            f"{'on the GPU' if on_device else 'in memory'}: train.feature_cache=auto takes what fits"
        )


def may_capture(config: Config, processes: Processes) -> bool:
    """Whether the step may run as a CUDA graph, as far as settings, method and device go."""
    return not why_plain(config, processes)


def why_plain(config: Config, processes: Processes) -> str:
    """Why the step cannot be a CUDA graph; '' if it can, as far as settings, method and device go."""
    if config.train.compile is False:
        return "train.compile=false"
    if processes.device.type != "cuda":
        return "only a CUDA device has graphs"
    if processes.count > 1:
        return "there are several processes"
    if not methods.class_for(config).capturable:
        return f"the method {config.method} decides on the host"
    return "" if config.train.rows == "device" else f"train.rows={config.train.rows}"


def agree_on(choice: int, processes: Processes) -> int:
    """The most modest choice of all processes: their cards may have different room."""
    if processes.count == 1:
        return choice
    return int(processes.concatenate(torch.tensor([choice], device=processes.device)).max())
