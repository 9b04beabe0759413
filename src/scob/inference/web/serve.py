"""`serve_model`: predictions over HTTP, until interrupted."""

from collections.abc import Callable
from pathlib import Path

from scob.errors import UserError
from scob.inference.web.address import check_address, run_app, server_imports

DEFAULT_PORT = 8643

with server_imports("a server"):
    from scob.inference.web.app import Sources
    from scob.inference.web.limits import Limits


def serve_model(
    model: str | Path,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token: str | None = None,
    limits: Limits = Limits(),
    sources: Sources = Sources(),
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a run folder, a model folder or an ONNX file until interrupted; calls `ready` with the page's address."""
    from scob.inference.web.app import create_app
    from scob.inference.web.service import Service

    check_address(host, token)
    if sources.folder is not None and not sources.folder.is_dir():
        raise UserError(f"--images {sources.folder} is not a folder")
    service = Service.open(model, limits=limits)
    run_app(create_app(service, host, token, sources), host, port, ready)
