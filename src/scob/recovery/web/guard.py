"""Access control of the review server, before any route: host name, token, origin, method."""

import contextlib
import hmac
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from scob.recovery.web.answers import secured, sentence
from scob.recovery.web.desk import Refused
from scob.recovery.web.server import is_loopback

TAKES_DECISIONS = "/api/decisions"
HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]{2,45})\]|(?P<name>[a-z0-9._-]{1,253}))(?::[0-9]{1,5})?", re.ASCII)
ASK_FOR_TOKEN = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Scob review</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/review.css">
<main class="gate"><h1>Scob review</h1><form action="/" method="get"><label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="off" autofocus required>
<button class="answer" type="submit">Open</button></form>
<p>Enter the token that <code>scob review --token</code> was started with.</p></main></html>"""


class Guard:
    """Middleware for a server bound to `host`; the browser keeps the token, if any, in the cookie `cookie`."""

    def __init__(self, host: str, token: str | None, cookie: str) -> None:
        self.host, self.token, self.cookie = host, token, cookie

    async def __call__(self, request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        try:
            return secured(self.admit(request) or await answer(request))
        except Refused as refusal:
            return secured(sentence(refusal.status, str(refusal)))

    def admit(self, request: Request) -> Response | None:
        """None if the request may pass, a response if the answer is already known; otherwise raises `Refused`."""
        page = request.url.path == "/" and request.method == "GET"
        check_host(request, self.host)
        if self.token is not None and not carries_token(request, self.token, self.cookie):
            if page:
                return Response(ASK_FOR_TOKEN, 401, media_type="text/html")
            if request.url.path != "/review.css":  # the page that asks for the token uses it
                raise Refused(401, "this server needs a token: open the page with ?token=...")
        if request.method != "GET" and (request.method, request.url.path) != ("POST", TAKES_DECISIONS):
            raise Refused(405, "this server accepts decisions and nothing else")
        if request.method == "POST":
            check_origin(request)
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


def check_origin(request: Request) -> None:
    """Pages of other sites may not decide (CSRF); programs other than browsers send no origin."""
    origins = request.headers.getlist("origin")
    own = [f"{scheme}://{request.headers.get('host', '').lower()}" for scheme in ("http", "https")]
    site = request.headers.get("sec-fetch-site", "same-origin")
    if site not in ("same-origin", "none") or len(origins) > 1 or any(origin.lower() not in own for origin in origins):
        raise Refused(403, "decisions are accepted from the review page only")


def carries_token(request: Request, token: str, cookie: str) -> bool:
    """Whether a request carries the token, compared in constant time."""
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    offered = [
        request.query_params.get("token"),
        request.cookies.get(cookie),
        request.headers.get("x-scob-token"),
        bearer.strip() if scheme.lower() == "bearer" else None,
    ]
    matches = [hmac.compare_digest(text.encode(errors="replace"), token.encode()) for text in offered if text]
    return any(matches)
