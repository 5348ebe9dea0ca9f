"""Scrapy's downloader and engine: all that we need of their inner parts.

``Starts`` has each request wait for its turn, in nobody's place, by whatever way it comes, and tells what
comes of it; ``HandedOut`` knows what the frontier has given away; ``Engine`` knows slots, places, HTTP
clients and the engine.

Each inner part is looked at when it is first met. Where a Scrapy has others, there is one warning, and
what needs them is left out. What of them is private or set, and why:

- ``engine._slot``: its ``nextcall`` wakes the engine when a host is due, else up to five seconds
  late; its ``closing`` tells that the crawl ends, so that nothing waits for a delay then;
- ``engine._start``: a crawl that only waits may end (``REP_ALL_PARKED_MAX``), but not before
  ``start()`` is through;
- ``handlers._get_handler``, and of the handlers ``_pool``, ``_session`` and ``_limits``: no client sends
  twice without a turn, and hosts that hang do not fill its places;
- ``slot.lastseen``: the user's own delay counts from the hand-over;
- ``downloader._process_queue``: what waits for its turn takes no place of its slot.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import sys
from collections import defaultdict
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import cached_property, lru_cache, partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, WeakSet, ref

from scrapy import exceptions, signals
from scrapy.core import downloader as scrapys
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import CancelledError

from scrapy_rep.engine.tools import Alarm, OneForEachCrawler, sleep

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Container,
        Iterable,
        Iterator,
        Mapping,
    )
    from collections.abc import Set as AbstractSet

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.http.headers import Headers
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

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
"""Parts of the name of an exception, and its kind; the first match counts: each download handler
has exceptions of its own."""
NO_FILE_LEFT = os.strerror(errno.EMFILE).lower()
"""The kind that this process is to blame for: it may have no more connections."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE", "TRACE"})
"""Those of requests that may be sent twice (RFC 9110 9.2.2), without bodies."""
UNANSWERED = frozenset(
    [
        "ResponseNeverReceived",
        "RequestTransmissionFailed",
        "RequestNotSent",
        "ReadError",
        "WriteError",
        "ServerDisconnectedError",
        "ClientOSError",
        "RemoteProtocolError",
    ]
)
"""What clients raise when a connection is closed before an octet of the answer has come."""
CUT_OFF: tuple[type[BaseException], ...] = (
    asyncio.CancelledError,
    CancelledError,
    getattr(exceptions, "DownloadCancelledError", CancelledError),  # Scrapy >= 2.15
)
"""How a download ends that was broken off."""
NOWHERE: frozenset[Request] = frozenset()
SLOT, HOST = "slot", "host"
TURN_UNUSED_SECONDS = 0.5
"""After so long a turn that a request has, but does not use, goes to what it may wait for."""
GONE_SECONDS = 1.0
"""After so long it is looked for requests that have left a downloader and told nobody."""
UNLIMITED = 100
"""Requests at a time, where there is no limit."""
# What Slot.lastseen is told by: the wall clock before Scrapy 2.16.
slot_clock = vars(scrapys).get("monotonic") or vars(scrapys).get("time") or monotonic
SCRAPYS_SLOT_KEY: Any = getattr(scrapys.Downloader, "get_slot_key", None)
HOST_START = len("https://")
"""No slash before this one ends a host."""


def hop_of(request: Request) -> Any:
    """Return what is told what comes of *request*, as it is that of a robots.txt.

    ``None``: it is a page, perhaps one that its user has marked as if it were not.
    """
    hop = request.meta.get(ROBOTS_HOP)
    return hop if hasattr(hop, "asking") else None


