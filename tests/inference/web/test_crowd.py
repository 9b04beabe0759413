"""Two hundred requests at once over sockets to a real `scob serve`, one of them a photograph of 30 megapixels."""

import http.client
import io
import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

from support.serve_process import serving
from support.small_model import Small

CROWD, HUGE = 200, 100


@dataclass(frozen=True)
class Answer:
    status: int
    body: dict[str, Any]

    @property
    def words(self) -> str:
        """Why there is no prediction; '' if there is one."""
        return str(self.body.get("error") or self.body["predictions"][0]["error"] or "")


def photograph(height: int, width: int) -> bytes:
    content = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    Image.fromarray(noise).save(content, "JPEG", quality=60)
    return content.getvalue()


def ask(address: str, body: bytes, together: threading.Barrier, headers: dict[str, str] | None = None) -> Answer:
    """One request on a connection of its own, which is open before anybody sends."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=300)
    connection.connect()
    together.wait(60)
    connection.request("POST", "/api/predict", body, {"Content-Type": "image/jpeg", **(headers or {})})
    answer = connection.getresponse()
    said = Answer(answer.status, json.loads(answer.read()))
    connection.close()
    return said


def crowd(address: str, ordinary: bytes, huge: bytes) -> list[Answer]:
    together = threading.Barrier(CROWD)
    with ThreadPoolExecutor(CROWD) as pool:
        bodies = [huge if n == HUGE else ordinary for n in range(CROWD)]
        return list(pool.map(lambda body: ask(address, body, together), bodies))


@pytest.mark.slow
def test_all_are_answered(small: Small) -> None:
    with serving(small.run, "--max-seconds", 300) as (process, address):
        answers = crowd(address, small.files[0].read_bytes(), photograph(5000, 6000))
        assert [(answer.status, answer.words) for answer in answers] == [(200, "")] * CROWD
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.slow
def test_what_is_not_answered_is_refused_in_words(small: Small) -> None:
    """One at a time, and one second of patience: most of the crowd does not get its turn."""
    with serving(small.run, "--max-seconds", 1, "--at-once", 1, "--max-megapixels", 20) as (process, address):
        answers = crowd(address, photograph(1500, 2000), photograph(5000, 6000))
        for number, answer in enumerate(answers):
            if answer.status == 200:
                assert answer.words == "" if number != HUGE else "more than 20 million pixels" in answer.words
            else:
                assert answer.status in (408, 503, 504) and ("seconds" in answer.words or "busy" in answer.words)
        assert any(answer.status != 200 for answer in answers)
        alone = threading.Barrier(1)
        assert ask(address, small.files[0].read_bytes(), alone).status == 200  # it is not worn out
        assert ask(address, b"", alone, {"Host": "elsewhere.example"}).status == 403
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
