"""Figures. Each function returns a matplotlib `Figure`; `save_figure` writes it as PNG and SVG.

Figures are drawn without pyplot: no global state, no window, nothing to close. matplotlib is imported when the first
figure is drawn.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
from numpy.typing import ArrayLike

from scob.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from scob.training.metrics import Calibration

P = ParamSpec("P")
Line = tuple[Sequence[float], Sequence[float]]

FEW_LINES = 3  # a legend of as many can be put where no line is
# Okabe and Ito's colours: nearly everybody can distinguish them.
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


def styled(draw: Callable[P, "Figure"]) -> Callable[P, "Figure"]:
    """Decorate a function that draws a figure, so that it uses our style."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> "Figure":
        import matplotlib
        from cycler import cycler

        with matplotlib.rc_context({**STYLE, "axes.prop_cycle": cycler(color=COLOURS)}):
            return draw(*args, **kwargs)

    return drawn


def panels(count: int, width: float, height: float, **options: Any) -> "tuple[Figure, list[Axes]]":
    """A row of `count` panels, each `width` by `height` inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False, **options)[0])


def whole_number_ticks(axes: "Axes") -> None:
    """Put ticks at whole numbers only."""
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
        content = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            figure.savefig(content, format=ending, facecolor="white", **options)
        write_atomically(path, content.getvalue())
        paths.append(path)
    return paths[0], paths[1]


@styled
def class_bars(per_class: Mapping[str, float | None], title: str = "Average precision by class") -> "Figure":
    """One bar per class, best first, and the mean as a line; a class whose AP is undefined is marked as such."""
    defined = sorted(((v, name) for name, v in per_class.items() if v is not None), key=lambda p: (-p[0], p[1]))
    undefined = [name for name, value in per_class.items() if value is None]
    names = [name for _, name in defined] + undefined
    figure, (axes,) = panels(1, 7, 1.0 + 0.21 * max(4, len(names)))
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


@styled
def precision_recall_curves(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]], aps: Mapping[str, float | None], named: int = 7
) -> "Figure":
    """Precision over recall (%), one line per class: the `named` worst by AP in colour, the others in grey."""
    order = sorted(curves, key=lambda name: (aps.get(name) is None, aps.get(name) or 0.0, name))
    figure, (axes,) = panels(1, 7, 5)
    for rank, name in enumerate(order):
        precision, recall = (np.asarray(part, dtype=np.float64) for part in curves[name])
        picked, ap = rank < named, aps.get(name)
        axes.step(
            np.concatenate([[0.0], recall]),
            np.concatenate([precision[:1], precision]),
            color=COLOURS[rank % len(COLOURS)] if picked else "#BBBBBB",
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


@styled
def training_curves(quantities: Mapping[str, Mapping[str, Line]], x_label: str = "Epoch") -> "Figure":
    """One panel per quantity, its key as the title, with one line (x, y) per name.

    If all panels have the same lines and there are many, they share a legend beside them, where it hides nothing.
    """
    names = [list(lines) for lines in quantities.values()]
    shared = bool(names) and len(names[0]) > FEW_LINES and all(each == names[0] for each in names)
    figure, every = panels(max(1, len(quantities)), 4.6, 3.4)
    for axes, (title, lines) in zip(every, quantities.items(), strict=False):
        for name, (x, y) in lines.items():
            axes.plot(x, y, label=name, marker="o" if len(x) <= 40 else None, markersize=3.5)
        axes.set_title(title)
        axes.set_xlabel(x_label)
        if x_label == "Epoch":
            whole_number_ticks(axes)
        axes.grid()
        if not shared and (len(lines) > 1 or (lines and title not in lines)):
            axes.legend(fontsize=9)
    if shared:
        figure.legend(*every[0].get_legend_handles_labels(), loc="outside right center", fontsize=9)
    return figure


@styled
def calibration_curves(curves: "Mapping[str, Calibration]") -> "Figure":
    """Share of positives over predicted probability, and below it the number of predictions per bin."""
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
