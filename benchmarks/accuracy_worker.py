"""A worker of `accuracy.py`: runs jobs one after another and keeps what jobs on the same data share."""

import gc
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from accuracy_jobs import CANDIDATE, SHARED, Job, Words

RESERVE = 8 << 30  # bytes of GPU memory that training itself needs, beside images and features
MEMORY_FOLDER = Path("/dev/shm")  # a run's files are read once and thrown away
LAST_LINES = 12


@dataclass(frozen=True)
class Common:
    """What all jobs of one call share: the settings of each data set, and of all of them; threads per worker."""

    data: Mapping[str, Words]
    words: Words
    threads: int


class NoRoom(Exception):
    """The GPU has no room for another copy of this data set's features."""


def work(connection: Connection, common: Common) -> None:
    """Run the jobs that come over `connection` until None comes, and answer each with a result or an error."""
    import torch

    from scob.errors import UserError

    torch.set_num_threads(common.threads)
    parts = LoadedData()
    while (job := connection.recv()) is not None:
        broken = False
        try:
            answer = {"result": run_job(job, common, parts)}
        except NoRoom as shortage:
            answer = {"no room": str(shortage)}
        except Exception as error:
            answer = {"error": "\n".join(traceback.format_exc().splitlines()[-LAST_LINES:])}
            if not isinstance(error, UserError):  # features are computed again, in case they are what is wrong
                parts.forget_features()
            # After most CUDA errors nothing works in this process any more; a new one takes its place.
            broken = "CUDA" in str(error) and not isinstance(error, torch.OutOfMemoryError)
        gc.collect()
        torch.cuda.empty_cache()
        connection.send({**answer, "broken": broken})
        if broken:
            sys.exit(1)


def settings_of(job: Job, common: Common) -> list[str]:
    """All settings of a job; later ones win."""
    holdout = CANDIDATE if job.candidate else ()
    return [*SHARED, *holdout, *common.words, *common.data[job.data], *job.words, f"train.seed={job.seed}"]


def run_job(job: Job, common: Common, parts: "LoadedData") -> dict[str, Any]:
    """Train, and return what is stored of the run."""
    from scob import methods
    from scob.config import load_config
    from scob.training.train import train

    config = load_config(None, settings_of(job, common), methods.section_names())
    before = time.monotonic()
    shared = parts.shared(config)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        run = train(config, Path(folder) / "run", shared=shared, loop=without_checkpoints())
        result = {
            "data": job.data, "name": job.name, "words": list(job.words), "seed": job.seed,
            "candidate": job.candidate, **measured(run),
        }  # fmt: skip
    result |= {"seconds": round(time.monotonic() - began, 1), "loading": round(began - before, 1)}
    return {**result, "settings": stored_settings(config)}


def measured(run: Any) -> dict[str, Any]:
    """The numbers of a finished run: last epoch, best held-out epochs, the curve, the labels recovered."""
    import torch

    from scob.labels import UNKNOWN
    from scob.training.metrics import mean_average_precision, recovery_metrics

    assert run.experiment is not None
    curve, data = run.curve, run.experiment.data
    numbers: dict[str, Any] = {"last": curve[-1]["mAP"], "best_on_test": max(point["mAP"] for point in curve)}
    numbers["model"] = run.summary["evaluation"]["mAP"]  # as it is stored: of the chosen epoch, with its linear part
    if data.holdout is not None:
        numbers["holdout_model"] = mean_average_precision(run.scores("holdout"), data.holdout.labels.values)
    if (data.observed.values == UNKNOWN).any():
        recovered = recovery_metrics(run.recovered(), data.observed.values, data.train.labels.values)
        numbers["recovery_ap"] = recovered.average_precision
    for key, name in (("mAP-holdout-full", "held_out_full"), ("mAP-observed", "held_out_observed")):
        if any(point.get(key) is not None for point in curve):
            best = max(curve, key=lambda point: point.get(key) or -1.0)
            numbers |= {name: best["mAP"], f"{name}_epoch": best["epoch"]}
            if name == "held_out_full":
                numbers |= {"holdout_last": curve[-1][key], "holdout_best": best[key]}
    device = run.experiment.processes.device
    return {
        **numbers,
        "curve": curve,
        "train_images": len(data.train),
        "evaluate_images": len(data.evaluate),
        "classes": len(data.observed.classes),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "torch": torch.__version__,
    }