class Departure:
    """One request on its way out, from just before its download handler gets it."""

    host = ""
    """Whose pace it keeps; empty: nobody's."""
    started_at = 0.0
    """When a start was last granted, by ``time.monotonic()``."""
    arrived_at: float | None = None
    """When its site had it at the latest."""
    booking: int | None = None
    """What other processes know its start by."""
    keeps_pace = False
    """Whether its host may have a pace to keep."""
    is_probe = False
    """Whether its host gets nothing else until it is over."""
    is_sent = False
    """Whether it was handed over, for all that is known."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.slot: str | None = request.meta.get("download_slot")
        # Most are pages, which tell so without a call.
        self.robots_hop = hop_of(request) if ROBOTS_HOP in request.meta else None
        self.asking: Any = self.robots_hop and self.robots_hop.asking
        """The fetch of a robots.txt that it belongs to; ``None``: it is a page."""

    def step_aside(self) -> None:
        """Leave the place of its fetch to others, as it waits."""
        if self.asking is not None and self.asking.make_way is not None:
            self.asking.make_way()


class Starts(OneForEachCrawler):
    """Has each request of a crawl wait for its start, and tells listeners what comes of it.

    ``Downloader`` calls ``follow`` for each. Where the user has another one, the gate calls
    ``start_at_gate`` and ``end_at_gate``, and signals tell the rest.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self.granter: Callable[[Departure], Awaitable[None] | None] = _ignore
        """Called before each start; what it returns is awaited."""
        self.host_of: Callable[[Request], str] = lambda request: ""
        """Tells whose pace a request keeps."""
        self.on_start: list[Listener] = []
        """Called when a request is handed to its download handler."""
        self.on_over: list[Callable[[Departure, Outcome], object]] = []
        """Called with the response or the exception; ``None``: it was not sent, or what came of it
        is nobody's business."""
        self.on_headers: list[Listener] = []
        """Called when the headers of an answer have come, after ``follow_headers``."""
        self._under_way: dict[Request, Departure] = {}
        self._within: WeakKeyDictionary[Request, Departure] = WeakKeyDictionary()
        """Requests that others wait for at the gate, and these others."""
        self._answered: dict[str, Headers] = {}
        """Origins, and the headers of their last answers: a connection may have been kept."""
        self._looker = Alarm(self._look_for_gone)
        self._is_at_gate = False
        self._signals_starts = False
        """Whether the user's downloader tells what it does, as Scrapy's does."""
        self.pages = 0
        """How many requests for pages have started."""

    def follow_headers(self) -> None:
        """Few crawls need it, and each receiver of a signal costs time."""
        self._crawler.signals.connect(self._note_headers, signals.headers_received)

    async def follow(self, hand_over: HandOver, request: Request) -> Response:
        """Call *hand_over* when *request* may start.

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
            if self._is_at_gate and departure.robots_hop is not None:
                # It may have waited in a slot until now, which is no time of its fetch.
                departure.robots_hop.started = monotonic()
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
        """Wait until *request* may start. It is over when it leaves the downloader.

        A middleware behind the gate may send it on behalf of a request that has its turn, and
        waits for the answer: then the turn goes to *request*, and comes back after it.
        """
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
        before = _at_gate.get()()
        if before is not None:
            if (departure := self._under_way.get(before)) is None:
                self._take_place(request, before)
            elif await self._stays(departure, self.host_of(request)):
                self._end(departure, None)
                departure.arrived_at = None  # the site has not seen it yet
                self._within[request] = departure
        await self._wait_at_gate(Departure(request))
        _at_gate.set(ref(request))

    async def _wait_at_gate(self, departure: Departure) -> None:
        await self._wait(departure)
        self._looker.set(GONE_SECONDS)

    async def _stays(self, departure: Departure, host: str) -> bool:
        """Tell whether *departure* has the turn of *host*, and is not sent for some time."""
        if not departure.keeps_pace or departure.host != host:
            return False
        until = monotonic() + TURN_UNUSED_SECONDS
        while self._under_way.get(departure.request) is departure:
            if departure.is_sent:
                return False
            if monotonic() > until:
                return True
            await sleep(TURN_UNUSED_SECONDS / 10)
        return False

    def _take_place(self, request: Request, before: Request) -> None:
        """Have *before* go on after *request*, if that comes in place of what it waited for.

        Then this was moved, is tried again, or a middleware has made a copy of it.
        """
        active = self._active
        for other, departure in self._within.items():
            if departure.request is before and other not in active:
                self._within[request] = self._within.pop(other)
                return

    async def end_at_gate(
        self, request: Request, outcome: Response | Exception
    ) -> None:
        """Note that *outcome* came to the gate, from the downloader or a middleware."""
        departure = self._under_way.get(request)
        if departure is not None:  # else that was told, or it was never sent
            if not departure.is_sent and not self._signals_starts:
                self._note_start(departure)
            self._end(departure, outcome if departure.is_sent else None)
        if not self._under_way:
            self._looker.cancel()  # it would keep the crawl
        before = self._within.pop(request, None)
        if before is not None:
            await self._wait_at_gate(before)

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

    @property
    def _active(self) -> Container[Request]:
        engine: Any = self._crawler.engine
        active: Container[Request] = engine.downloader.active
        return active

    def _look_for_gone(self) -> None:
        """End what was answered behind the gate, and then refused by another middleware."""
        self._forget_replaced()
        if self._under_way:
            self._looker.set(GONE_SECONDS)

    def _forget_replaced(self) -> None:
        """End those that the downloader no longer has: a middleware has sent another request in
        their place, or has answered them.
        """
        active = self._active
        for request, departure in list(self._under_way.items()):
            if request not in active:
                self._end(departure, None)


_at_gate: ContextVar[Callable[[], Request | None]] = ContextVar(
    "rep_at_gate", default=lambda: None
)
"""The request whose way leads from the gate to the downloader, for what its middlewares send. Weak:
tasks and connections keep its context, and so would the crawler."""


def _ignore(departure: Departure) -> None:
    """Nobody keeps a pace."""


def kind_of(error: BaseException) -> str:
    """Return the kind of a failure; if it is not known, the name of the exception."""
    name = type(error).__name__
    found = (
        kind
        for parts, kind in FAILURE_KINDS.items()
        if re.search(parts, name, re.IGNORECASE)
    )
    kind = next(found, name)
    if kind in {REFUSED, LOST} or isinstance(error, OSError):
        # Each download handler says so in words of the system; few tell its number.
        words = f"{error} {error.__cause__}".lower()
        kind = NO_FILE_LEFT if NO_FILE_LEFT in words else kind
    return kind


def may_send_again(request: Request, error: BaseException, before: Headers) -> bool:
    """Tell whether its connection, kept after an answer with the headers *before*, was closed."""
    raised = error, error.__cause__
    return (
        not UNANSWERED.isdisjoint(type(each).__name__ for each in raised)
        and (before.get(b"Connection") or b"").lower() != b"close"
        and "download_latency" not in request.meta  # no headers have come
        and request.method in SAFE_METHODS
        and not request.body
    )


class Downloader(scrapys.Downloader):
    """Each request waits until its host may be asked, then goes to its handler."""

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
        self._places = max(0, places)  # which Scrapy >= 2.19 takes for no limit, too

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
        """Requests on their way back to the queue, and as what they were handed out."""

    def add(self, slot: str, host: str, request: Request) -> None:
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
origin; empty when it is over: tasks and connections keep its context, and so the crawler."""


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


