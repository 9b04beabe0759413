"""The stored runs behind docs/results.md: read, checked, and arranged by data set, row and seed."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

RESULTS = Path(__file__).parent / "results"
ALL_IMAGES = "all-images"  # the file of the runs that hold no image out
TITLES = {"voc2007": "VOC 2007", "coco2014small": "COCO2014small", "scenes": "drawn scenes"}
NOT_COMPARED = {"seed", "device", "checkpoint_minutes", "log_every"}  # settings that may differ between runs of a row
OLD_FACTS = {"data": "voc2007", "candidate": False, "train_images": 2250, "evaluate_images": 2510, "classes": 20}

Run = dict[str, Any]


@dataclass(frozen=True)
class DataSet:
    """The runs on one data set that are reported. `old`: made before runs stored their settings."""

    name: str
    runs: tuple[Run, ...]

    @property
    def title(self) -> str:
        return TITLES.get(self.name, self.name)

    @property
    def old(self) -> bool:
        return any("settings" not in run for run in self.runs)

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(run["name"] for run in self.runs))

    def by_seed(self, row: str, key: str = "last") -> dict[int, float]:
        """A number of each seed. Repeats of a seed, which a GPU does not add up in the same order, count as one run."""
        values: dict[int, list[float]] = {}
        for run in self.runs:
            if run["name"] == row and run.get(key) is not None:
                values.setdefault(run["seed"], []).append(run[key])
        return {seed: fmean(repeats) for seed, repeats in sorted(values.items())}

    def mean(self, row: str, key: str = "last") -> float | None:
        values = self.by_seed(row, key)
        return fmean(values.values()) if values else None

    def text(self, row: str, key: str = "last") -> str:
        """Mean and deviation over the seeds."""
        return spread(list(self.by_seed(row, key).values()))


def spread(values: list[float], sign: str = "") -> str:
    """Mean and deviation; a single value alone; a dash for none."""
    if not values:
        return "–"
    mean = f"{fmean(values):{sign}.2f}"
    return mean if len(values) == 1 else f"{mean} ± {stdev(values):.2f}"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """The lines of a Markdown table."""
    names = list(heads)
    return [line(names), "|" + "---|" * len(names), *(line(row) for row in rows)]


def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def old_runs(results: dict[str, Any]) -> list[Run]:
    """The main rows and the ablation of results/voc2007.json, in the form of today's runs."""
    runs = []
    for run in [*results["main"], *results["ablation"]]:
        *words, seed = run["words"]
        runs.append({**OLD_FACTS, **run, "words": words, "seed": int(seed.removeprefix("train.seed="))})
    return runs


def lines_of(file: Path) -> list[Run]:
    """The runs of a file, one per line; none if there is no such file."""
    return [json.loads(text) for text in file.read_text().splitlines()] if file.is_file() else []


def read_runs(folder: Path = RESULTS) -> list[Run]:
    """Every line of every .jsonl file in the folder; without a run on VOC 2007 among them, the older ones.

    `levers.jsonl` and `recovered.jsonl` (docs/oracles.md), `backbones.jsonl` and `minutes.jsonl` (docs/backbones.md)
    have another form and pages of their own; `all-images.jsonl` has a table of its own.
    """
    apart = ("levers", "backbones", "minutes", "recovered", ALL_IMAGES)
    files = [file for file in sorted(folder.glob("*.jsonl")) if file.stem not in apart]
    runs = [run for file in files for run in lines_of(file)]
    check_same_settings(runs)
    if not any(run["data"] == "voc2007" and not run["candidate"] for run in runs):
        runs = old_runs(json.loads((folder / "voc2007.json").read_text())) + runs
    return runs


def data_sets(runs: Iterable[Run]) -> list[DataSet]:
    """The data sets that have reported runs: those with a title first, in its order."""
    of: dict[str, list[Run]] = {}
    for run in runs:
        if not run["candidate"]:
            of.setdefault(run["data"], []).append(run)
    known = [name for name in TITLES if name in of]
    return [DataSet(name, tuple(of[name])) for name in dict.fromkeys([*known, *of])]


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"train": {"batch": 16}}` -> `{"train.batch": 16}`."""
    values: dict[str, Any] = {}
    for key, value in tree.items():
        values |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return values


def check_same_settings(runs: Iterable[Run]) -> None:
    """Refuse runs of one row and data set with different settings, such as defaults of two versions."""
    first: dict[tuple[str, str, bool], dict[str, Any]] = {}
    for run in runs:
        settings = {k: v for k, v in flat(run["settings"]).items() if k.rpartition(".")[2] not in NOT_COMPARED}
        known = first.setdefault((run["data"], run["name"], run["candidate"]), settings)
        for key in known.keys() & settings.keys():
            if known[key] != settings[key]:
                raise SystemExit(
                    f"{run['name']} on {run['data']} has {key}={known[key]} in one run and {settings[key]} in another: "
                    "remove the runs of one of them"
                )
