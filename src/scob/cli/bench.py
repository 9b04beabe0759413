"""`scob bench`: what we claim about speed, measured here and now. One function per command."""

import json
from pathlib import Path

import typer


def register(app: typer.Typer) -> None:
    """Add `scob bench` and its commands."""
    bench = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True)
    bench.command("data")(data)
    bench.command("ipt")(ipt)
    bench.command("step")(step)
    bench.command("scale")(scale)
    bench.command("train")(train)
    bench.command("predict")(predict)
    app.add_typer(bench, name="bench")


def data(
    source: str = typer.Argument(..., help="A folder or table of images."),
    size: int = typer.Option(448, min=16, help="Side of the square images."),
    split: str = typer.Option("", help="The split to read; the first by default."),
    count: int = typer.Option(500, min=1, help="How many images."),
    batch: int = typer.Option(8, min=1, help="Images a batch."),
    workers: int = typer.Option(0, min=0, help="Decoding processes; 0: one a core."),
    cache: Path = typer.Option(None, help="Keep the packed cache in this folder."),
    device: str = typer.Option("cpu", help="Where the images go: cpu, cuda, ..."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Images a second: plain Pillow, decoded by workers, from the packed cache, and fed through the views."""
    from scob.bench.data import bench_data
    from scob.cli.console import err, out, table

    with err.status("measuring"):
        result = bench_data(source, size, split or None, count, batch, workers or None, cache, device)
    if as_json:
        print(json.dumps(result, indent=1))
        return
    settings = result["settings"]
    title = "{images} images of {source} at {size} x {size}, {cores} cores, {device}".format(**settings)
    rows = [(row["what"], f"{row['images per second']:,.1f}", f"{row['over Pillow']:.2f}") for row in result["rows"]]
    out.print(table(title, ("", "images/s", "over Pillow"), rows))
    out.print(f"cached over Pillow on the same cores: {result['cached over Pillow']:.1f} times")


def ipt(
    capacities: str = typer.Option("80,800,8000", help="Nodes a class holds, with commas between."),
    classes: str = typer.Option("20,80,1000", help="Numbers of classes, with commas between."),
    batch: int = typer.Option(8, min=1, help="Images inserted at once."),
    count: int = typer.Option(1, "--top", min=1, help="t, the nodes taken of every class."),
    dimension: int = typer.Option(512, min=1, help="Dimension of a node's feature."),
    device: str = typer.Option("auto", help="cpu, cuda, ..."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """The instance priority tree: milliseconds to insert a batch and to take the most confident nodes."""
    from scob.bench.step import bench_ipt
    from scob.cli.console import err

    with err.status("measuring"):
        rows = bench_ipt(device, whole_numbers(capacities), whole_numbers(classes), batch, count, dimension)
    _show(f"Trees on {device}, batches of {batch}, top {count} of every class", rows, as_json)


def step(
    batch: int = typer.Option(8, min=1, help="Images a step."),
    size: int = typer.Option(448, min=16, help="Side of the square images."),
    backbone: str = typer.Option("", help="A backbone; a ResNet-50 of random weights by default."),
    repeats: int = typer.Option(10, min=1, help="Steps that are timed."),
    device: str = typer.Option("auto", help="cpu, cuda, ..."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """One iteration of training: time, backbone forwards and backwards, synchronisations with the device."""
    from scob.bench.step import bench_step
    from scob.cli.console import err

    with err.status("measuring"):
        rows = bench_step(device, batch, size, backbone, repeats)
    _show(f"A training step at {size} x {size} on {device}", rows, as_json)


def whole_numbers(text: str) -> tuple[int, ...]:
    """ "80,800" -> (80, 800)."""
    from scob.errors import UserError

    try:
        found = tuple(int(word) for word in text.split(","))
    except ValueError:
        raise UserError(f"{text!r} is no list of numbers: write them with commas between, as in 80,800") from None
    if min(found) < 1:
        raise UserError(f"{text!r} holds a number below 1")
    return found


def _show(title: str, rows: list[dict[str, object]], as_json: bool) -> None:
    from scob.cli.console import out, table

    if as_json:
        print(json.dumps(rows, indent=1))
        return
    names = list(rows[0])

    def shown(value: object) -> object:
        return f"{value:.4g}" if isinstance(value, float) else value

    out.print(table(title, [n.replace("_", " ") for n in names], [[shown(row[n]) for n in names] for row in rows]))


def scale(
    most_images: int = typer.Option(10_000_000, min=1000, help="The largest training set."),
    most_classes: int = typer.Option(10_000, min=20, help="The most classes."),
    batch: int = typer.Option(64, min=1, help="Images a step."),
    steps: int = typer.Option(50, min=5, help="Steps timed at each size."),
    folder: Path = typer.Option(None, help="Where rows go that do not fit into host memory."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Step time and memory as images go up to ten million and classes to ten thousand, on drawn features."""
    from dataclasses import asdict

    from scob.bench.scale import CLASSES, IMAGES, bench_scale, growth
    from scob.cli.console import err, out, table

    images = [n for n in IMAGES if n <= most_images]
    classes = [n for n in CLASSES if n <= most_classes]
    with err.status("measuring") as status:
        found = bench_scale(
            images, classes, batch, steps, folder, lambda what: status.update(f"measuring: more {what}")
        )
    if as_json:
        print(json.dumps({what: [asdict(size) for size in sizes] for what, sizes in found.items()}, indent=1))
        return
    columns = ("images", "classes", "in", "ms a step", "busy", "B/image", "rows MB", "tree MB")
    for what, sizes in found.items():
        rows = [
            (
                f"{s.images:,}", f"{s.classes:,}", s.place, f"{s.step_ms:.2f}", f"{s.busy_ms:.2f}",
                f"{s.per_image:,.0f}", f"{s.row_bytes / 1e6:,.1f}", f"{s.tree_bytes / 1e6:,.1f}",
            )
            for s in sizes
        ]  # fmt: skip
        out.print(table(f"More {what}, batch {batch}", columns, rows))
    out.print(f"dearest step over that of the fewest images: {growth(found['images']):.2f}")


def train(
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:1."),
    batch: str = typer.Option("8,64", help="Batch sizes, as 8,64."),
    size: int = typer.Option(448, min=32, help="Side of the square input."),
    backbone: str = typer.Option("", help="A backbone; a ResNet-50 with random weights if left out."),
    repeats: int = typer.Option(30, min=1, help="Steps that are timed."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Images a second of training Scob with class positives, beside the bare backbone's forward."""
    from scob.bench.speed import bench_train

    _show("Training Scob", bench_train(device, whole_numbers(batch), size, backbone, repeats), as_json)


def predict(
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:1."),
    batch: str = typer.Option("1,64", help="Batch sizes, as 1,64."),
    size: int = typer.Option(448, min=32, help="Side of the square input."),
    backbone: str = typer.Option("", help="A backbone; a ResNet-50 with random weights if left out."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Milliseconds of the whole network and of the bare backbone, each at its own fastest, in one run."""
    from scob.bench.speed import bench_predict

    _show("Predicting", bench_predict(device, whole_numbers(batch), size, backbone), as_json)
