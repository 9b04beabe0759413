"""Every route of the review server, and everything that must not get through."""

import http.client
import io
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from scob.recovery import decisions as store
from scob.recovery.web.app import create_app
from scob.recovery.web.server import address_of, open_socket
from support.review_process import KITE, ReviewProcess, decision

TOKEN = "a-long-enough-token"


# ---- What it shows -------------------------------------------------------------------------------------------------


def test_the_page_and_its_parts_come_from_here_alone(client: TestClient) -> None:
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


def test_paths_cannot_be_walked(run_folder: Path) -> None:
    with ReviewProcess(run_folder) as server:
        for path in ("/api/image/../../../etc/passwd", "/../suggestions.jsonl", "//etc/passwd",
                     "/review.js/../store.py",
                     "/api/image/%2e%2e%2f%2e%2e%2fsuggestions.jsonl", "/page/index.html", "/docs", "/openapi.json",
                     "/api/image/0%00.png"):  # fmt: skip
            raw = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)  # sends the path untouched
            raw.request("GET", path)
            answer = raw.getresponse()
            assert answer.status == 404, path
            assert b"root:" not in answer.read()


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


# ---- What it takes -------------------------------------------------------------------------------------------------


def test_a_decision_is_on_disk_when_the_answer_comes(client: TestClient, run_folder: Path) -> None:
    answer = client.post("/api/decisions", json=decision()).json()
    assert answer["applied"] and answer["decision"] == "accept" and answer["previous"] is None
    line = json.loads((run_folder / "recovered/decisions.jsonl").read_text())
    assert set(line) == {"image", "class", "decision", "time", "session", "order"}
    assert store.decisions(run_folder / "recovered") == {("meadow-00.png", "ball"): "accept"}


def test_undo_and_changes(client: TestClient) -> None:
    for answer in ("accept", "undo", "skip"):
        client.post("/api/decisions", json=decision(answer=answer))
    news = client.get("/api/changes?since=1").json()
    assert news["changes"] == [[0, "undo", "one"], [0, "skip", "one"]] and news["seen"] == 3 and not news["reset"]
    assert client.get("/api/changes?since=99").json()["reset"]
    assert client.get("/api/changes?since=x").json()["seen"] == 3
    assert client.get("/api/queue").json()["decision"][0] == "skip"


def test_the_same_decision_twice_is_one_line(client: TestClient, run_folder: Path) -> None:
    for _ in range(3):
        assert client.post("/api/decisions", json=decision()).json()["applied"]
    assert len((run_folder / "recovered/decisions.jsonl").read_text().splitlines()) == 1


def test_a_decision_sent_twice_does_not_undo_what_came_after_it(client: TestClient) -> None:
    for answer, order in (("accept", 1), ("undo", 2)):
        assert client.post("/api/decisions", json=decision(answer=answer, order=order)).json()["applied"]
    again = client.post("/api/decisions", json=decision(answer="accept", order=1)).json()
    assert not again["applied"] and again["decision"] is None
    for order in ("soon", -1, 2**70, float(2**70), None):
        assert client.post("/api/decisions", json=decision(order=order)).status_code == 422


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        ([("undo", 11), ("reject", 10)], None),
        ([("accept", 5), ("accept", 12), ("reject", 11)], "accept"),
        ([("accept", 5), ("accept", 5), ("reject", 6)], "reject"),
    ],
)
def test_a_decision_that_changes_nothing_counts_for_the_order(
    client: TestClient, sent: list[tuple[str, int]], left: str | None
) -> None:
    for answer, order in sent:
        client.post("/api/decisions", json=decision(answer=answer, order=order))
    assert client.get("/api/queue").json()["decision"][0] == left


def test_latest_wins_even_if_it_arrives_late(client: TestClient) -> None:
    client.post("/api/decisions", json=decision(answer="reject"))
    newer = client.post("/api/decisions", json=decision(answer="accept", session="two")).json()
    assert newer["applied"] and newer["previous"] == "reject" and newer["previous_session"] == "one"
    late = client.post("/api/decisions", json=decision(answer="skip", session="three", age=60)).json()
    assert not late["applied"] and late["decision"] == "accept"
    assert client.get("/api/queue").json()["decision"][0] == "accept"


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


def test_an_age_out_of_all_bounds_is_bounded(client: TestClient) -> None:
    assert client.post("/api/decisions", json=decision(age=1e300)).json()["applied"]


def test_a_disk_that_refuses_is_said_and_nothing_is_claimed(client: TestClient, run_folder: Path) -> None:
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


def test_reviewed_is_written_soon_and_after_a_kill(run_folder: Path) -> None:
    path = run_folder / "recovered/reviewed.csv"
    server = ReviewProcess(run_folder)
    httpx.post(f"{server.address}api/decisions", json=decision())
    server.kill()
    with ReviewProcess(run_folder) as again:
        httpx.get(again.address)
        assert "meadow-00.png,ball,+1" in path.read_text()
        httpx.post(f"{again.address}api/decisions", json=decision(1, "reject"))
        end = time.monotonic() + 15
        while "meadow-01.png" not in path.read_text() and time.monotonic() < end:
            time.sleep(0.1)
        assert "meadow-01.png" in path.read_text()


# ---- The verb ------------------------------------------------------------------------------------------------------


def scob(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    start = ReviewProcess.START
    return subprocess.run(
        [sys.executable, "-c", start, "review", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_a_port_in_use_is_one_sentence(run_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = scob(str(run_folder), "--port", str(port))
    assert done.returncode == 2 and done.stdout == ""
    assert f"port {port} of 127.0.0.1 is in use" in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_what_cannot_be_served_is_one_sentence(run_folder: Path, tmp_path: Path) -> None:
    for arguments, why in [
        ((str(tmp_path / "missing"),), "no run folder"),
        ((str(tmp_path),), "scob recover"),
        ((str(run_folder), "--host", "0.0.0.0"), "--token"),
        ((str(run_folder), "--host", "no.such.name.invalid", "--token", TOKEN), "no address"),
    ]:
        done = scob(*arguments)
        assert done.returncode == 2 and why in done.stderr, done
        assert len(done.stderr.strip().splitlines()) == 1


def test_without_the_extra_one_sentence_names_it(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent/fastapi.py").write_text("raise ImportError('No module named fastapi')")
    done = scob(str(run_folder), PYTHONPATH=str(tmp_path / "absent"))
    assert done.returncode == 2 and "pip install scob[review]" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_it_prints_its_address_first_and_what_to_do_last(run_folder: Path) -> None:
    server = ReviewProcess(run_folder)
    assert server.address == f"http://127.0.0.1:{server.port}/" and httpx.get(server.address).status_code == 200
    httpx.post(f"{server.address}api/decisions", json=decision())
    said = server.stop()
    assert server.process.returncode == 0
    assert "1 accepted, 0 rejected" in said and "--import" in said and "Traceback" not in said


def test_reviewed_can_be_written_without_a_server(run_folder: Path) -> None:
    store.DecisionLog(run_folder / "recovered").append(store.Decision("meadow-00.png", "ball", "reject"))
    assert scob(str(run_folder), "--write").returncode == 0
    assert "meadow-00.png,ball,-1" in (run_folder / "recovered/reviewed.csv").read_text()


def test_addresses_are_written_as_one_types_them() -> None:
    with open_socket("127.0.0.1", 0) as listening:
        assert address_of(listening) == f"http://127.0.0.1:{listening.getsockname()[1]}/"
