"""Images in each kind of request, and what is none."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from scob.errors import UserError
from scob.inference.web.answers import Refused
from scob.inference.web.limits import Limits
from scob.inference.web.uploads import Upload, fetch, read_uploads

RAW = bytes(range(256)) * 3 + b"\r\n--x\r\n\r\n--"


def test_one_image_as_the_body() -> None:
    assert read_uploads("image/png", RAW, (), Limits()) == [Upload("image", RAW)]


def test_a_form_as_a_client_sends_it() -> None:
    files = [("images", ("a b.jpg", RAW)), ("images", ("é.png", b"2")), ("note", (None, b"no file"))]
    request = httpx.Request("POST", "http://x", files=files)
    request.read()
    uploads = read_uploads(request.headers["content-type"], request.content, (), Limits())
    assert uploads == [Upload("a b.jpg", RAW), Upload("é.png", b"2")]


def test_json_with_data() -> None:
    data = base64.b64encode(RAW).decode()
    body = {"images": [{"name": "a", "data": data}, {"data": f"data:image/png;base64,{data}"}, {"data": "%"}]}
    first, second, third = read_uploads("application/json", json.dumps(body).encode(), (), Limits())
    assert first == Upload("a", RAW) and second == Upload("image 2", RAW)
    assert third.error == "its data is not base64"


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("text/html", b"<p>", 415),
        ("image/png", b"", 400),
        ("application/json", b"[1]", 400),
        ("application/json", b"{", 400),
        ("application/json", b'{"images": 3}', 400),
        ("multipart/form-data", b"--x", 400),
        ("multipart/form-data; boundary=x", b"--x--", 400),
        ("application/json", b'{"urls": ["a", "b", "c"]}', 413),
    ],
)
def test_what_is_no_image_is_refused_in_words(kind: str, body: bytes, status: int) -> None:
    with pytest.raises(Refused) as refusal:
        read_uploads(kind, body, (), Limits(images=2))
    assert refusal.value.status == status and str(refusal.value)


@pytest.fixture
def site() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if self.path == "/moved" else 200)
            self.send_header("Location", "http://127.0.0.1:1/secret")
            self.end_headers()
            self.wfile.write(RAW)

        def log_message(self, *words: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_addresses_are_fetched_from_allowed_hosts_only(site: str) -> None:
    assert fetch(f"http://{site}/a.png", {site}, Limits()) == RAW
    for url in (f"http://{site}/a.png", "file:///etc/passwd", "ftp://x/a"):
        with pytest.raises(UserError, match="--allow-urls"):
            fetch(url, {"other.example"}, Limits())
    with pytest.raises(UserError, match="cannot be fetched"):
        fetch(f"http://{site}/moved", {site}, Limits())  # redirects are not followed
    with pytest.raises(UserError, match="more than"):
        fetch(f"http://{site}/a.png", {site}, Limits(megabytes=0.0001))
