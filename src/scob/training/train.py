"""`train`: a run from its settings to its model folder, started or resumed."""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scob import methods
from scob.config import Config
from scob.data.images import cause
from scob.data.progress import Progress as ReadingProgress
from scob.errors import UserError
from scob.launch import launch
from scob.parallel import Processes, start
from scob.training.build import Experiment, build
from scob.training.checkpoint import Checkpoint, Progress, latest_checkpoint, set_aside
from scob.training.continuation import initialise
from scob.training.events import CheckpointDamaged, Listener, Note, Started, StopRequested, progress_of, silent
from scob.training.execution import FILE as EXECUTION
from scob.training.execution import Execution, read_execution
from scob.training.finished_run import FinishedRun
from scob.training.inputs import Inputs
from scob.training.loop import Training
from scob.training.model_folder import ModelCard, check_weights
from scob.training.out_of_memory import StepTooLarge, release
from scob.training.results import write_results
from scob.training.resume import check_same, judge_of, with_choices_of
from scob.training.run_data import Data, load_data
from scob.training.run_folder import RunFolder
from scob.training.run_splits import as_it_began, how_measured
from scob.training.stopping import LOST, StopRequest, watching_peers
from scob.training.trackers import check_tracker


@dataclass(frozen=True)
class SharedParts:
    """What several runs may share, so that it is prepared once: processes, data, backbone and features."""

    data: Data | None = None
    processes: Processes | None = None
    inputs: Inputs | None = None


def train(
    config: Config,
    out: Path,
    resume: bool = False,
    init: str | Path | None = None,
    listen: Listener = silent,
    shared: SharedParts = SharedParts(),
    loop: type[Training] = Training,
) -> FinishedRun:
    """Train one method in the run folder `out` and return the finished run.

    With `resume`, an interrupted run continues from its last checkpoint, and a finished one is returned as it is;
    without it, a folder that already contains a run is refused. `init` is a model to continue from (`prepare` or
    `config_from_model` give the settings for it). `loop` may be a subclass of `Training` that logs more. If a step does
    not fit into memory, the run goes on from its last checkpoint with less (`Execution.lower`), where there is less.
    """
    while True:
        try:
            return train_once(config, out, resume, init, listen, shared, loop)
        except StepTooLarge:
            lowered = lower_execution(Path(out), config, shared)
            if lowered is None:
                raise
        release()
        listen(Note(f"a step did not fit into memory; the run goes on from its last checkpoint {lowered.reasons[0]}"))
        resume = True


def lower_execution(folder: Path, config: Config, shared: SharedParts) -> Execution | None:
    """Take one step down in a run's record; None if there is none, or if other runs share what would have to change."""
    record = read_execution(folder)
    lowered = None if record is None else record.lower(config)
    if record is None or lowered is None or (shared.inputs is not None and lowered.features != record.features):
        return None
    if (shared.processes.count if shared.processes is not None else launch().count) > 1:
        return None
    lowered.save(folder)
    return lowered


def train_once(
    config: Config,
    out: Path,
    resume: bool,
    init: str | Path | None,
    listen: Listener,
    shared: SharedParts,
    loop: type[Training],
) -> FinishedRun:
    """`train`, up to the first step that does not fit into memory."""
    run, began = RunFolder(out), time.monotonic()
    config = methods.written_out(config)
    processes = shared.processes or start(config.train.device)
    listen = listen if processes.first else silent
    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(StopRequest())
        stop.heard = lambda: listen(StopRequested())
        stack.enter_context(watching_peers(processes, run.path, stop))
        with processes.together():
            if processes.first:
                check_tracker(config.train.tracker)
                # Wrong settings of a method are refused before anything is written.
                methods.settings_of(config, config.method)
                methods.class_for(config).adjust(config)
                stack.enter_context(run.locked())
                (run.path / LOST).unlink(missing_ok=True)
                if not resume:
                    run.check_free()
                    (run.path / EXECUTION).unlink(missing_ok=True)
                    if left := set_aside(run.checkpoints):
                        listen(Note(f"{run.checkpoints} had {left} checkpoints of an earlier run, renamed now"))
        if resume and (ended := summary_of_whole_run(run, config.train.epochs, listen)) is not None:
            return FinishedRun(run, config, ended)
        config = with_choices_of(run, config) if resume else config
        data = shared.data or read_data(config, listen, run if resume and run.config_file.exists() else None)
        if data.evaluate is None:
            listen(Note(nothing_reported(data, config)))
        # A resumed run does not need `init`: its first checkpoint has the weights it started from.
        starts_from = init if not resume else None
        if starts_from is None:
            write_or_check_settings(run, config, data, processes, resume)
        checkpoint = latest_checkpoint(run.checkpoints, judge_of(config, data.drawn)) if resume else None
        tensors = checkpoint.tensors if checkpoint is not None else None
        experiment = build(config, data, processes, tensors, run.path, listen, shared.inputs)
        if processes.first:
            experiment.execution.save(run.path)
        if shared.inputs is None:
            stack.callback(experiment.inputs.close)
        if starts_from is not None:
            listen(initialise(experiment, starts_from))
        training = loop(experiment, run, listen, stop)
        training.clock.began = began
        stack.callback(training.close)
        restore_or_start(training, checkpoint, listen)
        if starts_from is not None:
            training.save()
            write_or_check_settings(run, config, data, processes, resume)
        listen(Started(training.progress.step, experiment.plan.steps * training.epochs))
        return train_to_end(training, experiment, run)


