"""The demo's page: one self-contained HTML file that fetches nothing."""

import base64
import html
import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from scob.config import Config
from scob.inference.overlays import eroded
from scob.studies.demo_results import COLUMNS, METHODS, OURS, Demo, Picture
from scob.studies.reproduce.report import closed_share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ((214, 39, 40), (31, 119, 180), (44, 160, 44), (148, 103, 189), (255, 127, 14))
STYLE = """
:root { color-scheme: light dark; --line: #d8dce2; --soft: #667085; --card: #ffffff; --page: #f6f7f9; --ink: #1b1f24; }
@media (prefers-color-scheme: dark) {
  :root { --line: #353b45; --soft: #9aa4b2; --card: #1b1f26; --page: #12151a; --ink: #e8ebf0; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; background: var(--page); color: var(--ink); }
main { max-width: 1080px; margin: 0 auto; padding: 24px 20px 64px; }
h1 { font-size: 28px; margin: 12px 0 4px; } h2 { font-size: 20px; margin: 36px 0 8px; }
p { max-width: 70ch; } .soft { color: var(--soft); }
table { border-collapse: collapse; width: 100%; background: var(--card); }
th, td { padding: 8px 12px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } tr.ours { font-weight: 600; }
.scroll { overflow-x: auto; }
.figure { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 8px; margin: 8px 0; }
.figure svg { max-width: 100%; height: auto; display: block; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(230px, 1fr)); gap: 16px; }
.scene { background: var(--card); border: 1px solid var(--line); border-radius: 8px; overflow: hidden; }
.scene img { width: 100%; image-rendering: auto; display: block; }
.scene div { padding: 8px 12px 12px; font-size: 14px; }
.tag { display: inline-block; padding: 1px 8px; border-radius: 10px; margin: 2px 4px 2px 0; }
.tag { border: 1px solid var(--line); }
.wrong { text-decoration: line-through; opacity: .75; }
"""


def page(results: Demo) -> str:
    """The report as one HTML document."""
    config = results.config
    parts = [
        f"<h1>One label per image in, every label out</h1><p>{intro(results)}</p>",
        "<h2>Results</h2>",
        results_table(results),
        f"<p>Scob closes <b>{gap_closed(results, 'scob'):.0f}%</b> of the gap from ROLE to full labels, Pairs "
        f"<b>{gap_closed(results, 'pairs'):.0f}%</b>. Recovered labels are measured "
        f"on the unknown entries of the training images, with precision and recall at 0.5. {epoch_choice(config)} "
        "The first two rows use the paper's baseline head, two convolutions; the others use Scob's two "
        "transformers, to which Pairs adds a linear classifier when training has ended.</p>",
        "<h2>During training</h2>",
        figure(training_curves_of(results)),
        "<h2>Class by class</h2>",
        figure(class_lines(results)),
        "<h2>Missing labels, and where Scob sees them</h2>",
        f"<p class='soft'>{pointing(results)} A tag that is struck through is a label that Scob suggested wrongly.</p>",
        "<div class='gallery'>",
        *(scene(picture) for picture in results.pictures),
        "</div>",
    ]
    body = "\n".join(parts)
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Scob demo</title>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<style>{STYLE}</style></head><body><main>{body}</main></body></html>"
    )


def gap_closed(results: Demo, method: str) -> float:
    """How much of the distance in mAP from ROLE to full labels a method covers, in percent."""
    reached, role, full = (float(np.mean(results.values[m]["mAP"])) for m in (method, "role", "full"))
    share = closed_share(reached, role, full)
    return float("nan") if share is None else share


def epoch_choice(config: Config) -> str:
    """Which epoch the table shows."""
    if config.train.select == "last":
        return "The numbers are those of the last epoch."
    if config.train.select == "best-on-test":
        return "The epoch was chosen on the reported split itself, so the numbers are too optimistic."
    labels = config.train.holdout_labels
    return f"The epoch was chosen by the {labels} labels of held-out training images, not on the reported split."


def intro(results: Demo) -> str:
    """What was trained, on what, for how long."""
    seeds = len(results.values["scob"]["mAP"])
    train = results.config.train
    return (
        "Each drawn scene shows one to five kinds of objects, but keeps only one label. Each row was trained for "
        f"{train.epochs} epochs on the same labels and views with the same frozen backbone, with {seeds} "
        f"seed{'s' if seeds > 1 else ''}."
    )


