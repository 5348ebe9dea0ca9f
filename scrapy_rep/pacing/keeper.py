"""The keeper of paces: what is known of each host, as one crawl asks for it and adds to it."""

from __future__ import annotations

from itertools import count
from math import inf
from time import monotonic
from typing import TYPE_CHECKING
from weakref import finalize

from scrapy.exceptions import IgnoreRequest
from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.downloader import ROBOTS_HOP, sleep
from scrapy_rep.exceptions import NotNow, StillParked
from scrapy_rep.pacing.health import WELL, Health, pause_of
from scrapy_rep.pacing.hosts import HOSTS
from scrapy_rep.pacing.turns import Turns, early_of
from scrapy_rep.settings import LONGEST_AT_PROMPT

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.http import Response

    from scrapy_rep.downloader import Departure
    from scrapy_rep.engine import Engine
    from scrapy_rep.pacing.turns import Bookings
    from scrapy_rep.settings import Settings

LATENCY_WISHER = "latency"
"""Stands in the place of an origin: the interval comes from the host's response time."""
END_CHECK_SECONDS = 0.5
"""Seconds after which a request that waits in the downloader checks if the crawl is ending."""
CRAWL_NUMBERS = count()
"""Numbers the crawls of this process."""


class OverBudgetError(IgnoreRequest):
    """The host has had all the requests that it may have; the gate refuses the next one."""


