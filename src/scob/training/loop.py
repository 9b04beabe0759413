"""The loop around every method: epochs, log, evaluation, choice of the epoch, checkpoints."""

import itertools
import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scob.algorithm.sampling import Batch, to_device
from scob.draws import seed_key
from scob.errors import UserError
from scob.files import write_atomically
from scob.training import checkpoint
from scob.training.averaging import Average
from scob.training.build import Experiment, Report
from scob.training.graphs import GraphedStep
from scob.training.out_of_memory import suggesting
from scob.training.results import conclude, measure
from scob.training.run_folder import RunFolder
from scob.training.scoring import score_images
from scob.training.stopping import Interrupted, StopRequest

AGREE_EVERY = 10  # steps on a GPU: to ask it more often would make the host wait for it


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
        self.stop = StopRequest()
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
        with self.experiment.processes.together():
            if self.experiment.processes.first:
                self.progress["log"] = self.run.sync_log()
                checkpoint.save_checkpoint(self.run.checkpoints, self.progress["step"], self.state(), self.progress)
                self._drop_bests()

    def _drop_bests(self) -> None:
        """Weights of earlier best epochs go when no checkpoint that is kept may come back to them."""
        kept = [checkpoint.progress_of(path) for path in checkpoint.list_checkpoints(self.run.checkpoints)]
        epochs = {p.get("best_epoch") for p in [*kept, self.progress]}
        self.run.keep_bests({epoch for epoch in epochs if epoch is not None})

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

    def check_finite(self, batch: Batch | None = None) -> None:
        """Stop at once on a loss that is not a number, with all of them named, and the image that is to blame."""
        values = {name: float(total) for name, total in self.sums.items()}
        if all(math.isfinite(v) for v in values.values()):
            return
        count = max(1, self.progress["count"])
        named = ", ".join(f"{k}={v / count:g}" for k, v in values.items())
        kept = checkpoint.list_checkpoints(self.run.checkpoints)
        saved = f"the last good checkpoint is kept in {self.run.checkpoints}" if kept else "nothing was saved yet"
        raise UserError(
            f"a loss is not finite at step {self.progress['step']} ({named}); {saved}. {self._blame(batch)}"
        )

    @torch.no_grad()
    def _blame(self, batch: Batch | None) -> str:
        """Whether the backbone's features of this batch are already no numbers, or what to try."""
        e = self.experiment
        if batch is not None and (batch.images is not None or e.source.cache is not None):
            features = e.method.clean_features(batch)
            bad = ~torch.stack([f.flatten(1).isfinite().all(dim=1) for f in features]).all(dim=0)
            rows = [int(row) for row in batch.rows[bad] if int(row) < e.plan.count]
            if rows:
                name = e.data.train.images.where(rows[0])
                return (
                    f"The backbone {e.config.model.backbone} gives features that are no numbers for {len(rows)} of "
                    f"{len(bad)} images, {name} among them: its weights are damaged or overflow in this precision"
                )
        return "Try a smaller train.lr_smt, a longer train.warmup, or train.precision=fp32"

    # The loop.

    def fit(self) -> None:
        """Train from where the progress stands to the last epoch."""
        e, t = self.experiment, self.experiment.config.train
        self.stop.later = True
        last_saved = time.monotonic()
        while self.progress["epoch"] < t.epochs:
            epoch, began = self.progress["epoch"], time.monotonic()
            done_before = self.progress["step"] - epoch * e.plan.steps
            e.method.train()
            e.method.begin_epoch(epoch)
            for batch in self.batches(epoch, done_before):
                self.iterate(batch)
                late = bool(t.checkpoint_minutes) and time.monotonic() - last_saved > 60 * t.checkpoint_minutes
                stop, late = self.agree(self.stop.number, late)
                if stop or late or (t.checkpoint_steps and self.progress["step"] % t.checkpoint_steps == 0):
                    self.save()
                    last_saved = time.monotonic()
                if stop:
                    raise Interrupted(128 + stop)
            try:
                self.end_epoch(epoch, time.monotonic() - began)
            except Interrupted:
                self.save()  # as before the evaluation, which is made again
                raise
        self.save()  # a finished run can be extended

    def agree(self, stop: int, late: bool) -> tuple[int, bool]:
        """The signal that any process was sent, and whether the first finds a checkpoint late: clocks differ."""
        p = self.experiment.processes
        if p.count == 1:
            return stop, late
        if p.device.type == "cuda" and self.progress["step"] % AGREE_EVERY:
            return 0, False
        asked = torch.tensor([float(stop == 15), float(stop == 2), float(late and p.first)], device=p.device)
        terminated, broken, late_there = (v > 0 for v in p.total(asked).tolist())
        return 15 if terminated else 2 if broken else 0, late_there

    def batches(self, epoch: int, skip: int) -> Iterator[Batch]:
        """The batches of an epoch on the device, with the images the method looks at."""
        e = self.experiment
        planned, ahead = itertools.tee(e.plan.epoch(epoch, skip))  # holds only what the feed is ahead
        images = None
        if e.method.wants_images and self.graphed is None:
            images = e.feeds["train"].iterate(self._wanted(p.rows, p.positives) for p in ahead)
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
        tried = e.method.step if self.graphed is None and e.processes.count == 1 else None
        with suggesting(batch, t.batch, tried):
            losses = self.graphed(batch) if self.graphed is not None else e.method.step(batch)
        if e.processes.count > 1:
            losses = dict(zip(losses, e.processes.total(torch.stack(list(losses.values()))).unbind(), strict=True))
        self.average.follow(batch.step)
        for name, value in losses.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value
        self.progress["step"] += 1
        self.progress["count"] += 1
        if self.progress["step"] % t.log_every == 0 or e.processes.device.type == "cpu":
            self.check_finite(batch)
        if self.progress["step"] % t.log_every == 0:
            self._log_step(batch.epoch, began)
            if t.check_processes:
                e.processes.check_equal(e.method.state_dict())

    def _log_step(self, epoch: int, began: float) -> None:
        e = self.experiment
        count = self.progress["count"]
        means = {k: float(v) / count for k, v in self.sums.items()}
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
            self._scored,
        )

    def _scored(self, images: int) -> None:
        """Between batches of an evaluation: a process alone may stop here, several must stay together."""
        if self.stop.number and self.experiment.processes.count == 1:
            raise Interrupted(128 + self.stop.number)

    def close(self) -> None:
        """End the trackers."""
        if self.tracker is not None:
            self.tracker.finish()

    def evaluate(self) -> dict[str, float | None]:
        """mAP on the reported split, and on the held-out images by the labels that the run may use for choosing."""
        return measure(self.experiment.data, self.experiment.config.train, self.scores)

    def _trained(self) -> dict[str, Tensor]:
        return {n: p.detach() for n, p in self.experiment.network.named_parameters() if p.requires_grad}

    def _keep_best(self) -> None:
        if self.experiment.processes.first:
            from safetensors.torch import save

            weights = save({k: v.cpu().contiguous() for k, v in self._trained().items()})
            write_atomically(self.run.best_file(self.progress["best_epoch"]), weights)
            self._drop_bests()

    def use_best(self) -> None:
        """Put the chosen epoch's weights into the network."""
        from safetensors.torch import load_file

        self.experiment.processes.wait()
        self.experiment.network.load_state_dict(
            load_file(self.run.best_file(self.progress["best_epoch"])), strict=False
        )

    def finish(self, seconds: float) -> dict[str, Any]:
        """Evaluate the chosen weights, write the model folder and the summary."""
        self.use_best()
        return conclude(self.experiment, self.run, self.progress["best_epoch"], seconds, self.scores, self.report)
