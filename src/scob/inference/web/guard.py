"""Access control of our servers, before any route: host name, token, origin, method."""

import base64
import contextlib
import hmac
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from scob.inference.web.address import is_loopback
from scob.inference.web.answers import Refused, secured, sentence

HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]{2,45})\]|(?P<name>[a-z0-9._-]{1,253}))(?::[0-9]{1,5})?", re.ASCII)
ASK_FOR_TOKEN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="{style}">
<main class="gate"><h1>{name}</h1><form action="/" method="get"><label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="off" autofocus required>
<button class="answer" type="submit">Open</button></form>
<p>Enter the token that <code>{command} --token</code> was started with.</p></main></html>"""


@dataclass(frozen=True)
class Site:
    """What one of our servers is, and what it accepts: its name, the addresses that take a POST, and its refusals."""

    name: str
    command: str
    style: str
    posts: tuple[str, ...]
    purpose: str
    foreign: str
    more_policy: str = ""  # of the Content-Security-Policy


class Guard:
    """Middleware for a server bound to `host`; the browser keeps the token, if any, in the cookie `cookie`."""

    def __init__(self, site: Site, host: str, token: str | None, cookie: str) -> None:
        self.site, self.host, self.token, self.cookie = site, host, token, cookie

    async def __call__(self, request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        try:
            return secured(self.admit(request) or await answer(request), self.site.more_policy)
        except Refused as refusal:
            return secured(sentence(refusal.status, str(refusal)))

    def admit(self, request: Request) -> Response | None:
        """None if the request may pass, a response if the answer is already known; otherwise raises `Refused`."""
        path = request.scope["path"]  # `request.url` is put together from the host and the query, which may be anything
        page = path == "/" and request.method == "GET"
        check_host(request, self.host)
        if self.token is not None and not carries_token(request, self.token, self.cookie):
            if page:
                gate = ASK_FOR_TOKEN.format(name=self.site.name, style=self.site.style, command=self.site.command)
                return Response(gate, 401, media_type="text/html")
            if path != self.site.style:  # the page that asks for the token uses it
                raise Refused(401, "this server needs a token: open the page with ?token=...")
        if request.method != "GET" and not (request.method == "POST" and path in self.site.posts):
            raise Refused(405, self.site.purpose)
        if request.method == "POST":
            check_origin(request, self.site.foreign)
        if self.token is not None and page and "token" in request.query_params:
            # Move the token from the address bar and the history into a cookie that scripts cannot read.
            response = RedirectResponse("/", 303)
            response.set_cookie(self.cookie, self.token, httponly=True, samesite="lax", path="/")
            return response
        return None


def check_host(request: Request, bound: str) -> None:
    """Accept only this server's own host names, which blocks DNS rebinding."""
    given = request.headers.getlist("host")
    match = HOST.fullmatch(given[0].lower()) if len(given) == 1 else None
    if match is None:
        raise Refused(403, "this server does not have that name")
    name = match["address"] or match["name"]
    if is_loopback(name) or (name and name == bound):
        return
    if not is_loopback(bound):
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name)  # an address cannot be rebound
            return
        own = socket.gethostname().lower()
        if name in (own, own.partition(".")[0], f"{own.partition('.')[0]}.local", bound.lower()):
            return
    raise Refused(403, "this server does not have that name")


def check_origin(request: Request, refusal: str) -> None:
    """Pages of other sites may not post (CSRF); programs other than browsers send no origin."""
    origins = request.headers.getlist("origin")
    own = [f"{scheme}://{request.headers.get('host', '').lower()}" for scheme in ("http", "https")]
    site = request.headers.get("sec-fetch-site", "same-origin")
    if site not in ("same-origin", "none") or len(origins) > 1 or any(origin.lower() not in own for origin in origins):
        raise Refused(403, refusal)


def carries_token(request: Request, token: str, cookie: str) -> bool:
    """Whether a request carries the token, compared in constant time; as a password, as Label Studio sends it, too."""
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    password = None
    with contextlib.suppress(ValueError):
        if scheme.lower() == "basic":
            password = base64.b64decode(bearer, validate=True).decode(errors="replace").partition(":")[2]
    offered = [
        password,
        request.query_params.get("token"),
        request.cookies.get(cookie),
        request.headers.get("x-scob-token"),
        bearer.strip() if scheme.lower() == "bearer" else None,
    ]
    matches = [hmac.compare_digest(text.encode(errors="replace"), token.encode()) for text in offered if text]
    return any(matches)
