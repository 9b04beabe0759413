"""What a prediction server takes on: sizes, pixels, time, requests at once. The rest is refused in words."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request
from PIL import Image
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from scob.data.heif import open_image
from scob.errors import UserError
from scob.files import whole_number
from scob.inference.web.answers import Refused

Result = TypeVar("Result")
MEGA = 1_000_000


@dataclass(frozen=True)
class Limits:
    """Per request: bytes of all images, pixels of one, images, seconds. Of the server: requests at work and waiting."""

    megabytes: float = 64
    megapixels: float = 50
    images: int = 64
    seconds: float = 60
    at_once: int = 2
    waiting: int = 256

    def __post_init__(self) -> None:
        for name in ("megabytes", "megapixels", "images", "seconds", "at_once"):
            if getattr(self, name) <= 0:
                raise UserError(f"the limit of {name} must be above 0, not {getattr(self, name)}")


class Turnstile:
    """Lets so many requests work at once; the next ones wait, and when too many wait, more are refused."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.inside, self.bytes = limits, 0, 0
        self._slots = asyncio.Semaphore(limits.at_once)

    @contextlib.asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """Count a request from its first byte to its answer."""
        if self.inside >= self.limits.at_once + self.limits.waiting:
            raise Refused(503, f"the server is busy with {self.inside} requests: try again in a moment")
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    async def body(self, request: Request) -> bytes:
        """The body of a request, within the limit of bytes and of time."""
        most = int(self.limits.megabytes * MEGA)
        refused = Refused(413, f"the request has more than {self.limits.megabytes:g} megabytes: send fewer images")
        declared = request.headers.get("content-length", "")
        length = whole_number(declared)
        if declared.isascii() and declared.isdigit() and (length is None or length > most):
            raise refused
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise refused
                    parts.append(part)
        except TimeoutError:
            raise Refused(408, f"the request took more than {self.limits.seconds:g} seconds to arrive") from None
        except ClientDisconnect:  # nobody is left to answer
            raise Refused(400, "the request was cut off") from None
        return b"".join(parts)

    async def work(self, task: Callable[[], Result]) -> Result:
        """Do the work in a thread when it is its turn. A thread cannot be stopped: its slot is free when it is done."""
        try:
            async with asyncio.timeout(self.limits.seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise Refused(503, "the server is busy: its turn did not come in time; try again in a moment") from None
        running = asyncio.ensure_future(run_in_threadpool(task))
        running.add_done_callback(lambda _: self._slots.release())
        try:
            return await asyncio.wait_for(asyncio.shield(running), self.limits.seconds)
        except TimeoutError:
            running.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody asks for it any more
            raise Refused(504, f"this took more than {self.limits.seconds:g} seconds: send fewer images") from None


def check_pixels(raw: bytes, name: str, limits: Limits) -> None:
    """Refuse an image with too many pixels before it is decoded; only its header is read."""
    try:
        with open_image(io.BytesIO(raw), name) as image:
            pixels = image.width * image.height
    except Image.DecompressionBombError:
        pixels = 1 << 62
    except Exception:  # decoding it will say what is wrong
        return
    if pixels > limits.megapixels * MEGA:
        raise UserError(f"{name}: it has more than {limits.megapixels:g} million pixels; scale it down first")