def stored_settings(config: Any) -> dict[str, Any]:
    """The settings that decide the result, without the paths of the machine."""
    tree = config.model_dump(mode="json")
    tree["model"]["backbone"] = Path(tree["model"]["backbone"]).name
    kept = {key: tree[key] for key in ("method", "model", "scob", "train", *config.model_extra) if key in tree}
    kept["data"] = {key: tree["data"][key] for key in ("size", "limit", "difficult")}
    kept["labels"] = {key: tree["labels"][key] for key in ("kind", "seed", "k")}
    return kept


class LoadedData:
    """Images, backbone and features of one data set: kept as long as the next job needs the same."""

    def __init__(self) -> None:
        self.key, self.data, self.inputs = "", None, None
        self.processes: Any = None

    def shared(self, config: Any) -> Any:
        """The parts that a run with these settings shares with others; loaded now if they are not."""
        from scob import methods
        from scob.parallel import start
        from scob.training.train import SharedParts

        config = methods.class_for(config).adjust(config)
        self.processes = self.processes or start(config.train.device)
        m, t = config.model, config.train
        key = json.dumps([
            config.data.model_dump(mode="json"), config.labels.model_dump(mode="json"), m.backbone, m.freeze,
            m.calibrate_bn, t.precision, t.feature_cache, t.holdout,
        ])  # fmt: skip
        if self.key != key or self.data is None:
            self.forget_features()
            self.load(config)
            self.key = key
        assert self.data is not None
        data = self.data
        if methods.find(config.method).labels == "full":
            data = replace(data, observed=data.train.labels)
        inputs = None if self.inputs is None else with_seed(self.inputs, t.seed)
        return SharedParts(data, self.processes, inputs)

    def load(self, config: Any) -> None:
        """Read the data set, calibrate the backbone and cache its features."""
        from scob.errors import UserError
        from scob.training.inputs import open_inputs
        from scob.training.run_data import load_data

        data = load_data(config.model_copy(update={"method": "scob"}))
        if data.evaluate is None:
            d = config.data
            raise UserError(
                f"{d.source} has no split {d.evaluate!r} to report on: name it, as in data.evaluate=val2014"
            )
        if config.model.freeze == "all" and config.train.feature_cache != "disk":
            if self.processes.device.type == "cuda" and config.train.feature_cache == "device":
                check_room(config.data.size, len(data.drawn) + len(data.evaluate), self.processes.device)
            self.inputs = open_inputs(config, data, self.processes)
        self.data = data

    def forget_features(self) -> None:
        """Free the memory before other data is loaded."""
        import torch

        if self.inputs is not None:
            self.inputs.close()
        self.key, self.data, self.inputs = "", None, None
        gc.collect()
        torch.cuda.empty_cache()


def with_seed(inputs: Any, seed: int) -> Any:
    """The same images and features for a run with another seed, which draws other views."""
    from scob.data.views import Views
    from scob.model.features import FeatureSource

    old = inputs.sources["train"].views
    views = Views(old.size, old.mean, old.std, seed)
    sources = {
        name: FeatureSource(s.backbone, views, s.precision, s.fast, s.cache) for name, s in inputs.sources.items()
    }
    return replace(inputs, sources=sources)


def check_room(size: int, images: int, device: Any) -> None:
    """Raise NoRoom unless the GPU has room for pixels and features of all images (of a ResNet-50 in bf16)."""
    import torch

    cells = (size // 16) ** 2 * 1024 + (size // 32) ** 2 * 2048
    needed = images * (4 * cells + 3 * size * size) + RESERVE
    for _ in range(20):  # a worker that ends frees its memory a little later
        free = torch.cuda.mem_get_info(device)[0]
        if needed <= free:
            return
        time.sleep(0.25)
    raise NoRoom(f"{images} images need {needed / 1e9:.0f} GB of GPU memory, and {free / 1e9:.0f} GB are free")


def without_checkpoints() -> type[Any]:
    """The training loop, but it writes no checkpoint: these runs are never resumed."""
    from scob.training.loop import Training

    class Unsaved(Training):
        def save(self) -> None:
            self.check_finite()

    return Unsaved


def scratch() -> str | None:
    """Where a run's folder lives: in memory if there is plenty, else in the usual temporary folder."""
    roomy = MEMORY_FOLDER.is_dir() and os.access(MEMORY_FOLDER, os.W_OK)
    return str(MEMORY_FOLDER) if roomy and shutil.disk_usage(MEMORY_FOLDER).free > 16e9 else None
