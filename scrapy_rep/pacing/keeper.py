"""Grants each start of a crawl's requests, by host, by whatever road they come."""

from __future__ import annotations

from collections import Counter
from itertools import count
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, ref

from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response

from scrapy_rep.engine.inner import hop_of
from scrapy_rep.engine.tools import sleep
from scrapy_rep.exceptions import NotNow, StillParked
from scrapy_rep.pacing.hosts import HOSTS, LONGEST_AT_PROMPT, WELL, Health, early_of
from scrapy_rep.protocol.origins import robots_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy_rep.engine.inner import Departure, Engine, Outcome
    from scrapy_rep.settings import Settings

LATENCY_WISHER = "latency"
"""In the place of an origin, for an interval by the host's response time."""
LATENCY_SMOOTHING = 0.25
"""The weight of a new response time in the smoothed one."""
LEARNING_RECHECK_SECONDS = 0.05
"""Seconds after which a waiting request looks again whether a robots.txt has been read, or a host
in trouble has answered."""
END_CHECK_SECONDS = 0.5
"""Seconds after which a request that waits in the downloader looks if the crawl is ending."""
CRAWL_NUMBERS = count()
CRAWLS: WeakValueDictionary[int, Keeper] = WeakValueDictionary()
"""Those that go on, by their numbers."""


class OverBudgetError(IgnoreRequest):
    """The host has had all the requests that it may have."""


