"""Methods side by side: the same images, the same observed labels, one table and one figure.

A `Lab` keeps the runs: named after their settings, never repeated, resumed where they stopped.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from scob import methods
from scob.config import Config
from scob.errors import UserError
from scob.parallel import Processes, start
from scob.studies.reproduce.lab import Lab, VariantRun
from scob.studies.reproduce.report import SHARE_TITLE, Column, Report, closed_share, spread, write_report
from scob.studies.reproduce.variants import Variant
from scob.training.events import Listener, RunsPlanned, silent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "compare"
COLUMNS = (
    Column("title", "Method"),
    Column("name", "Name"),
    Column("mAP", "mAP (%)"),
    Column("share", f"{SHARE_TITLE[0].upper()}{SHARE_TITLE[1:]}", 0, "%"),
    Column("images per second", "Images/s", 0),
    Column("seconds per epoch", "Seconds/epoch", 2),
)


def compare(
    names: Sequence[str],
    config: Config,
    out: Path,
    seeds: int = 1,
    listen: Listener = silent,
    top: int = 0,
    processes: Processes | None = None,
) -> list[dict[str, Any]]:
    """Train each method on the same observed labels (drawn once per seed); the rows of the table, best mAP first.

    Writes `compare.md`, `.csv`, `.json`, `.png` and `.svg` into `out`; runs that are already there are reused or
    continued. With `top`, the seeds after the first train only that many of the best methods, and ROLE and full
    labels, which the gap is measured from.
    """
    wanted = list(dict.fromkeys(names))
    if not wanted:
        raise UserError("name the methods to compare, as in: scob compare an role scob full --data scenes")
    for name in wanted:
        methods.settings_of(config, methods.find(name).name)
    processes = processes or start(config.train.device)
    lab = Lab(config.model_dump(mode="json"), out, seeds, processes, listen)
    lab.need_reported_split("a comparison")
    first_runs = len(wanted)
    more = min(first_runs, top + 2) if top else first_runs
    listen(RunsPlanned(first_runs + (seeds - 1) * more))
    with closing(lab):
        runs_of: dict[str, list[VariantRun]] = {name: [lab.run(_variant(name, config, 0))] for name in wanted}
        repeated = wanted
        if top:
            ranked = sorted(wanted, key=lambda name: -_mean(runs_of[name]))
            repeated = [name for name in wanted if name in ranked[:top] or name in ("role", "full")]
        for seed in range(1, seeds):
            for name in repeated:
                runs_of[name].append(lab.run(_variant(name, config, seed), seed))
    rows = table(runs_of)
    if processes.first:
        write(rows, runs_of, lab, out)
    processes.wait()
    return rows


def _variant(name: str, config: Config, seed: int) -> Variant:
    return Variant(methods.find(name).title, {"method": name, "labels": {"seed": config.labels.seed + seed}})


def _mean(outcomes: Sequence[VariantRun]) -> float:
    """Mean mAP over the seeds; -1 if it is undefined."""
    known = spread([o.mAP for o in outcomes])
    return -1.0 if known is None else known.mean


def table(runs_of: Mapping[str, Sequence[VariantRun]]) -> list[dict[str, Any]]:
    """One row per method, best first; None where there is no number."""
    means = {name: (_mean(outcomes) if _mean(outcomes) >= 0 else None) for name, outcomes in runs_of.items()}
    rows = []
    for name, outcomes in runs_of.items():
        scores = [o.mAP for o in outcomes if o.mAP == o.mAP]
        seconds = fmean(epoch["seconds"] for o in outcomes for epoch in o.summary["curve"])
        rows.append(
            {
                "name": name,
                "title": methods.find(name).title,
                "mAP": means[name],
                "deviation": stdev(scores) if len(scores) > 1 else None,
                "seeds": scores,
                "share": closed_share(means[name], means.get("role"), means.get("full")),
                "images per second": outcomes[0].summary["train_images"] / max(seconds, 1e-9),
                "seconds per epoch": seconds,
                "run": str(outcomes[0].run.path),
                "measured": outcomes[0].summary.get("measured", ""),
            }
        )
    return sorted(rows, key=lambda row: -1.0 if row["mAP"] is None else row["mAP"], reverse=True)


def write(rows: Sequence[Mapping[str, Any]], runs_of: Mapping[str, Sequence[VariantRun]], lab: Lab, out: Path) -> None:
    """Write the table as Markdown, CSV and JSON, and the figure."""
    from scob.inference.plots import save_figure

    cells = [{**{c.key: row[c.key] for c in COLUMNS}, "mAP": spread(row["seeds"])} for row in rows]
    notes = []
    if not {"role", "full"} <= set(runs_of):
        notes.append("The gap closed is only shown if role and full are among the methods compared.")
    notes.append("Images/s and seconds/epoch cover training steps only, not evaluation, on the machine that ran them.")
    kind = lab.base.labels
    labels = f"partial:{kind.fraction:g}" if kind.kind == "partial" else kind.kind
    title = f"{len(rows)} methods on {lab.title}, {labels} labels"
    report = Report(
        NAME, title, COLUMNS, tuple(cells), tuple(notes), lab.used([o for os in runs_of.values() for o in os])
    )
    write_report(report, out)
    save_figure(draw(rows, title), Path(out) / NAME)


def draw(rows: Sequence[Mapping[str, Any]], title: str) -> "Figure":
    """One point per method, best on top, with small points for seeds; ROLE and full labels, if compared, as lines."""
    import matplotlib
    from matplotlib.figure import Figure

    from scob.inference.plots import COLOURS, STYLE

    shown = [row for row in reversed(rows) if row["mAP"] is not None]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 1.2 + 0.32 * len(shown)), layout="constrained")
        axes = figure.subplots()
        colours = {"scob": COLOURS[1], "full": COLOURS[6], "role": COLOURS[2]}
        heights = range(len(shown))
        axes.scatter(
            [row["mAP"] for row in shown], heights, s=52, zorder=2,
            color=[colours.get(row["name"], COLOURS[0]) for row in shown],
        )  # fmt: skip
        for height, row in zip(heights, shown, strict=True):
            if len(row["seeds"]) > 1:
                axes.plot(row["seeds"], [height] * len(row["seeds"]), ".", color="#222222", markersize=4, zorder=3)
            axes.annotate(
                f"{row['mAP']:.1f}", (max([*row["seeds"], row["mAP"]]), height), xytext=(7, 0),
                textcoords="offset points", va="center", fontsize=8,
            )  # fmt: skip
            if row["name"] in ("role", "full"):
                axes.axvline(row["mAP"], color=colours[row["name"]], linestyle=(0, (4, 3)), linewidth=1.2, zorder=0)
        axes.set_yticks(heights, [row["title"] for row in shown])
        low, high = (min((row["mAP"] for row in shown), default=0), max((row["mAP"] for row in shown), default=100))
        margin = 0.15 * max(1.0, high - low)
        axes.set(xlabel="mAP (%)", xlim=(max(0, low - 2 * margin), high + 1.5 * margin))
        axes.set_title(title)
        axes.grid()
    return figure
