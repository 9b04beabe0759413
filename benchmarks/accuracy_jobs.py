"""The jobs of `accuracy.py`: which rows there are, and which job a worker takes next."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

# What all rows have in common. Everything else, and all that belongs to a method, is the package's default.
SHARED = (
    "data.size=448", "data.workers=4", "labels.seed=0", "model.calibrate_bn=true",
    "train.epochs=12", "train.batch=16", "train.ema=0.99", "train.flip_test=true",
    "train.feature_cache=device", "train.compile=true", "train.holdout_labels=full", "train.checkpoint_minutes=0",
)  # fmt: skip
CANDIDATE = ("train.holdout=0.2",)  # settings are chosen on a fifth of the training images

Words = tuple[str, ...]
Rows = Mapping[str, Words]

MAIN: Rows = {
    "role-cnn": ("method=role", "model.head=cnn"),
    "role-smt": ("method=role",),
    "scob": ("method=scob",),
    "full-smt": ("method=full",),
}
# The rows of Tab. 3 that are not in MAIN (cnn is role-cnn, smt without contrast is role-smt, the last one is scob).
ABLATION: Rows = {
    "smt-nocam-ipt": ("method=scob", "scob.guidance=none"),
    "smt-cam-random": ("method=scob", "scob.contrast=random"),
    "smt-nocam-random": ("method=scob", "scob.guidance=none", "scob.contrast=random"),
    "large-cnn": ("method=role", "model.head=large-cnn"),
    "cnn-ipt": ("method=scob", "model.head=cnn", "scob.guidance=none"),
}
SAME_ROW = {"role": "role-smt", "full": "full-smt"}  # a method with the common network that MAIN has already
CONTRAST_COSTS = 4.0  # a row with a contrastive pass takes about four times as long as one without


@dataclass(frozen=True)
class Job:
    """One run: a data set, the row's name and settings, and a seed. A candidate is judged by held-out images only."""

    data: str
    name: str
    words: Words
    seed: int
    candidate: bool = False

    @property
    def parts(self) -> tuple[str, bool]:
        """Jobs with the same value share decoded images, backbone and cached features."""
        return self.data, self.candidate

    @property
    def weight(self) -> float:
        """How long the job takes compared with others on the same data, before any has finished."""
        words = set(self.words)
        contrast = words & {"method=scob", "method=pairs"} and not words & {
            "scob.contrast=none",
            "pairs.contrast=false",
        }
        return CONTRAST_COSTS if contrast else 1.0


def parse_row(text: str) -> tuple[str, Words]:
    """`name:key=value,key=value`; a value may contain commas."""
    name, _, words = text.partition(":")
    return name, tuple(word for word in re.split(r",(?=[\w.-]+=)", words) if word)


def rows_of(group: str, methods: Sequence[str]) -> Rows:
    """The rows of a group, of a row's name, or of `name:key=value,...`, which is Scob unless it names a method."""
    if group == "methods":
        return {SAME_ROW.get(name, name): (f"method={name}",) for name in methods}
    groups = {"main": MAIN, "ablation": ABLATION}
    if group in groups:
        return groups[group]
    known = {**{name: (f"method={name}",) for name in methods}, **MAIN, **ABLATION}
    name, words = parse_row(group)
    if not words and name in known:
        return {SAME_ROW.get(name, name): known[name]}
    if ":" not in group:
        raise SystemExit(f"{group!r} is not a group, a row or name:key=value; rows: {', '.join(known)}")
    return {name: words if any(w.startswith("method=") for w in words) else ("method=scob", *words)}


def plan_jobs(
    data: Iterable[str], seeds: Iterable[int], groups: Iterable[str], candidates: Iterable[str], methods: Sequence[str]
) -> list[Job]:
    """All jobs, the first seed first. Candidates come with ROLE + SMT, which they are compared with."""
    rows: dict[tuple[str, bool], Words] = {}
    chosen = list(candidates)
    for candidate in ["role-smt", *chosen] if chosen else []:
        rows |= {(name, True): words for name, words in rows_of(candidate, methods).items()}
    for group in groups:
        rows |= {(name, False): words for name, words in rows_of(group, methods).items()}
    sets = list(data)
    return [
        Job(source, name, words, seed, candidate)
        for seed in seeds
        for (name, candidate), words in rows.items()
        for source in sets
    ]


class Schedule:
    """Which job each worker takes next: of the data it has loaded, the longest first, and only if time is left."""

    def __init__(self, jobs: Iterable[Job], workers: int) -> None:
        self.pending = list(jobs)
        self.order = {job: place for place, job in enumerate(self.pending)}
        self.workers = workers
        self.loaded: dict[int, tuple[str, bool]] = {}  # the data that each worker has, by its number
        self.seconds: dict[Job, float] = {}
        self.loading: list[float] = []  # seconds that reading data and computing features took

    def estimate(self, job: Job) -> float | None:
        """Seconds that a job will take, from the same row with other seeds, else from other rows; None: unknown."""
        same = [s for j, s in self.seconds.items() if (j.parts, j.name) == (job.parts, job.name)]
        if same:
            return fmean(same)
        units = [(j, s / j.weight) for j, s in self.seconds.items()]
        alike = [unit for j, unit in units if j.data == job.data] or [unit for _, unit in units]
        return job.weight * median(alike) if alike else None

    def work(self, jobs: Iterable[Job]) -> float:
        """The time of several jobs one after another: in seconds, or in units of the shortest before any is known."""
        return sum(self.estimate(job) or job.weight for job in jobs)

    def next(self, worker: int, left: float) -> Job | None:
        """Take a job for this worker that can finish in `left` seconds; None: there is none worth its while."""
        load = fmean(self.loading) if self.loading else 0.0
        mine = self.loaded.get(worker)

        def fits(job: Job) -> bool:
            estimate = self.estimate(job)
            return estimate is None or estimate + (0 if job.parts == mine else load) <= left

        possible = [job for job in self.pending if fits(job)]
        here = [job for job in possible if job.parts == mine]
        if not here:
            here = self._other_data(worker, possible, load)
        if not here:
            self.loaded.pop(worker, None)
            return None
        everything_fits = self.work(self.pending) <= left * self.workers
        if everything_fits:
            job = min(here, key=lambda j: (-self.work([j]), self.order[j]))
        else:  # some will not be run: those of later seeds and groups
            job = min(here, key=lambda j: self.order[j])
        self.pending.remove(job)
        self.loaded[worker] = job.parts
        return job

    def _other_data(self, worker: int, possible: Sequence[Job], load: float) -> list[Job]:
        """The jobs of the data set with the most work per worker; none if others will be done before it is loaded."""
        jobs_of: dict[tuple[str, bool], list[Job]] = {}
        for job in possible:
            jobs_of.setdefault(job.parts, []).append(job)
        others = [parts for number, parts in self.loaded.items() if number != worker]

        def share(parts: tuple[str, bool]) -> float:
            return self.work(jobs_of[parts]) / (1 + others.count(parts))

        if not jobs_of:
            return []
        parts = max(jobs_of, key=share)
        crowded = others.count(parts) > 0 and self.work(jobs_of[parts]) / others.count(parts) <= load
        return [] if crowded else jobs_of[parts]

    def finished(self, job: Job, seconds: float, loading: float) -> None:
        """Learn from a job how long jobs take."""
        self.seconds[job] = seconds
        if loading:
            self.loading.append(loading)

    def put_back(self, worker: int, job: Job) -> None:
        """A job that its worker could not start."""
        self.pending.append(job)
        self.loaded.pop(worker, None)
