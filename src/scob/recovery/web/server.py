"""`serve`: the review page of a run at an address of this machine, until interrupted.

Nothing can be uploaded, and no address contains a file path. Other machines need a token.
"""

from collections.abc import Callable
from pathlib import Path

from scob.errors import UserError
from scob.inference.web.address import check_address, lacks_server, run_app
from scob.installation import install_line
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
    try:
        from scob.recovery.web.app import create_app
    except ImportError as error:
        if not lacks_server(error):
            raise
        raise UserError(f"the review page needs FastAPI and uvicorn: {install_line('review')}") from error
    check_address(host, token)
    run_app(create_app(run, host, token, mode), host, port, ready)
    return decisions.write_reviewed(decisions.DecisionLog(recovered_folder(run)))
