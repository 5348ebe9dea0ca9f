"""What is known of each host: one record, for all crawls of the process.

Pure but for the clock of ``Hosts``: callers wait elsewhere, and then ask again. Nothing here
belongs to an event loop, as one crawl may begin long after another one has ended.
"""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING
from weakref import ReferenceType, WeakKeyDictionary, ref

from scrapy_rep.pacing.health import WELL

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.downloader.starts import Departure
    from scrapy_rep.pacing.health import Health

    Wisher = tuple[int, str]
    """The number of a crawl, and the origin that it asks for something."""

IDLE_HOST_SECONDS = 60.0
"""Seconds for which we remember the last start at a host without a known delay: its robots.txt
may ask for one from then on."""
RECHECK_PART, RECHECK_MOST = 0.5, 0.25
"""The part of an interval, and at most the seconds, after which a waiting request checks again
whether the one before it is answered: that is when its own interval begins."""
LEARNING_RECHECK_SECONDS = 0.05
"""Seconds after which a waiting request checks again whether a robots.txt has been read, or a
host in trouble has answered."""
LATENCY_SMOOTHING = 0.25
"""The weight of a new response time in the smoothed one."""
FIRST_SWEEP_HOSTS = 64
"""With so many hosts, those that may be forgotten are looked for the first time."""
EARLY_PART, EARLY_MOST = 0.25, 0.1
"""The part of an interval, and at most the seconds, before its time at which a start is booked."""


def early_of(interval: float) -> float:
    """Return how many seconds before its time a start is booked, with an *interval*."""
    return min(EARLY_PART * interval, EARLY_MOST)


class Asking:
    """One fetch of a robots.txt, until its content is known."""

    over = False
    make_way: Callable[[], object] | None = None
    """Lets another fetch run while a request of this one waits for its turn; ``None``: no
    request of it is in the downloader."""


