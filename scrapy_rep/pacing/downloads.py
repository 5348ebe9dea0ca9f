"""The one adapter to Scrapy's downloader: its slots, their delays, its places."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.downloader.handed_out import NOWHERE, HandedOut
from scrapy_rep.downloader.versions import (
    jitter_of,
    limit_jitter,
    shortest_delay,
    slot_clock,
)
from scrapy_rep.pacing.back_off import STATUSES, BackOff, ParkedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

ROBOTS_HOP = "rep_hop"
"""The meta key that marks a robots.txt request."""
GUARD_PART, GUARD_MOST = 0.04, 0.02
"""The part of an interval, and at most the seconds, by which slots keep more of it.

The site measures arrivals, and the way there is not always equally long.
"""
SHARED_GUARD_PART = 0.01
"""The same where each start is confirmed, which takes some time as well."""
LATE_PART, LATE_LEAST = 0.05, 0.05
"""The part of an interval, and at least the seconds, by which a request that was answered
late may put off the next one: it may have arrived as late as it was answered."""
RESTLESS_LATE_PART = 0.25
"""The same part where several processes start together or find each other again, and for the
first request of one of them to a host."""
NOTICED = 0.002
"""Seconds from which on it is worth noting that a request left late."""


@dataclass(slots=True)
class _Start:
    """How a request that has an interval to keep was started."""

    booking: int | None
    late: float = 0.0
    """Seconds by which it left later than it was booked."""


class Starts(Protocol):
    """Confirms that a request may start, where several processes share a pace."""

    @property
    def restless(self) -> bool:
        """Tell whether requests may leave rather late, as all processes are busy."""

    async def book(self, slot: str, interval: float) -> int | None:
        """Return when *interval* s have passed since the last start, and book this one.

        Returns the booking, for ``late``; ``None`` where there is none. Raises
        ``ParkedError`` where another process has parked the slot.
        """

    async def late(self, slot: str, booking: int, seconds: float) -> bool:
        """Note that the request of *booking* may have started so much later.

        Returns ``False`` where another one was booked since.
        """

    async def park(self, slot: str, seconds: float) -> None:
        """Have no process start any request that it books here for so long."""


class Downloads:
    """Keeps the delay of download slots at or above what their origins ask for.

    All code that touches Scrapy's download slots, and its engine's inner clockwork, is
    here. Whatever else sets a slot's delay (the user's settings, AutoThrottle, another
    plugin), it is raised to the interval again before each request and after each
    response; the user's own delay stays where it is longer. A slot that Scrapy has
    dropped for being idle has outlived its delay; the next request sets it anew.

    An interval is measured from start to start, where a request starts when it is handed
    to its download handler. A timer that comes late does not shorten the next interval.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        settings = crawler.settings
        self._own_slots: dict[str, dict[str, Any]] = settings.getdict("DOWNLOAD_SLOTS")
        self._own_delay = settings.getfloat("DOWNLOAD_DELAY")
        self._own_concurrency = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
        self._intervals: dict[str, dict[str, float]] = {}  # slot -> origin -> seconds
        self._most_intervals = 16  # before those of slots that are gone are swept out
        self._raised: dict[str, float] = {}  # slot -> the delay that we gave it
        self._quickest: dict[str, float] = {}  # slot -> its shortest latency
        self.handed_out = HandedOut(lambda: self._downloader.active)
        self.starts: Starts | None = None
        """What confirms each start, if anything has to."""
        self._starts: WeakKeyDictionary[Request, _Start] = WeakKeyDictionary()
        self.started: Callable[[Request, str, float], None] | None = None
        """Called when a request is handed to its handler, with slot and interval."""
        self.sent: Callable[[Request], None] | None = None
        """Called at that moment for every request; takes no part in it."""
        self.back_off = BackOff(self)
        self._parked = self.back_off.until
        self._began = slot_clock()
        self._keeping = False
        crawler.signals.connect(self._watch_starts, signals.engine_started)

    @cached_property
    def _downloader(self) -> Any:
        assert self._crawler.engine is not None
        return self._crawler.engine.downloader

    def slot_of(self, request: Request) -> str:
        """Return the name of the download slot that *request* goes through."""
        key: str | None = request.meta.get("download_slot")
        if key is None:  # else the downloader would come to the same, but slower
            key = self._downloader.get_slot_key(request)
        return key

    # Sharing a pace with other processes

    def share_pace(self, starts: Starts) -> None:
        """Have *starts* confirm each start, and tell the others of parked slots."""
        self.starts = starts
        self.back_off.share = starts.park
        self._start_keeping()

    def shared_interval(self, name: str) -> float:
        """Return the seconds between two starts at *name*, by whatever process.

        The user's own delay counts, too: it says how often a host may be asked.
        """
        own, _ = self._users_own(name)
        slot = self._downloader.slots.get(name)
        if own and slot is not None:
            own *= max(0.0, 1 - jitter_of(slot))
        return max(self._delay(name), own)

    async def _confirm(self, request: Request, name: str) -> int | None:
        """Return when *request* may start: its booking, if it has one."""
        self.lend_place()  # who waits here keeps nobody else from being asked
        try:
            booking = await self._book(request, name)
        finally:
            self.take_place_back()
        if self.started is not None:
            self.started(request, name, self.shared_interval(name))
        return booking

    async def _book(self, request: Request, name: str) -> int | None:
        while True:
            if self.back_off.left(name):
                # Then those that were held together go on at the pace of their slot.
                await self.back_off.wait(request, name, self.due_in)
            interval = self.shared_interval(name)
            if self.starts is None or not (interval or ROBOTS_HOP in request.meta):
                return None
            try:
                return await self.starts.book(name, interval)
            except ParkedError as parked:
                self.back_off.learn(name, parked.seconds)

    def _note_late(self, name: str, start: _Start, seconds: float) -> None:
        """Note that a request left *seconds* later than its slot, and others, think."""
        if seconds < NOTICED:
            return
        slot = self._downloader.slots.get(name)
        if slot is not None:
            slot.lastseen += seconds
        start.late += seconds
        if start.booking is not None and self.starts is not None:
            deferred_from_coro(self.starts.late(name, start.booking, seconds))
            start.booking += round(seconds * 1e6)

    # Keeping intervals

    def keep(self, slot: str, origin: str, interval: float) -> None:
        """Have *slot* keep *interval* seconds between starts for *origin* from now on."""
        intervals = self._intervals.get(slot)
        if interval:
            if intervals is None:
                self._start_keeping()
                if len(self._intervals) > self._most_intervals:
                    self._forget_dropped_slots()
                intervals = self._intervals[slot] = {}
            intervals[origin] = interval
        elif intervals:
            intervals.pop(origin, None)

    def keeps_any(self) -> bool:
        """Tell whether any slot keeps an interval, or is parked."""
        return bool(self._intervals or self._parked)

    def _delay(self, slot: str) -> float:
        """Return the delay that the origins of *slot* ask for; the slowest decides."""
        intervals = self._intervals.get(slot)
        if not intervals:
            return 0.0
        interval = max(intervals.values())
        part = GUARD_PART if self.starts is None else SHARED_GUARD_PART
        return interval + min(part * interval, GUARD_MOST)

    def _start_keeping(self) -> None:
        """Follow each request on its way, from the first on that has a pace to keep.

        Most crawls never have one, and each receiver of a signal takes its time.
        """
        if self._keeping:
            return
        self._keeping = True
        connect = self._crawler.signals.connect
        connect(self._request_reached_downloader, signals.request_reached_downloader)
        connect(self._response_downloaded, signals.response_downloaded)

    def _request_reached_downloader(self, request: Request) -> None:
        # Scrapy sends this when the slot exists, and before it looks at its delay.
        self._hold(request.meta["download_slot"])

    def _response_downloaded(self, request: Request) -> None:
        # AutoThrottle lowers the delay at this signal; it was connected before us.
        name = request.meta["download_slot"]
        self._hold(name)
        latency = request.meta.get("download_latency")
        if latency is not None:
            self._book_arrival(request, name, latency)

    def _book_arrival(self, request: Request, name: str, latency: float) -> None:
        """Book how much later than the quickest *request* may have arrived."""
        start = self._starts.pop(request, None)
        if start is None:
            return
        latency -= start.late  # that is booked already
        delay = self._delay(name)
        quickest = self._quickest.get(name)
        restless = quickest is None or (self.starts and self.starts.restless)
        part = RESTLESS_LATE_PART if restless else LATE_PART
        if quickest is None:
            # How long it takes at best is not known here. Of a host that others ask, too,
            # they wait for what we say.
            quickest = latency if start.booking is None else 0.0
        most = max(part * delay, LATE_LEAST)
        if name in self._intervals:
            self._quickest[name] = min(latency, quickest or latency)
        self._note_late(name, start, min(latency - quickest, most))

    def _hold(self, name: str) -> None:
        slot = self._downloader.slots.get(name)
        if slot is None or name not in self._intervals:
            return
        delay = self._delay(name)
        raised = self._raised.get(name)
        if raised is not None and delay < raised == slot.delay:
            # The origin asks for less than before: back to the user's own.
            slot.delay, slot.concurrency = self._users_own(name)
        if not delay:
            self._forget(name)
            return
        slot.concurrency = 1
        if slot.delay < delay:
            slot.delay = self._raised[name] = delay
        # Jitter may lengthen and shorten a delay, but not below the interval.
        limit_jitter(slot, 1 - delay / slot.delay)

    def _users_own(self, name: str) -> tuple[float, int]:
        own = self._own_slots.get(name, {})
        return (
            own.get("delay", self._own_delay),
            own.get("concurrency", self._own_concurrency),
        )

    def _watch_starts(self) -> None:
        """Have each request book its slot's time when it is handed to its handler.

        Scrapy books when it takes the request off the slot's queue; where the event loop
        is busy the request leaves later than that, and the next one too early.
        """
        handlers = self._downloader.handlers
        hand_over = handlers.download_request_async

        async def book_and_hand_over(request: Request) -> Any:
            name = request.meta.get("download_slot")
            booking = None
            if name is not None and (self.starts or self.started or self._parked):
                booking = await self._confirm(request, name)
            now = monotonic()
            slot = self._downloader.slots.get(name)
            if slot is not None:
                slot.lastseen = slot_clock()
            if (hop := request.meta.get(ROBOTS_HOP)) is not None:
                hop.started = now  # its time runs from now, not while it waits
            if self.sent is not None:
                self.sent(request)
            if name and (name in self._intervals or booking is not None):
                start = self._starts[request] = _Start(booking)
                # It is written in the next turn of the event loop, before this is called.
                call_later(0, lambda: self._note_late(name, start, monotonic() - now))
            response = await hand_over(request)
            if response.status in STATUSES:
                self.back_off.heed(request, response)
            return response

        handlers.download_request_async = book_and_hand_over

    def _forget_dropped_slots(self) -> None:
        slots = self._downloader.slots
        for name in [name for name in self._intervals if name not in slots]:
            self._forget(name)
        self._most_intervals = 2 * len(self._intervals) + 16

    def _forget(self, name: str) -> None:
        self._intervals.pop(name, None)
        self._raised.pop(name, None)
        self._quickest.pop(name, None)

    # For the queue

    def due_in(self, name: str) -> float:
        """Return the seconds until a request of the slot may start; 0: it may now."""
        return max(self.paced_for(name), self.back_off.left(name))

    def paced_for(self, name: str) -> float:
        """Return the same, but for the time that it is parked."""
        slot = self._downloader.slots.get(name)
        if slot is None and self.starts is not None:
            return 0.0  # others may have used it; who knows that confirms each start
        if slot is None:
            # Not used yet: a run before this one may have, when this one began at the
            # latest. Or idle for longer than its delay, which that is, too.
            return max(0.0, self._began + self._delay(name) - slot_clock())
        delay = max(self._delay(name), shortest_delay(slot))
        return max(0.0, slot.lastseen + delay - slot_clock()) if delay else 0.0

    def has_place(self, name: str) -> bool:
        """Tell whether the slot can take another request without having it wait."""
        slot = self._downloader.slots.get(name)
        there = NOWHERE if slot is None else slot.active
        on_the_way = self.handed_out.on_the_way(name, there)
        paced = self._delay(name)
        if slot is None:
            delay, concurrency = self._users_own(name)
            return on_the_way < concurrency if not (delay or paced) else not on_the_way
        if slot.queue or (on_the_way and (paced or slot.delay)):
            return False
        return on_the_way + len(slot.active) < (1 if paced else slot.concurrency)

    def wake(self) -> None:
        """Have the engine ask the scheduler again."""
        slot = getattr(self._crawler.engine, "_slot", None)
        if slot is not None:
            slot.nextcall.schedule()

    # For robots.txt fetches

    def ends(self) -> bool:
        """Tell whether the crawl is ending."""
        slot = getattr(self._crawler.engine, "_slot", None)
        return slot is None or slot.closing is not None

    def ends_without(self, page: Request) -> bool:
        """Tell whether the crawl is ending, and does not wait for *page* any more."""
        return self.ends() and page not in self._downloader.active

    def lend_place(self) -> None:
        """Add a place to CONCURRENT_REQUESTS, so that a fetch takes none from pages."""
        if self._downloader.total_concurrency:  # 0: there is no limit
            self._downloader.total_concurrency += 1

    def take_place_back(self) -> None:
        if self._downloader.total_concurrency:
            self._downloader.total_concurrency -= 1

    def go_first(self, request: Request) -> None:
        """Put *request* before what waits in its slot, where it is just being put."""
        call_later(0, self._go_first, request)

    def _go_first(self, request: Request) -> None:
        slot = self._downloader.slots.get(request.meta.get("download_slot"))
        if slot is None:
            return
        for place, waiting in enumerate(slot.queue):
            if waiting[0] is request:
                del slot.queue[place]
                slot.queue.appendleft(waiting)
                return
