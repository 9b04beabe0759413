"""Responses of the review server: JSON, error messages, and the headers that every response has."""

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
    """The response with headers against foreign scripts, frames and caches."""
    for name, value in SECURITY_HEADERS.items():
        response.headers[name] = value
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
