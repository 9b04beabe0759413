"""The loop around every method: epochs, log, evaluation, choice of the epoch, checkpoints, exact resume."""

import contextlib
import json
import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scob import checkpoint, methods
from scob.config import Config, merge, parse_overrides, resolve
from scob.draws import seed_key
from scob.errors import UserError
from scob.experiment import Data, Experiment, Report, Sight, build, load_data, silent
from scob.files import write_atomically
from scob.graphs import GraphedStep
from scob.inference import score_images
from scob.metrics import evaluate_scores, mean_average_precision
from scob.model.network import follow
from scob.parallel import Processes, start
from scob.run import RunFolder
from scob.sampling import Batch, to_device


class Interrupted(Exception):
    """The run was asked to stop and has saved everything; `code` is the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__("interrupted")
        self.code = code


class Average:
    """An exponential moving average of the trained weights of the network, for evaluation."""

    def __init__(self, experiment: Experiment) -> None:
        self.decay = experiment.config.train.ema
        self.live: list[Tensor] = [p for p in experiment.network.parameters() if p.requires_grad]
        self.kept = [p.detach().clone() for p in self.live] if self.decay else []

    def follow(self, step: int) -> None:
        """Move towards the live weights; early on by the plain mean of what there was."""
        if self.decay:
            follow(self.kept, self.live, min(self.decay, (1 + step) / (10 + step)))

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """The network with averaged weights."""
        if not self.decay:
            yield
            return
        own = [p.detach().clone() for p in self.live]
        with torch.no_grad():
            torch._foreach_copy_(self.live, self.kept)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self.live, own)


class Training:
    """A run in progress. All of its state is tensors and `progress`, and both are in a checkpoint."""

    def __init__(self, experiment: Experiment, run: RunFolder, report: Report) -> None:
        self.experiment, self.run, self.report = experiment, run, report
        self.average = Average(experiment)
        self.progress: dict[str, Any] = {
            "epoch": 0,
            "step": 0,
            "log": 0,
            "best": None,
            "best_epoch": None,
            "count": 0,
        }
        self.sums: dict[str, Tensor] = {}
        self.asked_to_stop = 0
        self.graphed = self._graphed()
        self.tracker: Any = None
        if experiment.processes.first:
            from accelerate.tracking import TensorBoardTracker

            self.tracker = TensorBoardTracker("tensorboard", logging_dir=str(run.path))
            self.tracker.start()

    def _graphed(self) -> GraphedStep | None:
        """The step as a CUDA graph, where it was asked for and can be had."""
        e = self.experiment
        resident = e.feeds["train"].resident
        possible = e.processes.device.type == "cuda" and e.processes.count == 1 and e.method.capturable
        if not e.config.train.compile or not possible or resident is None:
            return None
        return GraphedStep(e.method, resident)

    # State.

    def state(self) -> dict[str, Tensor]:
        """Every tensor a resumed run needs; a frozen backbone's weights are in its own file."""
        frozen = {f"network.{n}" for n, p in self.experiment.network.named_parameters() if not p.requires_grad}
        tensors = {f"method.{k}": v for k, v in self.experiment.method.state_dict().items() if k not in frozen}
        tensors |= {f"adam.{k}": v for k, v in self.experiment.optimiser.state().items()}
        tensors |= {f"average.{n}": v for n, v in enumerate(self.average.kept)}
        tensors |= {f"sum.{k}": v for k, v in self.sums.items()}
        return tensors

    def save(self) -> None:
        """Write a checkpoint, unless the losses since the last one are not finite."""
        self.check_finite()
        if self.experiment.processes.first:
            self.progress["log"] = self.run.log_size()
            checkpoint.save_checkpoint(self.run.checkpoints, self.progress["step"], self.state(), self.progress)
        self.experiment.processes.wait()

    def restore(self, tensors: dict[str, Tensor], progress: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        device = self.experiment.processes.device

        def part(prefix: str) -> dict[str, Tensor]:
            return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}

        missing = self.experiment.method.load_state_dict(part("method."), strict=False)
        if missing.unexpected_keys:
            raise UserError(f"the checkpoint holds {missing.unexpected_keys[0]}, which these settings do not build")
        self.experiment.optimiser.load(part("adam."))
        for number, kept in enumerate(self.average.kept):
            kept.copy_(tensors[f"average.{number}"])
        self.sums = {k: v.to(device) for k, v in part("sum.").items()}
        self.progress = progress
        if self.experiment.processes.first:
            self.run.cut_log(progress["log"])

    def check_finite(self) -> None:
        """Stop at once on a loss that is not a number, with all of them named."""
        values = {name: float(total) for name, total in self.sums.items()}
        if all(math.isfinite(v) for v in values.values()):
            return
        count = max(1, self.progress["count"])
        named = ", ".join(f"{k}={v / count:g}" for k, v in values.items())
        raise UserError(
            f"a loss is not finite at step {self.progress['step']} ({named}); the last good checkpoint is kept in "
            f"{self.run.checkpoints}. Try a smaller train.lr_smt, a longer train.warmup, or train.precision=fp32"
        )

    # The loop.

    def fit(self) -> None:
        """Train from where the progress stands to the last epoch."""
        e, t = self.experiment, self.experiment.config.train
        last_saved = time.monotonic()
        while self.progress["epoch"] < t.epochs:
            epoch, began = self.progress["epoch"], time.monotonic()
            done_before = self.progress["step"] - epoch * e.plan.steps
            e.method.train()
            e.method.begin_epoch(epoch)
            for batch in self.batches(epoch, done_before):
                self.iterate(batch)
                due = t.checkpoint_steps and self.progress["step"] % t.checkpoint_steps == 0
                due = due or (t.checkpoint_minutes and time.monotonic() - last_saved > 60 * t.checkpoint_minutes)
                if due and e.processes.count > 1:  # clocks differ between processes; steps do not
                    due = bool(t.checkpoint_steps)
                if self.asked_to_stop or due:
                    self.save()
                    last_saved = time.monotonic()
                if self.asked_to_stop:
                    raise Interrupted(128 + self.asked_to_stop)
            self.end_epoch(epoch, time.monotonic() - began)

    def batches(self, epoch: int, skip: int) -> Iterator[Batch]:
        """The batches of an epoch on the device, with the images the method looks at."""
        e = self.experiment
        planned = list(e.plan.epoch(epoch, skip))
        images = None
        if e.method.wants_images and self.graphed is None:
            images = e.feeds["train"].iterate(self._wanted(p.rows, p.positives) for p in planned)
        for number, plan in enumerate(planned):
            step = epoch * e.plan.steps + skip + number
            batch = to_device(plan, epoch, step, e.processes.device)
            if images is not None:
                fetched = next(images)
                count = len(plan.rows)
                batch.images = fetched[:count]
                batch.positive_images = fetched[count:] if e.method.needs_positives else None
            yield batch

    def _wanted(self, rows: Any, positives: Any) -> Any:
        e = self.experiment
        wanted = np.concatenate((rows, positives)) if e.method.needs_positives else rows
        return np.minimum(wanted, e.plan.count - 1)  # padding fetches some image; its weight is 0

    def iterate(self, batch: Batch) -> None:
        """One step, its log line if one is due."""
        e, t = self.experiment, self.experiment.config.train
        torch.manual_seed(seed_key(t.seed, batch.step, e.processes.rank, "dropout"))
        e.optimiser.begin(batch.step)
        began = time.monotonic()
        losses = self.graphed(batch) if self.graphed is not None else e.method.step(batch)
        self.average.follow(batch.step)
        for name, value in losses.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value
        self.progress["step"] += 1
        self.progress["count"] += 1
        if self.progress["step"] % t.log_every == 0 or e.processes.device.type == "cpu":
            self.check_finite()
        if self.progress["step"] % t.log_every == 0:
            self._log_step(batch.epoch, began)

    def _log_step(self, epoch: int, began: float) -> None:
        e = self.experiment
        count = self.progress["count"]
        summed = {k: e.processes.collect(v) for k, v in self.sums.items()}
        means = {k: float(v) / count for k, v in summed.items()}
        factor = e.optimiser.adam.param_groups[0]["lr"]
        now = time.monotonic()
        rate = e.config.train.batch * count / max(1e-9, now - getattr(self, "_last_log", began))
        self._last_log = now
        record = {
            "kind": "step",
            "step": self.progress["step"],
            "epoch": epoch,
            **means,
            "rate": float(factor),
        }
        self._write({**record, "images_per_second": round(rate, 1), "time": round(time.time(), 3)})
        if self.tracker is not None:
            self.tracker.log(
                {**{f"loss/{k}": v for k, v in means.items()}, "rate": float(factor)}, self.progress["step"]
            )
        self.report("step", {**record, "images_per_second": rate, "steps": e.plan.steps * e.config.train.epochs})
        self.sums, self.progress["count"] = {}, 0

    def _write(self, record: dict[str, Any]) -> None:
        if self.experiment.processes.first:
            self.run.log(record)

    def end_epoch(self, epoch: int, seconds: float) -> None:
        """Evaluate, remember the epoch if it is the best so far by the rule of the run, move on."""
        t = self.experiment.config.train
        final = epoch + 1 == t.epochs
        if final or (t.evaluate_every and (epoch + 1) % t.evaluate_every == 0):
            with self.average.used():
                found = self.evaluate()
                value = {"last": None, "holdout": found.get("holdout"), "best-on-test": found.get("mAP")}[t.select]
                best = self.progress["best"]
                if value is None or best is None or value > best:
                    self.progress["best"], self.progress["best_epoch"] = value, epoch
                    self._keep_best()
            record = {"kind": "epoch", "epoch": epoch, **found}
            self._write({**record, "seconds": round(seconds, 3), "time": round(time.time(), 3)})
            if self.tracker is not None:
                self.tracker.log({k: v for k, v in found.items() if v is not None}, self.progress["step"])
            self.report("epoch", {**record, "seconds": seconds, "epochs": t.epochs})
        self.progress["epoch"] = epoch + 1

    def scores(self, split: str) -> Tensor:
        """Predictions for 'train', 'holdout' or 'evaluate', (N, L) on the CPU."""
        e = self.experiment
        count = {
            "train": len(e.data.train),
            "holdout": len(e.data.holdout or ()),
            "evaluate": len(e.data.evaluate or ()),
        }
        return score_images(
            e.network,
            e.sources[split],
            e.feeds.get(split),
            count[split],
            64,
            e.config.train.flip_test,
            e.processes,
        )

    def evaluate(self) -> dict[str, float | None]:
        """mAP on the reported split, and on the held-out images by the labels that the run may use for choosing."""
        d, t = self.experiment.data, self.experiment.config.train
        found: dict[str, float | None] = {}
        if d.evaluate is not None:
            found["mAP"] = number_or_none(mean_average_precision(self.scores("evaluate"), d.evaluate.labels.values))
        if d.holdout is not None and d.holdout_observed is not None:
            scores = self.scores("holdout")
            observed = d.holdout_observed.values
            found["mAP-observed"] = number_or_none(
                mean_average_precision(scores, np.where(observed == 1, 1, -1))  # unknown counted as absent
            )
            found["holdout"] = found["mAP-observed"]
            if t.holdout_labels == "full":
                full = number_or_none(mean_average_precision(scores, d.holdout.labels.values))
                found["mAP-holdout-full"] = found["holdout"] = full
        return found

    def _trained(self) -> dict[str, Tensor]:
        return {n: p.detach() for n, p in self.experiment.network.named_parameters() if p.requires_grad}

    def _keep_best(self) -> None:
        if self.experiment.processes.first:
            from safetensors.torch import save

            write_atomically(self.run.best_file, save({k: v.cpu().contiguous() for k, v in self._trained().items()}))

    def use_best(self) -> None:
        """Put the chosen epoch's weights into the network."""
        from safetensors.torch import load_file

        self.experiment.processes.wait()
        self.experiment.network.load_state_dict(load_file(self.run.best_file), strict=False)

    def finish(self, seconds: float) -> dict[str, Any]:
        """Evaluate the chosen weights, write the model folder and the summary."""
        from scob.estimates import save_estimates
        from scob.model.pretrained import save_model

        e = self.experiment
        self.use_best()
        summary: dict[str, Any] = {
            "method": e.config.method,
            "epochs": e.config.train.epochs,
            "selected_epoch": self.progress["best_epoch"],
            "select": e.config.train.select,
            "holdout_labels": e.config.train.holdout_labels,
            "classes": list(e.data.observed.classes),
            "train_images": len(e.data.train),
            "labels": {"origin": e.data.drawn.origin, "fingerprint": e.data.drawn.fingerprint},
            "k": e.data.k,
            "backbone": e.config.model.backbone,
            "seconds": round(seconds, 1),
            "curve": [{k: r.get(k) for k in r if k not in ("kind", "time")} for r in self.run.records("epoch")],
        }
        if e.data.evaluate is not None:
            scores = self.scores("evaluate")
            measured = evaluate_scores(scores, e.data.evaluate.labels.values, e.data.observed.classes)
            summary["evaluation"] = measured.to_json()
            summary["evaluate_images"] = len(e.data.evaluate)
        self.report(
            "scores",
            {"train": self.scores("train"), "observed": e.data.observed.values, "truth": e.data.train.labels.values},
        )
        estimates = e.method.estimates()
        if e.processes.first:
            if estimates is not None:
                names = e.data.observed
                save_estimates(self.run.path, names.images, names.classes, estimates.cpu().numpy())
            save_model(self.run.model, e, summary)
            write_atomically(self.run.summary_file, json.dumps(summary, indent=1))
        e.processes.wait()
        return summary


