"""Where a server listens: this machine only, unless there is a token."""

import contextlib
import errno
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from scob.errors import UserError
from scob.installation import install_line

if TYPE_CHECKING:
    from fastapi import FastAPI

SHORTEST_TOKEN = 12
GRACE = 3  # seconds for requests under way when the server stops


@contextlib.contextmanager
def server_imports(what: str) -> Iterator[None]:
    """Imports of a server's parts: if FastAPI or uvicorn is missing, `what` needs them; other errors are left alone."""
    try:
        yield
    except ImportError as error:
        if (error.name or "fastapi").partition(".")[0] not in ("fastapi", "starlette", "uvicorn"):
            raise  # something that the model or its data need
        raise UserError(f"{what} needs FastAPI and uvicorn: {install_line('review')}") from error


def run_app(app: "FastAPI", host: str, port: int, ready: Callable[[str], None] | None = None) -> None:
    """Serve an application until Ctrl+C or SIGTERM; requests under way are finished first, if they are quick."""
    import uvicorn

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with contextlib.closing(open_socket(host, port)) as listening:
        if ready is not None:
            ready(address_of(listening))
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=GRACE,
        )
        # uvicorn stops at a signal and then raises it again: ours ends quietly, with exit code 0.
        before = None
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGTERM, stop)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                uvicorn.Server(config).run(sockets=[listening])
        finally:
            if before is not None:
                signal.signal(signal.SIGTERM, before)


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
