"""Responses of our servers: JSON, error messages, and the headers that every response has."""

import json
from typing import Any

from fastapi.responses import Response

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Refused(Exception):
    """A request that is refused with a status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def secured(response: Response, more_policy: str = "") -> Response:
    """The response with headers against foreign scripts, frames and caches; `more_policy` is added to the policy."""
    for name, value in SECURITY_HEADERS.items():
        response.headers[name] = value
    if more_policy:
        response.headers["Content-Security-Policy"] += f"; {more_policy}"
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def as_json(content: Any, status: int = 200) -> Response:
    """JSON in ASCII, so that file names that are not UTF-8 reach the page and come back unchanged."""
    return Response(json.dumps(content, separators=(",", ":")), status, media_type="application/json")


def sentence(status: int, text: str) -> Response:
    """A response with one sentence about what is wrong with a request."""
    response = as_json({"error": text}, status)
    if status == 405:
        response.headers["Allow"] = "GET"
    return response
