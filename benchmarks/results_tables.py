"""The tables of docs/results.md that are made for every data set."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from results_data import TITLES, DataSet, Run, flat, spread, table

MAIN = {
    "role-cnn": "ROLE + two-conv head (the paper's baseline)",
    "role-smt": "ROLE + SMT (Scob without contrast)",
    "scob": "Scob",
    "full-smt": "Full labels + SMT (the ceiling)",
}
# The rows of Tab. 3 (head, guidance, contrast) in the order of the paper, and their ids in paper.yaml.
ABLATION = {
    "role-cnn": ("two-conv, no guidance, no contrast (ROLE)", "cnn"),
    "large-cnn": ("large conv, no guidance, no contrast", "large-cnn"),
    "role-smt": ("SMT, no contrast", "smt"),
    "cnn-ipt": ("two-conv, no guidance, tree", "cnn-ipt"),
    "smt-nocam-random": ("SMT, no guidance, random", "smt-nocam-random"),
    "smt-nocam-ipt": ("SMT, no guidance, tree", "smt-nocam-ipt"),
    "smt-cam-random": ("SMT, CAM guidance, random", "smt-cam-random"),
    "scob": ("SMT, CAM guidance, tree (Scob)", "scob"),
}
METHOD_OF = {"role-smt": "role", "full-smt": "full"}
LEAST_GAP = 0.5  # mAP between ROLE and full labels; below this, a share of it means nothing
LEAST_METHODS = 6
# Student's t: half the width of a 95% interval in standard errors, by the number of seeds.
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}


@dataclass(frozen=True)
class Claim:
    """A difference that the paper claims: what, and the two rows of Tab. 3 it is between."""

    words: str
    better: str
    worse: str


CLAIMS = (
    Claim("The SMT instead of two convolutions", "role-smt", "role-cnn"),
    Claim("Contrastive bootstrapping", "scob", "role-smt"),
    Claim("CAM guidance", "scob", "smt-nocam-ipt"),
    Claim("The tree instead of random negatives", "scob", "smt-cam-random"),
)


def paper_value(row: str) -> float:
    """The mAP on COCO that the paper prints for a row of Tab. 3."""
    from scob.studies.reproduce.paper import paper_table

    value = paper_table("table-ablation").value(ABLATION[row][1], "mAP")
    assert value is not None
    return value


def verdict(differences: Sequence[float], claimed: float) -> str:
    """What the paired differences of several seeds say about a gain that the paper claims."""
    count = len(differences)
    if count < 2:
        return "one seed only" if count else "not run"
    mean = fmean(differences)
    half = STUDENT[min(count, max(STUDENT))] * stdev(differences) / sqrt(count)
    low, high = mean - half, mean + half
    if low > 0:
        return "holds, but is smaller" if high < claimed else "holds, and is larger" if low > claimed else "holds"
    if high < 0:
        return "does not hold"
    return "not distinguishable" + (", and smaller" if high < claimed else "")


def claim_table(sets: Sequence[DataSet]) -> list[str]:
    """The paper's claims one by one: its own difference, ours over paired seeds, and the verdict."""
    rows = []
    for claim in CLAIMS:
        before, after = paper_value(claim.worse), paper_value(claim.better)
        cells = []
        for data in sets:
            better, worse = data.by_seed(claim.better), data.by_seed(claim.worse)
            differences = [better[seed] - worse[seed] for seed in sorted(better.keys() & worse.keys())]
            number = f"{spread(differences, '+')} ({len(differences)}): " if differences else ""
            cells.append(f"{number}**{verdict(differences, after - before)}**")
        rows.append([claim.words, f"{after - before:+.1f} ({before} → {after})", *cells])
    return table(["claim", "paper, COCO", *(data.title for data in sets)], rows)


def share(value: float | None, floor: float | None, ceiling: float | None) -> str:
    """How much of the gap from `floor` to `ceiling` is closed."""
    if value is None or floor is None or ceiling is None or ceiling - floor < LEAST_GAP:
        return "–"
    return f"{100 * (value - floor) / (ceiling - floor):.0f}%"


def main_table(data: DataSet) -> list[str]:
    """The main rows, and the share of the gap to full labels that each closes from ROLE with either head."""
    ceiling = data.mean("full-smt")
    heads = ["row", "seeds", "last epoch", "held out, full labels", "held out, observed labels"]
    rows = []
    for row, title in MAIN.items():
        numbers = [data.text(row, key) for key in ("last", "held_out_full", "held_out_observed")]
        shares = [share(data.mean(row), data.mean(role), ceiling) for role in ("role-cnn", "role-smt")]
        rows.append([title, str(len(data.by_seed(row))), *numbers, shares[0], shares[1] if row != "role-cnn" else "–"])
    return table([*heads, "gap closed from ROLE + conv", "from ROLE + SMT"], rows)


def gap_sentence(data: DataSet) -> str:
    """Where Scob stands between its baseline and full labels, in words."""
    role, smt, scob, full = (data.mean(row) for row in MAIN)
    if role is None or smt is None or scob is None or full is None:
        return ""
    return (
        f"In the last epoch Scob is {distance(scob - smt)} ROLE + SMT and {distance(scob - full)} full labels. Of the "
        f"{full - role:.2f} mAP between ROLE + conv and full labels, the SMT contributes {smt - role:.2f} and the "
        f"contrastive bootstrapping {scob - smt:.2f}."
    )


def distance(difference: float) -> str:
    return f"{abs(difference):.2f} mAP {'above' if difference >= 0 else 'below'}"


