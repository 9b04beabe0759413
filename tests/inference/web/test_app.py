"""The prediction server over HTTP: answers, refusals, and a crowd of 200 with one huge image among them."""

import asyncio
import io
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from scob.inference.web.app import create_app
from scob.inference.web.limits import Limits
from scob.inference.web.service import Service
from support.small_model import Small

TOKEN = "a-long-enough-token"


@pytest.fixture(scope="module")
def service(small: Small) -> Service:
    return Service.open(small.run, "cpu", Limits(megabytes=80))


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    with TestClient(create_app(service), base_url="http://127.0.0.1:8643") as opened:
        yield opened


def test_one_image_several_and_maps(client: TestClient, small: Small) -> None:
    raw = [f.read_bytes() for f in small.files[:3]]
    one = client.post("/api/predict?topk=2", content=raw[0], headers={"Content-Type": "image/png"}).json()
    [prediction] = one["predictions"]
    assert len(prediction["labels"]) == len(prediction["scores"]) == 2 and prediction["error"] is None
    several = client.post("/api/predict", files=[("images", (f"{n}.png", each)) for n, each in enumerate(raw)]).json()
    assert [p["image"] for p in several["predictions"]] == ["0.png", "1.png", "2.png"]
    maps = client.post("/api/predict?topk=1&maps=true", content=raw[0], headers={"Content-Type": "image/png"}).json()
    assert len(maps["predictions"][0]["maps"]) == 1


def test_label_studio_finds_what_it_asks_for(client: TestClient) -> None:
    assert client.get("/health").json()["status"] == "UP"
    assert client.post("/setup", json={"schema": ""}).json()["model_version"].startswith("scob ")
    assert client.post("/predict", json={"tasks": []}).json()["results"] == []
    assert client.post("/webhook", json={"action": "X"}).status_code == 200


def test_it_describes_itself(client: TestClient) -> None:
    described = client.get("/openapi.json").json()["paths"]
    assert set(described) == {"/api/model", "/api/predict", "/health", "/setup", "/predict"}
    assert "curl" in client.get("/docs").text and "Drop images" in client.get("/").text


@pytest.mark.parametrize(
    ("address", "headers", "content", "status"),
    [
        ("/api/predict?topk=0", {"Content-Type": "image/png"}, b"x", 400),
        ("/api/predict?threshold=2", {"Content-Type": "image/png"}, b"x", 400),
        ("/api/predict", {"Content-Type": "text/plain"}, b"x", 415),
        ("/api/predict", {"Content-Type": "image/png", "Content-Length": "99000000"}, b"x", 413),
        ("/api/predict", {"Content-Type": "image/png", "Host": "evil.example"}, b"x", 403),
        ("/api/predict", {"Content-Type": "image/png", "Origin": "http://evil.example"}, b"x", 403),
        ("/predict", {"Content-Type": "application/json"}, b"{", 400),
        ("/nowhere", {}, b"", 405),
    ],
)
def test_refusals_are_sentences(
    client: TestClient, address: str, headers: dict[str, str], content: bytes, status: int
) -> None:
    answer = client.post(address, headers=headers, content=content)
    assert answer.status_code == status and len(answer.json()["error"]) > 10


def test_with_a_token(service: Service) -> None:
    with TestClient(create_app(service, "0.0.0.0", TOKEN), base_url="http://10.0.0.7:8643") as guarded:
        assert guarded.get("/api/model").status_code == 401
        assert guarded.get("/api/model", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_two_hundred_at_once_with_one_huge_image(small: Small) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (5000, 6000, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(noise).save(content, "JPEG", quality=60)
    raw = small.files[0].read_bytes()
    for megapixels, error in ((50.0, None), (20.0, "it has more than 20 million pixels")):
        app = create_app(Service.open(small.run, "cpu", Limits(megapixels=megapixels, seconds=120)))

        async def crowd(app: object = app) -> list[httpx.Response]:
            transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8643", timeout=300) as client:
                bodies = [content.getvalue() if n == 100 else raw for n in range(200)]
                kind = {"Content-Type": "image/jpeg"}
                return list(
                    await asyncio.gather(*(client.post("/api/predict", content=b, headers=kind) for b in bodies))
                )

        answers = asyncio.run(crowd())
        assert [answer.status_code for answer in answers] == [200] * 200
        errors = [answer.json()["predictions"][0]["error"] for answer in answers]
        assert errors[100] == error and errors[:100] == [None] * 100 and errors[101:] == [None] * 99


def test_more_than_may_wait_are_refused_in_words(small: Small) -> None:
    app = create_app(Service.open(small.run, "cpu", Limits(waiting=10)))
    raw = small.files[0].read_bytes()

    async def crowd() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8643") as client:
            kind = {"Content-Type": "image/png"}
            return list(
                await asyncio.gather(*(client.post("/api/predict", content=raw, headers=kind) for _ in range(60)))
            )

    answers = asyncio.run(crowd())
    assert {answer.status_code for answer in answers} == {200, 503}
    assert all("busy" in answer.json()["error"] for answer in answers if answer.status_code == 503)
