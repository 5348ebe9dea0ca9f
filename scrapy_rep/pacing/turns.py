"""Turns: each start of a crawl's requests is granted, by host, by whatever road they come."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.downloader import sleep
from scrapy_rep.pacing.hosts import LEARNING_RECHECK_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from scrapy_rep.downloader import Departure
    from scrapy_rep.engine import Engine
    from scrapy_rep.pacing.hosts import Asking
    from scrapy_rep.pacing.keeper import Keeper


EARLY_PART, EARLY_MOST = 0.25, 0.1
"""The part of an interval, and at most the seconds, before its time at which a start is booked."""


def early_of(interval: float) -> float:
    """Return how many seconds before its time a start is booked, with an *interval*."""
    return min(EARLY_PART * interval, EARLY_MOST)


class ParkedError(Exception):
    """Another process has parked the host, for so many *seconds* from now on."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"parked for {seconds:g} s")


class Bookings(Protocol):
    """What grants the starts of requests if several processes share a pace."""

    async def book(
        self,
        host: str,
        interval: float,
        due: float = 0.0,
        waits: Callable[[], object] = lambda: None,
    ) -> int | None:
        """Wait until *interval* seconds have passed since the last request; book this start.

        It is not before *due*, by ``time.monotonic()``, and should be asked for some time before
        that (``early_of``), as it takes time to book it.

        Until ``over`` nobody else starts there. An interval of 0 means that it is not known here
        what the host asks for. *waits* is called before each wait. Returns the booking; ``None``:
        nothing was booked. Raises ``ParkedError`` if another process has parked the host.
        """

    async def over(self, host: str, booking: int) -> None:
        """Note that the request of *booking* was answered, or will not be: its delay begins."""

    async def park(self, host: str, seconds: float) -> None:
        """Let no process start a request to *host* for so many *seconds*."""

    async def spend(self, host: str, most: int) -> bool:
        """Count a request to *host*; ``False``: *most* requests have started already."""