class ParkedError(Exception):
    """Another process has parked the host, for so many *seconds*."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"parked for {seconds:g} s")


class Keeper:
    """Says when a crawl may ask each host, and how the host is: for the process (``HOSTS``), and with
    ``share`` for a fleet.

    A site has a request when its answer begins, at the latest; then the interval begins, and
    nothing else is started there before. So it is never shorter at the site, wherever a request
    was held up.
    """

    def __init__(
        self, engine: Engine, host_of: Callable[[Request], str], settings: Settings
    ) -> None:
        """*host_of* returns the host whose pace a request keeps; empty: it keeps none."""
        self._engine = engine
        self.hosts = HOSTS
        self.host_of = host_of
        self._settings = settings
        self._number = next(CRAWL_NUMBERS)
        CRAWLS[self._number] = self
        HOSTS.forget_wishes(CRAWLS)
        self._heeds_parking = bool(settings.obey & {"retry-after", "back-off"})
        self.bookings: Any = None
        """The ``FleetBookings`` by which other processes share the pace."""
        self.keeps_intervals = False
        """Whether any host does, or has done so."""
        self.has_budgets = settings.host_budget is not None or any(
            "budget" in own for own in settings.hosts.values()
        )
        self._spent: Counter[str] = Counter()
        self._waits: Counter[str] = Counter()
        """How many requests of each host wait for a grant."""
        engine.starts.granter, engine.starts.host_of = self._grant, host_of
        engine.starts.on_over.append(self._note_over)

    def share(self, bookings: Any) -> None:
        self.bookings = bookings
        self._keep_intervals()

    def _keep_intervals(self) -> None:
        # Most crawls never have a pace to keep, and each receiver of a signal costs time.
        if not self.keeps_intervals:
            self.keeps_intervals = True
            self._engine.starts.on_headers.append(self._note_arrived)
            self._engine.starts.follow_headers()

    # Intervals

    def keep(self, host: str, origin: str, interval: float) -> None:
        """Keep *interval* seconds between requests at *host*, as *origin* asks."""
        if interval:
            self._keep_intervals()
        if host and interval:
            self.hosts.of(host).wishes[self._number, origin] = interval, monotonic()
        elif host and self.keeps_intervals:
            self.hosts.find(host).wishes.pop((self._number, origin), None)

    def keep_at(self, origin: str, interval: float) -> None:
        self.keep(self.host_of(Request(robots_url(origin))), origin, interval)

    def interval(self, host: str) -> float:
        record = self.hosts.by_name.get(host)
        if record is None or (record.health is WELL and not record.wishes):  # most
            return 0.0
        return record.interval(self._number, monotonic())

    def pace_left(self, host: str, *, behind: bool = True) -> float:
        """Return the seconds until a start at *host* may be asked for, parked or not.

        *behind*: after those that wait in the downloader.
        """
        interval = self.interval(host)
        if not interval:
            return 0.0
        record = self.hosts.of(host)
        left = max(0.0, record.may_start_in(interval, monotonic(), self._began))
        if behind and record.line:
            left += len(record.line) * interval
        return max(0.0, left - self._early(interval))

    def _early(self, interval: float) -> float:
        return early_of(interval) if self.bookings else 0.0

    @property
    def _began(self) -> float:
        """When hosts may have been asked last that this process has not asked."""
        # A fleet's bookings tell that.
        return -inf if self.bookings else self.hosts.began

    def asks_freely(self, host: str) -> bool:
        """Tell whether several robots.txt files of *host* may be asked for at a time: one was, and
        it keeps no pace.
        """
        asking = self.hosts.find(host).asking
        return bool(asking and asking.over and not self.interval(host))

    def check_wait(self, request: Request, seconds: float) -> None:
        """Raise ``NotNow`` if *request* must not wait for so long (REP_WAIT)."""
        if seconds > LONGEST_AT_PROMPT and not self._settings.wait:
            raise NotNow(request.url, self.host_of(request), seconds)

    # Hosts that are parked: their sites want to be left alone for some time

    def is_any_parked(self) -> bool:
        until = self.hosts.parked_until
        return self._heeds_parking and until > 0 and until > monotonic()

    def parked_left(self, host: str) -> float:
        if not self.is_any_parked():
            return 0.0
        return self.hosts.find(host).parked_left(monotonic())

    def parked_by(self, host: str) -> str:
        return self.hosts.find(host).parked_by if self.parked_left(host) else ""

    def refuses(self, host: str) -> bool:
        """Tell whether *host* is down, so that its requests do not wait."""
        return bool(self.parked_left(host)) and self.is_down(host)

    def park(self, host: str, seconds: float, what: str = "") -> float:
        """As ``learn_parked``, for all who share the pace."""
        longer = self.learn_parked(host, seconds, what)
        if longer and self.bookings:
            self.bookings.say(self.bookings.park(host, seconds))
        return longer

    def learn_parked(self, host: str, seconds: float, what: str = "") -> float:
        """Park *host* for *seconds* from now; return by how many that is longer than before.

        *what* says why, such as "429".
        """
        now = monotonic()
        left = self.hosts.find(host).parked_left(now)
        if seconds <= left:
            return 0.0
        record = self.hosts.of(host)
        if what or not left:
            record.parked_by = what
        record.parked_until = now + seconds
        self.hosts.parked_until = max(self.hosts.parked_until, now + seconds)
        return seconds - left

    async def until_not_parked(self, request: Request, host: str) -> None:
        """Raises ``StillParked`` if the crawl ends before; or, for a page, if *host* is down."""
        is_page = hop_of(request) is None
        if self.parked_left(host):
            self._engine.wake()  # another request may take the place of *request*
        while seconds := self.parked_left(host):
            if self._engine.is_ending() or (is_page and self.is_down(host)):
                raise StillParked(request.url, seconds)
            await sleep(min(seconds, END_CHECK_SECONDS))

    # How a host bears our requests

    def health(self, host: str) -> Health:
        record = self.hosts.by_name.get(host)
        return WELL if record is None else record.health

    def is_down(self, host: str) -> bool:
        """Tell whether it did nothing but fail for REP_BACK_OFF_GIVE_UP."""
        return self.health(host).is_down(self._settings.back_off_give_up)

    def note_failure(
        self, host: str, started: float, status: int | None, asked: float = 0.0
    ) -> tuple[Health, Health]:
        """Return the health before and after a failure.

        *status* ``None``: there was no answer; *asked* are the seconds of a Retry-After. If both
        have the same level, the failure belongs to a burst, which counts once.
        """
        record, settings = self.hosts.of(host), self._settings
        before, most = record.health, settings.back_off_max
        pause = asked or before.next_pause(settings.back_off_first, most)
        record.health = before.after_failure(started, status, monotonic(), pause, most)
        return before, record.health

    def note_success(self, host: str, started: float) -> None:
        record = self.hosts.of(host)
        record.health = record.health.after_success(started)

    # How many requests a host may have (REP_HOST_BUDGET)

    def budget_of(self, host: str) -> int | None:
        """``None``: any number."""
        own = self._settings.hosts.get(host, {})
        return own.get("budget", self._settings.host_budget) if host else None

    def is_used_up(self, host: str) -> bool:
        most = self.budget_of(host)
        return most is not None and most <= self._spent[host]

    def _spend(self, host: str, number: int = 1) -> None:
        """A *number* of -1 takes one back, as it does not start."""
        if self.budget_of(host) is None:
            return
        if number > 0 and self.is_used_up(host):
            raise OverBudgetError
        self._spent[host] += number

    async def _spend_shared(self, host: str) -> bool:
        """Count a request, which is counted here already, for the whole fleet; tell whether it was."""
        most = self.budget_of(host)
        if self.bookings is None or most is None:
            return False
        is_counted = await self.bookings.spend(host, most)
        if is_counted is False:
            self._spent[host] = most
            raise OverBudgetError
        return bool(is_counted)

    # Each start

    def _grant(self, departure: Departure) -> Awaitable[None] | None:
        departure.host = host = self.host_of(departure.request)
        if not host:
            return None
        # One whose turn went to another has been counted.
        if self.has_budgets and not (departure.robots_hop or departure.started_at):
            self._spend(host)
        is_parked = self.is_any_parked() and self.parked_left(host)
        if self.bookings or is_parked or self._turn(departure):
            return self._book(departure)
        return None

    def _turn(self, departure: Departure) -> float:
        """Grant *departure* its start, and return 0; or the seconds until it must ask again.

        Starts are granted in the order of asking. One that is booked elsewhere, too, is granted
        early: ``Host.last`` is then when it may be.
        """
        host, now = departure.host, monotonic()
        record = self.hosts.by_name.get(host) or self.hosts.of(host)
        interval = self.interval(host)
        # Else Scrapy's slot keeps the user's own delay alone.
        if interval or self.bookings:
            interval = max(interval, self._engine.least_delay(departure.slot))
        wants_latency = self._settings.latency_factor and record.latency is None
        is_probe = record.health.level > 0 or (
            wants_latency and departure.robots_hop is None
        )
        departure.is_probe = is_probe = bool(is_probe)
        asking = departure.asking
        departure.keeps_pace = bool(interval or is_probe or asking)
        if not departure.keeps_pace:
            record.last = now
            return 0.0
        record.mind(self._number, now)
        ahead = record.may_start_in(interval, now, self._began)
        wait = ahead if ahead > self._early(interval) else 0.0
        # A robots.txt is before all pages.
        place = 0 if asking else record.place_of(departure)
        may_ask = interval or not asking or record.may_ask(asking)
        if place or not may_ask or (is_probe and record.is_busy):
            wait = max(wait + place * interval, LEARNING_RECHECK_SECONDS)
        if wait:
            record.join_line(departure)
            return wait
        record.leave_line(departure)
        record.last, record.under_way = now + ahead, ref(departure)
        return 0.0

    async def _book(self, departure: Departure) -> None:
        """Wait for a turn, and let others have the place of *departure* meanwhile."""
        host, is_page = departure.host, departure.robots_hop is None
        # What is beyond that counts among CONCURRENT_REQUESTS, so that the others stay
        # in their queue. For a fetch of a robots.txt that has been done.
        lent = int(is_page and self._waits[host] < self._engine.most_of_a_slot)
        self._waits[host] += 1
        self._engine.lend(lent)
        come_back = self._engine.step_out(departure)
        if lent:
            self._engine.wake()  # another one may have its place
        is_spent = False
        try:
            # Before its turn comes, which is not held for as long as Redis may be away.
            if is_page and not departure.started_at:  # else it has been counted
                is_spent = await self._spend_shared(host)
            await self._wait(departure)
        except BaseException as error:
            self.hosts.of(host).note_over(departure)
            self._end_booking(departure)
            if is_page and not isinstance(error, OverBudgetError):
                self._spend(host, -1)
            if is_spent:
                self.bookings.say(self.bookings.give_back(host))
            raise
        finally:
            come_back()
            self.hosts.of(host).leave_line(departure)
            self._waits[host] -= 1
            if not self._waits[host]:
                del self._waits[host]
            self._engine.lend(-lent)

    async def _wait(self, departure: Departure) -> None:
        request, host, slot = departure.request, departure.host, departure.slot
        held = False
        while True:
            if self.parked_left(host):
                departure.step_aside()
                await self.until_not_parked(request, host)
                held = True
            # Requests that were held together then keep the delay of their slot, too.
            wait = self._engine.due_in(slot) if held and slot else 0.0
            if not self._engine.has_room(slot):
                wait = wait or LEARNING_RECHECK_SECONDS
            if wait := wait or self._turn(departure):
                self.check_wait(request, wait)
                departure.step_aside()
                await sleep(wait)
            elif await self._is_booked(departure):
                return

    async def _is_booked(self, departure: Departure) -> bool:
        """Book the start in the fleet; ``False``: it must wait."""
        record = self.hosts.of(departure.host)
        # The user's own delay limits how often a host is asked, too.
        own = self._engine.least_delay(departure.slot)
        interval = max(self.interval(departure.host), own)
        if not self.bookings or not (interval or departure.robots_hop):
            return True
        try:
            departure.booking = await self.bookings.book(
                departure.host,
                interval,
                record.last or 0.0,
                departure.step_aside,
                is_known=departure.robots_hop is None,
            )
        except ParkedError as parked:
            record.note_over(departure)
            self.learn_parked(departure.host, parked.seconds)
            return False
        record.last, departure.keeps_pace = monotonic(), True
        return True

    def _note_arrived(self, departure: Departure) -> None:
        """The site has *departure*, at the latest since now: the interval begins."""
        if not departure.keeps_pace or departure.arrived_at is not None:
            return
        departure.arrived_at = at = monotonic()
        self.hosts.of(departure.host).note_arrived(departure, at)
        if departure.asking is None or self.interval(departure.host):
            self._engine.handed_out.note_arrived(departure.host, departure.request)
            self._engine.wake()  # another request to the host may be handed out now
        self._end_booking(departure)

    def _note_over(self, departure: Departure, outcome: Outcome) -> None:
        if departure.keeps_pace and departure.started_at:  # else nothing was sent
            self._note_arrived(departure)
            self.hosts.of(departure.host).note_over(departure)
        if self._settings.latency_factor and isinstance(outcome, Response):
            self._measure(departure, outcome)

    def _end_booking(self, departure: Departure) -> None:
        booking, departure.booking = departure.booking, None
        if booking is not None:
            self.bookings.say(self.bookings.over(departure.host, booking))

    # REP_LATENCY_FACTOR: a pause of so many response times

    def _measure(self, departure: Departure, response: Response) -> None:
        latency: float | None = departure.request.meta.get("download_latency")
        if latency is None or not departure.host or departure.robots_hop is not None:
            return
        record, settings = self.hosts.of(departure.host), self._settings
        smoothed = latency if record.latency is None else record.latency
        if response.status < 400 or latency > smoothed:  # errors come quickly
            smoothed += LATENCY_SMOOTHING * (latency - smoothed)
        record.latency = smoothed
        delay = max(settings.latency_factor * smoothed, settings.latency_delay_min)
        delay = min(delay, settings.latency_delay_max)
        self.keep(departure.host, LATENCY_WISHER, delay)
