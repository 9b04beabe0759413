"""What the review server refuses: uploads, other sites, requests without the token."""

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from scob.recovery.web.app import create_app
from support.review_process import decision

TOKEN = "a-long-enough-token"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/", "/upload", "/api/image/0", "/api/queue", "/reviewed.csv"])
def test_nothing_can_be_uploaded(client: TestClient, method: str, path: str) -> None:
    answer = client.request(method, path, content=b"x")
    assert answer.status_code == 405 and "allow" in answer.headers


def test_decisions_are_only_posted(client: TestClient) -> None:
    assert client.put("/api/decisions", json=decision()).status_code == 405
    assert client.get("/api/decisions").status_code == 405


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "http://[broken"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:8642"},
        {"Host": ""},
        {"Host": "["},
        {"Host": "user@localhost"},
        {"Host": "localhost:80/path"},
        {"Host": "localhost:port"},
        {"Host": "evil.example#@localhost"},
    ],
)
def test_other_sites_cannot_decide(client: TestClient, run_folder: Path, headers: dict[str, str]) -> None:
    assert client.post("/api/decisions", json=decision(), headers=headers).status_code == 403
    assert (run_folder / "recovered/decisions.jsonl").read_bytes() == b""


def test_other_names_cannot_read(client: TestClient) -> None:
    for address in ("/", "/api/queue", "/api/image/0"):
        assert client.get(address, headers={"Host": "rebound.example:8642"}).status_code == 403
    assert client.get("/", headers={"Host": "localhost:9000"}).status_code == 200  # forwarded over ssh


def test_its_own_page_can_decide(client: TestClient) -> None:
    own = {"Origin": "http://127.0.0.1:8642", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/api/decisions", json=decision(), headers=own).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_form_cannot_decide(client: TestClient, kind: str) -> None:
    answer = client.post("/api/decisions", content=json.dumps(decision()), headers={"Content-Type": kind})
    assert answer.status_code == 415


@pytest.fixture
def guarded(run_folder: Path):
    with TestClient(create_app(run_folder, "0.0.0.0", TOKEN), base_url="http://192.168.0.7:8642") as opened:
        yield opened


def test_without_the_token_there_is_nothing(guarded: TestClient) -> None:
    page = guarded.get("/")
    assert page.status_code == 401 and "<form" in page.text and "meadow" not in page.text
    for address in ("/api/queue", "/api/image/0", "/api/thumbnail/0", "/api/mask/0", "/api/suggestions/0", "/review.js",
                    "/api/changes", "/reviewed.csv", "/icon.svg", "/nowhere"):  # fmt: skip
        assert guarded.get(address).status_code == 401, address
        assert guarded.get(address, params={"token": TOKEN[:-1]}).status_code == 401
    assert guarded.post("/api/decisions", json=decision()).status_code == 401
    assert guarded.post("/upload").status_code == 401


@pytest.mark.parametrize(
    "carried",
    [
        {"params": {"token": TOKEN}},
        {"headers": {"X-Scob-Token": TOKEN}},
        {"headers": {"Authorization": f"Bearer {TOKEN}"}},
    ],
)
def test_the_token_opens(guarded: TestClient, carried: dict[str, dict[str, str]]) -> None:
    assert guarded.get("/api/queue", **carried).status_code == 200
    assert guarded.post("/api/decisions", json=decision(), **carried).status_code == 200
    assert guarded.post("/upload", **carried).status_code == 405


def test_the_token_leaves_the_address_for_a_cookie(guarded: TestClient) -> None:
    answer = guarded.get("/", params={"token": TOKEN}, follow_redirects=False)
    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 303 and answer.headers["location"] == "/"
    assert "HttpOnly" in cookie and "samesite=lax" in cookie.lower()
    assert guarded.get("/").status_code == 200 and guarded.get("/api/queue").status_code == 200


def test_a_wrong_token_of_any_kind_is_refused_quietly(guarded: TestClient) -> None:
    for wrong in ("ü" * 20, "", "x" * 5000, TOKEN.upper()):
        assert guarded.get("/api/queue", params={"token": wrong}).status_code == 401
    assert guarded.get("/api/queue", headers={"X-Scob-Token": "\xff\xfe".encode("latin-1")}).status_code == 401