def summary_of_whole_run(run: RunFolder, epochs: int, listen: Listener) -> dict[str, Any] | None:
    """The summary of a run that has trained that many epochs; None if it has not ended, or its results are damaged."""
    if not run.finished:
        return None
    try:
        summary = run.summary()
        check_weights(run.model, ModelCard.read(run.model))
    except UserError as error:
        listen(Note(f"the results of this run are written again from its last checkpoint: {error}"))
        return None
    return summary if summary.get("epochs") == epochs else None


def read_data(config: Config, listen: Listener, begun: RunFolder | None) -> Data:
    """The data of a run, with a note about images that were left out; a run that has `begun` keeps its own."""
    progress = progress_of("reading images", listen)
    data = load_data(config, progress=progress) if begun is None else read_as_begun(config, begun, progress)
    if measured := how_measured(data.evaluate):
        listen(Note(measured))
    if skipped := data.train.skipped:
        listen(Note(f"left out {len(skipped)} of the images; the first: {cause(skipped[0])}"))
    return data


def read_as_begun(config: Config, run: RunFolder, progress: ReadingProgress | None = None) -> Data:
    """The data of a run that has begun: the images it drew by `data.limit`, and the split it reported on so far."""
    epochs = run.records("epoch")
    reports = not epochs or any("mAP" in epoch for epoch in epochs)
    labels = run.labels() if config.data.limit and run.labels_file.exists() else None
    return load_data(as_it_began(config, reports), began_with=labels, progress=progress)


def nothing_reported(data: Data, config: Config) -> str:
    """The sentence that a run without an evaluation split begins with."""
    last = ", and the last epoch becomes the model" if config.train.select == "best-on-test" else ""
    advice = "give a table with complete labels as data.evaluate (with --images: --val)"
    if data.unused:
        advice = f"data.evaluate can be {' or '.join(data.unused)}"
    return f"no evaluation split, so mAP is not reported{last}; {advice}"


def write_or_check_settings(run: RunFolder, config: Config, data: Data, processes: Processes, resume: bool) -> None:
    """Write what a run begins with, or check that it is still the same."""
    with processes.together():
        if not processes.first:
            return
        if resume and run.config_file.exists():
            check_same(run, config, data.drawn)
        run.write_config(config)
        data.drawn.save(run.labels_file)
        if run.finished:  # it is being extended, and continues from its last checkpoint
            run.summary_file.unlink()


def restore_or_start(training: Training, checkpoint: Checkpoint | None, listen: Listener) -> None:
    """Restore a checkpoint, or start with an empty log."""
    if checkpoint is not None:
        for complaint in checkpoint.complaints:
            listen(CheckpointDamaged(complaint))
        if checkpoint.origin is None:
            listen(
                Note("the checkpoint is of an earlier version, so only its weights can be checked, not its progress")
            )
        training.restore(checkpoint)
    elif training.experiment.processes.first:
        training.run.cut_log(Progress())


def train_to_end(training: Training, experiment: Experiment, run: RunFolder) -> FinishedRun:
    """Train to the end, evaluate the chosen epoch, write the model."""
    training.fit()
    training.use_best()
    estimates = training.finish()
    facts = {"selected_epoch": training.progress.best_epoch, "seconds": round(training.clock.seconds, 1)}
    summary = write_results(experiment, run, {"epochs": training.epochs, **facts}, training.scores, estimates)
    return FinishedRun(run, experiment.config, summary, experiment)
