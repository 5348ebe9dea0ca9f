"""The keeper of paces: no two requests start closer together than their origins ask for."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from functools import partial
from itertools import count
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.downloader import sleep
from scrapy_rep.exceptions import NotNow, StillParked
from scrapy_rep.pacing.back_off import BackOff
from scrapy_rep.pacing.bookings import ParkedError
from scrapy_rep.pacing.budget import Budget
from scrapy_rep.pacing.hosts import HOSTS, LEARNING_RECHECK_SECONDS
from scrapy_rep.pacing.latency import ResponseTimes
from scrapy_rep.pacing.troubles import Troubles
from scrapy_rep.settings import LONGEST_AT_PROMPT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.downloader import Departure
    from scrapy_rep.engine import Engine
    from scrapy_rep.pacing.bookings import Bookings
    from scrapy_rep.pacing.hosts import Asking
    from scrapy_rep.settings import Settings

CLAIM_RETRY_SECONDS = 0.25
"""Seconds after which we try again to claim a host that another process asks."""
CRAWL_NUMBERS = count()
"""Numbers the crawls of this process."""


class Keeper:
    """Grants each start of a crawl's requests, by host, by whatever road they come.

    The paces are those of the process (``HOSTS``), and with ``share`` those of a fleet.
    A site has a request when its answer begins, at the latest; then the interval begins, and
    nothing else is started there before that. So it is never shorter at the site, wherever
    a request was held up: here, by a connection, or there.
    """

    def __init__(
        self,
        crawler: Crawler,
        engine: Engine,
        host_of: Callable[[Request], str],
        settings: Settings,
    ) -> None:
        """*host_of* returns the host whose pace a request keeps; empty: it keeps none.

        With REP_WAIT off, a request that would have to wait for long gets a ``NotNow``.
        Hosts that other crawls of the process have parked are parked here, too, unless
        REP_OBEY has neither "retry-after" nor "back-off".
        """
        self._crawler = crawler
        self._engine = engine
        self.host_of = host_of
        self._number = next(CRAWL_NUMBERS)
        self._longest_wait = inf if settings.wait else LONGEST_AT_PROMPT
        self._bookings: Bookings | None = None
        self._booked_listeners: list[Callable[[Request, str, float], None]] = []
        self.keeps_intervals = False
        """Whether any host keeps an interval, or has done so."""
        parks = settings.obey & {"retry-after", "back-off"}
        shared = (HOSTS.parked, HOSTS.parked_for) if parks else ()
        self.back_off = BackOff(engine, *shared, is_down=self._is_down)
        self.troubles = Troubles(self.back_off, settings)
        self.budget = Budget(settings)
        self._waits: Counter[str] = Counter()
        """How many requests of each host wait for a grant."""
        self.asked_elsewhere: set[str] = set()
        """Hosts in trouble whose requests wait here while another process asks the host."""
        engine.starts.grant(self._grant)
        engine.starts.on_over(self._note_over)
        self._times = ResponseTimes(engine, settings, self.keep)

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
        return HOSTS.due_in(host, self._number, knows=knows)

    def has_place(self, slot: str, host: str) -> bool:
        """Tell whether *slot* can take another request to *host* that need not wait there."""
        paced = HOSTS.interval(host, self._number) > 0
        return self._engine.has_place(slot, host, paced=paced)

    def check_wait(self, request: Request, seconds: float) -> None:
        """Raise ``NotNow`` if *request* must not wait for so many *seconds*."""
        if seconds > self._longest_wait:
            raise NotNow(request.url, self.host_of(request), seconds)

    # Sharing a pace with other processes

    def share(self, bookings: Bookings) -> None:
        """Let *bookings* grant each start, and tell other processes of parked hosts."""
        self._bookings = bookings
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
        return max(self.interval(host), self._engine.users_delay(slot))

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
        departure.keeps_pace = True
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
        return HOSTS.turn(departure, self._number, asking, knows=knows)

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
        lane, host = None if asking is None else asking.lane, departure.host
        # What is beyond that counts among CONCURRENT_REQUESTS, so that the others stay
        # in their queue.
        lends = lane is None and self._waits[host] < self._engine.most_of_a_slot
        self._waits[host] += 1
        if lends:  # else that has been done for it
            self._engine.lend_place()
        come_back = self._engine.step_out(departure)
        try:
            yield
        except BaseException:
            HOSTS.give_back(departure)
            self._end_booking(departure)
            raise
        finally:
            come_back()
            self.asked_elsewhere.discard(host)
            HOSTS.leave_line(departure)
            self._waits[host] -= 1
            if not self._waits[host]:
                del self._waits[host]
            if lends:
                self._engine.take_place_back()
            if lane is not None:
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
            wait = self._engine.due_in(slot) if held and slot else 0.0
            if not self._engine.has_room(slot):
                wait = wait or LEARNING_RECHECK_SECONDS
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
                if self._engine.is_ending():
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

    # When a request has arrived

    def _note_arrived(self, departure: Departure) -> None:
        """Begin the interval: the site has *departure*, at the latest since now."""
        if not departure.keeps_pace or departure.arrived_at is not None:
            return
        departure.arrived_at = at = monotonic()
        HOSTS.note_arrived(departure, at)
        self._engine.note_arrived(departure.request)
        self._end_booking(departure)

    def _end_booking(self, departure: Departure) -> None:
        booking, departure.booking = departure.booking, None
        if booking is not None and self._bookings is not None:
            deferred_from_coro(self._bookings.over(departure.host, booking))

    def _note_over(self, departure: Departure) -> None:
        if departure.started_at:  # else nothing was sent
            self._note_arrived(departure)

    def _follow_requests(self) -> None:
        """Follow each request on its way, once there is a pace to keep.

        Most crawls never have one, and each receiver of a signal costs time.
        """
        if not self.keeps_intervals:
            self.keeps_intervals = True
            self._engine.starts.on_headers(self._note_arrived)


def _step_aside(asking: Asking | None) -> None:
    """Leave the place of a fetch to others while its request waits for a grant."""
    if asking is not None and asking.lane is not None:
        asking.lane.step_aside()
