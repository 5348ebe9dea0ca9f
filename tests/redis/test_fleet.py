"""A crawl's connection to Redis."""

from __future__ import annotations

import asyncio

import pytest
from redis.exceptions import TimeoutError as RedisTimeoutError
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep.redis.fleet import Link
from tests.utils import coroutine_test, make_crawler


class TimesOutWhenCancelled:
    """A call that hangs, and says only that it has timed out when it is cancelled."""

    def __init__(self) -> None:
        self.cancelled = False

    async def __call__(self, **_):
        try:
            await asyncio.sleep(0 if self.cancelled else 60)
        except asyncio.CancelledError:
            self.cancelled = True
        raise RedisTimeoutError("Timeout reading")


@pytest.mark.only_asyncio
@coroutine_test
async def test_close_is_not_held_up_by_a_call_that_times_out_then():
    link = Link.of(make_crawler(REDIS_URL="redis://127.0.0.1:9"))
    link._beat = TimesOutWhenCancelled()  # type: ignore[assignment]

    async def close():
        link._keep_beating()
        await asyncio.sleep(0.05)
        done, _ = await asyncio.wait([asyncio.ensure_future(link.close())], timeout=5)
        assert done

    await maybe_deferred_to_future(deferred_from_coro(close()))
