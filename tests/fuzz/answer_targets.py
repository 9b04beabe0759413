"""Parsers of what people and programs send: answers to import, requests to `scob serve`, photographs, lists."""

import asyncio
import contextlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.reader_targets import PARTED, first_byte, image_folder
from fuzz.scratch import scratch
from fuzz.targets import Target
from scob.errors import UserError


def imported_answers(data: bytes) -> None:
    """A file for `scob recover --import`; the first byte chooses Label Studio's JSON or CSV, or a log of decisions."""
    from scob.recovery.reviewed import checked_decisions

    path = scratch("answers") / f"answers{('.json', '.csv', '.jsonl')[first_byte(data) % 3]}"
    path.write_bytes(data[1:])
    images, classes = ("photos/a.jpg", "photos/b.jpg"), ("cat", "dog")
    checked_decisions(path, images, classes, "in the run", asked={"photos/a.jpg": ["dog"]})


def heic_image(data: bytes) -> None:
    """A photograph in HEIC, decoded, and measured as `scob data report` and `scob train` do."""
    measured_image(data, "a.heic")


def measured_image(data: bytes, name: str = "a.png") -> None:
    """An image file of a data set: its report, and the input size that suits it."""
    from scob.data.images import ImageFiles, decode
    from scob.data.measure_images import measure
    from scob.data.split import Split
    from scob.labels import Labels
    from scob.training.prepare import input_size

    path = scratch("measured") / name
    path.write_bytes(data)
    split = Split("train", Labels(("cat",), (name,), np.ones((1, 1), np.int8)), ImageFiles((str(path),)))
    measure(split)
    input_size(split, 448)
    decode(path, 8)


def image_list(data: bytes) -> None:
    """A list of image files, as `scob predict -` reads it from its input."""
    from scob.data.find_images import find_images
    from scob.data.images import decode

    folder = image_folder("image-list")
    lines = data.decode("utf-8", "surrogateescape").splitlines(keepends=True)
    for path in find_images(["-"], lines).paths[:3]:
        with contextlib.suppress(UserError):
            decode(f"{folder}/{path}", 8)


def execution_record(data: bytes) -> None:
    """execution.json and so-far/epoch.json of a run, of a version without a seal."""
    from scob.training.execution import FILE, read_execution
    from scob.training.unfinished import STATE, _read_state

    folder = scratch("execution")
    for name in (FILE, STATE):
        (folder / name).write_bytes(data)
    _read_state(folder)
    read_execution(folder)


class Scorer:
    """A model that scores every class alike."""

    classes, size, thresholds = ("cat", "dog"), 8, np.full(2, 0.5, np.float32)

    def scores(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        return np.full((len(pixels), 2), 0.6, np.float32)


@cache
def application(token: str | None) -> Any:
    from scob.inference.web.app import Sources, create_app
    from scob.inference.web.limits import Limits
    from scob.inference.web.service import Service

    service = Service(Path("model"), Scorer(), Limits(megabytes=1, images=4, seconds=10), "scob", has_maps=False)
    # nothing listens on port 9: an address that is allowed is tried, and refused at once
    return create_app(service, "127.0.0.1", token, Sources(image_folder("served"), ("127.0.0.1:9",)))


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def send(app: Any, method: str, address: bytes, headers: list[tuple[bytes, bytes]], body: bytes = b"") -> None:
    """A request as a server passes it on once it has read its first line and its headers."""
    own_host = [] if b"host" in [name for name, _ in headers] else [(b"host", b"127.0.0.1")]
    path, _, query = address.partition(b"?")
    scope = {
        "type": "http", "method": method, "path": path.decode("latin-1"), "raw_path": path, "query_string": query,
        "headers": [*own_host, *headers], "scheme": "http", "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 9), "http_version": "1.1", "root_path": "", "asgi": {"version": "3.0"},
    }  # fmt: skip
    waiting = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return waiting.pop() if waiting else await asyncio.Event().wait() or {"type": "http.disconnect"}

    async def keep(message: dict[str, Any]) -> None:
        sent.append(message)

    event_loop().run_until_complete(app(scope, receive, keep))
    if sent[0]["status"] >= 400:
        answer = json.loads(b"".join(message.get("body", b"") for message in sent))
        assert set(answer) == {"error"}, "a refusal that is not a sentence"
        raise UserError(answer["error"])


def header_lines(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    pairs = (line.partition(b":") for line in lines)
    return [(name.lower(), value.strip()) for name, _, value in pairs]


def upload_request(data: bytes) -> None:
    """A request for predictions: the query, a header per line, an empty line, and the body.

    With the header X-Scob-Token, it goes to a server that asks for a token.
    """
    head, _, body = data.partition(b"\n\n")
    query, *lines = head.split(b"\n")
    headers = header_lines(lines)
    token = "secret" if b"x-scob-token" in [name for name, _ in headers] else None
    send(application(token), "POST", b"/api/predict?" + query, headers, body)


def label_studio_request(data: bytes) -> None:
    """What Label Studio sends to its ML backend: /setup, then /predict."""
    setup, _, tasks = data.partition(PARTED)
    for address, body in ((b"/setup", setup), (b"/predict", tasks)):
        send(application(None), "POST", address, [(b"content-type", b"application/json")], body)


@cache
def review_application() -> Any:
    from scob.recovery.suggestion import Suggestion, write_queue
    from scob.recovery.web.app import create_app

    folder, images = scratch("reviewed-run"), image_folder("reviewed-images")
    mask = {"size": [4, 4], "counts": "88"}
    suggestions = [
        Suggestion(name, "cat", 0.5, 0.5, mask=mask, nearest=(("b.jpg", 0.1),)) for name in ("a.jpg", "b.jpg")
    ]
    write_queue(folder, suggestions, {s.image: str(images / s.image) for s in suggestions}, ("cat", "dog"))
    return create_app(folder)


def review_address(data: bytes) -> None:
    """An address of the review page, with its query, and a header per line."""
    address, *lines = data.split(b"\n")
    send(review_application(), "GET", address, header_lines(lines))


ANSWER_TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        imported_answers, heic_image, measured_image, image_list, execution_record, upload_request,
        label_studio_request, review_address,
    )
}  # fmt: skip
