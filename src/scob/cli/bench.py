"""`scob bench`: speed, measured on this machine. One function per command."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from scob.cli.console import err, out, table
from scob.cli.options import AsJson, Device, ImageSize, whole_numbers, with_options

Backbone = Annotated[str, typer.Option(help="Backbone to use; by default a ResNet-50 with random weights.")]
InputSize = Annotated[int, typer.Option(min=32, help="Side of the square images in pixels.")]
BatchSizes = Annotated[str, typer.Option(help="Batch sizes, separated by commas.")]
TimedSteps = Annotated[int, typer.Option(min=1, help="Number of steps to time.")]


def register(app: typer.Typer) -> None:
    """Add `scob bench` and its commands."""
    bench = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True)
    bench.command("data")(with_options(data))
    bench.command("ipt")(ipt)
    bench.command("step")(step)
    bench.command("scale")(scale)
    bench.command("train")(train)
    bench.command("predict")(predict)
    app.add_typer(bench, name="bench")


@dataclass(frozen=True)
class DataOptions:
    """The options of `scob bench data`."""

    source: Annotated[str, typer.Argument(help="Folder or label table of images.")]
    size: ImageSize = 448
    split: Annotated[str, typer.Option(help="Split to read; the first by default.")] = ""
    count: Annotated[int, typer.Option(min=1, help="Number of images to read.")] = 500
    batch: Annotated[int, typer.Option(min=1, help="Images per batch.")] = 8
    workers: Annotated[int, typer.Option(min=0, help="Number of decoding processes; 0 means one per core.")] = 0
    cache: Annotated[Path | None, typer.Option(help="Keep the packed cache in this folder.")] = None
    device: Annotated[str, typer.Option(help="Device that receives the images: cpu, cuda, cuda:1 or mps.")] = "cpu"
    as_json: AsJson = False


def data(options: DataOptions) -> None:
    """Measure how fast images are read: with Pillow, with workers, from the cache, and through the views."""
    from scob.bench.data import FeedBench, bench_data

    o = options
    bench = FeedBench(o.size, o.count, o.batch, o.workers or None, o.cache, o.device)
    with err.status("measuring"):
        result = bench_data(o.source, o.split or None, bench)
    if o.as_json:
        print(json.dumps(result, indent=1))
        return
    title = "{images} images of {source} at {size} x {size}, {cores} cores, {device}".format(**result["settings"])
    rows = [(row["what"], f"{row['images per second']:,.1f}", f"{row['over Pillow']:.2f}") for row in result["rows"]]
    out.print(table(title, ("", "images/s", "over Pillow"), rows))
    out.print(f"The cache is {result['cached over Pillow']:.1f} times as fast as Pillow on the same cores.")


def ipt(
    capacities: Annotated[str, typer.Option(help="Nodes per class, separated by commas.")] = "80,800,8000",
    classes: Annotated[str, typer.Option(help="Numbers of classes, separated by commas.")] = "20,80,1000",
    batch: Annotated[int, typer.Option(min=1, help="Images inserted at once.")] = 8,
    count: Annotated[int, typer.Option("--top", min=1, help="Nodes read from each class (t).")] = 1,
    dimension: Annotated[int, typer.Option(min=1, help="Dimension of a node's feature.")] = 512,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure the instance priority tree: milliseconds to insert a batch and to read the top nodes."""
    from scob.bench.tree import TreeBench, bench_ipt

    bench = TreeBench(whole_numbers(capacities), whole_numbers(classes), batch, count, dimension)
    with err.status("measuring"):
        rows = bench_ipt(device, bench)
    _show(f"Trees on {device}, batches of {batch}, top {count} of each class", rows, as_json)


def step(
    batch: Annotated[int, typer.Option(min=1, help="Images per step.")] = 8,
    size: ImageSize = 448,
    backbone: Backbone = "",
    repeats: TimedSteps = 10,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure one training step: time, backbone passes and device synchronisations."""
    from scob.bench.step import bench_step

    with err.status("measuring"):
        rows = bench_step(device, batch, size, backbone, repeats)
    _show(f"A training step at {size} x {size} on {device}", rows, as_json)


def scale(
    most_images: Annotated[
        int, typer.Option(min=1000, help="Size of the largest training set, in images.")
    ] = 10_000_000,
    most_classes: Annotated[int, typer.Option(min=20, help="Largest number of classes.")] = 10_000,
    batch: Annotated[int, typer.Option(min=1, help="Images per step.")] = 64,
    steps: Annotated[int, typer.Option(min=5, help="Steps to time at each size.")] = 50,
    folder: Annotated[Path | None, typer.Option(help="Folder for rows that do not fit into host memory.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure time and memory of a step for up to ten million images and ten thousand classes."""
    from dataclasses import asdict

    from scob.bench.scale import CLASSES, IMAGES, bench_scale, growth

    images = [n for n in IMAGES if n <= most_images]
    classes = [n for n in CLASSES if n <= most_classes]
    with err.status("measuring") as status:
        measured = bench_scale(
            images, classes, batch, steps, folder, lambda what: status.update(f"measuring: more {what}")
        )
    if as_json:
        print(json.dumps({what: [asdict(size) for size in sizes] for what, sizes in measured.items()}, indent=1))
        return
    columns = ("images", "classes", "in", "ms/step", "busy", "B/image", "rows MB", "tree MB")
    for what, sizes in measured.items():
        rows = [
            (
                f"{s.images:,}", f"{s.classes:,}", s.place, f"{s.step_ms:.2f}", f"{s.busy_ms:.2f}",
                f"{s.per_image:,.0f}", f"{s.row_bytes / 1e6:,.1f}", f"{s.tree_bytes / 1e6:,.1f}",
            )
            for s in sizes
        ]  # fmt: skip
        out.print(table(f"More {what}, batch {batch}", columns, rows))
    out.print(f"The slowest size takes {growth(measured['images']):.2f} times as long per step as the smallest.")


def train(
    device: Device = "auto",
    batch: BatchSizes = "8,64",
    size: InputSize = 448,
    backbone: Backbone = "",
    repeats: TimedSteps = 30,
    as_json: AsJson = False,
) -> None:
    """Measure training in images per second, next to the bare backbone's forward pass."""
    from scob.bench.training import bench_train

    _show("Training Scob", bench_train(device, whole_numbers(batch), size, backbone, repeats), as_json)


def predict(
    device: Device = "auto",
    batch: BatchSizes = "1,64",
    size: InputSize = 448,
    backbone: Backbone = "",
    as_json: AsJson = False,
) -> None:
    """Measure predictions in milliseconds, next to the bare backbone's forward pass."""
    from scob.bench.predicting import bench_predict

    _show("Predicting", bench_predict(device, whole_numbers(batch), size, backbone), as_json)


def _show(title: str, rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """The rows as JSON or as a table with a column per key."""
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    names = list(rows[0])

    def shown(value: object) -> object:
        return f"{value:.4g}" if isinstance(value, float) else value

    out.print(table(title, [n.replace("_", " ") for n in names], [[shown(row[n]) for n in names] for row in rows]))