def number_or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


@contextlib.contextmanager
def stopping_softly(training: Training) -> Iterator[None]:
    """SIGTERM and Ctrl-C finish the step, save, and end the run; only the main thread can listen."""

    def ask(number: int, frame: FrameType | None) -> None:
        training.asked_to_stop = number

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def train(
    config: Config,
    out: Path,
    resume: bool = False,
    report: Report = silent,
    data: Data | None = None,
    processes: Processes | None = None,
    loop: type[Training] = Training,
    start_from: Callable[[Experiment], object] | None = None,
    sight: Sight | None = None,
) -> dict[str, Any]:
    """Train one method and leave everything in the run folder `out`; returns the summary.

    With `resume`, a run that was interrupted goes on from its last checkpoint (and a finished one is returned as it
    is); without, a folder that already holds a run is refused. `loop` may be a `Training` that also watches;
    `start_from` may change a new experiment's weights before the first step; `sight` may be shared between runs.
    """
    run = RunFolder(out)
    processes = processes or start(config.train.device)
    holding = run.locked() if processes.first else contextlib.nullcontext()
    with holding:
        if run.config_file.exists() and not resume:
            raise UserError(
                f"{run.path} already holds a run: continue it with --resume {run.path}, or give another --out"
            )
        if resume and run.finished:
            return run.summary()
        data = data or load_data(config)
        if processes.first:
            run.write_config(config)
            data.drawn.save(run.labels_file)
        found = checkpoint.latest_checkpoint(run.checkpoints) if resume else None
        restored = found[0] if found is not None else None
        experiment = build(config, data, processes, restored, run.path, report, sight)
        if start_from is not None and found is None:
            start_from(experiment)
        training = loop(experiment, run, report)
        if found is not None:
            for complaint in found[2]:
                report("damaged", {"message": complaint})
            training.restore(found[0], found[1])
        elif processes.first:
            run.cut_log(0)
        report(
            "start",
            {
                "config": experiment.config,
                "data": data,
                "steps": experiment.plan.steps,
                "step": training.progress["step"],
            },
        )
        began = time.monotonic()
        with stopping_softly(training):
            training.fit()
        summary = training.finish(time.monotonic() - began)
        for feed in experiment.feeds.values() if sight is None else ():
            feed.close()
        if training.tracker is not None:
            training.tracker.finish()
    return summary


