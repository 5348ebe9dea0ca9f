"""Waiting, under every event loop that Scrapy runs with."""

from __future__ import annotations

from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred


async def sleep(seconds: float) -> None:
    """Wait; who is cancelled meanwhile leaves no timer behind."""
    done: Deferred[None] = Deferred(lambda _: timer.cancel())
    timer = call_later(max(0.0, seconds), done.callback, None)
    await maybe_deferred_to_future(done)
