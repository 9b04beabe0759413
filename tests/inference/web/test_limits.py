"""Too much, too long, too many: each refused in words, and a slot is never lost."""

import asyncio
import io
import time

import pytest
from PIL import Image

from scob.errors import UserError
from scob.inference.web.answers import Refused
from scob.inference.web.limits import Limits, Turnstile, check_pixels


def test_only_so_many_work_at_once_and_the_rest_waits() -> None:
    busy = most = 0

    def task() -> int:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        time.sleep(0.02)
        busy -= 1
        return 1

    async def every() -> list[int]:
        turnstile = Turnstile(Limits(at_once=2))
        return list(await asyncio.gather(*(turnstile.work(task) for _ in range(10))))

    assert asyncio.run(every()) == [1] * 10
    assert most <= 2


def test_more_than_may_wait_are_refused() -> None:
    async def crowd() -> str:
        turnstile = Turnstile(Limits(at_once=1, waiting=1))
        async with turnstile.admitted(), turnstile.admitted():
            with pytest.raises(Refused, match="busy with 2 requests") as refusal:
                async with turnstile.admitted():
                    pass
        assert turnstile.inside == 0
        return str(refusal.value.status)

    assert asyncio.run(crowd()) == "503"


def test_what_takes_too_long_is_given_up_and_its_slot_comes_back() -> None:
    async def slow() -> int:
        turnstile = Turnstile(Limits(at_once=1, seconds=0.3))
        with pytest.raises(Refused, match=r"more than 0\.3 seconds"):
            await turnstile.work(lambda: time.sleep(0.45))
        return await turnstile.work(lambda: 7)  # waits for the slot

    assert asyncio.run(slow()) == 7


def test_pixels_are_counted_before_decoding() -> None:
    content = io.BytesIO()
    Image.new("1", (4000, 3000)).save(content, "PNG")
    check_pixels(content.getvalue(), "a", Limits(megapixels=12))
    with pytest.raises(UserError, match="a: it has more than 11 million pixels"):
        check_pixels(content.getvalue(), "a", Limits(megapixels=11))
    check_pixels(b"not an image", "a", Limits())


def test_limits_must_allow_something() -> None:
    with pytest.raises(UserError, match="the limit of seconds must be above 0"):
        Limits(seconds=0)


def test_a_photograph_of_a_phone_is_measured_before_it_is_decoded() -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    content = io.BytesIO()
    pillow_heif.from_pillow(Image.new("RGB", (64, 64))).save(content)
    with pytest.raises(UserError, match=r"more than 0\.001 million pixels"):
        check_pixels(content.getvalue(), "a.heic", Limits(megapixels=0.001))
