"""Figures. Each function returns a matplotlib `Figure`; `save_figure` writes it as PNG and SVG.

Figures are made without pyplot: no global state, no window, nothing to close. matplotlib is imported when the
first figure is drawn.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scob.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from scob.training.metrics import Calibration

P = ParamSpec("P")
Line = tuple[Sequence[float], Sequence[float]]

# Okabe and Ito's colours, told apart by nearly everybody.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    "svg.hashsalt": "scob",
}


def _styled(draw: Callable[P, "Figure"]) -> Callable[P, "Figure"]:
    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> "Figure":
        import matplotlib
        from cycler import cycler

        with matplotlib.rc_context({**STYLE, "axes.prop_cycle": cycler(color=COLOURS)}):
            return draw(*args, **kwargs)

    return drawn


def _panels(count: int, width: float, height: float, **options: Any) -> "tuple[Figure, list[Axes]]":
    """A row of `count` panels, each `width` by `height` inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False, **options)[0])


def _whole_numbers(axes: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def save_figure(figure: "Figure", stem: Path) -> tuple[Path, Path]:
    """Write `STEM.png` and `STEM.svg`; the same figure gives the same bytes."""
    import matplotlib

    paths = []
    for ending, options in (
        ("png", {"dpi": 150, "metadata": {"Software": None}}),
        ("svg", {"metadata": {"Date": None}}),
    ):
        path = Path(stem).with_name(f"{Path(stem).name}.{ending}")
        drawn = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            figure.savefig(drawn, format=ending, facecolor="white", **options)
        write_atomically(path, drawn.getvalue())
        paths.append(path)
    return paths[0], paths[1]


@_styled
def class_bars(per_class: Mapping[str, float | None], title: str = "Average precision by class") -> "Figure":
    """A bar for each class, best first, with the mean as a line; a class whose AP is undefined says so."""
    defined = sorted(((v, name) for name, v in per_class.items() if v is not None), key=lambda p: (-p[0], p[1]))
    undefined = [name for name, value in per_class.items() if value is None]
    names = [name for _, name in defined] + undefined
    figure, (axes,) = _panels(1, 7, 1.0 + 0.21 * max(4, len(names)))
    rows = range(len(defined))
    axes.barh(rows, [value for value, _ in defined], color=COLOURS[0], height=0.72)
    for row, (value, _) in zip(rows, defined, strict=True):
        number = axes.text(value + 0.8, row, f"{value:.1f}", va="center", fontsize=8, color="#333333", zorder=4)
        number.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.6})
    for row in range(len(defined), len(names)):
        axes.text(
            0.8,
            row,
            "undefined: no known positive or no known negative",
            va="center",
            fontsize=8,
            color="#888888",
        )
    if defined:
        mean = float(np.mean([value for value, _ in defined]))
        axes.axvline(mean, color=COLOURS[1], linewidth=1.2, linestyle=(0, (4, 3)), zorder=3)
        title = f"{title}, mAP {mean:.1f}"
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.set_ylim(max(len(names), 1) - 0.4, -0.6)
    axes.set_xlim(0, 107)
    axes.set_xticks(range(0, 101, 20))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_xlabel("AP (%)")
    axes.set_title(title)
    return figure


@_styled
def precision_recall_curves(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]], aps: Mapping[str, float | None], named: int = 7
) -> "Figure":
    """Precision over recall (%), a line a class: the `named` worst by AP in colour, the others in grey."""
    order = sorted(curves, key=lambda name: (aps.get(name) is None, aps.get(name) or 0.0, name))
    figure, (axes,) = _panels(1, 7, 5)
    for place, name in enumerate(order):
        precision, recall = (np.asarray(part, dtype=np.float64) for part in curves[name])
        picked, ap = place < named, aps.get(name)
        axes.step(
            np.concatenate([[0.0], recall]),
            np.concatenate([precision[:1], precision]),
            color=COLOURS[place % len(COLOURS)] if picked else "#BBBBBB",
            linewidth=1.8 if picked else 0.9,
            label=(name if ap is None else f"{name}, AP {ap:.1f}") if picked else None,
            zorder=3 if picked else 2,
        )
    title = "Precision and recall"
    if len(order) > named:
        title += ", hardest classes in colour"
        axes.plot([], [], color="#BBBBBB", linewidth=0.9, label=f"the other {len(order) - named}")
    axes.set(xlim=(0, 101), ylim=(0, 103), xlabel="Recall (%)", ylabel="Precision (%)")
    axes.set_title(title)
    axes.grid()
    if order:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


