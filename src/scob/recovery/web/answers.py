"""Responses of the review server: JSON, one sentence, and the headers that all of them carry."""

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


def secured(response: Response) -> Response:
    """The response with the headers that keep scripts, frames and caches of others out."""
    for name, value in SECURITY_HEADERS.items():
        response.headers[name] = value
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def as_json(content: Any, status: int = 200) -> Response:
    """JSON in ASCII, so that file names which are no UTF-8 survive the way to the page and back."""
    return Response(json.dumps(content, separators=(",", ":")), status, media_type="application/json")


def sentence(status: int, text: str) -> Response:
    """What is wrong with a request."""
    response = as_json({"error": text}, status)
    if status == 405:
        response.headers["Allow"] = "GET"
    return response
