"""Each start of a request, by whatever way it comes, and what comes of it."""

from __future__ import annotations

import sys
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.core import downloader as scrapys

from scrapy_rep.downloader.failures import may_send_again
from scrapy_rep.downloader.for_crawler import OneForEachCrawler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.http.headers import Headers

    Granter = Callable[["Departure"], Awaitable[None] | None]
    HandOver = Callable[[Request], Awaitable[Response]]
    Listener = Callable[["Departure"], None]
    AnswerListener = Callable[["Departure", Response], None]
    FailureListener = Callable[["Departure", Exception], None]

ROBOTS_HOP = "rep_robotstxt"
"""The meta key that marks a request for a robots.txt, for users' middlewares, too."""
MOST_KEPT = 100
"""Origins that are remembered to have answered, and so may have kept a connection."""
LONGEST_SCHEME = len("https://")


class Departure:
    """One request on its way out, from just before its download handler gets it."""

    __slots__ = (
        "__weakref__",
        "arrived_at",
        "booking",
        "host",
        "is_sent",
        "keeps_pace",
        "request",
        "robots_hop",
        "slot",
        "started_at",
    )

    def __init__(self, request: Request, slot: str | None = None) -> None:
        self.request = request
        self.slot = slot
        self.robots_hop: Any = request.meta.get(ROBOTS_HOP)
        """What marks the request as that of a robots.txt, and is told what comes of it; ``None``:
        it is for a page."""
        self.host = ""
        """Whose pace it keeps; empty: nobody's."""
        self.started_at = 0.0
        """When a start was last granted, by ``time.monotonic()``."""
        self.arrived_at: float | None = None
        """When its site had it at the latest; ``None``: it may still be on its way there."""
        self.booking: int | None = None
        """What other processes know its start by; ``None``: no start is booked."""
        self.keeps_pace = False
        """Whether its host may have a pace to keep."""
        self.is_sent = False
        """Whether it was handed over, for all that is known."""