class Host:
    """What is known of one host. Times are those of ``time.monotonic()``."""

    __slots__ = (
        "asking",
        "health",
        "last",
        "latency",
        "line",
        "parked_by",
        "parked_until",
        "under_way",
        "wishes",
    )

    def __init__(self) -> None:
        self.last: float | None = None
        """When its last request arrived, or was granted; ``None``: not by this process."""
        self.under_way: ReferenceType[Departure] | None = None
        """The request that was last granted a start, until its answer begins; until it is over,
        while only one at a time is granted (a probe)."""
        self.line: WeakKeyDictionary[Departure, None] | None = None
        """Requests that wait for a grant, in their order."""
        self.asking: Asking | None = None
        """The first fetch of a robots.txt here: the file may ask for a delay."""
        self.wishes: dict[Wisher, tuple[float, float]] = {}
        """The seconds that an origin asks of a crawl, and when the crawl last kept to them."""
        self.parked_until = 0.0
        self.parked_by = ""
        """What parked it, such as "429", if that is known here."""
        self.health: Health = WELL
        self.latency: float | None = None
        """Its response time, smoothed, in seconds."""

    # When it may be asked

    def interval(self, crawl: int, now: float) -> float:
        """Return the seconds between two requests: the longest of all wishes; 0: there is none.

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
        if _alive(self.under_way) is not None:
            left = max(left, min(RECHECK_PART * interval, RECHECK_MOST))
        return left

    def turn(
        self,
        departure: Departure,
        crawl: int,
        now: float,
        *,
        began: float,
        own: float = 0.0,
        is_booked: bool = False,
        is_probe: bool = False,
    ) -> float:
        """Grant *departure* its start, and return 0; or the seconds until it must ask again.

        Starts are granted in the order in which they were asked for. While nothing is known of
        the host, only one fetch of a robots.txt goes on there. *own* are the seconds of the user's
        own delay, if that is longer. A start that *is_booked* elsewhere, too, is granted early:
        ``last`` is then when it may be. If it *is_probe*, nothing else starts until it is over.
        """
        for wisher, (seconds, _) in self.wishes.items():
            if wisher[0] == crawl:
                self.wishes[wisher] = seconds, now
        interval, asking = self.interval(crawl, now), departure.asking
        interval = interval and max(interval, own)  # else Scrapy's slot keeps it alone
        ahead = self.may_start_in(interval, now, began)
        wait = ahead if ahead > is_booked * early_of(interval) else 0.0
        if asking is not None and not interval:
            if self.asking is None:
                self.asking = asking
            elif self.asking is not asking and not self.asking.over:
                wait = max(wait, LEARNING_RECHECK_SECONDS)
        if is_probe and _alive(self.under_way) is not None:
            wait = max(wait, LEARNING_RECHECK_SECONDS)
        if self.line and asking is None:  # a robots.txt is before all pages
            before = list(self.line)
            place = before.index(departure) if departure in self.line else len(before)
            if place:
                wait = max(wait + place * interval, LEARNING_RECHECK_SECONDS)
        if wait:
            if self.line is None:
                self.line = WeakKeyDictionary()
            self.line[departure] = None
            return wait
        self.leave_line(departure)
        self.last = now + ahead
        departure.is_probe = is_probe
        if interval or asking is not None or is_probe:
            self.under_way = ref(departure)
        return 0.0

    def leave_line(self, departure: Departure) -> None:
        """Take *departure* out of the line that waits."""
        if self.line is not None:
            self.line.pop(departure, None)
            if not self.line:
                self.line = None

    def note_arrived(self, departure: Departure, at: float) -> None:
        """Note that *departure* has arrived; the next interval begins *at*, but no earlier."""
        if not departure.is_probe:
            self.note_over(departure)
        if self.last is None or self.last < at:
            self.last = at

    def note_over(self, departure: Departure) -> None:
        """Note that *departure* is over, or does not start although that was granted."""
        if _alive(self.under_way) in {departure, None}:
            self.under_way = None

    # How it is

    def parked_left(self, now: float) -> float:
        """Return the seconds for which it is still parked; 0: it is not."""
        return max(0.0, self.parked_until - now)

    def park(self, now: float, seconds: float, by: str) -> float:
        """Park it for *seconds*, unless it is for longer; return by how many seconds more."""
        left = self.parked_left(now)
        if seconds <= left:
            return 0.0
        if by or not left:
            self.parked_by = by
        self.parked_until = now + seconds
        return seconds - left

    def measure(self, latency: float, *, well: bool) -> float:
        """Note a response time in seconds; return the smoothed one.

        *well*: the answer was a page. Errors come quickly, so they never make it shorter.
        """
        before = latency if self.latency is None else self.latency
        if well or latency > before:
            before += LATENCY_SMOOTHING * (latency - before)
        self.latency = before
        return before

    def may_be_forgotten(self, now: float) -> bool:
        """Tell whether nothing of it matters any more."""
        if (
            self.line
            or _alive(self.under_way) is not None
            or (self.asking is not None and not self.asking.over)
            or self.parked_until > now
            or (self.health is not WELL and not self.health.may_be_forgotten(now))
        ):
            return False
        idle_since = max((minded for _, minded in self.wishes.values()), default=0.0)
        if self.last is not None:
            idle_since = max(idle_since, self.last)
        longest = max((seconds for seconds, _ in self.wishes.values()), default=0.0)
        return idle_since + max(longest, IDLE_HOST_SECONDS) < now


def _alive(known: ReferenceType[Departure] | None) -> Departure | None:
    """Return what is referred to; ``None``: nothing, or it ended with its event loop."""
    return None if known is None else known()


NOBODY = Host()
"""In the place of a host of which nothing is known."""


class Hosts:
    """Hosts by name. A host that was idle for longer than its delay is forgotten."""

    def __init__(self) -> None:
        self.forget_all()

    def forget_all(self) -> None:
        """Begin anew, as a process that has just started."""
        self.by_name: dict[str, Host] = {}
        self.parked_until = 0.0
        """When no host is parked any more."""
        self.began = monotonic()
        """Until then, an earlier process may have asked any host."""
        self._sweep_at = FIRST_SWEEP_HOSTS

    def go_on_in_child(self) -> None:
        """Go on in a forked process: the parent may have asked any host until now."""
        self.began = monotonic()
        for host in self.by_name.values():
            host.last = self.began
            host.under_way = host.line = host.asking = None

    def find(self, name: str) -> Host:
        """Return the record of a host, for reading."""
        return self.by_name.get(name, NOBODY)

    def of(self, name: str) -> Host:
        """Return the record of a host, which is made if there is none."""
        host = self.by_name.get(name)
        if host is None:
            if len(self.by_name) >= self._sweep_at:
                self.sweep()
            host = self.by_name[name] = Host()
        return host

    def sweep(self) -> None:
        """Forget the hosts of which nothing matters any more."""
        now = monotonic()
        self.by_name = {
            name: host
            for name, host in self.by_name.items()
            if not host.may_be_forgotten(now)
        }
        self._sweep_at = 2 * len(self.by_name) + FIRST_SWEEP_HOSTS

    # From one run of a job to the next

    def last_starts(self) -> dict[str, float]:
        """Return how many seconds ago each host with a delay was last asked."""
        now = monotonic()
        return {
            name: now - host.last
            for name, host in self.by_name.items()
            if host.wishes and host.last is not None
        }

    def recall(self, last_starts: dict[str, float]) -> None:
        """Take over what an earlier process knew of hosts that this one has not asked yet."""
        now = monotonic()
        for name, ago in last_starts.items():
            host = self.of(name)
            if host.last is None:
                host.last = now - max(0.0, ago)


HOSTS = Hosts()
"""The hosts of this process."""
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=HOSTS.go_on_in_child)