@_styled
def training_curves(panels: Mapping[str, Mapping[str, Line]], x_label: str = "Epoch") -> "Figure":
    """A panel for each quantity (its key is the title), in it a line for each name: (x, y)."""
    figure, every = _panels(max(1, len(panels)), 4.6, 3.4)
    for axes, (title, lines) in zip(every, panels.items(), strict=False):
        for name, (x, y) in lines.items():
            axes.plot(x, y, label=name, marker="o" if len(x) <= 40 else None, markersize=3.5)
        axes.set_title(title)
        axes.set_xlabel(x_label)
        if x_label == "Epoch":
            _whole_numbers(axes)
        axes.grid()
        if len(lines) > 1 or (lines and title not in lines):
            axes.legend(fontsize=9)
    return figure


@_styled
def calibration_curves(curves: "Mapping[str, Calibration]") -> "Figure":
    """Share of positives over predicted probability, and below it how many predictions each bin holds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4, 5.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [3.2, 1]})
    above.plot([0, 1], [0, 1], color="#999999", linewidth=1.2, linestyle=(0, (4, 3)), label="perfect")
    for number, (name, curve) in enumerate(curves.items()):
        filled = curve.counts > 0
        colour = COLOURS[number % len(COLOURS)]
        label = f"{name}, error {curve.error:.1f}%"
        above.plot(curve.predicted[filled], curve.observed[filled], "o-", color=colour, markersize=4.5, label=label)
        edges = np.linspace(0, 1, len(curve.counts) + 1)
        below.stairs(curve.counts, edges, color=colour, linewidth=1.5)
    above.set(ylabel="Share that is present", ylim=(-0.02, 1.03), xlim=(-0.02, 1.02), title="Calibration")
    above.legend(loc="upper left", fontsize=9)
    below.set(xlabel="Predicted probability", ylabel="Predictions", yscale="log")
    for axes in (above, below):
        axes.grid()
    return figure


@_styled
def distribution_maps(
    panels: Mapping[str, ArrayLike], title: str = "Unknown true negatives of the training set"
) -> "Figure":
    """For each name a heat map of (epochs, bins) shares: epoch to the right, probability upwards."""
    from matplotlib.colors import PowerNorm

    figure, every = _panels(max(1, len(panels)), 4.4, 4.0, sharey=True)
    image = None
    for axes, (name, shares) in zip(every, panels.items(), strict=False):
        grid: NDArray[np.float64] = np.asarray(shares, dtype=np.float64)
        # Most negatives lie in the lowest bin: the square-root scale keeps the rest of the map visible.
        image = axes.imshow(
            grid.T,
            origin="lower",
            aspect="auto",
            extent=(0.5, len(grid) + 0.5, 0, 1),
            cmap="viridis",
            norm=PowerNorm(0.5, 0, 1),
            interpolation="nearest",
        )
        axes.set_title(name)
        axes.set_xlabel("Epoch")
        _whole_numbers(axes)
        for spine in axes.spines.values():
            spine.set_visible(False)
    every[0].set_ylabel("Predicted probability")
    if image is not None:
        bar = figure.colorbar(image, ax=every, label="Share of the epoch's entries", ticks=[0, 0.01, 0.05, 0.2, 0.5, 1])
        bar.ax.set_yticklabels(["0", "1%", "5%", "20%", "50%", "100%"])
        bar.outline.set_visible(False)
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    return figure


@_styled
def setting_lines(
    lines: Mapping[str, Mapping[float, Sequence[float]]],
    x_label: str,
    *,
    levels: Mapping[str, float] | None = None,
    paper_chosen: float | None = None,
    paper_points: Mapping[str, Mapping[float, float]] | None = None,
    y_label: str = "mAP (%)",
    title: str = "",
    log_x: bool = False,
) -> "Figure":
    """Ours over the values of a setting: mean over seeds, deviation as a band, seeds as dots.

    `levels` are dashed horizontal lines (a baseline). Of the paper: `paper_points` are its printed numbers,
    open squares in the colour of the line of the same name; `paper_chosen` marks the value it settles on.
    """
    figure, (axes,) = _panels(1, 6.2, 4)
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate([*lines, *(levels or {})])}
    positions = _positions([x for points in lines.values() for x in points], log_x)
    for name, points in lines.items():
        xs = sorted(points)
        places = [positions[x] for x in xs]
        mean = np.array([np.mean(points[x]) for x in xs])
        spread = np.array([np.std(points[x], ddof=1) if len(points[x]) > 1 else 0.0 for x in xs])
        axes.plot(places, mean, "o-", color=colours[name], markersize=5, label=name, zorder=3)
        if spread.any():
            axes.fill_between(places, mean - spread, mean + spread, color=colours[name], alpha=0.16, linewidth=0)
            for place, x in zip(places, xs, strict=True):
                axes.plot([place] * len(points[x]), points[x], ".", color=colours[name], alpha=0.5, markersize=4)
    for name, level in (levels or {}).items():
        axes.axhline(level, color=colours[name], linestyle=(0, (4, 3)), linewidth=1.5, label=f"{name}, {level:.1f}")
    for name, printed in (paper_points or {}).items():
        known = {positions[x]: y for x, y in printed.items() if x in positions}
        label, colour = f"{name}, paper", colours.get(name, "#000000")
        axes.plot(list(known), list(known.values()), "s", mfc="none", mew=1.5, color=colour, label=label)
    if paper_chosen is not None and paper_chosen in positions:
        axes.axvline(positions[paper_chosen], color="#999999", linewidth=1, linestyle=":", zorder=1)
        above: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "va": "bottom", "ha": "center"}
        axes.text(positions[paper_chosen], 1.0, "the paper's choice", fontsize=8, color="#777777", **above)
    axes.set_xticks(list(positions.values()), [f"{x:g}" for x in positions])
    axes.minorticks_off()
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.set_title(title, pad=16 if paper_chosen is not None else 6)
    axes.grid()
    axes.legend(fontsize=9)
    return figure


@_styled
def picture_grid(
    rows: Sequence[Sequence[NDArray[np.uint8]]], columns: Sequence[str], names: Sequence[str] = ()
) -> "Figure":
    """Pictures (H, W, 3) in rows, with a title over each column and, if given, a name beside each row."""
    from matplotlib.figure import Figure

    heights = [max(picture.shape[0] / picture.shape[1] for picture in pictures) for pictures in rows]
    size = (2.2 * len(columns), 2.2 * sum(heights) + 0.3)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(rows), len(columns), squeeze=False, height_ratios=heights)
    for number, (line, pictures) in enumerate(zip(grid, rows, strict=True)):
        for axes, picture in zip(line, pictures, strict=True):
            axes.imshow(picture)
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        if names:
            line[0].set_ylabel(names[number])
    for axes, title in zip(grid[0], columns, strict=True):
        axes.set_title(title, loc="center", fontsize=10)
    return figure


def _positions(values: Sequence[float], log_x: bool) -> dict[float, float]:
    """Where each value stands: as it is, or by its logarithm, with 0 one step before the smallest."""
    ordered = sorted(set(values))
    if not log_x:
        return {x: float(x) for x in ordered}
    positive = [x for x in ordered if x > 0]
    step = float(np.log10(positive[0])) - 1 if positive else 0.0
    return {x: float(np.log10(x)) if x > 0 else step for x in ordered}
