"""`scob bench`: what we claim about speed, measured here and now. One function per command."""

import json
from pathlib import Path

import typer


def register(app: typer.Typer) -> None:
    """Add `scob bench` and its commands."""
    bench = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True)
    bench.command("data")(data)
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
    from scob.cli.console import err, out, table
    from scob.data.bench import bench_data

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
