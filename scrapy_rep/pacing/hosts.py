"""What is known of each host, for all crawls of the process: what a policy asks of our speed, and
how well it copes with our requests.

Pure but for the clock of ``Hosts``; nothing belongs to an event loop, as one crawl may begin long
after another one has ended. Times are those of ``time.monotonic()`` where nothing else is said. Beyond
RFC 9309.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from math import sqrt
from random import uniform
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple
from weakref import ReferenceType, WeakKeyDictionary, ref

from scrapy_rep.protocol.language import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from datetime import time

    from scrapy_rep.engine.inner import Departure
    from scrapy_rep.protocol import Agent, Policy, RequestRate, VisitTime
    from scrapy_rep.settings import Settings

TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE = 429, 503
"""The statuses by which a site refuses (RFC 6585 4, RFC 9110 15.6.4)."""
LONGEST_AT_PROMPT = 5.0
"""Seconds that a request may wait for its host even if REP_WAIT is off."""
PAUSE_JITTER = 0.1
"""The part by which a pause varies: hosts that failed together shall not be asked together."""
ONE_AT_A_TIME_GAP = 0.001
"""Seconds: the gap of a host that gets one request at a time, as fast as it answers."""
GAP_MARGIN = 1.25
"""The factor by which a gap is longer than the gap that the host has coped with."""
LEAST_GAP = 0.02
"""Seconds; a gap that has become shorter than this counts as 0."""
GAP_HALF_LIFE_SECONDS, GAP_HALF_LIFE_GAPS = 120.0, 100
"""A gap is halved in so many seconds, or in so many times its own length if that is longer."""
TROUBLE_KEPT_SECONDS = 1800.0
"""Seconds after the pause for its last trouble, after which a host is like any other again."""
IDLE_HOST_SECONDS = 60.0
"""Seconds for which we remember the last start at a host without a known delay: its robots.txt
may ask for one from then on."""
RECHECK_PART, RECHECK_MOST = 0.5, 0.25
"""The part of an interval, and at most the seconds, after which a waiting request looks again
whether the one before it is answered."""
FIRST_SWEEP_HOSTS = 64
"""With so many hosts, those that may be forgotten are looked for the first time."""
EARLY_PART, EARLY_MOST = 0.25, 0.1
"""The part of an interval, and at most the seconds, before its time at which a start is booked."""


def early_of(interval: float) -> float:
    return min(EARLY_PART * interval, EARLY_MOST)


class Pace(NamedTuple):
    """How fast an origin may be asked, and when; *now* is in seconds since 1970."""

    delay: float = 0.0
    """The crawl delay; 0: none asked."""
    rate: RequestRate | None = None
    """It may hold for a part of the day only."""
    visit: VisitTime | None = None
    most: float = 0.0
    """REP_CRAWL_DELAY_MAX."""
    drop: bool = True
    """If an origin asks for more: whether its requests are refused, or ``most`` is kept."""

    def asked(self, now: float) -> float:
        """Return the seconds between two requests: a rate of 30 in a minute is two, no burst."""
        rate = self.rate
        if rate is None or not _within(rate.start, rate.end, now):
            return self.delay
        return max(self.delay, rate.seconds / rate.requests)

    def interval(self, now: float) -> float:
        return min(self.asked(now), self.most)

    def refuses(self, now: float) -> bool:
        return self.drop and self.asked(now) > self.most

    def opens_in(self, now: float) -> float:
        """Return the seconds until requests are welcome; 0: they are."""
        visit = self.visit
        if visit is None or _within(visit.start, visit.end, now):
            return 0.0
        return (_of_day(visit.start) - now) % DAY


FREE = Pace()


def pace_of(policy: Policy, agent: Agent, settings: Settings) -> Pace:
    """Return the pace that *policy* asks of *agent*, without what REP_OBEY leaves out."""
    obey = settings.obey
    delay = policy.crawl_delay(agent) if "crawl-delay" in obey else None
    rate = policy.request_rate(agent) if "request-rate" in obey else None
    visit = policy.visit_time(agent) if "visit-time" in obey else None
    if not delay and rate is None and visit is None:
        return FREE
    is_refused = settings.crawl_delay_over_max == "drop"
    return Pace(delay or 0.0, rate, visit, settings.crawl_delay_max, is_refused)


def _within(start: time | None, end: time | None, now: float) -> bool:
    """Tell whether *now* lies from *start* to *end*, times of the UTC day."""
    if start is None or end is None:
        return True
    at = now % DAY
    if start < end:
        return _of_day(start) <= at < _of_day(end)
    # Past midnight; all day, where both are the same.
    return at >= _of_day(start) or at < _of_day(end)


def _of_day(moment: time) -> float:
    return moment.hour * 3600.0 + moment.minute * 60.0


class Health(NamedTuple):
    level: int = 0
    """How many times in a row it was in trouble, less one for each success since."""
    at: float = 0.0
    resumes: float = 0.0
    since: float | None = None
    """When the present trouble began; ``None``: a success has ended it."""
    served: int = 0
    """Successes since ``at``."""
    refused_at: float = 0.0
    """The gap, in seconds, at which it last refused; 0 once that has become its ``gap``."""
    gap: float = 0.0
    """Seconds between two starts at ``resumes``; the gap gets shorter with time."""

    def after_failure(
        self, started: float, status: int | None, now: float, pause: float, most: float
    ) -> Health:
        """Return its health after a failure; *status* ``None``: there was no answer.

        It has a *pause* then, and its gap is *most* seconds at the most. What was in flight during
        a pause belongs to one burst, which counts once.
        """
        is_news, health = started >= self.resumes, self
        if is_news:
            before = WELL if self.may_be_forgotten(now) else self
            gap = before.gap_at(now)
            refused_at = 2 * gap
            if before.served:
                # It copes with more than a mean with the pause shows, and less than one without.
                borne = sqrt((now - before.at) * max(0.0, now - before.resumes))
                refused_at = max(refused_at, GAP_MARGIN * borne / before.served)
            since = now if before.since is None else before.since
            refused_at = min(most, refused_at)
            level, resumes = before.level + 1, now + pause
            health = Health(level, now, resumes, since, 0, refused_at, gap)
        # One 503 may be about its page alone; several in a burst are about the host.
        is_too_fast = status == TOO_MANY_REQUESTS or (
            status == SERVICE_UNAVAILABLE and not is_news
        )
        if not (is_too_fast and health.refused_at):
            return health
        return health._replace(gap=max(health.gap, health.refused_at), refused_at=0.0)

    def after_success(self, started: float) -> Health:
        if started < self.resumes:  # it tells nothing new
            return self
        level = max(0, self.level - 1)
        return self._replace(level=level, since=None, served=self.served + 1)

    def gap_at(self, now: float) -> float:
        if not self.gap:
            return 0.0
        half = max(GAP_HALF_LIFE_SECONDS, GAP_HALF_LIFE_GAPS * self.gap)
        gap = self.gap * 0.5 ** (max(0.0, now - self.resumes) / half)
        return gap if gap >= LEAST_GAP else 0.0

    def interval(self, now: float) -> float:
        return self.gap_at(now) or (ONE_AT_A_TIME_GAP if self.level else 0.0)

    def next_pause(self, first: float, most: float) -> float:
        doubled = first * 2.0 ** min(self.level, 64)
        return min(most, doubled) * uniform(1 - PAUSE_JITTER, 1 + PAUSE_JITTER)  # noqa: S311

    def is_down(self, longest: float) -> bool:
        """Tell whether it has been in trouble for *longest* seconds without a success."""
        return self.since is not None and self.at - self.since >= longest

    def may_be_forgotten(self, now: float) -> bool:
        return self.resumes + TROUBLE_KEPT_SECONDS < now


WELL = Health()


class Asking:
    """One fetch of a robots.txt, until its content is known."""

    over = False
    make_way: Callable[[], object] | None = None
    """Lets another fetch run while a request of this one waits for its turn; ``None``: no
    request of it is in the downloader."""


@dataclass(slots=True, eq=False)
class Host:
    last: float | None = None
    """When its last request arrived, or was granted; ``None``: not by this process."""
    under_way: ReferenceType[Departure] | None = None
    """The request that was last granted a start, until its answer begins; until it is over,
    while only one at a time is granted (a probe)."""
    line: WeakKeyDictionary[Departure, None] | None = None
    asking: Asking | None = None
    """The first fetch of a robots.txt here: the file may ask for a delay."""
    wishes: dict[tuple[int, str], tuple[float, float]] = field(default_factory=dict)
    """Number of a crawl, and origin -> the seconds that the origin asks of the crawl, and when
    that has last kept to them."""
    parked_until: float = 0.0
    parked_by: str = ""
    """Such as "429", if that is known here."""
    health: Health = WELL
    latency: float | None = None
    """Smoothed."""

    # When it may be asked

    def interval(self, crawl: int, now: float) -> float:
        """Return the longest of all wishes; 0: there is none.

        A wish to another crawl counts until that crawl has been idle for as many seconds.
        """
        longest = 0.0 if self.health is WELL else self.health.interval(now)
        for (minding, _), (seconds, minded) in self.wishes.items():
            if seconds > longest and (minding == crawl or minded + seconds >= now):
                longest = seconds
        return longest

    def may_start_in(self, interval: float, now: float, began: float) -> float:
        """Return the seconds until its next start; it may have been asked before *began*."""
        if not interval:
            return 0.0
        last = began if self.last is None else self.last
        left = max(0.0, last + interval - now)
        if self.is_busy:
            left = max(left, min(RECHECK_PART * interval, RECHECK_MOST))
        return left

    @property
    def is_busy(self) -> bool:
        return self.under_way is not None and self.under_way() is not None

    def mind(self, crawl: int, now: float) -> None:
        """Note that *crawl* keeps to what it is asked for."""
        for wisher, (seconds, _) in self.wishes.items():
            if wisher[0] == crawl:
                self.wishes[wisher] = seconds, now

    def may_ask(self, asking: Asking) -> bool:
        """Only one robots.txt is asked for while nothing is known of the host."""
        self.asking = self.asking or asking
        return self.asking is asking or self.asking.over

    def place_of(self, departure: Departure) -> int:
        before = list(self.line or ())
        return before.index(departure) if departure in before else len(before)

    def join_line(self, departure: Departure) -> None:
        if self.line is None:
            self.line = WeakKeyDictionary()
        self.line[departure] = None

    def leave_line(self, departure: Departure) -> None:
        if self.line:
            self.line.pop(departure, None)

    def note_arrived(self, departure: Departure, at: float) -> None:
        """The next interval begins *at*, but no earlier."""
        if not departure.is_probe:
            self.note_over(departure)
        self.last = max(at, self.last or at)

    def note_over(self, departure: Departure) -> None:
        if not self.is_busy or self.under_way == ref(departure):
            self.under_way = None

    # How it is

    def parked_left(self, now: float) -> float:
        return max(0.0, self.parked_until - now)

    def may_be_forgotten(self, now: float) -> bool:
        if self.last is not None and self.last + IDLE_HOST_SECONDS >= now:
            return False
        is_well = self.health is WELL or self.health.may_be_forgotten(now)
        is_awaited = self.line or self.is_busy or (self.asking and not self.asking.over)
        if is_awaited or self.parked_until > now or not is_well:
            return False
        wishes = self.wishes.values()
        idle_since = max([self.last or 0.0, *(minded for _, minded in wishes)])
        longest = max([IDLE_HOST_SECONDS, *(seconds for seconds, _ in wishes)])
        return idle_since + longest < now


NOBODY = Host()


class Hosts:
    """One that was idle for longer than its delay is forgotten."""

    def __init__(self) -> None:
        self.forget_all()

    def forget_all(self) -> None:
        self.by_name: dict[str, Host] = {}
        self.parked_until = 0.0
        """When no host is parked any more."""
        self.began = monotonic()
        """Until then, an earlier process may have asked any host."""
        self._sweep_at = FIRST_SWEEP_HOSTS

    def go_on_in_child(self) -> None:
        """The parent may have asked any host until now."""
        self.began = monotonic()
        for host in self.by_name.values():
            host.last = self.began
            host.under_way = host.line = host.asking = None

    def find(self, name: str) -> Host:
        """For reading."""
        return self.by_name.get(name, NOBODY)

    def of(self, name: str) -> Host:
        host = self.by_name.get(name)
        if host is None:
            if len(self.by_name) >= self._sweep_at:
                self.sweep()
            host = self.by_name[name] = Host()
        return host

    def sweep(self) -> None:
        now, its = monotonic(), self.by_name.items()
        self.by_name = {
            name: host for name, host in its if not host.may_be_forgotten(now)
        }
        self._sweep_at = 2 * len(self.by_name) + FIRST_SWEEP_HOSTS

    def forget_wishes(self, going_on: Container[int]) -> None:
        """Forget those to other crawls than *going_on*, if they no longer count."""
        now = monotonic()
        for host in list(self.by_name.values()):
            host.wishes = {
                wisher: (seconds, minded)
                for wisher, (seconds, minded) in list(host.wishes.items())
                if wisher[0] in going_on or minded + seconds >= now
            }

    # From one run of a job to the next

    def last_starts(self) -> dict[str, float]:
        """Return how many seconds ago each host with a delay was last asked."""
        now, its = monotonic(), self.by_name.items()
        return {
            name: now - host.last for name, host in its if host.wishes and host.last
        }

    def recall(self, last_starts: dict[str, float]) -> None:
        now = monotonic()
        for name, ago in last_starts.items():
            host = self.of(name)
            if host.last is None:
                host.last = now - max(0.0, ago)


HOSTS = Hosts()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=HOSTS.go_on_in_child)
