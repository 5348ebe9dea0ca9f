"""Scrapy's downloader, in which a request waits for its turn in nobody's place; and what the
frontier has handed out to it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet, ref

from scrapy import exceptions
from scrapy.core import downloader as scrapys
from twisted.internet.defer import CancelledError
from twisted.python.failure import Failure

from scrapy_rep.downloader.on_the_way import leave_the_way
from scrapy_rep.downloader.starts import Starts

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

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
NOWHERE: frozenset[Request] = frozenset()


class Downloader(scrapys.Downloader):
    """For DOWNLOADER: each request waits until its host may be asked, then goes to its handler."""

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


class HandedOut:
    """Requests by download slot and by host, for as long as the downloader has them."""

    def __init__(self, downloader: scrapys.Downloader) -> None:
        self._downloader = downloader
        self._by_slot: dict[str, set[Request]] = {}
        self._by_host: dict[str, set[Request]] = {}
        """Hosts whose requests go through slots of other names."""
        self.arrived: WeakSet[Request] = WeakSet()
        """Requests whose answers have begun, of hosts with a pace."""
        self.sent_back: WeakKeyDictionary[Request, ref[Request]] = WeakKeyDictionary()
        """Requests on their way back to the queue, which handed them out too early: what goes
        back, and as what it was handed out."""

    def add(self, slot: str, host: str, request: Request) -> None:
        """Note that *request* is on its way to *host*, by *slot*."""
        self._by_slot.setdefault(slot, set()).add(request)
        if host != slot:
            self._by_host.setdefault(host, set()).add(request)

    def note_sent_back(self, request: Request, again: Request) -> None:
        """Note that *request* is on its way back to the queue, as *again*."""
        self.sent_back[again] = ref(request)

    def sweep(self) -> None:
        """Forget requests that were answered since we last looked at their slot."""
        for slot in list(self._by_slot):
            self.count_on_the_way(slot, NOWHERE)
        for host in list(self._by_host):
            self.has_any_to(host)

    def has(self, slot: str, request: Request) -> bool:
        """Tell whether *request* was handed out for *slot*, and has no answer yet."""
        return request in self._by_slot.get(slot, ())

    def count_on_the_way(self, slot: str, there: AbstractSet[Request]) -> int:
        """Return how many requests are not in *slot* yet; *there* are those that are."""
        requests = self._current(self._by_slot, slot)
        return len(requests - there) if there else len(requests)

    def has_any_to(self, host: str) -> bool:
        """Tell whether any request is on its way to *host*, by whatever slot, unanswered."""
        by_others = self._current(self._by_host, host)
        return any(
            request not in self.arrived
            for requests in (by_others, self._current(self._by_slot, host))
            for request in requests
        )

    def _current(
        self, by_name: dict[str, set[Request]], name: str
    ) -> AbstractSet[Request]:
        requests = by_name.get(name)
        if requests is None:
            return NOWHERE
        requests &= self._downloader.active  # the others were answered, or refused
        if not requests:
            del by_name[name]
        return requests
