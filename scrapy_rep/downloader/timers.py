"""Waiting, under every event loop that Scrapy runs with."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.utils.asyncio import CallLaterResult


async def sleep(seconds: float) -> None:
    """Wait; who is cancelled meanwhile leaves no timer behind."""
    done: Deferred[None] = Deferred(lambda _: timer.cancel())
    timer = call_later(max(0.0, seconds), done.callback, None)
    await maybe_deferred_to_future(done)


class Alarm:
    """Rings once, at the earliest of the times for which it was set."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer: CallLaterResult | None = None
        self._at = 0.0

    def set(self, seconds: float) -> None:
        """Have it ring in so many *seconds* from now, unless it rings before."""
        at = monotonic() + max(0.0, seconds)
        if self._timer is not None:
            if self._at <= at:
                return
            self._timer.cancel()
        self._at = at
        self._timer = call_later(max(0.0, seconds), self._rings)

    def _rings(self) -> None:
        self._timer = None
        self._ring()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
