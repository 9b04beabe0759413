"""Accuracy of any rows on any data sets: every mAP in docs/results.md comes from this script.

    python benchmarks/accuracy.py --data voc2007=VOC2007 --data coco2014small=COCO2014small,data.evaluate=val2014 \\
        --backbone resnet50-imagenet --cache cache --out DIR --together 4 --seeds 0,1,2 main ablation methods

Rows: the groups main, ablation (Tab. 3) and methods (all of `scob compare --list`), a row of them, or
name:key=value,key=value. `--together` processes share the GPU; each runs many jobs and keeps the images and features of
its data set. DIR/results.jsonl gets a line per finished run; runs that it already has are not repeated.

Settings are chosen with `--candidates name:key=value,...`: a fifth of the training images is held out, and candidates
are compared by these images on all data sets together, never by the split that is reported.
"""

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import fmean
from typing import Any

from accuracy_jobs import Job, Schedule, parse_row, plan_jobs
from accuracy_worker import Common, work

ROLE = "role-smt"
REPLACEMENTS = 4  # how many broken workers are replaced before there must be another reason


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help="main, ablation, methods, a row of them, or name:key=value,key=value")
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FOLDER[,KEY=VALUE...]")
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--cache", default="", help="folder for the packed image cache")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="0", help="seeds of weights and draws, as in 0,1,2")
    parser.add_argument("--together", type=int, default=3, help="how many processes share the device")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no run that cannot end in this time")
    parser.add_argument("--extra", default="", help="key=value,key=value for every run")
    parser.add_argument("--candidates", nargs="*", default=[], metavar="NAME:KEY=VALUE,...")
    return parser.parse_args(words)