def images_sentence(data: DataSet) -> str:
    """How many classes and images there are."""
    run = data.runs[0]
    return (
        f"{run['classes']} classes, {run['train_images']:,} training images besides those held out, results on "
        f"{run['evaluate_images']:,} others."
    )


def settings_sentence(data: DataSet) -> str:
    """Which settings of the contrast the runs of Scob used."""
    if data.old:
        return (
            "**These runs are older than today's defaults**: they used `scob.lambda_c=0.1`, `scob.cont_scale=none` and "
            "`scob.tau=0.2`."
        )
    scob = next((run for run in data.runs if run["name"] == "scob"), None)
    if scob is None:
        return ""
    settings = flat(scob["settings"])
    keys = ("lambda_c", "cont_scale", "tau", "negatives", "capacity", "momentum", "init_epochs")
    shown = ", ".join(f"`{key}={settings[f'scob.{key}']}`" for key in keys if f"scob.{key}" in settings)
    return f"Scob's settings: {shown}."


def ablation_table(sets: Sequence[DataSet]) -> list[str]:
    """The rows of Tab. 3, the paper's numbers beside ours (number of seeds in brackets)."""
    rows = []
    for row, (title, _) in ABLATION.items():
        cells = [f"{data.text(row)} ({len(data.by_seed(row))})" if data.by_seed(row) else "–" for data in sets]
        rows.append([title, f"{paper_value(row)}", *cells])
    return table(["row", "paper, COCO", *(data.title for data in sets)], rows)


def mean_of(data: DataSet, row: str, seeds: Iterable[int]) -> float | None:
    """The mean mAP of a row over some seeds; None unless it was run with all of them."""
    values = data.by_seed(row)
    wanted = list(seeds)
    return fmean(values[seed] for seed in wanted) if wanted and values.keys() >= set(wanted) else None


def all_images_table(runs: Iterable[Run]) -> list[str]:
    """Rows that were trained on every image, for each kind of norm: mAP and recovered AP (number of seeds)."""
    known = list(runs)
    names = list(dict.fromkeys(run["data"] for run in known))
    ours = {
        "scob-half": "Scob, half of the images contrasted (`scob.contrasted=0.5`)",
        "pairs": "`pairs`",
        "pairs-head": "`pairs` without its linear part (`pairs.linear=false`)",
        "pairs-contrast": "the same with the contrastive pass, at the plain rate",
    }
    titles = {**MAIN, **ours, **{row: title for row, (title, _) in ABLATION.items() if row not in MAIN}}
    rows = []
    for norm in ("post", "pre"):
        of = [run for run in known if run["settings"]["model"]["norm"] == norm]
        sets = [DataSet(name, tuple(run for run in of if run["data"] == name)) for name in names]
        for row in [row for row in titles if any(row in data.rows for data in sets)]:
            cells = [titles[row], norm]
            for data in sets:
                seeds, recovered = data.by_seed(row), data.mean(row, "recovery_ap")
                cells += [f"{data.text(row)} ({len(seeds)})" if seeds else "–"]
                cells += [share(*(mean_of(data, name, seeds) for name in (row, "role-smt", "full-smt")))]
                cells += ["–" if recovered is None else f"{recovered:.1f}"]
            rows.append(cells)
    heads = [head for name in names for head in (TITLES.get(name, name), "closed", "recovered AP")]
    return table(["row", "norm", *heads], rows) if rows else []


def method_table(sets: Sequence[DataSet]) -> list[str]:
    """Every method of `scob compare` with the same network, best first; empty if too few were run."""
    from scob import methods

    row_of = {METHOD_OF.get(row, row): row for data in sets for row in data.rows}
    names = [name for name in methods.names() if name in row_of]
    if len(names) < LEAST_METHODS:
        return []
    compared = [data for data in sets if sum(row_of[name] in data.rows for name in names) >= LEAST_METHODS]

    def rank(name: str) -> float:
        return fmean(data.mean(row_of[name]) or 0.0 for data in compared)

    rows = []
    for name in sorted(names, key=rank, reverse=True):
        cells = []
        for data in compared:
            seeds = data.by_seed(row_of[name])
            cells.append(f"{data.text(row_of[name])} ({len(seeds)})" if seeds else "–")
            cells.append(share(data.mean(row_of[name]), data.mean("role-smt"), data.mean("full-smt")))
        rows.append([methods.find(name).title, f"`{name}`", *cells])
    heads = [head for data in compared for head in (data.title, "gap closed from ROLE + SMT")]
    return table(["method", "name", *heads], rows)


def candidate_table(runs: Iterable[Run]) -> list[str]:
    """Settings that were tried: held-out mAP of the last epoch on each data set, and the lead on ROLE + SMT."""
    tried = [run for run in runs if run["candidate"]]
    names = list(dict.fromkeys(run["data"] for run in tried))
    sets = [DataSet(name, tuple(run for run in tried if run["data"] == name)) for name in names]
    words_of = {run["name"]: " ".join(run["words"]) for run in tried}

    def mean(row: str) -> float:
        return fmean(data.mean(row, "holdout_last") or 0.0 for data in sets)

    rows = []
    for row in sorted(words_of, key=mean, reverse=True):
        cells = []
        for data in sets:
            mine, role = data.by_seed(row, "holdout_last"), data.by_seed("role-smt", "holdout_last")
            leads = [mine[seed] - role[seed] for seed in mine.keys() & role.keys()]
            lead = f" ({fmean(leads):+.2f})" if leads and row != "role-smt" else ""
            cells.append(f"{data.text(row, 'holdout_last')}{lead}")
        rows.append([f"{row}: `{words_of[row]}`", f"{mean(row):.2f}", *cells])
    return table(["settings", "mean", *(data.title for data in sets)], rows) if rows else []
