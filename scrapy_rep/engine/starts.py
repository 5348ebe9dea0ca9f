"""Each start of a request, by whatever way it comes, and what comes of it."""

from __future__ import annotations

import re
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.core import downloader as scrapys

from scrapy_rep.engine.tools import OneForEachCrawler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.http.headers import Headers

    HandOver = Callable[[Request], Awaitable[Response]]
    Listener = Callable[["Departure"], object]
    Outcome = Response | Exception | None

ROBOTS_HOP = "rep_robotstxt"
"""The meta key that marks a request for a robots.txt, for users' middlewares, too."""
MOST_KEPT = 100
"""Origins that are remembered to have answered, and so may have kept a connection."""
REFUSED, NOT_FOUND, TIMEOUT = "connection refused", "host name not found", "timeout"
CUT_SHORT, LOST = "cut short", "connection lost"
FAILURE_KINDS = {
    "refused": REFUSED,
    "resolvehost|lookup": NOT_FOUND,
    "timeout|timedout": TIMEOUT,
    "dataloss": CUT_SHORT,
    "connect|failed|neverreceived": LOST,
}
"""Parts of the name of an exception, and its kind; the first match counts. Twisted, Scrapy and
each of its download handlers have exceptions of their own, but the names tell the kind."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE", "TRACE"})
"""Those of requests that may be sent twice (RFC 9110 9.2.2), without bodies."""
UNANSWERED = re.compile(
    "ResponseNeverReceived|RequestTransmissionFailed|RequestNotSent|ReadError|WriteError"
    "|ServerDisconnectedError|ClientOSError|RemoteProtocolError"
)
"""What clients raise when a connection is closed before an octet of the answer has come."""


class Departure:
    """One request on its way out, from just before its download handler gets it."""

    host = ""
    """Whose pace it keeps; empty: nobody's."""
    started_at = 0.0
    """When a start was last granted, by ``time.monotonic()``."""
    arrived_at: float | None = None
    """When its site had it at the latest; ``None``: it may still be on its way there."""
    booking: int | None = None
    """What other processes know its start by; ``None``: no start is booked."""
    keeps_pace = False
    """Whether its host may have a pace to keep."""
    is_probe = False
    """Whether its host gets nothing else until it is over."""
    is_sent = False
    """Whether it was handed over, for all that is known."""

    def __init__(self, request: Request) -> None:
        meta = request.meta
        self.request = request
        self.slot: str | None = meta.get("download_slot")
        self.robots_hop: Any = meta.get(ROBOTS_HOP)
        """What marks the request as that of a robots.txt, and is told what comes of it; ``None``:
        it is for a page."""
        hop = self.robots_hop
        self.asking: Any = None if hop is None else getattr(hop, "asking", None)
        """The fetch that it belongs to; ``None``: it is for a page."""

    def step_aside(self) -> None:
        """Leave the place of its fetch to others, as it waits."""
        if self.asking is not None and self.asking.make_way is not None:
            self.asking.make_way()


