"""The keeper of paces: no two requests start closer together than their origins ask for."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from itertools import count
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.downloader import sleep
from scrapy_rep.exceptions import NotNow, StillParked
from scrapy_rep.pacing.back_off import BackOff
from scrapy_rep.pacing.bookings import Booking, ParkedError
from scrapy_rep.pacing.budget import Budget
from scrapy_rep.pacing.hosts import (
    GUARD_MOST,
    GUARD_PART,
    HOSTS,
    SHARED_GUARD_PART,
)
from scrapy_rep.pacing.latency import ResponseTimes, latency_of
from scrapy_rep.pacing.troubles import Troubles
from scrapy_rep.settings import LONGEST_AT_PROMPT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.downloader import Departure, Downloader
    from scrapy_rep.pacing.bookings import Bookings
    from scrapy_rep.pacing.hosts import Asking
    from scrapy_rep.settings import Settings

LATE_PART, LATE_LEAST = 0.05, 0.05
"""The part of an interval, and at least the seconds, by which a request with a late answer may
put off the next one: the request may have been long on its way."""
RESTLESS_LATE_PART = 0.25
"""The same part while several processes start together or find each other again, and for the
first request of a process to a host."""
LATE_TOLD_SECONDS = 0.002
"""Seconds: a request that leaves so much later than booked tells the other processes."""
CLAIM_RETRY_SECONDS = 0.25
"""Seconds after which we try again to claim a host that another process asks."""
UNCONFIRMED_SECONDS = 0.01
"""Seconds for which a booked start needs no confirmation."""
CRAWL_NUMBERS = count()
"""Numbers the crawls of this process."""


class Keeper:
    """Grants each start of a crawl's requests, by host, by whatever road they come.

    The paces are those of the process (``HOSTS``), and with ``share`` those of a fleet.
    An interval is measured from wire to wire: the next start is not granted before the
    last request has left, or is known not to leave.

    Besides, the delay of a host's own download slot is kept at or above what its origins ask
    for, so that requests from Scrapy's queues wait in few places. It is raised again before
    each request and after each response, whatever else sets it (the user's settings,
    AutoThrottle, another plugin). If the user's own delay is longer, it stays.
    """

    def __init__(
        self,
        crawler: Crawler,
        downloader: Downloader,
        host_of: Callable[[Request], str],
        settings: Settings,
    ) -> None:
        """*host_of* returns the host whose pace a request keeps; empty: it keeps none.

        With REP_WAIT off, a request that would have to wait for long gets a ``NotNow``.
        Hosts that other crawls of the process have parked are parked here, too, unless
        REP_OBEY has neither "retry-after" nor "back-off".
        """
        self._crawler = crawler
        self._downloader = downloader
        self.host_of = host_of
        self._number = next(CRAWL_NUMBERS)
        self._longest_wait = inf if settings.wait else LONGEST_AT_PROMPT
        self._bookings: Bookings | None = None
        self._booked_listeners: list[Callable[[Request, str, float], None]] = []
        self.keeps_intervals = False
        """Whether any host keeps an interval, or has done so."""
        self._guard_part = GUARD_PART
        parks = settings.obey & {"retry-after", "back-off"}
        shared = (HOSTS.parked, HOSTS.parked_for) if parks else ()
        self.back_off = BackOff(downloader, *shared, is_down=self._is_down)
        self.troubles = Troubles(self.back_off, settings)
        self.budget = Budget(settings)
        self.asked_elsewhere: set[str] = set()
        """Hosts in trouble whose requests wait here while another process asks the host."""
        downloader.grant_starts(self._grant, self._confirm)
        downloader.on_leave(self._note_left)
        downloader.on_answer(self._note_answer)
        self._times = ResponseTimes(downloader, settings, self.keep)

    def _is_down(self, host: str) -> bool:
        return self.troubles.is_down(host)

    # What is kept

    def keep(self, host: str, origin: str, interval: float) -> None:
        """Keep *interval* seconds between starts at *host*, as *origin* asks, from now on."""
        if not self.keeps_intervals:
            if not interval:
                return
            self._follow_requests()
        if host:
            HOSTS.note_wish(host, self._number, origin, interval)

    def interval(self, host: str) -> float:
        """Return the seconds to keep between two starts at *host*; 0: none."""
        return HOSTS.interval(host, self._number)

    def due_in(self, host: str) -> float:
        """Return the seconds until a request to *host* may start; 0: it may now."""
        return max(self.pace_left(host), self.back_off.left(host))

    def pace_left(self, host: str) -> float:
        """Return the seconds until the pace of *host* allows a start, parked or not."""
        knows = self._bookings is None
        return HOSTS.due_in(host, self._number, self._guard_part, knows=knows)

    def has_place(self, slot: str, host: str) -> bool:
        """Tell whether *slot* can take another request to *host* that need not wait there."""
        paced = HOSTS.interval(host, self._number) > 0
        return self._downloader.has_place(slot, host, paced=paced)

    def check_wait(self, request: Request, seconds: float) -> None:
        """Raise ``NotNow`` if *request* must not wait for so many *seconds*."""
        if seconds > self._longest_wait:
            raise NotNow(request.url, self.host_of(request), seconds)

    # Sharing a pace with other processes

    def share(self, bookings: Bookings) -> None:
        """Let *bookings* grant each start, and tell other processes of parked hosts."""
        self._bookings = bookings
        self._guard_part = SHARED_GUARD_PART
        self.back_off.on_parked_here(
            lambda host, seconds: deferred_from_coro(bookings.park(host, seconds))
        )
        self.troubles.share(bookings)
        self.budget.share(bookings)
        self._times.share(bookings)
        self._follow_requests()

    @property
    def is_shared(self) -> bool:
        return self._bookings is not None

    def on_booked(self, listener: Callable[[Request, str, float], None]) -> None:
        """Call *listener* when a start is granted, with request, host and interval.

        If the request claims a host in trouble, it is called when the request is over.
        """
        self._booked_listeners.append(listener)

    def shared_interval(self, host: str, slot: str | None) -> float:
        """Return the seconds between two starts at *host*, by whatever process.

        The user's own delay of *slot* counts, too, as it limits how often a host is asked.
        """
        interval = self.interval(host)
        interval += min(SHARED_GUARD_PART * interval, GUARD_MOST)
        return max(interval, self._downloader.users_delay(slot))

    # Granting

    def _grant(self, departure: Departure) -> Awaitable[None] | None:
        departure.host = host = self.host_of(departure.request)
        if not host:
            return None
        hop = departure.robots_hop
        asking = None if hop is None else hop.asking
        if self.budget.is_set and hop is None:
            self.budget.spend(host)
        if not (
            (self._times.factor and hop is None and HOSTS.wants_latency(host))
            or self._bookings
            or self._booked_listeners
            or self.back_off.until
            or asking
            or HOSTS.interval(host, self._number)
        ):
            HOSTS.note_start(host)
            return None
        departure.needs_telling = departure.keeps_pace = True
        if (
            self._bookings
            or self._booked_listeners
            or self.back_off.left(host)
            or self._turn(departure, asking)
        ):
            return self._book(departure, asking)
        return None

    def _turn(self, departure: Departure, asking: Asking | None) -> float:
        knows = self._bookings is None
        return HOSTS.turn(
            departure, self._number, self._guard_part, asking, knows=knows
        )

    async def _book(self, departure: Departure, asking: Asking | None) -> None:
        with self._waiting(departure, asking):
            try:
                await self._wait(departure, asking)
            except BaseException:
                self.budget.give_back(departure.host)
                raise
            if self.budget.is_set and departure.robots_hop is None:
                await self.budget.spend_shared(departure.host)
        if not departure.is_holding:  # else when it lets go
            self._tell_booked(departure)

    def _tell_booked(self, departure: Departure) -> None:
        request, host = departure.request, departure.host
        for booked in self._booked_listeners:
            booked(request, host, self.shared_interval(host, departure.slot))

    @contextmanager
    def _waiting(self, departure: Departure, asking: Asking | None) -> Iterator[None]:
        """Keep a place free for others while *departure* waits in the downloader."""
        lane = None if asking is None else asking.lane
        if lane is None:  # else that has been done for it
            self._downloader.lend_place()
        try:
            yield
        except BaseException:
            HOSTS.give_back(departure)
            raise
        finally:
            self.asked_elsewhere.discard(departure.host)
            HOSTS.leave_line(departure)
            if lane is None:
                self._downloader.take_place_back()
            else:
                lane.come_back()

    async def _wait(self, departure: Departure, asking: Asking | None) -> None:
        request, host, slot = departure.request, departure.host, departure.slot
        held = False
        if self._times.factor and departure.robots_hop is None:
            await self._times.learn(host)
        while True:
            if self.back_off.left(host):
                _step_aside(asking)
                await self.back_off.wait(request, host)
                held = True
            # Requests that were held together then keep the delay of their slot, too.
            wait = self._downloader.due_in(slot) if held and slot else 0.0
            if wait := wait or self._turn(departure, asking):
                self.check_wait(request, wait)
                _step_aside(asking)
                await sleep(wait)
                continue
            if self._bookings is None:
                return
            if not await self._claim(departure):
                self.asked_elsewhere.add(host)
                _step_aside(asking)
                await sleep(CLAIM_RETRY_SECONDS)  # and those in its line with it
                HOSTS.give_back(departure)
                if self._downloader.is_ending():
                    raise StillParked(request.url, CLAIM_RETRY_SECONDS)
                continue
            interval = self.shared_interval(host, slot)
            if not (interval or asking):
                return
            try:
                step_aside = partial(_step_aside, asking)
                booking = await self._bookings.book(host, interval, step_aside)
                departure.booking = booking
            except ParkedError as parked:
                HOSTS.give_back(departure)
                departure.let_go()
                await self.troubles.look(host)  # it may be down
                self.back_off.learn(host, parked.seconds)
                continue
            HOSTS.restart(departure)
            return

    # One request at a time, among several processes

    async def _claim(self, departure: Departure) -> bool:
        """Claim a host in trouble for *departure*; ``False``: another process asks it."""
        host = departure.host
        if departure.is_holding or not HOSTS.health(host).level:
            return True
        assert self._bookings is not None
        claim = await self._bookings.claim(host)
        if claim:
            departure.hold(partial(self._give_back, departure, claim))
        return bool(claim)

    def _give_back(self, departure: Departure, claim: str) -> None:
        self._tell_booked(departure)
        deferred_from_coro(self._let_others(departure.host, claim))

    async def _let_others(self, host: str, claim: str) -> None:
        assert self._bookings is not None
        if left := self.back_off.left(host):  # others must know before they may ask
            await self._bookings.park(host, left)
        await self._bookings.give_back(host, claim)

    # How late a request left

    def _confirm(self, departure: Departure) -> Awaitable[None] | None:
        """Check that the start of *departure*, about to be written, still stands."""
        late = _late(departure, monotonic())
        if late < UNCONFIRMED_SECONDS:
            return None
        return self._confirm_late(departure, late)

    async def _confirm_late(self, departure: Departure, late: float) -> None:
        if not await self._tell_late(departure, late):
            HOSTS.note_left(departure, 0.0)
            # Its time is over: the host was granted to another.
            await departure.grant_again()

    def _note_left(self, departure: Departure, at: float) -> None:
        if not departure.keeps_pace:
            return
        HOSTS.note_left(departure, at)
        late = _late(departure, at)
        if late >= LATE_TOLD_SECONDS:
            deferred_from_coro(self._tell_late(departure, late))

    async def _tell_late(self, departure: Departure, seconds: float) -> bool:
        """Tell others that *departure* leaves later than booked; ``False``: too late."""
        if departure.booking is None or self._bookings is None:
            return True
        at, here = departure.booking
        departure.booking = Booking(at + round(seconds * 1e6), here + seconds)
        return await self._bookings.late(departure.host, at, seconds)

    def _note_answer(self, departure: Departure, response: Response) -> None:
        """Put off the next start by how much later than the quickest this one may have arrived."""
        watched = departure.keeps_pace and departure.is_watched
        latency = latency_of(departure) if watched else None
        if latency is None:
            return
        left_at = departure.left_at or departure.started_at
        delay = self.interval(departure.host)
        quickest = HOSTS.note_latency(departure.host, latency if delay else None)
        restless = quickest is None or (self._bookings and self._bookings.restless)
        part = RESTLESS_LATE_PART if restless else LATE_PART
        if quickest is None:
            # It is not known yet how long this host takes at best. If other processes ask
            # it, too, they rely on what we tell them.
            quickest = latency if departure.booking is None else 0.0
        late = min(latency - quickest, max(part * delay, LATE_LEAST))
        if late >= LATE_TOLD_SECONDS:
            HOSTS.note_left(departure, left_at + late)
            deferred_from_coro(self._tell_late(departure, late))

    # The slots of hosts

    def _follow_requests(self) -> None:
        """Follow each request on its way, once there is a pace to keep.

        Most crawls never have one, and each receiver of a signal costs time.
        """
        if self.keeps_intervals:
            return
        self.keeps_intervals = True
        connect = self._crawler.signals.connect
        # Scrapy sends the first signal when the slot exists, but before it reads its delay.
        # At the second one AutoThrottle lowers the delay; it was connected before us.
        connect(self._raise_delay, signals.request_reached_downloader)
        connect(self._raise_delay, signals.response_downloaded)

    def _raise_delay(self, request: Request) -> None:
        """Raise the delay of the slot of *request*, if the slot is its host's own."""
        slot = request.meta.get("download_slot")
        if slot and slot == self.host_of(request):
            interval = self.interval(slot)
            if interval:
                interval += min(self._guard_part * interval, GUARD_MOST)
            self._downloader.hold(slot, interval)


def _late(departure: Departure, at: float) -> float:
    """Return how many seconds after its booked start *departure* leaves *at* that time."""
    return 0.0 if departure.booking is None else at - departure.booking[1]


def _step_aside(asking: Asking | None) -> None:
    """Leave the place of a fetch to others while its request waits for a grant."""
    if asking is not None and asking.lane is not None:
        asking.lane.step_aside()