def common_of(options: argparse.Namespace) -> Common:
    """The settings of each data set, and those of all of them."""
    sources = {}
    for text in options.data:
        name, _, rest = text.partition("=")
        folder, *more = rest.split(",")
        if not folder:
            raise SystemExit(f"--data {text}: write NAME=FOLDER")
        sources[name] = (f"data.source={folder}", *more)
    _, extra = parse_row(":" + options.extra)
    words = (f"model.backbone={options.backbone}", f"data.cache={options.cache}", *extra)
    return Common(sources, words, max(1, (os.cpu_count() or 1) // options.together))


@dataclass
class Worker:
    """A process that runs jobs, and the job it has now."""

    number: int
    process: BaseProcess
    connection: Connection
    job: Job | None = None


@dataclass
class Pool:
    """The workers of one call. Started before the jobs are known: importing PyTorch takes as long as a short job."""

    common: Common
    count: int
    workers: list[Worker] = field(default_factory=list)
    started: int = 0

    def start(self) -> Worker:
        """Start one process."""
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=work, args=(there, self.common), daemon=False)
        process.start()
        there.close()
        worker = Worker(self.started, process, here)
        self.started += 1
        self.workers.append(worker)
        return worker

    def end(self, worker: Worker) -> None:
        """Let a worker end; it has no job."""
        self.workers.remove(worker)
        with contextlib.suppress(OSError):  # it may have ended already
            worker.connection.send(None)
        worker.connection.close()

    def stop(self) -> None:
        """End every process that is left, at once."""
        for worker in self.workers:
            worker.process.terminate()


class Session:
    """Jobs on their way through the pool: each result is written at once."""

    def __init__(self, pool: Pool, schedule: Schedule, file: Path, until: float) -> None:
        self.pool, self.schedule, self.file, self.until = pool, schedule, file, until
        self.failed: list[Job] = []
        self.results: list[dict[str, Any]] = []

    def run(self) -> None:
        """Run everything that time allows."""
        for worker in list(self.pool.workers):
            self.give(worker)
        while self.pool.workers:
            busy = {worker.connection: worker for worker in self.pool.workers}
            for connection in wait(list(busy)):
                self.answered(busy[connection])

    def give(self, worker: Worker) -> None:
        """Give a worker its next job, or let it end."""
        job = self.schedule.next(worker.number, self.until - time.monotonic())
        if job is None:
            self.pool.end(worker)
            return
        worker.job = job
        with contextlib.suppress(OSError):  # it has ended: `answered` will see that
            worker.connection.send(job)

    def answered(self, worker: Worker) -> None:
        """Take a worker's answer."""
        job, worker.job = worker.job, None
        assert job is not None
        try:
            answer = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join()
            answer = {"error": f"the process ended with code {worker.process.exitcode}", "broken": True}
        if "no room" in answer:
            print(f"{job.data}: {answer['no room']}; one worker less", flush=True)
            self.schedule.put_back(worker.number, job)
            self.pool.end(worker)
            if not self.pool.workers:
                self.failed += self.schedule.pending
                self.schedule.pending = []
            return
        if "error" in answer:
            self.failed.append(job)
            print(f"{label(job)} FAILED\n{answer['error']}", flush=True)
        else:
            self.store(job, answer["result"])
        if answer["broken"]:
            self.schedule.loaded.pop(worker.number, None)
            self.pool.end(worker)
            if self.pool.started < self.pool.count + REPLACEMENTS:
                self.give(self.pool.start())
        else:
            self.give(worker)

    def store(self, job: Job, result: dict[str, Any]) -> None:
        """Append a line to the file and print the main numbers."""
        self.results.append(result)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        self.schedule.finished(job, result["seconds"], result["loading"])
        held_out = result.get("holdout_last")
        shown = "" if held_out is None else f"  held out {held_out:.2f}"
        loading = f" + {result['loading']:.0f} s loading" if result["loading"] >= 1 else ""
        print(f"{label(job)} last {result['last']:.2f}{shown}  {result['seconds']:.0f} s{loading}", flush=True)


def label(job: Job) -> str:
    return f"{job.name + (' (candidate)' if job.candidate else ''):24s} {job.data:14s} seed {job.seed} "


def job_of(result: dict[str, Any]) -> Job:
    """The job that a stored result belongs to."""
    return Job(result["data"], result["name"], tuple(result["words"]), result["seed"], result["candidate"])


def candidate_report(results: Iterable[dict[str, Any]]) -> list[str]:
    """Candidates by held-out mAP of the last epoch: the mean over data sets, then each with the lead on ROLE + SMT."""
    values: dict[str, dict[str, dict[int, float]]] = {}
    for result in results:
        if result["candidate"]:
            row = values.setdefault(result["name"], {})
            row.setdefault(result["data"], {})[result["seed"]] = result["holdout_last"]
    sets = sorted({name for row in values.values() for name in row})
    complete = {name: row for name, row in values.items() if set(row) == set(sets)}
    means = {name: fmean(fmean(seeds.values()) for seeds in row.values()) for name, row in complete.items()}
    lines = []
    for name in sorted(means, key=lambda n: -means[n]):
        cells = []
        for data in sets:
            mine, role = values[name][data], values.get(ROLE, {}).get(data, {})
            both = sorted(set(mine) & set(role))
            lead = f" ({fmean(mine[s] - role[s] for s in both):+.2f})" if both and name != ROLE else ""
            cells.append(f"{data} {fmean(mine.values()):.2f}{lead}")
        lines.append(f"{name:24s} {means[name]:.2f}   {'   '.join(cells)}")
    incomplete = sorted(set(values) - set(complete))
    return lines + ([f"not on every data set: {', '.join(incomplete)}"] if incomplete else [])


def main(words: Sequence[str] | None = None) -> int:
    until = time.monotonic()
    options = arguments(words)
    until += options.seconds
    common = common_of(options)
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "results.jsonl"
    stored = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    pool = Pool(common, options.together)
    for _ in range(options.together):
        pool.start()
    try:
        from scob import methods

        seeds = [int(seed) for seed in options.seeds.split(",")]
        done = {job_of(result) for result in stored}
        jobs = plan_jobs(common.data, seeds, options.groups, options.candidates, methods.comparable())
        wanted = [job for job in jobs if job not in done]
        if len(wanted) < len(jobs):
            print(f"{len(jobs) - len(wanted)} runs are in {file} already", flush=True)
        schedule = Schedule(wanted, options.together)
        for result in stored:
            schedule.finished(job_of(result), result["seconds"], 0.0)
        session = Session(pool, schedule, file, until)
        session.run()
    finally:
        pool.stop()
    if options.candidates:
        print("\nheld-out mAP of the last epoch, mean over the data sets (lead on ROLE + SMT)")
        asked = set(jobs)
        print("\n".join(candidate_report(r for r in [*stored, *session.results] if job_of(r) in asked)))
    for title, rest in (("failed", session.failed), ("not run: no time or no worker was left", schedule.pending)):
        if rest:
            print(f"\n{title}:\n" + "\n".join(label(job) + " ".join(job.words) for job in rest))
    return 1 if session.failed else 0


if __name__ == "__main__":
    sys.exit(main())
