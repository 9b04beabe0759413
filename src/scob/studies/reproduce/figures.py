"""Figures that only the paper's reproduction draws; style and saving are those of `scob.inference.plots`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scob.inference.plots import COLOURS, panels, styled, whole_number_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def distribution_maps(
    shares: Mapping[str, ArrayLike], title: str = "Unknown true negatives of the training set"
) -> "Figure":
    """One heat map of shares (epochs, bins) per name: epoch to the right, probability upwards."""
    from matplotlib.colors import PowerNorm

    figure, every = panels(max(1, len(shares)), 4.4, 4.0, sharey=True)
    image = None
    for axes, (name, rows) in zip(every, shares.items(), strict=False):
        grid: NDArray[np.float64] = np.asarray(rows, dtype=np.float64)
        # Most negatives are in the lowest bin: the square-root scale keeps the rest of the map visible.
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
        whole_number_ticks(axes)
        for spine in axes.spines.values():
            spine.set_visible(False)
    every[0].set_ylabel("Predicted probability")
    if image is not None:
        bar = figure.colorbar(image, ax=every, label="Share of the epoch's entries", ticks=[0, 0.01, 0.05, 0.2, 0.5, 1])
        bar.ax.set_yticklabels(["0", "1%", "5%", "20%", "50%", "100%"])
        bar.outline.set_visible(False)
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    return figure


@styled
def setting_lines(
    lines: Mapping[str, Mapping[float, Sequence[float]]],
    x_label: str,
    *,
    levels: Mapping[str, float] | None = None,
    paper_chosen: float | None = None,
    paper_points: Mapping[str, Mapping[float, float]] | None = None,
    title: str = "",
    log_x: bool = False,
) -> "Figure":
    """Our mAP over the values of a setting: the mean over seeds, the deviation as a band, seeds as dots.

    `levels` are dashed horizontal lines (baselines). `paper_points` are the paper's printed numbers, open squares in
    the colour of the line of the same name; `paper_chosen` marks the value the paper chose.
    """
    figure, (axes,) = panels(1, 6.2, 4)
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate([*lines, *(levels or {})])}
    positions = _positions([x for points in lines.values() for x in points], log_x)
    for name, points in lines.items():
        xs = sorted(points)
        at = [positions[x] for x in xs]
        mean = np.array([np.mean(points[x]) for x in xs])
        spread = np.array([np.std(points[x], ddof=1) if len(points[x]) > 1 else 0.0 for x in xs])
        axes.plot(at, mean, "o-", color=colours[name], markersize=5, label=name, zorder=3)
        if spread.any():
            axes.fill_between(at, mean - spread, mean + spread, color=colours[name], alpha=0.16, linewidth=0)
            for position, x in zip(at, xs, strict=True):
                axes.plot([position] * len(points[x]), points[x], ".", color=colours[name], alpha=0.5, markersize=4)
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
    axes.set(xlabel=x_label, ylabel="mAP (%)")
    axes.set_title(title, pad=16 if paper_chosen is not None else 6)
    axes.grid()
    axes.legend(fontsize=9)
    return figure


@styled
def picture_grid(
    rows: Sequence[Sequence[NDArray[np.uint8]]], columns: Sequence[str], names: Sequence[str] = ()
) -> "Figure":
    """Pictures (H, W, 3) in rows, with a title above each column and, if given, a name beside each row."""
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
    """The position of each value on the axis: the value, or its logarithm, with 0 one step before the smallest."""
    ordered = sorted(set(values))
    if not log_x:
        return {x: float(x) for x in ordered}
    positive = [x for x in ordered if x > 0]
    step = float(np.log10(positive[0])) - 1 if positive else 0.0
    return {x: float(np.log10(x)) if x > 0 else step for x in ordered}