def results_table(results: Demo) -> str:
    """Mean and deviation over seeds."""
    head = "".join(f"<th>{html.escape(c)}</th>" for c in ("Method", *COLUMNS))
    rows = []
    for method, title in METHODS.items():
        cells = "".join(f"<td>{spread(results.values[method][c])}</td>" for c in COLUMNS)
        rows.append(f"<tr{' class=ours' if method in OURS else ''}><td>{html.escape(title)}</td>{cells}</tr>")
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"


def spread(values: list[float]) -> str:
    """`81.2` or `81.2 ± 0.4`; a dash if it is not a number."""
    if not np.isfinite(values).all():
        return "–"
    mean = f"{np.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.1f}"


def training_curves_of(results: Demo) -> "Figure":
    """mAP by epoch, on the reported split and on held-out images."""
    from scob.inference.plots import training_curves

    lines = {
        METHODS[m]: ([r["epoch"] + 1 for r in curve], [r["mAP"] for r in curve]) for m, curve in results.curves.items()
    }
    held = {
        METHODS[m]: ([r["epoch"] + 1 for r in curve], [r["mAP-observed"] for r in curve])
        for m, curve in results.curves.items()
        if all(r.get("mAP-observed") is not None for r in curve)
    }
    return training_curves({"mAP on the reported split": lines, "mAP-observed on held-out images": held})


def class_lines(results: Demo) -> "Figure":
    """Average precision of every class."""
    from scob.inference.plots import training_curves

    names = sorted(results.per_class["scob"], key=lambda n: -(results.per_class["full"].get(n) or 0))
    lines = {
        METHODS[m]: (list(range(len(names))), [results.per_class[m].get(n) or float("nan") for n in names])
        for m in results.per_class
    }
    figure = training_curves({"Average precision by class": lines}, x_label="")
    figure.set_size_inches(10, 4.2)
    axes = figure.axes[0]
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right")
    return figure


def figure(drawn: "Figure") -> str:
    """A figure as inline SVG."""
    stream = io.StringIO()
    drawn.savefig(stream, format="svg", bbox_inches="tight")
    text = stream.getvalue()
    return f"<div class='figure'>{text[text.index('<svg') :]}</div>"


def pointing(results: Demo) -> str:
    """How often the map of the observed label peaks inside the object."""
    p = results.pointing
    if not p:
        return ""
    return (
        f"On {p['images']:.0f} training scenes, the map of the observed label peaks inside the object "
        f"{100 * p['inside']:.0f}% of the time; by chance it would be {100 * p['by_chance']:.0f}%."
    )


def scene(picture: Picture) -> str:
    """One card of the gallery."""
    tags = "".join(f"<span class='tag'><b>{html.escape(n)}</b> observed</span>" for n in picture.observed)
    for number, (name, score, right, _) in enumerate(picture.recovered):
        colour = "#{:02x}{:02x}{:02x}".format(*COLOURS[number % len(COLOURS)])
        mark = "" if right else " wrong"
        tags += f"<span class='tag{mark}' style='border-color:{colour}'>{html.escape(name)} {score:.2f}</span>"
    missed = f"<div class='soft'>missed: {html.escape(', '.join(picture.missed))}</div>" if picture.missed else ""
    masks = [m for _, _, _, m in picture.recovered]
    shown = data_url(overlay(picture.pixels, masks))
    return f"<div class='scene'><img alt='scene' src='{shown}'><div>{tags}{missed}</div></div>"


def overlay(pixels: NDArray[np.uint8], masks: list[NDArray[np.bool_]]) -> Image.Image:
    """The scene with the outline of each mask in its colour."""
    side = 2 * pixels.shape[1]
    mixed = np.asarray(Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC)).astype(np.float32)
    for number, mask in enumerate(masks):
        smooth = Image.fromarray((255 * mask).astype(np.uint8)).resize((side, side), Image.Resampling.BICUBIC)
        inside = np.asarray(smooth) >= 128
        edge = inside & ~eroded(eroded(eroded(inside)))
        colour = np.array(COLOURS[number % len(COLOURS)], dtype=np.float32)
        mixed[inside] = 0.8 * mixed[inside] + 0.2 * colour
        mixed[edge] = colour
    return Image.fromarray(mixed.clip(0, 255).astype(np.uint8))


def data_url(picture: Image.Image) -> str:
    """The picture as a URL that contains it."""
    stream = io.BytesIO()
    picture.save(stream, "WEBP", quality=80)
    return "data:image/webp;base64," + base64.b64encode(stream.getvalue()).decode()
