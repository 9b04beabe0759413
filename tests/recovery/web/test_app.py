"""The routes of the review server: what they show, what they take, what they refuse."""

import io
import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from PIL import Image

from scob.recovery import decisions
from scob.recovery.orders import ReviewMode
from scob.recovery.web.app import create_app
from support.review_process import KITE, decision


def test_the_page_and_its_parts_come_from_this_server_only(client: TestClient) -> None:
    for address, media in [("/", "text/html"), ("/review.js", "text/javascript"), ("/review.css", "text/css")]:
        answer = client.get(address)
        assert answer.status_code == 200 and answer.headers["content-type"].startswith(media)
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "http://" not in answer.text and "https://" not in answer.text
        assert "innerHTML" not in answer.text and " style=" not in answer.text and "onclick" not in answer.text


def test_the_queue_has_every_suggestion_in_rank_order(client: TestClient) -> None:
    queue = client.get("/api/queue").json()
    assert [queue["classes"][c] for c in queue["class"]] == ["ball", KITE] * 4
    assert queue["confidence"] == sorted(queue["confidence"], reverse=True) and len(queue["confidence"]) == 8
    assert queue["images"][queue["image"][3]] == "meadow-03.png"
    assert queue["decision"] == [None] * 8 and queue["folder"] == "run"


def test_a_suggestion_comes_with_its_evidence(client: TestClient) -> None:
    one = client.get("/api/suggestions/2").json()
    assert (one["image"], one["class"], one["observed"], one["mask"]) == ("meadow-02.png", "ball", ["box"], True)
    near = one["nearest"][0]
    assert near["image"] == "meadow-00.png" and client.get(f"/api/thumbnail/{near['number']}").status_code == 200


def test_images_and_masks_are_pictures(client: TestClient) -> None:
    image = Image.open(io.BytesIO(client.get("/api/image/0").content))
    small = Image.open(io.BytesIO(client.get("/api/thumbnail/0").content))
    mask = Image.open(io.BytesIO(client.get("/api/mask/0?ratio=1.5").content))
    assert image.size == (480, 320) and max(small.size) <= 192 and mask.mode == "RGBA"
    assert client.get("/api/mask/0?ratio=nan").status_code == 200
    assert client.get("/api/mask/0?ratio=x").status_code == 404


@pytest.mark.parametrize("number", ["8", "-1", "1.0", "x", "٣", "99999999999999999999", "..%2f..%2fetc%2fpasswd"])
@pytest.mark.parametrize("route", ["image", "thumbnail", "mask", "suggestions"])
def test_only_a_number_of_the_queue_finds_anything(client: TestClient, route: str, number: str) -> None:
    answer = client.get(f"/api/{route}/{number}")
    assert answer.status_code == 404 and answer.json()["error"]


def test_missing_broken_and_foreign_files_are_404(run_folder: Path) -> None:
    images = run_folder / "recovered/images"
    (images / "meadow-00.png").unlink()
    (images / "meadow-01.png").write_text("not a picture")
    mapped = json.loads((run_folder / "recovered/images.json").read_text())
    mapped["files"]["meadow-02.png"] = "/etc/passwd"
    del mapped["files"]["meadow-03.png"]
    (run_folder / "recovered/images.json").write_text(json.dumps(mapped))
    with TestClient(create_app(run_folder), base_url="http://localhost") as client:
        assert [client.get(f"/api/image/{n}").status_code for n in range(5)] == [404, 404, 404, 404, 200]


def test_a_damaged_or_missing_mask_is_404(run_folder: Path) -> None:
    path = run_folder / "recovered/suggestions.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["mask"]["counts"] = "~~~~"
    rows[1]["mask"] = None
    path.write_text("\n".join(map(json.dumps, rows)))
    with TestClient(create_app(run_folder), base_url="http://localhost") as client:
        assert [client.get(f"/api/mask/{n}").status_code for n in range(3)] == [404, 404, 200]


def test_a_decision_is_on_disk_when_the_answer_comes(client: TestClient, run_folder: Path) -> None:
    answer = client.post("/api/decisions", json=decision()).json()
    assert answer["applied"] and answer["decision"] == "accept" and answer["previous"] is None
    line = json.loads((run_folder / "recovered/decisions.jsonl").read_text())
    assert set(line) == {"image", "class", "decision", "time", "session", "order"}
    assert decisions.decisions_in(run_folder / "recovered") == {("meadow-00.png", "ball"): "accept"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422), (b"{", 422), (b"[]", 422), (b"3", 422), (b"null", 422), (b"\xff", 422), (b"[" * 9000, 422),
        (json.dumps(decision(answer="maybe")).encode(), 422),
        (json.dumps({**decision(), "image": 3}).encode(), 422),
        (json.dumps({**decision(), "decision": ["accept"]}).encode(), 422),
        (json.dumps(decision(age="x")).encode(), 422),
        (json.dumps(decision(age=float("nan"))).encode(), 422),
        (json.dumps({**decision(), "session": "s" * 65}).encode(), 422),
        (json.dumps({**decision(), "image": "elsewhere"}).encode(), 404),
        (json.dumps({**decision(), "image": "\ud800"}).encode(), 404),
        (json.dumps({**decision(), "image": "a" * 20000}).encode(), 413),
    ],
)  # fmt: skip
def test_a_bad_decision_is_refused_and_not_written(
    client: TestClient, run_folder: Path, body: bytes, status: int
) -> None:
    answer = client.post("/api/decisions", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status and answer.json()["error"]
    assert (run_folder / "recovered/decisions.jsonl").read_bytes() == b""


def test_a_disk_that_cannot_be_written_is_an_error(client: TestClient, run_folder: Path) -> None:
    path = run_folder / "recovered/decisions.jsonl"
    path.unlink()
    path.mkdir()
    answer = client.post("/api/decisions", json=decision())
    assert answer.status_code == 500 and "decisions.jsonl" in answer.json()["error"]


def test_reviewed_is_downloaded_and_written(run_folder: Path) -> None:
    with TestClient(create_app(run_folder), base_url="http://localhost") as client:
        client.post("/api/decisions", json=decision())
        client.post("/api/decisions", json=decision(1, "reject"))
        text = client.get("/reviewed.csv").text
    assert text == f"image,label,state\nmeadow-00.png,ball,+1\nmeadow-01.png,{KITE},-1\n"
    assert (run_folder / "recovered/reviewed.csv").read_text() == text


def test_an_audit_counts_answers_to_its_sample(run_folder: Path) -> None:
    mode = ReviewMode("audit", 4)
    with TestClient(create_app(run_folder, mode=mode), base_url="http://127.0.0.1:8642") as client:
        queue = client.get("/api/queue").json()
        assert len(queue["class"]) == 4 and client.get("/api/audit").json() == []
        for number, answer in enumerate(("accept", "reject", "accept")):
            pair = {"image": queue["images"][queue["image"][number]], "class": queue["classes"][queue["class"][number]]}
            assert client.post("/api/decisions", json={**pair, "decision": answer}).status_code == 200
        total = client.get("/api/audit").json()[0]
        assert (total["class"], total["reviewed"], total["right"]) == ("all classes", 3, 2)
        assert 0 < total["low"] < 2 / 3 < total["high"] < 1
    with TestClient(create_app(run_folder), base_url="http://127.0.0.1:8642") as client:
        assert client.get("/api/queue").json()["queue"] != queue["queue"] and client.get("/api/audit").json() == []