class Turns:
    """Grants each start of a crawl's requests.

    A site has a request when its answer begins, at the latest; then the interval begins, and
    nothing else is started there before that. So it is never shorter at the site, wherever
    a request was held up: here, by a connection, or there.
    """

    def __init__(self, keeper: Keeper, engine: Engine) -> None:
        self._keeper = keeper
        self._engine = engine
        self._waits: Counter[str] = Counter()
        """How many requests of each host wait for a grant."""
        engine.starts.grant(self._grant)
        engine.starts.on_over(self._note_over)

    def follow_headers(self) -> None:
        """Hear of the headers of each answer, from now on.

        Most crawls never have a pace to keep, and each receiver of a signal costs time.
        """
        self._engine.starts.on_headers(self._note_arrived)

    def _grant(self, departure: Departure) -> Awaitable[None] | None:
        keeper = self._keeper
        departure.host = host = keeper.host_of(departure.request)
        if not host:
            return None
        hop = departure.robots_hop
        asking = None if hop is None else hop.asking
        if keeper.has_budgets and hop is None:
            keeper.spend(host)
        waits_first = bool(keeper.bookings or keeper.parked_left(host))
        if not (
            waits_first
            or asking
            or (hop is None and keeper.wants_latency(host))
            or keeper.interval(host)
        ):
            self._keeper.hosts.of(host).last = monotonic()
            return None
        departure.keeps_pace = True
        if waits_first or self._turn(departure, asking):
            return self._book(departure, asking)
        return None

    def _turn(self, departure: Departure, asking: Asking | None) -> float:
        keeper, own = self._keeper, self._engine.least_delay(departure.slot)
        record, now = keeper.hosts.of(departure.host), monotonic()
        began, early = keeper.began, keeper.early(departure.host)
        return record.turn(
            departure, keeper.number, asking, now=now, began=began, own=own, early=early
        )

    async def _book(self, departure: Departure, asking: Asking | None) -> None:
        keeper, is_page = self._keeper, departure.robots_hop is None
        with self._waiting(departure, asking):
            try:
                await self._wait(departure, asking)
            except BaseException:
                keeper.spend(departure.host, -is_page)
                raise
            if is_page:
                await keeper.spend_shared(departure.host)

    @contextmanager
    def _waiting(self, departure: Departure, asking: Asking | None) -> Iterator[None]:
        """Keep a place free for others while *departure* waits in the downloader."""
        host, has_lent = departure.host, asking is not None and asking.make_way
        # What is beyond that counts among CONCURRENT_REQUESTS, so that the others stay
        # in their queue.
        lends = not has_lent and self._waits[host] < self._engine.most_of_a_slot
        self._waits[host] += 1
        if lends:  # else that has been done for it
            self._engine.lend_place()
        come_back = self._engine.step_out(departure)
        if lends:
            self._engine.wake()  # another one may have its place
        try:
            yield
        except BaseException:
            self._keeper.hosts.of(host).note_over(departure)
            self._end_booking(departure)
            raise
        finally:
            come_back()
            self._keeper.hosts.of(host).leave_line(departure)
            self._waits[host] -= 1
            if not self._waits[host]:
                del self._waits[host]
            if lends:
                self._engine.take_place_back()

    async def _wait(self, departure: Departure, asking: Asking | None) -> None:
        request, host, slot = departure.request, departure.host, departure.slot
        keeper, held = self._keeper, False
        while True:
            if keeper.parked_left(host):
                _step_aside(asking)
                await keeper.until_not_parked(request, host)
                held = True
            # Requests that were held together then keep the delay of their slot, too.
            wait = self._engine.due_in(slot) if held and slot else 0.0
            if not self._engine.has_room(slot):
                wait = wait or LEARNING_RECHECK_SECONDS
            if wait := wait or self._turn(departure, asking):
                keeper.check_wait(request, wait)
                _step_aside(asking)
                await sleep(wait)
            elif keeper.bookings is None or await self._book_there(departure, asking):
                return

    async def _book_there(self, departure: Departure, asking: Asking | None) -> bool:
        """Book the start, which is granted here, in the fleet; ``False``: it must wait."""
        bookings, host = self._keeper.bookings, departure.host
        assert bookings is not None
        # The user's own delay limits how often a host is asked, too.
        own = self._engine.least_delay(departure.slot)
        interval = max(self._keeper.interval(host), own)
        if not (interval or asking):
            return True
        due = self._keeper.hosts.of(host).last or 0.0
        try:
            departure.booking = await bookings.book(
                host, interval, due, lambda: _step_aside(asking)
            )
        except ParkedError as parked:
            self._keeper.hosts.of(host).note_over(departure)
            self._keeper.learn_parked(host, parked.seconds)
            return False
        self._keeper.hosts.of(host).last = monotonic()
        return True

    # When a request has arrived

    def _note_arrived(self, departure: Departure) -> None:
        """Begin the interval: the site has *departure*, at the latest since now."""
        if not departure.keeps_pace or departure.arrived_at is not None:
            return
        departure.arrived_at = at = monotonic()
        self._keeper.hosts.of(departure.host).note_arrived(departure, at)
        self._engine.note_arrived(departure.request)
        self._end_booking(departure)

    def _note_over(self, departure: Departure) -> None:
        if departure.keeps_pace and departure.started_at:  # else nothing was sent
            self._note_arrived(departure)
            self._keeper.hosts.of(departure.host).note_over(departure)

    def _end_booking(self, departure: Departure) -> None:
        booking, departure.booking = departure.booking, None
        bookings = self._keeper.bookings
        if booking is not None and bookings is not None:
            deferred_from_coro(bookings.over(departure.host, booking))


def _step_aside(asking: Asking | None) -> None:
    """Leave the place of a fetch to others while its request waits for a grant."""
    if asking is not None and asking.make_way is not None:
        asking.make_way()
