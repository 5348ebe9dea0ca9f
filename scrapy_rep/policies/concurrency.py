"""How many robots.txt are fetched at once (REP_FETCH_CONCURRENCY)."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import DeferredSemaphore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy_rep.downloader import Downloader

PATIENCE_SECONDS = 0.5
"""Seconds after which a fetch no longer counts in REP_FETCH_CONCURRENCY."""
SLOW_LANES = 8
"""So many times REP_FETCH_CONCURRENCY fetches are under way at the most, slow ones too."""


class Lanes:
    """Lets *concurrency* fetches run at once, and more where some are slow.

    Hosts that hang must not keep those from being asked that answer at once.
    """

    def __init__(self, downloader: Downloader, concurrency: int) -> None:
        self._downloader = downloader
        self._prompt = DeferredSemaphore(concurrency)
        self._all = DeferredSemaphore(SLOW_LANES * concurrency)
        self.slow = 0
        """How many fetches are under way that no longer count."""

    @asynccontextmanager
    async def lane(self) -> AsyncIterator[None]:
        """Wait until a fetch may run, and let it run in the block."""
        async with _hold(self._all), self._place_for_a_while():
            self._downloader.lend_place()  # it takes none of a page's
            try:
                yield
            finally:
                self._downloader.take_place_back()

    @asynccontextmanager
    async def _place_for_a_while(self) -> AsyncIterator[None]:
        """Hold one of the places, for PATIENCE_SECONDS at the most."""
        await maybe_deferred_to_future(self._prompt.acquire())
        gave_away = False

        def give_away() -> None:
            nonlocal gave_away
            gave_away = True
            self.slow += 1
            self._prompt.release()
            self._downloader.wake()  # the queue may look further ahead

        timer = call_later(PATIENCE_SECONDS, give_away)
        try:
            yield
        finally:
            timer.cancel()
            if gave_away:
                self.slow -= 1
            else:
                self._prompt.release()


@asynccontextmanager
async def _hold(semaphore: DeferredSemaphore) -> AsyncIterator[None]:
    await maybe_deferred_to_future(semaphore.acquire())
    try:
        yield
    finally:
        semaphore.release()
