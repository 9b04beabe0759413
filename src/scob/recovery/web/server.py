"""`serve`: the review page of a run at an address of this machine, until interrupted.

Nothing can be uploaded, and no address contains a file path. Other machines need a token.
"""

import contextlib
import errno
import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path

from scob.errors import UserError
from scob.installation import install_line
from scob.recovery import decisions
from scob.recovery.suggestion import recovered_folder

DEFAULT_PORT = 8642
SHORTEST_TOKEN = 12


def serve(
    run: Path,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token: str | None = None,
    ready: Callable[[str], None] | None = None,
) -> Path:
    """Serve the page until interrupted; calls `ready` with its address. Returns the path of `reviewed.csv`."""
    try:
        import uvicorn

        from scob.recovery.web.app import create_app
    except ImportError as error:
        raise UserError(f"the review page needs FastAPI and uvicorn: {install_line('review')}") from error
    check_address(host, token)
    app = create_app(run, host, token)
    listening = open_socket(host, port)
    folder = recovered_folder(run)
    with contextlib.closing(listening):
        if ready is not None:
            ready(address_of(listening))
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, lifespan="on", timeout_graceful_shutdown=3
        )
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
    return decisions.write_reviewed(decisions.DecisionLog(folder))


def is_loopback(host: str) -> bool:
    """Whether a name or address can be reached from this machine only."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def check_address(host: str, token: str | None) -> None:
    """Check that other machines need a token, and that the token is long enough."""
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise UserError(f"the token must be at least {SHORTEST_TOKEN} plain characters long")
    if token is None and not is_loopback(host):
        raise UserError(f"{host} can be reached from other machines: set a secret with --token, or leave out --host")


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket; a UserError if the port is in use or forbidden, or the name is unknown."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise UserError(f"there is no address {host!r} to serve at: {error}") from error
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise UserError(
                f"port {port} of {host} is in use; choose another with --port, or any free one with --port 0"
            ) from error
        raise UserError(f"cannot serve at port {port} of {host}: {error.strerror or error}") from error
    listening.set_inheritable(True)
    return listening


def address_of(listening: socket.socket) -> str:
    """The page's address for a browser."""
    host, port = listening.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = socket.gethostname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
