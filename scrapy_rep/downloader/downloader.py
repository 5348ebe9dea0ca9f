"""Scrapy's downloader, in which a request waits for its turn in nobody's place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy import exceptions
from scrapy.core import downloader as scrapys
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from scrapy_rep.downloader.on_the_way import leave_the_way
from scrapy_rep.downloader.starts import Starts

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.internet.defer import Deferred


CUT_OFF: tuple[type[BaseException], ...] = (
    asyncio.CancelledError,
    CancelledError,
    getattr(exceptions, "DownloadCancelledError", CancelledError),  # Scrapy >= 2.15
)
"""How a download ends that was broken off."""


class Downloader(scrapys.Downloader):
    """For DOWNLOADER: asks for a turn before each request is handed to its download handler."""

    def __init__(self, crawler: Crawler) -> None:
        self._places = 0
        self.lent = 0
        """Places beyond CONCURRENT_REQUESTS, for what only waits."""
        self.starts = Starts.of(crawler)
        self.holds_back: Callable[[], bool] = lambda: False
        """Tells whether the engine is to ask for no more, although places are free."""
        self.is_ending: Callable[[], bool] = lambda: False
        self.cut_off: WeakSet[Request] = WeakSet()
        """Requests whose download was broken off so that the crawl ends sooner."""
        super().__init__(crawler)
        self.handlers: Any = _Handlers(self.handlers, self.starts)

    def fetch(self, request: Request, *args: Any) -> Deferred[Any]:
        def note(result: Any) -> Any:
            is_cut = isinstance(result, Failure) and result.check(*CUT_OFF)
            if is_cut and self.is_ending():
                self.cut_off.add(request)
            return result

        return super().fetch(request, *args).addBoth(note)

    @property
    def total_concurrency(self) -> int:
        return self._places and self._places + self.lent  # 0: there is no limit

    @total_concurrency.setter
    def total_concurrency(self, places: int) -> None:
        self._places = places

    def needs_backout(self) -> bool:
        leave_the_way()  # the engine asks this each time before it asks any scheduler
        return super().needs_backout() or self.holds_back()


class _Handlers:
    """Scrapy's download handlers, each of whose requests waits for its turn."""

    def __init__(self, scrapys: Any, starts: Starts) -> None:
        self._scrapys = scrapys
        self._starts = starts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scrapys, name)

    async def download_request_async(self, request: Request) -> Response:
        hand_over = self._scrapys.download_request_async
        return await self._starts.follow(request, hand_over)