def on_any_way() -> bool:
    """Tell whether some robots.txt waits for what is sent now."""
    return any(_ways.get())


class Engine:
    """What we need of Scrapy's downloader and engine. Names are those of download slots."""

    def __init__(self, crawler: Crawler, warn: Callable[[str], object]) -> None:
        self._crawler = crawler
        self._found: Any = None
        self._warn = warn
        self._context = copy_context()
        settings = crawler.settings
        delay = settings.getfloat("DOWNLOAD_DELAY")
        most = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
        self._limits: dict[str | None, tuple[float, int]] = {
            name: (own.get("delay", delay), own.get("concurrency", most))
            for name, own in settings.getdict("DOWNLOAD_SLOTS").items()
        }
        """Delay and places of slots, by the user's settings; of ``None``: of all others."""
        self._limits[None] = delay, most
        self._slots_are_usable: bool | None = None  # None: there was none yet
        self._clients: dict[str, bool] = {}
        """Scheme -> whether its client, which was looked at, is Twisted's."""
        self.starts = Starts.of(crawler)
        self.starts.on_start.append(self._note_start)
        self.handed_out = HandedOut(self.active)
        crawler.signals.connect(self._begin, signals.engine_started)

    @property
    def _engine(self) -> Any:
        # A crawler looks for a deprecated use each time that it is asked.
        if self._found is None:
            self._found = self._crawler.engine
        return self._found

    @cached_property
    def _downloader(self) -> Any:
        return self._engine.downloader

    @cached_property
    def polite(self) -> Downloader | None:
        """The downloader, if it is ours."""
        return self._downloader if isinstance(self._downloader, Downloader) else None

    @cached_property
    def _slots(self) -> Mapping[str | None, Any]:
        return getattr(self._downloader, "slots", {})

    def _slot(self, name: str | None) -> Any:
        """``None``: not used yet, dropped while idle, or not usable."""
        slot = self._slots.get(name)
        if self._slots_are_usable is None and slot is not None:
            self._look_at(slot)
        return slot if self._slots_are_usable else None

    def _look_at(self, slot: Any) -> None:
        """Note once whether we know how slots work; ``None``: there is none, though one is in use."""
        self._slots_are_usable = slot is not None and is_usable(slot)
        if not self._slots_are_usable:
            self._warn(
                "The download slots of this Scrapy are not known to scrapy_rep, and are "
                "left alone: each host's pace is kept, but requests that wait for it may "
                "do so in the downloader, and DOWNLOAD_DELAY is as exact as Scrapy keeps it"
            )

    def slot_of(self, request: Request) -> str:
        name: str | None = request.meta.get("download_slot")
        if name is not None:  # the downloader would come to the same, but slower
            return name
        if not self.names_slots_by_host:
            return str(self._downloader.get_slot_key(request))
        url = request.url
        end = url.find("/", HOST_START)
        return _hostname_of(url[:end] if end > 0 else url)

    @cached_property
    def names_slots_by_host(self) -> bool:
        name_of = getattr(type(self._downloader), "get_slot_key", None)
        by_address = getattr(self._downloader, "ip_concurrency", 0)
        return name_of in {None, SCRAPYS_SLOT_KEY} and not by_address

    def _begin(self) -> None:
        if self.polite is not None:
            self.polite.is_ending = self.is_ending
        elif self._crawler.settings.get("JOBDIR"):
            self._warn(
                "DOWNLOADER is not derived from scrapy_rep.Downloader: requests that Scrapy "
                "drops in order to stop sooner may be lost to the job"
            )

    def _note_start(self, departure: Departure) -> None:
        """Have the delay count from the hand-over; Scrapy counts from the end of the slot's queue."""
        slot = self._slot(departure.slot)
        if slot is not None:
            slot.lastseen = slot_clock()
        elif self._slots_are_usable is None:
            self._look_at(next(iter(self._slots.values()), None))
        scheme = departure.request.url.partition(":")[0]
        if scheme not in self._clients:
            self._look_at_client(scheme)

    # HTTP clients

    def _look_at_client(self, scheme: str) -> None:
        """Have the client of *scheme* send nothing a second time, and wait for no place.

        Twisted's and aiohttp's send again what a kept connection has not answered. aiohttp's
        and httpx' have CONCURRENT_REQUESTS places, all of which hosts that hang would take.
        """
        handlers = getattr(self._downloader, "handlers", None)
        handler: Any = getattr(handlers, "_get_handler", lambda scheme: None)(scheme)
        kinds = {kind.__name__ for kind in type(handler).__mro__}
        self._clients[scheme] = "HTTP11DownloadHandler" in kinds
        try:
            if self._clients[scheme]:
                handler._pool.retryAutomatically = False
            elif "AiohttpDownloadHandler" in kinds:
                session = handler._session
                _set(session, "_retry_connection", False)
                _set(session.connector, "_limit", 0)
            elif "HttpxDownloadHandler" in kinds:
                kept = handler._limits.max_keepalive_connections
                handler._limits = type(handler._limits)(
                    max_connections=None, max_keepalive_connections=kept
                )
                handler._default_client = handler._make_client()
        except AttributeError as lack:
            self._warn(
                f"The HTTP client of {scheme} is not known to scrapy_rep ({lack}): hosts that "
                "hang may hold up others, and a request may be sent twice where a connection "
                "is closed"
            )

    def flags_partial(self, url: str) -> bool:
        """Tell whether a body without a told end is flagged "partial", as by Twisted's client."""
        return self._clients.get(url.partition(":")[0], False)

    # The delay of slots

    def due_in(self, name: str) -> float:
        """Return the seconds until a slot may start one, by the user's own delay."""
        delay = self.least_delay(name)
        # 0: it has none, was not used yet, or is idle for longer than its delay.
        return delay and max(0.0, self._slot(name).lastseen + delay - slot_clock())

    def least_delay(self, name: str | None) -> float:
        """Return the user's or AutoThrottle's delay, as short as jitter makes it."""
        slot = self._slot(name)
        if slot is None or not slot.delay:
            return 0.0
        return float(slot.delay) * max(0.0, 1 - jitter_of(slot))

    def free_in(self, name: str) -> float:
        """Return the seconds until a slot starts another request; ``inf``: it has no free place."""
        slot, handed_out = self._slot(name), self.handed_out.by(SLOT, name)
        if slot is None:
            delay, concurrency = self._limits.get(name) or self._limits[None]
            return 0.0 if len(handed_out) < (1 if delay else concurrency) else inf
        active = slot.active
        on_the_way = len(handed_out - active) if active else len(handed_out)
        is_full = on_the_way + len(active) >= slot.concurrency
        if is_full or slot.queue or (on_the_way and slot.delay):
            return inf
        return self.due_in(name) if slot.delay else 0.0

    # Places among CONCURRENT_REQUESTS

    def free_places(self) -> int:
        most: int = getattr(self._downloader, "total_concurrency", 0)
        return most - len(self.active()) if most > 0 else UNLIMITED

    @property
    def most_of_a_slot(self) -> int:
        """How many requests at a time each slot takes by the user's settings."""
        return max(1, min(places for _, places in self._limits.values()))

    def back_out_while(self, is_all_promised: Callable[[], bool]) -> None:
        """Have Scrapy's engine ask for no more while *is_all_promised*, although places are free.

        With Scrapy's middleware a page holds a place while its robots.txt is fetched. Here the
        downloader seems to be free, and the engine would take one request at a time from
        ``start()``, and wait for three turns of the event loop after each.
        """
        if self.polite is not None:
            self.polite.holds_back = is_all_promised

    def lend(self, places: int) -> None:
        """Add places: a wait or a fetch of robots.txt takes none from the pages."""
        if self.polite is not None:
            self.polite.lent += places

    def step_out(self, departure: Departure) -> Callable[[], None]:
        """Have *departure*, which waits, take no place of its slot until the result is called."""
        slot, request = self._slot(departure.slot), departure.request
        if not (self.polite and slot and request in slot.transferring):
            return lambda: None
        # The others are not sent on behalf of this one.
        self._context.copy().run(self.polite.step_out, slot, request)
        return lambda: slot.transferring.add(request)

    def has_room(self, name: str | None) -> bool:
        """Tell whether one that has stepped out of this slot may go on."""
        slot = self._slot(name)
        return slot is None or slot.free_transfer_slots() > 0

    # The engine

    @property
    def _engine_slot(self) -> Any:
        return getattr(self._engine, "_slot", None)

    def wake(self) -> None:
        """Make the engine ask the scheduler again; before it has begun, it will do so anyway.

        In the crawl's context: what is sent next is not sent on behalf of who wakes the engine.
        """
        slot = self._engine_slot
        if slot is not None and self._engine.scraper.slot is not None:
            self._context.run(slot.nextcall.schedule)

    def is_ending(self) -> bool:
        slot = self._engine_slot
        return slot is None or slot.closing is not None

    def active(self) -> AbstractSet[Request]:
        """Return what the downloader has, also what waits there."""
        active: AbstractSet[Request] = self._downloader.active
        return active

    def only_queue_is_left(self) -> bool:
        """Tell whether the crawl is idle, but for what a queue may hold."""
        slot = self._engine.scraper.slot
        may_start = getattr(self._engine, "_start", None) is not None
        is_busy = self.active() or self.is_ending() or may_start
        return not is_busy and (slot is None or slot.is_idle())

    def close(self, reason: str) -> None:
        deferred_from_coro(self._engine.close_spider_async(reason=reason))

    def done_with(self, requests: Iterable[Request]) -> list[Request]:
        """Return those of *requests*, which were handed out, that are done with all they yield.

        One is in the downloader, and from its answer on in the scraper, with no turn of the event
        loop between, until its items and requests are processed or queued. What Scrapy drops in
        order to stop sooner is not done; a downloader of the user's does not tell of that.
        """
        scraped = self._engine.scraper.slot
        busy = self.active() | (scraped.active if scraped else NOWHERE)
        cut_off = self.polite.cut_off if self.polite else NOWHERE
        return [each for each in requests if each not in busy and each not in cut_off]


@lru_cache(maxsize=4096)
def _hostname_of(start: str) -> str:
    """As Scrapy has it."""
    return urlsplit(start).hostname or ""


def _set(owner: Any, name: str, value: object) -> None:
    """Raises ``AttributeError`` if *owner* has none."""
    getattr(owner, name)
    setattr(owner, name, value)


def is_usable(slot: Any) -> bool:
    try:
        for name in ("lastseen", "delay", "concurrency"):
            setattr(slot, name, getattr(slot, name))
        jitter_of(slot)
        slot.free_transfer_slots()
        return bool({slot.queue.__len__, slot.active.__len__, slot.transferring.add})
    except (AttributeError, TypeError):
        return False


def jitter_of(slot: Any) -> float:
    """Return by which part of its delay it varies that, from 0 to 1."""
    if hasattr(slot, "jitter"):  # Scrapy >= 2.19
        return float(slot.jitter)
    return 0.5 if slot.randomize_delay else 0.0
