"""Scrapy's downloader, in which a request waits for its turn in nobody's place; and what the
frontier has handed out to it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet, ref

from scrapy import exceptions
from scrapy.core import downloader as scrapys
from twisted.internet.defer import CancelledError

from scrapy_rep.engine.starts import Starts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet

    from scrapy import Request
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure


CUT_OFF: tuple[type[BaseException], ...] = (
    asyncio.CancelledError,
    CancelledError,
    getattr(exceptions, "DownloadCancelledError", CancelledError),  # Scrapy >= 2.15
)
"""How a download ends that was broken off."""
NOWHERE: frozenset[Request] = frozenset()
SLOT, HOST = "slot", "host"


class Downloader(scrapys.Downloader):
    """For DOWNLOADER: each request waits until its host may be asked, then goes to its handler."""

    def __init__(self, crawler: Crawler) -> None:
        self._places = 0
        self.lent = 0
        """Places beyond CONCURRENT_REQUESTS, for what only waits."""
        self.holds_back: Callable[[], bool] = lambda: False
        """Tells whether the engine is to ask for no more, although places are free."""
        self.is_ending: Callable[[], bool] = lambda: False
        self.cut_off: WeakSet[Request] = WeakSet()
        """Requests whose download was broken off so that the crawl ends sooner."""
        super().__init__(crawler)
        self.handlers: Any = _Handlers(self.handlers, Starts.of(crawler))

    def fetch(self, request: Request, *args: Any) -> Deferred[Any]:
        def note(failure: Failure) -> Failure:
            if failure.check(*CUT_OFF) and self.is_ending():
                self.cut_off.add(request)
            return failure

        return super().fetch(request, *args).addErrback(note)

    def step_out(self, slot: Any, request: Request) -> None:
        """Have *request*, which waits, take no place of *slot*."""
        slot.transferring.discard(request)
        self._process_queue(slot)

    @property
    def total_concurrency(self) -> int:
        return self._places and self._places + self.lent  # 0: there is no limit

    @total_concurrency.setter
    def total_concurrency(self, places: int) -> None:
        self._places = places

    def needs_backout(self) -> bool:
        # The engine asks this each time before it asks any scheduler, maybe in the context of
        # who has ended a request. The next one is a page, on nobody's way.
        if _ways.get():
            _ways.set(())
        return super().needs_backout() or self.holds_back()


class _Handlers:
    """Scrapy's download handlers, each of whose requests waits for its turn."""

    def __init__(self, scrapys: Any, starts: Starts) -> None:
        self._scrapys = scrapys
        hand_over = scrapys.download_request_async
        self.download_request_async = partial(starts.follow, hand_over)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scrapys, name)


class HandedOut:
    """Requests by download slot and by host, for as long as the downloader has them."""

    def __init__(self, active: Callable[[], AbstractSet[Request]]) -> None:
        """*active* returns all that the downloader has."""
        self._active = active
        self._requests: dict[tuple[str, str], set[Request]] = defaultdict(set)
        self.sent_back: WeakKeyDictionary[Request, ref[Request]] = WeakKeyDictionary()
        """Requests on their way back to the queue, which handed them out too early: what goes
        back, and as what it was handed out."""

    def add(self, slot: str, host: str, request: Request) -> None:
        """Note that *request* is on its way to *host*, by *slot*."""
        self._requests[SLOT, slot].add(request)
        self._requests[HOST, host].add(request)

    def by(self, kind: str, name: str) -> AbstractSet[Request]:
        """Return those of a SLOT; or of a HOST: if it keeps a pace, until their answers begin."""
        requests = self._requests.get((kind, name))
        if requests is None:
            return NOWHERE
        requests &= self._active()  # the others were answered, or refused
        return requests

    def note_arrived(self, host: str, request: Request) -> None:
        """Note that the answer of *host*, which has a pace, has begun."""
        self._requests.get((HOST, host), set()).discard(request)

    def sweep(self) -> None:
        """Forget requests that were answered since we last looked at their slot."""
        active = self._active()
        for key, requests in list(self._requests.items()):
            requests.intersection_update(active)
            if not requests:
                del self._requests[key]


# What a robots.txt waits for itself: requests that a middleware sends while it has its request.
# A middleware may need a token of the same site before it lets any request go. Such a request
# must not wait for the robots.txt, which waits for it.

_ways: ContextVar[tuple[dict[str, Crawler], ...]] = ContextVar("rep_ways", default=())
"""Each the way of one request through the middlewares of a crawler, for the robots.txt of an
origin; empty when it is over. Tasks and connections that begin there keep its context, and the
crawler would live for as long as they do."""


@contextmanager
def on_the_way(crawler: Crawler, origin: str) -> Iterator[None]:
    """Send the request for the robots.txt of *origin* within the block."""
    way = {origin: crawler}
    token = _ways.set((*_ways.get(), way))
    try:
        yield
    finally:
        way.clear()
        with suppress(ValueError):  # Twisted 21.7 may go on in another context
            _ways.reset(token)


def is_on_the_way(crawler: Crawler, origin: str) -> bool:
    """Tell whether the robots.txt of *origin* may wait for what is sent now."""
    return any(way.get(origin) is crawler for way in _ways.get())
