"""The images of a request: one as its body, several as a form or in JSON, or addresses to fetch, if that is allowed."""

import base64
import binascii
import json
import re
import urllib.error
import urllib.request
from collections.abc import Collection
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from scob.errors import UserError, first_line
from scob.inference.web.answers import Refused
from scob.inference.web.limits import MEGA, Limits

_PARAMETER = re.compile(r'(?P<key>[\w*-]+)=(?:"(?P<quoted>[^"]*)"|(?P<plain>[^;\s]+))')
NOT_IMAGES = (
    "send an image as the body, several as multipart/form-data, or JSON: "
    '{"images": [{"name": "a.jpg", "data": "BASE64"}]}'
)


@dataclass(frozen=True)
class Upload:
    """An image that was sent: its name and bytes, or what is wrong with it."""

    name: str
    raw: bytes
    error: str = ""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def read_uploads(kind: str, body: bytes, hosts: Collection[str], limits: Limits) -> list[Upload]:
    """The images in a request's body of content type `kind`; `hosts` are those whose addresses may be fetched."""
    media = kind.partition(";")[0].strip().lower()
    if media == "application/json":
        uploads = _from_json(body, hosts, limits)
    elif media == "multipart/form-data":
        uploads = _from_form(body, kind)
    elif media.startswith("image/") or media in ("application/octet-stream", "application/x-www-form-urlencoded"):
        uploads = [Upload("image", body)]  # the last one is what `curl --data-binary` sends
    else:
        raise Refused(415, NOT_IMAGES)
    if not uploads or not any(upload.raw or upload.error for upload in uploads):
        raise Refused(400, f"there is no image in the request: {NOT_IMAGES}")
    _check_count(len(uploads), limits)
    return uploads


def _check_count(images: int, limits: Limits) -> None:
    if images > limits.images:
        raise Refused(413, f"{images} images are too many for one request: send at most {limits.images}")


def _from_json(body: bytes, hosts: Collection[str], limits: Limits) -> list[Upload]:
    try:
        tree = json.loads(body)
        images, urls = tree.get("images", []), tree.get("urls", [])
        if not isinstance(images, list) or not isinstance(urls, list):
            raise ValueError
        named = [(str(i.get("name", f"image {n}")), str(i["data"])) for n, i in enumerate(images, 1)]
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        raise Refused(400, NOT_IMAGES) from None
    _check_count(len(images) + len(urls), limits)
    uploads: list[Upload] = []
    for name, data in named:
        try:
            uploads.append(Upload(name, base64.b64decode(data.partition("base64,")[2] or data, validate=True)))
        except (binascii.Error, ValueError):
            uploads.append(Upload(name, b"", "its data is not base64"))
    for url in urls:
        try:
            uploads.append(Upload(str(url), fetch(str(url), hosts, limits)))
        except UserError as error:
            uploads.append(Upload(str(url), b"", str(error)))
    return uploads


def _from_form(body: bytes, kind: str) -> list[Upload]:
    """The files of a form, as browsers and `curl -F` send them."""
    found = {match["key"].lower(): match["quoted"] or match["plain"] or "" for match in _PARAMETER.finditer(kind)}
    boundary = found.get("boundary", "").encode("latin-1", "replace")
    if not boundary:
        raise Refused(400, "the form has no boundary")
    uploads: list[Upload] = []
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary)[1:]:
        if part.startswith(b"--"):
            break
        head, blank, content = part.partition(b"\r\n\r\n")
        if not blank:
            continue
        lines = head.decode("utf-8", "replace").split("\r\n")
        disposition = next((line for line in lines if line.lower().startswith("content-disposition")), "")
        names = {m["key"].lower(): m["quoted"] or m["plain"] or "" for m in _PARAMETER.finditer(disposition)}
        if "filename" in names:
            uploads.append(Upload(names["filename"] or f"image {len(uploads) + 1}", content))
    return uploads


def fetch(url: str, hosts: Collection[str], limits: Limits, headers: dict[str, str] | None = None) -> bytes:
    """The bytes at an address of a host that was allowed by name; redirects are not followed."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UserError(f"this is not an address that can be fetched: {first_line(error)}") from None
    if parts.scheme not in ("http", "https") or parts.netloc.lower() not in hosts:
        raise UserError(
            f"images are not fetched from {parts.netloc or 'this address'}: allow the host when you start the server, "
            f"with --allow-urls {parts.netloc or 'HOST'}"
        )
    most = int(limits.megabytes * MEGA)
    try:
        request = urllib.request.Request(url, headers=headers or {})
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=limits.seconds) as answer:
            raw: bytes = answer.read(most + 1)
    except (urllib.error.URLError, HTTPException, OSError, ValueError) as error:
        raise UserError(f"the address cannot be fetched: {first_line(error)}") from None
    if len(raw) > most:
        raise UserError(f"the file has more than {limits.megabytes:g} megabytes")
    return raw