class Starts(OneForEachCrawler):
    """Has each request of a crawl wait for its start, and tells listeners what comes of it.

    ``Downloader`` calls ``follow`` for each request. Where the user has another one, the gate
    calls ``start_at_gate`` and ``end_at_gate``, and the rest is told by Scrapy's signals.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self.granter: Callable[[Departure], Awaitable[None] | None] = _ignore
        """Called before each start; what it returns is awaited."""
        self.on_start: list[Listener] = []
        """Called at each start: the request is handed to its download handler."""
        self.on_over: list[Callable[[Departure, Outcome], object]] = []
        """Called when a request is over, with the response or the exception; ``None``: it was not
        sent, or what came of it is nobody's business."""
        self.on_headers: list[Listener] = []
        """Called when the headers of an answer have come, if ``follow_headers`` was called."""
        self._under_way: dict[Request, Departure] = {}
        self._answered: dict[str, Headers] = {}
        """Origins, and the headers of their last answers: a connection may have been kept."""
        self._is_at_gate = False
        self._signals_starts = False
        """Whether the user's downloader tells what it does, as Scrapy's does."""
        self.pages = 0
        """How many requests for pages have started, without those for robots.txt files."""

    def follow_headers(self) -> None:
        """Note when the headers of an answer have come, from now on: few crawls need it."""
        self._crawler.signals.connect(self._note_headers, signals.headers_received)

    async def follow(self, hand_over: HandOver, request: Request) -> Response:
        """Return the response of *hand_over*, which is called when *request* may start.

        If its connection was kept from an earlier request, and closed without an answer, it is
        sent once more, in a turn of its own. HTTP clients do so, but ask nobody.
        """
        origin = "/".join(request.url.split("/", 3)[:3])
        while True:
            departure = Departure(request)
            try:
                await self._wait(departure)
                self._note_start(departure)
                response = await hand_over(request)
            except BaseException as error:
                # The next one uses no connection that was kept.
                headers = self._answered.pop(origin, None)
                if headers is not None and may_send_again(request, error, headers):
                    self._end(departure, None)
                    continue
                granted = departure.started_at
                told = error if granted and isinstance(error, Exception) else None
                self._end(departure, told)
                raise
            self._answered[origin] = response.headers
            if len(self._answered) > MOST_KEPT:
                del self._answered[next(iter(self._answered))]
            self._end(departure, response)
            return response

    async def _wait(self, departure: Departure) -> None:
        if (granted := self.granter(departure)) is not None:
            await granted
        departure.started_at = monotonic()
        self._under_way[departure.request] = departure

    def _note_start(self, departure: Departure) -> None:
        departure.is_sent = True
        if departure.robots_hop is None:
            self.pages += 1
        else:
            departure.robots_hop.note_start(departure)
        departure.request.meta.pop("download_latency", None)  # of an earlier try
        for listener in self.on_start:
            listener(departure)

    def _note_headers(self, request: Request) -> None:
        departure = self._under_way.get(request)
        if departure is not None:
            if not departure.is_sent:  # by a downloader that does not tell so
                self._note_start(departure)
            for listener in self.on_headers:
                listener(departure)

    def _end(self, departure: Departure, outcome: Outcome) -> None:
        self._under_way.pop(departure.request, None)
        if departure.robots_hop is not None and outcome is not None:
            departure.robots_hop.note_over(outcome)
        for listener in self.on_over:
            listener(departure, outcome)

    # Where the user has another downloader

    async def start_at_gate(self, request: Request) -> None:
        """Wait until *request* may start. It is over when it leaves the downloader."""
        if not self._is_at_gate:
            self._is_at_gate = True
            engine: Any = self._crawler.engine
            self._signals_starts = type(engine.downloader) is scrapys.Downloader
            connect = self._crawler.signals.connect
            connect(self._reached, signals.request_reached_downloader)
            connect(self._left, signals.response_downloaded)
            connect(self._left, signals.request_left_downloader)
            connect(self._forget_replaced, signals.request_scheduled)
            self.follow_headers()
        self._forget_replaced()
        await self._wait(Departure(request))

    def end_at_gate(self, request: Request, outcome: Response | Exception) -> None:
        """Note that *outcome* came to the gate, from the downloader or a middleware."""
        departure = self._under_way.get(request)
        if departure is None:  # that was told, or it was never sent
            return
        if not departure.is_sent and not self._signals_starts:
            self._note_start(departure)
        self._end(departure, outcome if departure.is_sent else None)

    def _reached(self, request: Request) -> None:
        departure = self._under_way.get(request)
        if departure is not None:
            self._signals_starts = True
            departure.slot = request.meta.get("download_slot")
            departure.started_at = monotonic()
            self._note_start(departure)

    def _left(self, request: Request, response: Response | None = None) -> None:
        departure = self._under_way.get(request)
        if departure is not None and departure.is_sent:
            # Scrapy sends the signal on the exception's way up: no signal carries it, and
            # RetryMiddleware may make a request of it before it comes to the gate.
            error = sys.exc_info()[1]
            raised = error if isinstance(error, Exception) else None
            self._end(departure, response or raised)

    def _forget_replaced(self) -> None:
        """End those in whose place a middleware has sent another request."""
        engine: Any = self._crawler.engine
        for request, departure in list(self._under_way.items()):
            if request not in engine.downloader.active:
                self._end(departure, None)


def _ignore(departure: Departure) -> None:
    """Let each request go: nobody keeps a pace."""


def kind_of(error: BaseException) -> str:
    """Return the kind of a failure; if it is not known, the name of the exception."""
    name = type(error).__name__
    found = (
        kind
        for parts, kind in FAILURE_KINDS.items()
        if re.search(parts, name, re.IGNORECASE)
    )
    return next(found, name)


def may_send_again(request: Request, error: BaseException, before: Headers) -> bool:
    """Tell whether *request* may be sent again, as its connection was closed unanswered.

    That may have been kept after an answer with the headers *before*.
    """
    raised = error, error.__cause__
    return (
        any(UNANSWERED.fullmatch(type(each).__name__) for each in raised)
        and (before.get(b"Connection") or b"").lower() != b"close"
        and "download_latency" not in request.meta  # no headers have come
        and request.method in SAFE_METHODS
        and not request.body
    )
