"""`train`: a run from its settings to its model folder, begun or taken up again."""

import contextlib
import time
from pathlib import Path
from typing import Any

from scob.config import Config
from scob.data.images import cause
from scob.parallel import Processes, start
from scob.training import checkpoint
from scob.training.build import Data, Report, Sight, build, load_data, silent
from scob.training.loop import Training as Training
from scob.training.resume import check_same
from scob.training.resume import resume_config as resume_config
from scob.training.run_folder import RunFolder
from scob.training.stopping import LOST, StopRequest, watching_peers
from scob.training.stopping import Interrupted as Interrupted


def train(
    config: Config,
    out: Path,
    resume: bool = False,
    report: Report = silent,
    data: Data | None = None,
    processes: Processes | None = None,
    loop: type[Training] = Training,
    init: str | Path | None = None,
    sight: Sight | None = None,
) -> dict[str, Any]:
    """Train one method and leave everything in the run folder `out`; returns the summary.

    With `resume`, a run that was interrupted goes on from its last checkpoint (and a finished one is returned as it
    is); without, a folder that already holds a run is refused. `loop` may be a `Training` that also watches;
    `init` is a model to continue from (its settings come from `prepare` or `continuing`); `sight` may be shared
    between runs.
    """
    run = RunFolder(out)
    processes = processes or start(config.train.device)
    report = report if processes.first else silent
    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(StopRequest())
        stack.enter_context(watching_peers(processes, run.path, stop))
        with processes.together():
            if processes.first:
                stack.enter_context(run.locked())
                (run.path / LOST).unlink(missing_ok=True)
                if not resume:
                    run.check_free()
        if resume and run.finished and run.summary()["epochs"] == config.train.epochs:
            return run.summary()
        if data is None:
            data = load_data(config)
            if left := data.train.skipped:
                report("note", {"message": f"images left out: {len(left)}; the first: {cause(left[0])}"})
        # A resumed run does not look at `init`: what it began from is on the disk before it can be resumed.
        began_elsewhere = init is not None and not resume
        with processes.together():
            if processes.first and not began_elsewhere:
                begin(run, config, data, resume)
        found = checkpoint.latest_checkpoint(run.checkpoints) if resume else None
        restored = found[0] if found is not None else None
        experiment = build(config, data, processes, restored, run.path, report, sight)
        if sight is None:
            for feed in experiment.feeds.values():
                stack.callback(feed.close)
        if init is not None and began_elsewhere:
            from scob.training.prepare import initialise

            report("continued", dict(initialise(experiment, init)))
        training = loop(experiment, run, report)
        training.stop = stop
        stack.callback(training.close)
        if found is not None:
            for complaint in found[2]:
                report("damaged", {"message": complaint})
            training.restore(found[0], found[1])
        elif processes.first:
            run.cut_log(0)
        if began_elsewhere:
            training.save()
            with processes.together():
                if processes.first:
                    begin(run, config, data, resume)
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
        training.fit()
        return training.finish(time.monotonic() - began)


def begin(run: RunFolder, config: Config, data: Data, resume: bool) -> None:
    """Write what a run begins with, or check that it is still the same."""
    if resume and run.config_file.exists():
        check_same(run, config, data.drawn)
    run.write_config(config)
    data.drawn.save(run.labels_file)
    if run.finished:  # it is being extended; its last checkpoint is where it goes on
        run.summary_file.unlink()
