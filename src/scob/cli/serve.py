"""`scob serve MODEL`: predictions over HTTP, with a page to drop images on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from scob.cli.console import err, note
from scob.cli.options import with_options
from scob.cli.unfinished import say_if_unfinished


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("serve", help="Serve a model over HTTP: a page, an API, Label Studio (Python: scob.serve_model).")(
        with_options(serve)
    )


@dataclass(frozen=True)
class ServeOptions:
    """The options of `scob serve`."""

    model: Annotated[Path, typer.Argument(help="Run folder, model folder, or exported ONNX file (needs no PyTorch).")]
    host: Annotated[str, typer.Option(help="Address to serve on; anything other than this machine needs --token.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to serve on; 0 picks a free one.")] = 8643
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SCOB_SERVE_TOKEN", help="Secret that every request must carry; required for other machines."
        ),
    ] = None
    images: Annotated[
        Path | None, typer.Option(help="Folder with the images of Label Studio's tasks, to be read from there.")
    ] = None
    allow_urls: Annotated[
        list[str] | None,
        typer.Option(help="Host (and port) from which images may be fetched; repeatable. By default none."),
    ] = None
    max_megabytes: Annotated[float, typer.Option(help="Size of one request, at most.")] = 64
    max_megapixels: Annotated[float, typer.Option(help="Size of one image, at most.")] = 50
    max_seconds: Annotated[float, typer.Option(help="Time for one request, at most.")] = 60
    at_once: Annotated[int, typer.Option(help="Requests that are worked on at once; others wait.")] = 2
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False


def serve(options: ServeOptions) -> None:
    """Serve until Ctrl+C."""
    from scob.inference.web.serve import serve_model  # isort: skip (first: it says so where FastAPI is missing)
    from scob.inference.web.app import Sources
    from scob.inference.web.limits import Limits

    o = options

    def ready(address: str) -> None:
        print(address, flush=True)  # alone on its line and never wrapped: programs read it
        stop = "open it with ?token=YOUR-TOKEN; stop with Ctrl+C" if o.token else "stop with Ctrl+C"
        err.print(f"Drop images on this page, or see {address}docs for programs; {stop}.", highlight=False)
        if o.open_page:
            typer.launch(address)

    limits = Limits(o.max_megabytes, o.max_megapixels, seconds=o.max_seconds, at_once=o.at_once)
    sources = Sources(o.images, frozenset(host.lower() for host in o.allow_urls or ()))
    say_if_unfinished(o.model)
    serve_model(o.model, o.host, o.port, o.token, limits, sources, ready)
    note("stopped")
