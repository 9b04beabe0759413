"""Taking decisions: the latest one counts, in whichever order they arrive."""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from scob.recovery import decisions
from scob.recovery.decisions import Decision, DecisionLog
from scob.recovery.orders import ReviewMode
from scob.recovery.suggestion import read_queue, recovered_folder
from scob.recovery.web.desk import Desk
from support.review_process import decision


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


def test_an_impossible_age_is_limited(client: TestClient) -> None:
    assert client.post("/api/decisions", json=decision(age=1e300)).json()["applied"]


def test_a_log_that_was_replaced_by_one_of_the_same_length_is_noticed(run_folder: Path) -> None:
    folder = recovered_folder(run_folder)
    log = DecisionLog(folder)
    desk = Desk(read_queue(folder), log)
    for answer, sign in (("accept", "+1"), ("reject", "-1")):
        (folder / "other").write_text(Decision("meadow-00.png", "ball", answer).line())
        (folder / "other").rename(folder / decisions.DECISIONS)
        desk.write()
        assert (folder / decisions.REVIEWED).read_text().endswith(f"meadow-00.png,ball,{sign}\n")


def test_a_clock_that_was_ahead_freezes_nothing(run_folder: Path) -> None:
    """A line of another session says that it was made tomorrow: decisions made now still count."""
    folder = recovered_folder(run_folder)
    queue, log = read_queue(folder), DecisionLog(folder)
    pair = queue.suggestions[0].image, queue.suggestions[0].label
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    log.append(Decision(*pair, "accept", tomorrow, "two"))
    desk = Desk(queue, log)
    time.sleep(0.05)
    sent = json.dumps({"image": pair[0], "class": pair[1], "decision": "reject", "session": "one", "age": 0.01})
    assert desk.decide(sent.encode())["applied"]
    assert log.state()[pair] == "reject"


def test_a_clock_that_jumps_back_freezes_nothing(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recovered_folder(run_folder)
    queue = read_queue(folder)
    desk = Desk(queue, DecisionLog(folder))
    sent = {"image": queue.suggestions[0].image, "class": queue.suggestions[0].label}
    assert desk.decide(json.dumps({**sent, "decision": "accept", "session": "one"}).encode())["applied"]

    class Yesterday(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime.now(UTC) - timedelta(days=1)

    monkeypatch.setattr("scob.recovery.web.desk.datetime", Yesterday)
    assert desk.decide(json.dumps({**sent, "decision": "reject", "session": "two"}).encode())["applied"]


def test_a_label_that_nobody_suggested_can_be_added_and_taken_back(client: TestClient) -> None:
    queue = client.get("/api/queue").json()
    assert "box" in queue["all_classes"] and "box" not in queue["classes"] and queue["added"] == []
    box, added = queue["all_classes"].index("box"), {**decision(), "class": "box"}
    answer = client.post("/api/decisions", json=added).json()
    assert answer["applied"] and answer["confidence"] is None
    assert client.get("/api/queue").json()["added"] == [[0, box]]
    assert "meadow-00.png,box,+1" in client.get("/reviewed.csv").text
    news = client.get("/api/changes?since=0").json()
    assert news["added"] == [[0, box, "accept", "one"]] and news["changes"] == []
    assert client.post("/api/decisions", json={**added, "decision": "undo"}).json()["applied"]
    assert client.get("/api/queue").json()["added"] == []
    for wrong in ({**added, "class": "sky"}, {**added, "image": "other.png"}, {**added, "decision": "reject"}):
        assert client.post("/api/decisions", json=wrong).status_code == 404


def test_the_page_knows_how_to_go_on(client: TestClient, run_folder: Path) -> None:
    command = client.get("/api/queue").json()["command"]
    assert command == f"scob recover {run_folder} --import {run_folder / 'recovered' / 'reviewed.csv'}"


def test_blind_review_shows_what_the_model_thinks_after_the_answer(run_folder: Path) -> None:
    folder = recovered_folder(run_folder)
    queue = read_queue(folder)
    desk = Desk(queue, DecisionLog(folder), ReviewMode(blind=True))
    first = queue.suggestions[0]
    assert set(desk.overview()["confidence"]) == {None} and desk.overview()["blind"]
    hidden = desk.details(0)
    assert (hidden["score"], hidden["mask"], hidden["nearest"], hidden["observed"]) == (None, False, [], [])
    answer = desk.decide(json.dumps({"image": first.image, "class": first.label, "decision": "accept"}).encode())
    assert answer["confidence"] == round(first.confidence, 4) == desk.overview()["confidence"][0]
    assert desk.details(0)["score"] == first.score


def test_the_page_keeps_an_order_that_was_asked_for(run_folder: Path) -> None:
    """On the page, classes take turns by default; not in an audit, where the order is random."""
    folder = recovered_folder(run_folder)
    log = DecisionLog(folder)
    assert Desk(read_queue(folder), log).overview()["order"] == "confident"
    assert Desk(read_queue(folder), log, ReviewMode("audit")).overview()["order"] == "audit"
