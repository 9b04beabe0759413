"""The prediction server's routes: the page, predictions, and Label Studio's. Only this package needs FastAPI."""

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response

from scob.errors import UserError
from scob.files import whole_number
from scob.inference.predictions import NamingRule
from scob.inference.web.answers import Refused, as_json, sentence
from scob.inference.web.guard import Guard, Site
from scob.inference.web.label_studio_backend import Backend
from scob.inference.web.limits import Limits, Turnstile
from scob.inference.web.service import Service
from scob.inference.web.uploads import read_uploads

PREDICT = "/api/predict"
PAGE = {
    "/": ("index.html", "text/html"),
    "/docs": ("docs.html", "text/html"),
    "/serve.js": ("serve.js", "text/javascript"),
    "/serve.css": ("serve.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
SERVE = Site(
    name="Scob",
    command="scob serve",
    style="/serve.css",
    posts=(PREDICT, "/predict", "/setup", "/webhook"),
    purpose=f"this address takes no such request: POST images to {PREDICT}",
    foreign="pages of other sites may not use this server",
    more_policy="img-src 'self' blob: data:",
)
DESCRIBED = {
    "requestBody": {
        "required": True,
        "content": {
            "image/*": {"schema": {"type": "string", "format": "binary"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"images": {"type": "array", "items": {"type": "string", "format": "binary"}}},
                }
            },
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "images": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {"name": {"type": "string"}, "data": {"type": "string"}},
                            },
                        },
                        "urls": {"type": "array", "items": {"type": "string"}},
                    },
                }
            },
        },
    }
}


@dataclass(frozen=True)
class Sources:
    """Where images may come from besides uploads: a folder of files for Label Studio's tasks, and allowed hosts."""

    folder: Path | None = None
    hosts: Collection[str] = ()


def create_app(
    service: Service, host: str = "127.0.0.1", token: str | None = None, sources: Sources = Sources()
) -> FastAPI:
    """The application for an open model, to be served at `host`."""
    limits: Limits = service.limits
    turnstile, backend = Turnstile(limits), Backend(service, sources.folder, sources.hosts)
    cookie = "scob_serve_" + hashlib.sha256(str(service.path.resolve()).encode()).hexdigest()[:8]
    app = FastAPI(
        title="Scob", description="Names everything in an image.", docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.middleware("http")(Guard(SERVE, host, token, cookie))

    for address, (name, media) in PAGE.items():
        content = files("scob.inference.web").joinpath("page", name).read_bytes()
        app.get(address, include_in_schema=False)(_constant(content, media))

    @app.get("/api/model", summary="The classes, their thresholds, and the limits of this server")
    def show_model() -> Response:
        return as_json(service.about())

    @app.post(PREDICT, summary="Name what images show", openapi_extra=DESCRIBED)
    async def predict(
        request: Request,
        topk: str = Query("", description="Name the k best classes instead of those that reach their thresholds."),
        threshold: str = Query("", description="One threshold for all classes."),
        maps: bool = Query(False, description="Also show where each label is (not with an ONNX file)."),
    ) -> Response:
        async with turnstile.admitted():
            naming = _naming(topk, threshold)
            body = await turnstile.body(request)
            kind = request.headers.get("content-type", "")

            def task() -> list[Any]:
                return service.predict(read_uploads(kind, body, sources.hosts, limits), naming, maps)

            return as_json({"model": service.version, "predictions": await turnstile.work(task)})

    @app.get("/health", summary="Label Studio asks whether the model is there")
    def health() -> Response:
        return as_json({"status": "UP", "model_class": "Scob", "model_version": service.version})

    @app.get("/versions", include_in_schema=False)
    def versions() -> Response:
        return as_json({"versions": [service.version]})

    @app.post("/setup", summary="Label Studio introduces a project")
    async def setup(request: Request) -> Response:
        async with turnstile.admitted():
            return as_json(backend.setup(_json(await turnstile.body(request))))

    @app.post("/predict", summary="Label Studio asks for predictions of tasks")
    async def predict_tasks(request: Request) -> Response:
        async with turnstile.admitted():
            tasks = _json(await turnstile.body(request))
            return as_json(await turnstile.work(lambda: backend.predict(tasks)))

    @app.post("/webhook", include_in_schema=False)
    async def webhook(request: Request) -> Response:
        async with turnstile.admitted():
            await turnstile.body(request)
        return as_json({"status": "ignored: train with scob recover --import and scob train"})

    @app.exception_handler(404)
    async def nothing_here(request: Request, error: Exception) -> Response:
        return sentence(404, f"there is nothing at this address: POST images to {PREDICT}, or see /docs")

    @app.exception_handler(Refused)
    async def refuse(request: Request, refusal: Refused) -> Response:
        return sentence(refusal.status, str(refusal))

    @app.exception_handler(RequestValidationError)
    async def misread(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return sentence(400, f"{first['loc'][-1]} is {str(first['input'])[:20]!r}, not true or false")

    @app.exception_handler(UserError)
    async def explain(request: Request, error: UserError) -> Response:
        return sentence(400, str(error))

    return app


def _naming(topk: str, threshold: str) -> NamingRule:
    best = whole_number(topk, 6) if topk else None
    if topk and not best:
        raise Refused(400, f"topk is {topk[:20]!r}, not a whole number above 0")
    try:
        limit = float(threshold) if threshold else None
    except ValueError:
        limit = float("nan")
    if limit is not None and not 0 <= limit <= 1:
        raise Refused(400, f"threshold is {threshold[:20]!r}, not a number between 0 and 1")
    return NamingRule(best, limit)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise Refused(400, "the request is not JSON") from None


def _constant(content: bytes, media: str) -> Callable[[], Response]:
    def send() -> Response:
        return Response(content, media_type=media)

    return send
