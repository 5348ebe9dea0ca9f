"""The keeper of paces: no two requests start closer than their origins ask for."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.downloader import ROBOTS_HOP, sleep
from scrapy_rep.pacing.back_off import BackOff
from scrapy_rep.pacing.bookings import ParkedError
from scrapy_rep.pacing.intervals import SHARED_GUARD_PART, Intervals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.downloader import Downloader
    from scrapy_rep.pacing.bookings import Bookings

LATE_PART, LATE_LEAST = 0.05, 0.05
"""The part of an interval, and at least the seconds, by which a request that was answered
late may put off the next one: it may have arrived as late as it was answered."""
RESTLESS_LATE_PART = 0.25
"""The same part where several processes start together or find each other again, and for the
first request of one of them to a host."""
NOTICED = 0.002
"""Seconds from which on it is worth noting that a request left late."""


@dataclass(slots=True)
class Start:
    """How a request that has an interval to keep was started."""

    booking: int | None = None
    sent: bool = False
    late: float = 0.0
    """Seconds by which it left later than it was booked."""


class Keeper:
    """Keeps the delay of download slots at or above what their origins ask for.

    Whatever else sets a slot's delay (the user's settings, AutoThrottle, another plugin),
    it is raised to the interval again before each request and after each response; the
    user's own delay stays where it is longer. A slot that Scrapy has dropped for being
    idle has outlived its delay; the next request sets it anew.

    An interval is measured from start to start, where a request starts when it is handed
    to its download handler. A timer that comes late does not shorten the next interval.
    """

    def __init__(self, crawler: Crawler, downloader: Downloader) -> None:
        self._crawler = crawler
        self._downloader = downloader
        self._bookings: Bookings | None = None
        self._booked_listeners: list[Callable[[Request, str, float], None]] = []
        self._starts: WeakKeyDictionary[Request, Start] = WeakKeyDictionary()
        self._following = False
        self.intervals = Intervals(downloader.has_slot)
        self.back_off = BackOff(downloader)
        downloader.grant_starts(self._grant)
        downloader.on_start(self._started)

    # What is kept

    def keep(self, slot: str, origin: str, interval: float) -> None:
        """Have *slot* keep *interval* seconds between starts for *origin* from now on."""
        if interval:
            self._follow_requests()
        self.intervals.keep(slot, origin, interval)

    def keeps_any(self) -> bool:
        """Tell whether any slot keeps an interval, or is parked."""
        return bool(self.intervals.seconds or self.back_off.until)

    def due_in(self, slot: str) -> float:
        """Return the seconds until a request of the slot may start; 0: it may now."""
        return max(self.paced_for(slot), self.back_off.left(slot))

    def paced_for(self, slot: str) -> float:
        """Return the same, but for the time that it is parked."""
        if self._bookings is not None and not self._downloader.has_slot(slot):
            return 0.0  # others may have used it; who knows that confirms each start
        return self._downloader.due_in(slot, self.intervals.delay(slot))

    def has_place(self, slot: str) -> bool:
        """Tell whether the slot can take another request without having it wait."""
        return self._downloader.has_place(slot, paced=self.intervals.delay(slot) > 0)

    # Sharing a pace with other processes

    def share(self, bookings: Bookings) -> None:
        """Have *bookings* grant each start, and tell the others of parked slots."""
        self._bookings = bookings
        self.intervals.guard_part = SHARED_GUARD_PART
        self.back_off.on_parked_here(
            lambda slot, seconds: deferred_from_coro(bookings.park(slot, seconds))
        )
        self._follow_requests()

    @property
    def is_shared(self) -> bool:
        return self._bookings is not None

    def on_booked(self, listener: Callable[[Request, str, float], None]) -> None:
        """Call *listener* when a start is granted: the request, its slot, its interval."""
        self._booked_listeners.append(listener)

    def shared_interval(self, slot: str) -> float:
        """Return the seconds between two starts at *slot*, by whatever process.

        The user's own delay counts, too: it says how often a host may be asked.
        """
        return max(self.intervals.delay(slot), self._downloader.users_delay(slot))

    def _grant(self, request: Request, slot: str) -> Awaitable[None] | None:
        if (
            self._bookings
            or self._booked_listeners
            or self.back_off.until
            # Scrapy's slots may let two go at once when the process has stood still.
            or self.intervals.left(slot)
        ):
            return self._book(request, slot)
        return None

    async def _book(self, request: Request, slot: str) -> None:
        self._downloader.lend_place()  # nobody waits for a place because this one waits
        try:
            booking = await self._booking(request, slot)
        finally:
            self._downloader.take_place_back()
        if booking is not None:
            self._starts[request] = Start(booking)
        for booked in self._booked_listeners:
            booked(request, slot, self.shared_interval(slot))

    async def _booking(self, request: Request, slot: str) -> int | None:
        while True:
            if self.back_off.left(slot):
                # Then those that were held together go on at the pace of their slot.
                await self.back_off.wait(request, slot, self.due_in)
            if self._bookings is None:
                if not (left := self.intervals.left(slot)):
                    return None
                await sleep(left)
                continue
            interval = self.shared_interval(slot)
            if not (interval or ROBOTS_HOP in request.meta):
                return None
            try:
                return await self._bookings.book(slot, interval)
            except ParkedError as parked:
                self.back_off.learn(slot, parked.seconds)

    # How late a request left

    def _started(self, request: Request, slot: str | None, now: float) -> None:
        robots = (
            ROBOTS_HOP in request.meta
        )  # whose answer may ask for a delay from then on
        if not slot or not (self._following or robots):
            return
        start = self._starts.get(request)
        paced = slot in self.intervals
        if paced:
            self.intervals.started[slot] = now
        if start is not None or paced or robots:
            if start is None or start.sent:
                start = self._starts[request] = Start()
            start.sent = True
            # It is written in the next turn of the event loop, before this is called.
            call_later(0, self._note_sent, slot, start, now)

    def _note_sent(self, slot: str, start: Start, began: float) -> None:
        self._note_late(slot, start, monotonic() - began)

    def _note_late(self, slot: str, start: Start, seconds: float) -> None:
        """Note that a request left *seconds* later than its slot, and others, think."""
        if seconds < NOTICED:
            return
        self._downloader.postpone(slot, seconds)
        if slot in self.intervals.started:
            self.intervals.started[slot] += seconds
        start.late += seconds
        if start.booking is not None and self._bookings is not None:
            deferred_from_coro(self._bookings.late(slot, start.booking, seconds))
            start.booking += round(seconds * 1e6)

    def _book_arrival(self, request: Request, slot: str, latency: float) -> None:
        """Book how much later than the quickest *request* may have arrived."""
        start = self._starts.pop(request, None)
        if start is None:
            return
        latency -= start.late  # that is booked already
        delay = self.intervals.delay(slot)
        quickest = self.intervals.quickest.get(slot)
        restless = quickest is None or (self._bookings and self._bookings.restless)
        part = RESTLESS_LATE_PART if restless else LATE_PART
        if quickest is None:
            # How long it takes at best is not known here. Of a host that others ask, too,
            # they wait for what we say.
            quickest = latency if start.booking is None else 0.0
        most = max(part * delay, LATE_LEAST)
        if slot in self.intervals:
            self.intervals.quickest[slot] = min(latency, quickest or latency)
        self._note_late(slot, start, min(latency - quickest, most))

    # Following requests

    def _follow_requests(self) -> None:
        """Follow each request on its way, from the first on that has a pace to keep.

        Most crawls never have one, and each receiver of a signal takes its time.
        """
        if self._following:
            return
        self._following = True
        connect = self._crawler.signals.connect
        connect(self._request_reached_downloader, signals.request_reached_downloader)
        connect(self._response_downloaded, signals.response_downloaded)

    def _request_reached_downloader(self, request: Request) -> None:
        # Scrapy sends this when the slot exists, and before it looks at its delay.
        self._hold(request.meta["download_slot"])

    def _response_downloaded(self, request: Request) -> None:
        # AutoThrottle lowers the delay at this signal; it was connected before us.
        slot = request.meta["download_slot"]
        self._hold(slot)
        latency = request.meta.get("download_latency")
        if latency is not None:
            self._book_arrival(request, slot, latency)

    def _hold(self, slot: str) -> None:
        if slot not in self.intervals:
            return
        delay = self.intervals.delay(slot)
        if self._downloader.hold(slot, delay) and not delay:
            self.intervals.forget(slot)
