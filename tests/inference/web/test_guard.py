"""The guard of the prediction server; that of the review page is the same one (tests/recovery/web/test_guard.py)."""

import base64

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from scob.inference.web.guard import Guard, Site

TOKEN = "a-long-enough-token"
SITE = Site("Test", "scob test", "/t.css", ("/take",), "this server only takes", "not from there", "img-src data:")


def client(token: str | None, host: str = "127.0.0.1") -> TestClient:
    app = FastAPI()
    app.middleware("http")(Guard(SITE, host, token, "cookie"))
    app.get("/")(lambda: "page")
    app.post("/take")(lambda: "taken")
    return TestClient(app, base_url=f"http://{host if host != '0.0.0.0' else '10.0.0.7'}:8643")


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_other_names_and_other_sites_are_refused(headers: dict[str, str]) -> None:
    assert client(None).post("/take", headers=headers).status_code == 403


def test_only_what_the_site_takes_may_be_posted() -> None:
    answer = client(None).post("/other")
    assert answer.status_code == 405 and answer.json() == {"error": "this server only takes"}
    assert client(None).put("/take").status_code == 405
    assert client(None).post("/take").status_code == 200


def test_the_policy_can_be_widened_for_pictures_alone() -> None:
    policy = client(None).get("/").headers["content-security-policy"]
    assert "default-src 'self'" in policy and policy.endswith("; img-src data:")


@pytest.mark.parametrize(
    "carried",
    [
        {"headers": {"Authorization": f"Bearer {TOKEN}"}},
        {"headers": {"X-Scob-Token": TOKEN}},
        {"headers": {"Authorization": "Basic " + base64.b64encode(f"any:{TOKEN}".encode()).decode()}},
        {"params": {"token": TOKEN}},
    ],
)
def test_the_token_opens(carried: dict[str, dict[str, str]]) -> None:
    guarded = client(TOKEN, "0.0.0.0")
    assert guarded.post("/take").status_code == 401
    assert "scob test --token" in guarded.get("/").text
    assert guarded.post("/take", **carried).status_code == 200


@pytest.mark.parametrize(
    "basic", ["", "!!!", base64.b64encode(b"no colon").decode(), base64.b64encode(b"a:b").decode()]
)
def test_a_wrong_password_is_refused(basic: str) -> None:
    assert client(TOKEN, "0.0.0.0").post("/take", headers={"Authorization": f"Basic {basic}"}).status_code == 401
