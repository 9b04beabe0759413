"""The review application: its routes. Imported only where FastAPI is wanted."""

import asyncio
import contextlib
import gzip
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from scob.errors import UserError
from scob.recovery import decisions as store
from scob.recovery.suggestion import read_queue, recovered_folder
from scob.recovery.web.answers import as_json, sentence
from scob.recovery.web.desk import Desk, Refused
from scob.recovery.web.guard import TAKES_DECISIONS, Guard
from scob.recovery.web.pictures import FULL, THUMBNAIL, picture, spotlight

LARGEST_BODY = 16 * 1024
KEEP_AN_HOUR = {"Cache-Control": "private, max-age=3600"}
PAGE = {
    "/": ("index.html", "text/html"),
    "/review.js": ("review.js", "text/javascript"),
    "/review.css": ("review.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


def create_app(run: Path, host: str = "127.0.0.1", token: str | None = None) -> FastAPI:
    """The application for one run's suggestions, to be served at `host`. Reads and checks it all first."""
    queue = read_queue(recovered_folder(run))
    log = store.DecisionLog(queue.folder)
    log.check_writable()
    desk = Desk(queue, log)
    cookie = "scob_review_" + hashlib.sha256(str(queue.folder.resolve()).encode()).hexdigest()[:8]

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await write_down(desk)  # catches up after a kill
        writing = asyncio.create_task(keep_written(desk))
        yield
        writing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writing
        await write_down(desk)

    app = FastAPI(redirect_slashes=False, docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.middleware("http")(Guard(host, token, cookie))

    for address, (name, media) in PAGE.items():
        content = files("scob.recovery.web").joinpath("page", name).read_bytes()
        app.get(address)(_constant(content, media))

    @app.get("/api/queue")
    def show_queue(request: Request) -> Response:
        body = json.dumps(desk.overview(), separators=(",", ":")).encode()
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(gzip.compress(body, 3), headers={"Content-Encoding": "gzip"}, media_type="application/json")
        return Response(body, media_type="application/json")

    @app.get("/api/suggestions/{number}")
    def show_suggestion(number: str) -> Response:
        return as_json(desk.details(_index(number, len(queue.suggestions))))

    @app.get("/api/changes")
    def show_changes(since: str = "0") -> Response:
        return as_json(desk.changes(int(since) if since.isdecimal() and len(since) < 16 else 0))

    @app.get("/api/image/{number}")
    def show_image(number: str) -> Response:
        return _image(number, FULL)

    @app.get("/api/thumbnail/{number}")
    def show_thumbnail(number: str) -> Response:
        return _image(number, THUMBNAIL)

    def _image(number: str, side: int) -> Response:
        path = queue.file(_index(number, len(queue.images)))
        if path is None:
            raise Refused(404, "no file is known for this image")
        try:
            content, media = picture(path, side)
        except UserError:
            raise Refused(404, "this image cannot be read") from None
        return Response(content, media_type=media, headers=KEEP_AN_HOUR)

    @app.get("/api/mask/{number}")
    def show_mask(number: str, ratio: str = "1") -> Response:
        mask = queue.suggestions[_index(number, len(queue.suggestions))].mask
        if mask is None:
            raise Refused(404, "this suggestion has no mask")
        try:
            shape = min(8.0, max(0.125, float(ratio)))
            content = spotlight(mask, shape if shape == shape else 1.0)
        except (UserError, ValueError):
            raise Refused(404, "this mask cannot be read") from None
        return Response(content, media_type="image/png", headers=KEEP_AN_HOUR)

    @app.get("/reviewed.csv")
    def show_reviewed() -> Response:
        log.refresh()
        disposition = {"Content-Disposition": 'attachment; filename="reviewed.csv"'}
        return Response(store.reviewed_table(log.state()), media_type="text/csv", headers=disposition)

    @app.post(TAKES_DECISIONS)
    async def decide(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "a decision is sent as application/json")
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_BODY:
                raise Refused(413, "that is too long for a decision")
        return as_json(await run_in_threadpool(desk.decide, body))

    @app.exception_handler(404)
    async def nothing_here(request: Request, error: Exception) -> Response:
        return sentence(404, "there is nothing at this address")

    @app.exception_handler(Refused)
    async def refuse(request: Request, refusal: Refused) -> Response:
        return sentence(refusal.status, str(refusal))

    @app.exception_handler(UserError)
    async def explain(request: Request, error: UserError) -> Response:
        return sentence(500, str(error))

    return app


async def keep_written(desk: Desk) -> None:
    """Write `reviewed.csv` when decisions have come in."""
    while True:
        await asyncio.sleep(1)
        await write_down(desk)


async def write_down(desk: Desk) -> None:
    """Bring `reviewed.csv` up to the log. A full disk is no reason to stop: the log is what counts."""
    with contextlib.suppress(UserError):
        await run_in_threadpool(desk.write)


def _index(text: str, count: int) -> int:
    """A position written in plain digits; anything else, a path above all, is a 404."""
    if not (text.isascii() and text.isdecimal() and len(text) < 12 and int(text) < count):
        raise Refused(404, "there is nothing of this number")
    return int(text)


def _constant(content: bytes, media: str) -> Callable[[], Response]:
    def send() -> Response:
        return Response(content, media_type=media)

    return send
