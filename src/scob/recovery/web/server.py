"""`serve`: the review page of a run at an address of this machine, until interrupted.

Nothing can be uploaded, and no address contains a file path. Other machines need a token.
"""

from collections.abc import Callable
from pathlib import Path

from scob.inference.web.address import check_address, run_app, server_imports
from scob.recovery import decisions
from scob.recovery.orders import ReviewMode
from scob.recovery.suggestion import recovered_folder

DEFAULT_PORT = 8642


def serve(
    run: Path,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token: str | None = None,
    ready: Callable[[str], None] | None = None,
    mode: ReviewMode = ReviewMode(),
) -> Path:
    """Serve the page until interrupted; calls `ready` with its address. Returns the path of `reviewed.csv`."""
    with server_imports("the review page"):
        from scob.recovery.web.app import create_app
    check_address(host, token)
    run_app(create_app(run, host, token, mode), host, port, ready)
    return decisions.write_reviewed(decisions.DecisionLog(recovered_folder(run)))
