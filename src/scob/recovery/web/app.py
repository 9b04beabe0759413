"""The review application and its routes. Only this package needs FastAPI."""

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
from starlette.requests import ClientDisconnect

from scob.errors import UserError
from scob.files import whole_number
from scob.inference.web.answers import Refused, as_json, sentence
from scob.inference.web.guard import Guard, Site
from scob.recovery import decisions
from scob.recovery.audit import as_tree, audit
from scob.recovery.orders import ReviewMode, in_order
from scob.recovery.suggestion import read_queue, recovered_folder
from scob.recovery.web.desk import Desk
from scob.recovery.web.pictures import FULL, THUMBNAIL, picture, spotlight

LARGEST_BODY = 16 * 1024
TAKES_DECISIONS = "/api/decisions"
REVIEW = Site(
    name="Scob review",
    command="scob review",
    style="/review.css",
    posts=(TAKES_DECISIONS,),
    purpose="this server accepts decisions and nothing else",
    foreign="decisions are accepted from the review page only",
)
KEEP_AN_HOUR = {"Cache-Control": "private, max-age=3600"}
PAGE = {
    "/": ("index.html", "text/html"),
    "/review.js": ("review.js", "text/javascript"),
    "/review.css": ("review.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


def create_app(
    run: Path, host: str = "127.0.0.1", token: str | None = None, mode: ReviewMode = ReviewMode()
) -> FastAPI:
    """The application for one run's suggestions, to be served at `host`. Suggestions are read and checked first."""
    every = read_queue(recovered_folder(run))
    queue = every.reordered(in_order(every.suggestions, mode), f"{mode}" if mode != ReviewMode() else "")
    log = decisions.DecisionLog(queue.folder)
    log.check_writable()
    desk = Desk(queue, log, mode)
    cookie = "scob_review_" + hashlib.sha256(str(queue.folder.resolve()).encode()).hexdigest()[:8]

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await write_down(desk)  # catch up if the last server was killed
        writing = asyncio.create_task(keep_written(desk))
        yield
        writing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writing
        await write_down(desk)

    app = FastAPI(redirect_slashes=False, docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.middleware("http")(Guard(REVIEW, host, token, cookie))

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
        return as_json(desk.changes(whole_number(since, 15) or 0))

    @app.get("/api/image/{number}")
    def show_image(number: str) -> Response:
        return _image(number, FULL)

    @app.get("/api/thumbnail/{number}")
    def show_thumbnail(number: str) -> Response:
        return _image(number, THUMBNAIL)

    def _image(number: str, side: int) -> Response:
        path = queue.file(_index(number, len(queue.images)))
        if path is None:
            raise Refused(404, "this image has no file")
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

    @app.get("/api/audit")
    def show_audit() -> Response:
        log.refresh()
        rows = audit(every.suggestions, queue.suggestions, log.state()) if mode.order == "audit" else []
        return as_json(as_tree(rows))

    @app.get("/reviewed.csv")
    def show_reviewed() -> Response:
        log.refresh()
        disposition = {"Content-Disposition": 'attachment; filename="reviewed.csv"'}
        return Response(decisions.reviewed_table(log.state()), media_type="text/csv", headers=disposition)

    @app.post(TAKES_DECISIONS)
    async def decide(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "send a decision as application/json")
        body = b""
        try:
            async for part in request.stream():
                body += part
                if len(body) > LARGEST_BODY:
                    raise Refused(413, "the request is too long for a decision")
        except ClientDisconnect:  # nobody is left to answer
            raise Refused(400, "the request was cut off") from None
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
    """Write `reviewed.csv` every second if there are new decisions."""
    while True:
        await asyncio.sleep(1)
        await write_down(desk)


async def write_down(desk: Desk) -> None:
    """Bring `reviewed.csv` up to date with the log. Errors are ignored: only the log counts."""
    with contextlib.suppress(UserError):
        await run_in_threadpool(desk.write)


def _index(text: str, count: int) -> int:
    """A position written in plain digits; anything else, such as a path, is a 404."""
    number = whole_number(text, 11)
    if number is None or number >= count:
        raise Refused(404, "there is nothing with this number")
    return number


def _constant(content: bytes, media: str) -> Callable[[], Response]:
    def send() -> Response:
        return Response(content, media_type=media)

    return send