class Starts(OneForEachCrawler):
    """Has each request of a crawl wait for its start, and tells listeners what comes of it.

    ``Downloader`` calls ``follow`` for each request. Where the user has another one, the gate
    calls ``start_at_gate``, and the rest is told by Scrapy's signals.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._granter: Granter = _grant_at_once
        self._start_listeners: list[Listener] = []
        self._headers_listeners: list[Listener] = []
        self._over_listeners: list[Listener] = []
        self._answer_listeners: list[AnswerListener] = []
        self._failure_listeners: list[FailureListener] = []
        self._under_way: dict[Request, Departure] = {}
        """Those whose headers somebody wants to know of, and those that have passed the gate."""
        self._answered: dict[str, Headers] = {}
        """Origins, and the headers of their last answers: a connection may have been kept."""
        self._is_at_gate = False
        self._signals_starts = False
        """Whether the user's downloader tells what it does, as Scrapy's does."""
        self.pages = 0
        """How many requests for pages have started, without those for robots.txt files."""

    def grant(self, granter: Granter) -> None:
        """Call *granter* before each start, and await what it returns."""
        self._granter = granter

    def on_start(self, listener: Listener) -> None:
        """Call *listener* at each start: the request is handed to its download handler."""
        self._start_listeners.append(listener)

    def on_over(self, listener: Listener) -> None:
        """Call *listener* when a request was answered, or will not be, before all others."""
        self._over_listeners.append(listener)

    def on_answer(self, listener: AnswerListener) -> None:
        """Call *listener* with each request that was answered, and the response."""
        self._answer_listeners.append(listener)

    def on_failure(self, listener: FailureListener) -> None:
        """Call *listener* with each request that was not answered, and the exception."""
        self._failure_listeners.append(listener)

    def on_headers(self, listener: Listener) -> None:
        """Call *listener* when the headers of an answer have come, from now on."""
        if not self._headers_listeners:
            connect = self._crawler.signals.connect
            connect(self._note_headers, signals.headers_received)
        self._headers_listeners.append(listener)

    async def follow(self, request: Request, hand_over: HandOver) -> Response:
        """Return the response of *hand_over*, which is called when *request* may start.

        If its connection was kept from an earlier request, and closed without an answer, it is
        sent once more, in a turn of its own. HTTP clients do so, but ask nobody.
        """
        while True:
            departure = Departure(request, request.meta.get("download_slot"))
            try:
                await self._wait(departure)
                self._note_start(departure)
                response = await hand_over(request)
            except BaseException as error:
                self._note_over(departure)
                was_kept = self._takes_kept(request)
                if was_kept and may_send_again(request, error):
                    continue
                if departure.started_at and isinstance(error, Exception):
                    self._tell_failure(departure, error)
                raise
            self._note_answered(request, response)
            self._note_over(departure)
            self._tell_answer(departure, response)
            return response

    async def _wait(self, departure: Departure) -> None:
        if (granted := self._granter(departure)) is not None:
            await granted
        departure.started_at = monotonic()
        if self._headers_listeners:
            self._under_way[departure.request] = departure

    def _note_start(self, departure: Departure) -> None:
        departure.is_sent = True
        if departure.robots_hop is None:
            self.pages += 1
        else:
            departure.robots_hop.note_start(departure)
        departure.request.meta.pop("download_latency", None)  # of an earlier try
        for listener in self._start_listeners:
            listener(departure)

    def _note_headers(self, request: Request) -> None:
        departure = self._under_way.get(request)
        if departure is not None:
            if not departure.is_sent:  # by a downloader that does not tell so
                self._note_start(departure)
            for listener in self._headers_listeners:
                listener(departure)

    def _note_over(self, departure: Departure) -> None:
        self._under_way.pop(departure.request, None)
        for listener in self._over_listeners:
            listener(departure)

    def _tell_answer(self, departure: Departure, response: Response) -> None:
        if departure.robots_hop is not None:
            departure.robots_hop.note_answer(response)
        for listener in self._answer_listeners:
            listener(departure, response)

    def _tell_failure(self, departure: Departure, error: Exception) -> None:
        if departure.robots_hop is not None:
            departure.robots_hop.note_failure(error)
        for listener in self._failure_listeners:
            listener(departure, error)

    # Connections that are kept

    def _note_answered(self, request: Request, response: Response) -> None:
        url = request.url
        origin = url[: url.find("/", LONGEST_SCHEME)]
        self._answered[origin] = response.headers
        if len(self._answered) > MOST_KEPT:
            del self._answered[next(iter(self._answered))]

    def _takes_kept(self, request: Request) -> bool:
        """Tell whether *request* may have used a kept connection; the next one will not."""
        url = request.url
        headers = self._answered.pop(url[: url.find("/", LONGEST_SCHEME)], None)
        if headers is None:
            return False
        return (headers.get(b"Connection") or b"").lower() != b"close"

    # Where the user has another downloader

    async def start_at_gate(self, request: Request) -> None:
        """Wait until *request* may start. It is over when it leaves the downloader."""
        if not self._is_at_gate:
            self._is_at_gate = True
            engine: Any = self._crawler.engine
            self._signals_starts = type(engine.downloader) is scrapys.Downloader
            connect = self._crawler.signals.connect
            connect(self._reached, signals.request_reached_downloader)
            connect(self._downloaded, signals.response_downloaded)
            connect(self._left, signals.request_left_downloader)
            connect(self._forget_replaced, signals.request_scheduled)
            self.on_headers(_ignore)
        self._forget_replaced()
        departure = Departure(request, request.meta.get("download_slot"))
        await self._wait(departure)

    def note_answer(self, request: Request, response: Response) -> None:
        """Note that *response* came to the gate, from the downloader or a middleware."""
        if (departure := self._end_at_gate(request)) is not None:
            self._tell_answer(departure, response)

    def note_failure(self, request: Request, error: Exception) -> None:
        """As ``note_answer``, for an exception."""
        if (departure := self._end_at_gate(request)) is not None:
            self._tell_failure(departure, error)

    def _end_at_gate(self, request: Request) -> Departure | None:
        """Return what is over only now; ``None``: that was told, or it was never sent."""
        departure = self._under_way.get(request)
        if departure is None:
            return None
        if not departure.is_sent:
            if self._signals_starts:
                self._note_over(departure)
                return None
            self._note_start(departure)
        self._note_over(departure)
        return departure

    def _reached(self, request: Request) -> None:
        departure = self._under_way.get(request)
        if departure is None:
            return
        self._signals_starts = True
        departure.slot = request.meta.get("download_slot")
        departure.started_at = monotonic()
        self._note_start(departure)

    def _downloaded(self, request: Request, response: Response) -> None:
        departure = self._under_way.get(request)
        if departure is not None and departure.is_sent:
            self._note_over(departure)
            self._tell_answer(departure, response)

    def _left(self, request: Request) -> None:
        departure = self._under_way.get(request)
        if departure is None or not departure.is_sent:
            return
        self._note_over(departure)
        # Scrapy sends the signal on the exception's way up: no signal carries it, and
        # RetryMiddleware may make a request of it before it comes to the gate.
        error = sys.exc_info()[1]
        if isinstance(error, Exception):
            self._tell_failure(departure, error)

    def _forget_replaced(self) -> None:
        """End those in whose place a middleware has sent another request."""
        assert self._crawler.engine is not None
        active = self._crawler.engine.downloader.active
        for request, departure in list(self._under_way.items()):
            if request not in active:
                self._note_over(departure)


def _ignore(departure: Departure) -> None:
    pass


def _grant_at_once(departure: Departure) -> None:
    """Let each request go: nobody keeps a pace."""