class Keeper:
    """Says when a crawl may ask each host, and how the host is.

    Both are of the process (``HOSTS``), and with ``share`` of a fleet. Beyond RFC 9309.
    """

    def __init__(
        self, engine: Engine, host_of: Callable[[Request], str], settings: Settings
    ) -> None:
        """*host_of* returns the host whose pace a request keeps; empty: it keeps none.

        With REP_WAIT off, a request that would have to wait for long gets a ``NotNow``.
        Hosts that other crawls of the process have parked are parked here, too, unless
        REP_OBEY has neither "retry-after" nor "back-off".
        """
        self._engine = engine
        self.hosts = HOSTS
        self.host_of = host_of
        self._settings = settings
        self.number = next(CRAWL_NUMBERS)
        self._longest_wait = inf if settings.wait else LONGEST_AT_PROMPT
        self._heeds_parking = bool(settings.obey & {"retry-after", "back-off"})
        self.bookings: Bookings | None = None
        """What other processes of a fleet know; ``None``: there are none."""
        self.keeps_intervals = False
        """Whether any host keeps an interval, or has done so."""
        self._budgets = {
            host: own["budget"]
            for host, own in settings.hosts.items()
            if "budget" in own
        }
        self.has_budgets = settings.host_budget is not None or bool(self._budgets)
        if self.has_budgets:
            self.hosts.crawls.add(self.number)
            finalize(self, self.hosts.crawls.discard, self.number)
        self.turns = Turns(self, engine)
        if settings.latency_factor:
            engine.starts.on_answer(self._measure)

    def share(self, bookings: Bookings) -> None:
        """Let *bookings* grant each start, and tell other processes of parked hosts."""
        self.bookings = bookings
        self._keep_intervals()

    def _keep_intervals(self) -> None:
        if not self.keeps_intervals:
            self.keeps_intervals = True
            self.turns.follow_headers()

    # Intervals

    def keep(self, host: str, origin: str, interval: float) -> None:
        """Keep *interval* seconds between requests at *host*, as *origin* asks, from now on."""
        if not self.keeps_intervals:
            if not interval:
                return
            self._keep_intervals()
        if host:
            self.hosts.note_wish(host, self.number, origin, interval)

    def interval(self, host: str) -> float:
        """Return the seconds to keep between two requests at *host*; 0: none."""
        return self.hosts.interval(host, self.number)

    def pace_left(self, host: str, *, behind: bool = True) -> float:
        """Return the seconds until a start at *host* may be asked for, parked or not.

        *behind*: after those that wait for it in the downloader.
        """
        left = self.hosts.due_in(host, self.number, self.began, behind=behind)
        return max(0.0, left - self.early(host)) if left else 0.0

    def early(self, host: str) -> float:
        """Return how many seconds before its time a start at *host* is booked for a fleet."""
        return 0.0 if self.bookings is None else early_of(self.interval(host))

    @property
    def began(self) -> float:
        """When hosts may have been asked last that this process has not asked.

        In a fleet that is told by its bookings.
        """
        return self.hosts.began if self.bookings is None else -inf

    def check_wait(self, request: Request, seconds: float) -> None:
        """Raise ``NotNow`` if *request* must not wait for so many *seconds*."""
        if seconds > self._longest_wait:
            raise NotNow(request.url, self.host_of(request), seconds)

    # Hosts that are parked: their sites want to be left alone for some time

    def is_any_parked(self) -> bool:
        """Tell whether any host may be parked."""
        return self._heeds_parking and self.hosts.parked_until > monotonic()

    def parked_left(self, host: str) -> float:
        """Return the seconds for which *host* is still parked; 0: it is not."""
        now = monotonic()
        if not self._heeds_parking or self.hosts.parked_until <= now:
            return 0.0
        return self.hosts.find(host).parked_left(now)

    def parked_by(self, host: str) -> str:
        """Return what has parked *host*, such as "429", if that is known here."""
        return self.hosts.find(host).parked_by if self.parked_left(host) else ""

    def refuses(self, host: str) -> bool:
        """Tell whether requests to *host* are refused now rather than wait, as it is down."""
        return bool(self.parked_left(host)) and self.is_down(host)

    def park(self, host: str, seconds: float, what: str = "") -> float:
        """Park *host* for *seconds* from now, unless it is parked for longer already.

        *what* says why, such as "429". Returns by how many seconds it is parked for longer
        than before.
        """
        longer = self.learn_parked(host, seconds, what)
        if longer and self.bookings is not None:
            deferred_from_coro(self.bookings.park(host, seconds))
        return longer

    def learn_parked(self, host: str, seconds: float, what: str = "") -> float:
        """As ``park``, for a host that another process has parked."""
        now = monotonic()
        longer = self.hosts.of(host).park(now, seconds, what) if seconds > 0 else 0.0
        if longer:
            self.hosts.parked_until = max(self.hosts.parked_until, now + seconds)
        return longer

    async def until_not_parked(self, request: Request, host: str) -> None:
        """Wait until *host*, the host of *request*, is no longer parked.

        Raises ``StillParked`` if the crawl ends before that; and if the host is down, unless
        the request is for its robots.txt.
        """
        is_page = ROBOTS_HOP not in request.meta
        if self.parked_left(host):
            self._engine.wake()  # another request may take the place of *request*
        while seconds := self.parked_left(host):
            if self._engine.is_ending() or (is_page and self.is_down(host)):
                raise StillParked(request.url, seconds)
            await sleep(min(seconds, END_CHECK_SECONDS))

    # How a host bears our requests

    def is_down(self, host: str) -> bool:
        """Tell whether *host* did nothing but fail for REP_BACK_OFF_GIVE_UP seconds."""
        return self.hosts.find(host).health.is_down(self._settings.back_off_give_up)

    def was_in_trouble(self, host: str) -> bool:
        """Tell whether *host* was in trouble, which is not forgotten yet."""
        return self.hosts.find(host).health is not WELL

    def is_in_trouble(self, host: str) -> bool:
        """Tell whether *host* is in trouble, and has not had a success since that began."""
        return self.hosts.find(host).health.since is not None

    def note_failure(
        self, host: str, started: float, status: int | None, asked: float = 0.0
    ) -> tuple[Health, Health]:
        """Note that a request to *host* has failed; it *started* then, by ``time.monotonic()``.

        *status* is ``None`` if there was no answer; *asked* are the seconds of a Retry-After,
        0: there was none. Returns the health before and after. If both have the same level,
        the failure belongs to a burst, which counts once.
        """
        record, settings = self.hosts.of(host), self._settings
        before = record.health
        level, most = before.level + 1, settings.back_off_max
        pause = asked or pause_of(level, settings.back_off_first, most)
        record.health = before.after_failure(started, status, monotonic(), pause, most)
        return before, record.health

    def note_success(self, host: str, started: float) -> None:
        """Note a success at *host*, which was in trouble; the request *started* then."""
        record = self.hosts.of(host)
        before = record.health
        if before.is_news(started):
            record.health = before.after_success()

    # How many requests a host may have (REP_HOST_BUDGET)

    def budget_of(self, host: str) -> int | None:
        """Return how many requests *host* may have of this crawl; ``None``: any."""
        return self._budgets.get(host, self._settings.host_budget) if host else None

    def is_used_up(self, host: str) -> bool:
        """Tell whether *host* has had as many as it may."""
        most = self.budget_of(host) if self.has_budgets else None
        if most is None:
            return False
        spent = self.hosts.find(host).spent
        return most <= (spent.get(self.number, 0) if spent else 0)

    def spend(self, host: str, number: int = 1) -> None:
        """Count a request to *host*; raises ``OverBudgetError`` if it may have no more.

        A *number* of -1 takes it back, as the request does not start.
        """
        if self.budget_of(host) is None:
            return
        if number > 0 and self.is_used_up(host):
            raise OverBudgetError
        record = self.hosts.of(host)
        record.spent = record.spent or {}
        record.spent[self.number] = record.spent.get(self.number, 0) + number

    async def spend_shared(self, host: str) -> None:
        """Count a request to *host*, which is counted here already, for the whole fleet.

        Raises ``OverBudgetError`` if the fleet has sent as many as it may.
        """
        most = self.budget_of(host)
        if most is None or self.bookings is None:
            return
        if not await self.bookings.spend(host, most):
            self.hosts.of(host).spent = {self.number: most}
            raise OverBudgetError

    # REP_LATENCY_FACTOR: a pause of so many response times

    def wants_latency(self, host: str) -> bool:
        """Tell whether the response time of *host* is wanted, but unknown."""
        if not self._settings.latency_factor:
            return False
        record = self.hosts.of(host)
        record.is_measured = record.latency is not None
        return not record.is_measured

    def _measure(self, departure: Departure, response: Response) -> None:
        host = departure.host
        latency: float | None = departure.request.meta.get("download_latency")
        if latency is None or not host or departure.robots_hop is not None:
            return
        record, settings = self.hosts.of(host), self._settings
        smoothed = record.measure(latency, well=response.status < 400)
        delay = settings.latency_factor * smoothed
        delay = min(max(delay, settings.latency_delay_min), settings.latency_delay_max)
        self.keep(host, LATENCY_WISHER, delay)
