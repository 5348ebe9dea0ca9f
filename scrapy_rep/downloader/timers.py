"""Waiting, under every event loop that Scrapy runs with."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from scrapy.utils.asyncio import call_later, is_asyncio_available
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from scrapy.utils.asyncio import CallLaterResult

T = TypeVar("T")


async def sleep(seconds: float) -> None:
    """Wait for so many *seconds*. If the wait is cancelled, no timer is left behind."""
    done: Deferred[None] = Deferred(lambda _: timer.cancel())
    timer = call_later(max(0.0, seconds), done.callback, None)
    await maybe_deferred_to_future(done)


async def wait_for(future: Future[T]) -> T:
    """Return the result of *future*, which a thread sets.

    Cancelling the wait does not cancel the work.
    """
    if is_asyncio_available():
        return await asyncio.shield(asyncio.wrap_future(future))
    from twisted.internet import reactor

    done: Deferred[None] = Deferred()
    future.add_done_callback(lambda _: reactor.callFromThread(done.callback, None))
    await done
    return future.result()


class Alarm:
    """Rings once, at the earliest of the times for which it was set."""

    def __init__(self, ring: Callable[[], object]) -> None:
        self._ring = ring
        self._timer: CallLaterResult | None = None
        self._at = 0.0

    def set(self, seconds: float) -> None:
        """Make it ring in so many *seconds* from now, unless it is set to ring earlier."""
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
