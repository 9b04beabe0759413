"""The training loop of every method: epochs, log, evaluation, choice of the epoch, checkpoints."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scob.algorithm.sampling import Batch, Rows, to_device
from scob.draws import seed_key
from scob.errors import UserError
from scob.training.averaging import Average
from scob.training.best_weights import read_best, remove_bests, save_best, trained_tensors
from scob.training.build import Experiment, scored_at_once
from scob.training.checkpoint import (
    Checkpoint,
    Progress,
    best_epoch_of,
    digest,
    list_checkpoints,
    pack,
    save_checkpoint,
    unpack,
)
from scob.training.clock import Clock
from scob.training.divergence import check_finite
from scob.training.events import EpochMeasured, Listener, Note, StepLogged, StepTaken, counter, silent
from scob.training.graphs import graphed_step
from scob.training.linear import fit_linear
from scob.training.out_of_memory import FittingBatch, suggest_batch_size
from scob.training.results import measure
from scob.training.resume import check_frozen, origin_of
from scob.training.run_folder import RunFolder
from scob.training.stopping import Interrupted, StopRequest, agree
from scob.training.trackers import open_tracker

SCORING = {"holdout": "scoring held-out images", "evaluate": "evaluating", "train": "scoring training images"}


class Training:
    """A run in progress. All of its state is in tensors and in `progress`, and a checkpoint holds both."""

    def __init__(
        self, experiment: Experiment, run: RunFolder, listen: Listener = silent, stop: StopRequest | None = None
    ) -> None:
        self.experiment, self.run, self.listen = experiment, run, listen
        self.stop = stop or StopRequest()
        self.average = Average(experiment.network, experiment.config.train.ema)
        self.progress = Progress()
        self.origin = origin_of(experiment)
        self.sums: dict[str, Tensor] = {}
        self.clock = Clock()
        self.execution = experiment.execution
        self.graphed = graphed_step(experiment, self._give_up_graph)
        self.scored_at_once = FittingBatch(scored_at_once(experiment.processes.device), listen)
        self.scored: dict[str, Tensor] = {}  # scores by split; emptied when the weights change
        with experiment.processes.together():
            self.tracker = open_tracker(experiment.config, run.path) if experiment.processes.first else None

    def close(self) -> None:
        """End the trackers."""
        if self.tracker is not None:
            self.tracker.finish()

    # State.

    def save(self) -> None:
        """Write a checkpoint, unless the losses since the last one are not finite."""
        self.check_finite()
        e = self.experiment
        with e.processes.together():
            if e.processes.first:
                self.progress.log, self.progress.log_digest = self.run.sync_log()
                self.progress.seconds = self.clock.seconds
                state = pack(e.method, e.optimiser, self.average, self.sums)
                save_checkpoint(self.run.checkpoints, state, self.progress, self.origin)
                self._remove_bests()

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        e = self.experiment
        check_frozen(checkpoint, self.origin, e.config)
        self.sums = unpack(checkpoint.tensors, e.method, e.optimiser, self.average)
        self.progress, self.clock.before = checkpoint.progress, checkpoint.progress.seconds
        if self.progress.best_epoch is not None:
            self._read_best("the best of the epochs that follow is chosen, or the last one if none follow")
        if e.processes.first and (lost := self.run.cut_log(self.progress)):
            self.listen(Note(lost))

    def _read_best(self, instead: str) -> dict[str, Tensor] | None:
        """The best epoch's weights. If they are lost, say so and forget that epoch: the others can still be chosen."""
        p = self.progress
        assert p.best_epoch is not None
        try:
            return read_best(self.run.path, p.best_epoch, p.best_digest)
        except UserError as error:
            self.listen(Note(f"the weights of epoch {p.best_epoch + 1}, the best so far, are lost: {error}; {instead}"))
            p.best = p.best_epoch = p.best_digest = None
            return None

    def check_finite(self, batch: Batch | None = None) -> None:
        """Stop at once on a loss that is not a number."""
        check_finite(self.sums, self.progress, self.experiment, self.run.checkpoints, batch)

    def _remove_bests(self) -> None:
        """Remove weights of earlier best epochs that no checkpoint can return to."""
        needed = [best_epoch_of(path) for path in list_checkpoints(self.run.checkpoints)]
        remove_bests(self.run.path, [*needed, self.progress.best_epoch])

    # The loop.

    @property
    def epochs(self) -> int:
        """How many epochs are trained in all."""
        return self.experiment.config.train.epochs

    def fit(self) -> None:
        """Train from the current progress to the last epoch."""
        e, t = self.experiment, self.experiment.config.train
        self.stop.saves_first = True
        last_saved = time.monotonic()
        while self.progress.epoch < self.epochs:
            epoch, began = self.progress.epoch, time.monotonic()
            self.clock.start()
            done_before = self.progress.step - epoch * e.plan.steps
            e.method.train()
            e.method.begin_epoch(epoch)
            for batch in self.batches(epoch, done_before):
                self.iterate(batch)
                late = bool(t.checkpoint_minutes) and time.monotonic() - last_saved > 60 * t.checkpoint_minutes
                stop, late = agree(e.processes, self.progress.step, self.stop.number, late)
                if stop or late or (t.checkpoint_steps and self.progress.step % t.checkpoint_steps == 0):
                    self.save()
                    last_saved = time.monotonic()
                if stop:
                    raise Interrupted(128 + stop)
            trained = time.monotonic()
            try:
                self.end_epoch(epoch, trained - began)
            except Interrupted:
                self.save()  # as it was before the evaluation, which will be repeated
                raise
            self.clock.leave_out(trained)
        self.save()  # so that a finished run can be extended

    def batches(self, epoch: int, skip: int) -> Iterator[Batch]:
        """The batches of an epoch on the device, with the images the method needs."""
        e = self.experiment
        planned, ahead = itertools.tee(e.plan.epoch(epoch, skip))  # buffers only the batches that the feed is ahead by
        images = None
        if e.method.wants_images and self.graphed is None:
            images = e.inputs.feeds["train"].iterate(self._wanted(p.rows, p.positives) for p in ahead)
        for number, plan in enumerate(planned):
            step = epoch * e.plan.steps + skip + number
            batch = to_device(plan, epoch, step, e.processes.device)
            if images is not None:
                pixels, count = next(images), len(plan.rows)
                batch.images = pixels[:count]
                batch.positive_images = pixels[count:] if e.method.needs_positives else None
            yield batch

    def _wanted(self, rows: Rows, positives: Rows) -> Rows:
        wanted = np.concatenate((rows, positives)) if self.experiment.method.needs_positives else rows
        return np.minimum(wanted, self.experiment.plan.count - 1)  # padding fetches any image; its weight is 0

    def iterate(self, batch: Batch) -> None:
        """One step, and its log line if one is due."""
        e, t = self.experiment, self.experiment.config.train
        torch.manual_seed(seed_key(t.seed, batch.step, e.processes.rank, "dropout"))
        e.optimiser.begin(batch.step)
        self.scored = {}
        self.clock.start()

        def plain(part: Batch) -> dict[str, Tensor]:
            return e.method.step(part, e.optimiser)

        tries = self.graphed is None and e.processes.count == 1 and self.execution.lower(e.config) is None
        with suggest_batch_size(batch, t.batch, plain if tries else None):
            losses = self.graphed(batch) if self.graphed is not None else plain(batch)
        if e.processes.count > 1:
            losses = dict(zip(losses, e.processes.total(torch.stack(list(losses.values()))).unbind(), strict=True))
        self.average.follow(batch.step)
        for name, value in losses.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value
        self.progress.step += 1
        self.progress.count += 1
        self.clock.step()
        settled = e.method.phase(batch.epoch) == e.method.phase(t.epochs - 1)
        self.listen(StepTaken(self.progress.step, e.plan.steps * self.epochs, settled))
        due = self.progress.step % t.log_every == 0
        if due or e.processes.device.type == "cpu":
            self.check_finite(batch)
        if due:
            self.log_step(batch.epoch)
            if t.check_processes:
                e.processes.check_equal(e.method.state_dict())

    def _give_up_graph(self, why: str) -> None:
        """The step could not be captured: say so, and let a resumed run know."""
        self.execution = replace(self.execution, graph=False, reasons=(why,))
        self.execution.save(self.run.path)
        self.listen(Note(why))

    def log_step(self, epoch: int) -> None:
        """Log the mean losses since the last log line, and report them."""
        e, step, count = self.experiment, self.progress.step, self.progress.count
        means = {name: float(total) / count for name, total in self.sums.items()}
        rate = float(e.optimiser.adam.param_groups[0]["lr"])
        per_second = self.clock.images_per_second(e.config.train.batch)
        record = {"kind": "step", "step": step, "epoch": epoch, **means, "rate": rate}
        self.write({**record, "images_per_second": round(per_second, 1)})
        if self.tracker is not None:
            self.tracker.log({**{f"loss/{k}": v for k, v in means.items()}, "rate": rate}, step)
        self.listen(StepLogged(step, e.plan.steps * self.epochs, means, per_second))
        self.sums, self.progress.count = {}, 0

    def write(self, record: dict[str, Any]) -> None:
        """Append a line to the run's log."""
        if self.experiment.processes.first:
            self.run.log({**record, "time": round(time.time(), 3)})

    # Evaluation.

    def end_epoch(self, epoch: int, seconds: float) -> None:
        """Evaluate, let the method know, and save the weights if this is the best epoch so far (`train.select`)."""
        e, t = self.experiment, self.experiment.config.train
        due = epoch + 1 == self.epochs or (t.evaluate_every and (epoch + 1) % t.evaluate_every == 0)
        with self.average.used():
            measured = self.evaluate() if due else None
            e.method.end_epoch(epoch, lambda: self.scores("train"))  # the last thing here that a stop interrupts
            if measured is not None:
                key = {"last": "", "holdout": "holdout", "best-on-test": "mAP"}[t.select]
                value, best = measured.get(key), self.progress.best
                if value is None or best is None or value > best:
                    self.progress.best, self.progress.best_epoch = value, epoch
                    self.progress.best_digest = digest(trained_tensors(e.network))
                    if e.processes.first:
                        save_best(self.run.path, epoch, e.network)
                        self._remove_bests()
        if measured is not None:
            self.write({"kind": "epoch", "epoch": epoch, **measured, "seconds": round(seconds, 3)})
            if self.tracker is not None:
                self.tracker.log({k: v for k, v in measured.items() if v is not None}, self.progress.step)
            self.listen(EpochMeasured(epoch, self.epochs, measured, seconds))
        self.progress.epoch = epoch + 1

    def evaluate(self) -> dict[str, float | None]:
        """mAP on the reported split, and on the held-out images, with the labels allowed for choosing the epoch."""
        return measure(self.experiment.data, self.experiment.config.train, self.scores)

    def scores(self, split: str) -> Tensor:
        """Predictions for 'train', 'holdout' or 'evaluate', (N, L) on the CPU, computed once for the same weights."""
        if split not in self.scored:
            count = counter(SCORING[split], len(self.experiment.inputs.feeds[split]), self.listen)
            self.scored[split] = self.experiment.scores(
                split, lambda images: self._between_batches(images, count), self.scored_at_once
            )
        return self.scored[split]

    def _between_batches(self, images: int, count: Callable[[int], None]) -> None:
        """A single process may stop in the middle of an evaluation; several must stay together."""
        count(images * self.experiment.processes.count)
        if self.stop.number and self.experiment.processes.count == 1:
            raise Interrupted(128 + self.stop.number)

    def use_best(self) -> None:
        """Put the chosen epoch's weights into the network: the last epoch's if those of the best are lost."""
        self.experiment.processes.wait()
        if self.progress.best_epoch != self.progress.epoch - 1:
            self.scored = {}
        best = None if self.progress.best_epoch is None else self._read_best("the model has those of the last epoch")
        if best is not None:
            self.experiment.network.load_state_dict(best, strict=False)
        else:
            self.progress.best_epoch = self.progress.epoch - 1
            self.average.adopt()

    def finish(self) -> Tensor | None:
        """Fit the linear part, if there is one, and let the method change the network one last time.

        Returns the final estimates of the training images' labels, (N, L); None if there are none.
        """
        e, fitted = self.experiment, None
        if e.network.linear is not None:
            count = counter("computing the linear classifier", len(e.data.train), self.listen)
            fitted = fit_linear(e, lambda images: self._between_batches(images, count), self.scored_at_once)
            self.scored = {"train": fitted.scores}
        lowered = e.method.finish(lambda: self.scores(e.data.told_at_the_end)) or 0.0  # a plugin may return None
        if e.method.finishes():
            self.scored = {}
        if fitted is None:
            return e.method.estimates()
        assert self.progress.best_epoch is not None
        return (e.method.ranking(fitted.honest.logit(), self.progress.best_epoch) - lowered).sigmoid()