def resume_config(folder: Path, words: Iterable[str] = (), extend: str = "", device: str = "") -> Config:
    """The settings of an interrupted run. `words` must agree with them; `extend` ("epochs=40") may add epochs."""
    stored = RunFolder(folder).read_config(known_methods())
    asked = merge(stored.model_dump(mode="json"), parse_overrides(words))
    config = resolve(asked, "on the command line", known_methods())
    changed = differences(stored, config)
    if changed:
        raise UserError(f"{folder} was started with other settings ({'; '.join(changed)}): resume it without them")
    if extend:
        key, _, value = extend.partition("=")
        if key != "epochs" or not value.isdigit() or int(value) < stored.train.epochs:
            raise UserError(f"--extend takes epochs=N with N of at least {stored.train.epochs}, not {extend!r}")
        config.train.epochs = int(value)
    if device:
        config.train.device = device
    return config


def differences(one: Config, two: Config) -> list[str]:
    """`key: before -> after` for every setting that differs."""
    before, after = one.model_dump(mode="json"), two.model_dump(mode="json")
    found = []
    for section in sorted({*before, *after}):
        a, b = before.get(section), after.get(section)
        if isinstance(a, dict) and isinstance(b, dict):
            found += [f"{section}.{k}: {a.get(k)} -> {b.get(k)}" for k in {**a, **b} if a.get(k) != b.get(k)]
        elif a != b:
            found.append(f"{section}: {a} -> {b}")
    return found


def known_methods() -> list[str]:
    """Names whose sections a settings file may hold."""
    return [n for n in methods.names() if n != "scob"]
