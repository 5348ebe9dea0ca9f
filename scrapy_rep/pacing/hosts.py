"""What is known of each host: one record, for all crawls of the process.

Pure but for the clock of ``Hosts``: callers wait elsewhere, and then ask again. Nothing here
belongs to an event loop, as one crawl may begin long after another one has ended.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
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


@dataclass(slots=True, eq=False)
class Host:
    """What is known of one host. Times are those of ``time.monotonic()``."""

    last: float | None = None
    """When its last request arrived, or was granted; ``None``: not by this process."""
    under_way: ReferenceType[Departure] | None = None
    """The request that was last granted a start, until its answer begins; until it is over,
    while only one at a time is granted (a probe)."""
    line: WeakKeyDictionary[Departure, None] | None = None
    """Requests that wait for a grant, in their order."""
    asking: Asking | None = None
    """The first fetch of a robots.txt here: the file may ask for a delay."""
    wishes: dict[Wisher, tuple[float, float]] = field(default_factory=dict)
    """The seconds that an origin asks of a crawl, and when the crawl last kept to them."""
    parked_until: float = 0.0
    parked_by: str = ""
    """What parked it, such as "429", if that is known here."""
    health: Health = WELL
    latency: float | None = None
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
        if self.is_busy:
            left = max(left, min(RECHECK_PART * interval, RECHECK_MOST))
        return left

    @property
    def is_busy(self) -> bool:
        """Tell whether the request that was last granted a start is under way."""
        return self.under_way is not None and self.under_way() is not None

    def mind(self, crawl: int, now: float) -> None:
        """Note that *crawl* keeps to what it is asked for."""
        for wisher, (seconds, _) in self.wishes.items():
            if wisher[0] == crawl:
                self.wishes[wisher] = seconds, now

    def may_ask(self, asking: Asking) -> bool:
        """Tell whether no other robots.txt is asked for while nothing is known of the host."""
        self.asking = self.asking or asking
        return self.asking is asking or self.asking.over

    def place_of(self, departure: Departure) -> int:
        """Return how many wait here for a grant before *departure*."""
        before = list(self.line or ())
        return before.index(departure) if departure in before else len(before)

    def join_line(self, departure: Departure) -> None:
        if self.line is None:
            self.line = WeakKeyDictionary()
        self.line[departure] = None

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
        if not self.is_busy or self.under_way == ref(departure):
            self.under_way = None

    # How it is

    def parked_left(self, now: float) -> float:
        """Return the seconds for which it is still parked; 0: it is not."""
        return max(0.0, self.parked_until - now)

    def may_be_forgotten(self, now: float) -> bool:
        """Tell whether nothing of it matters any more."""
        is_well = self.health is WELL or self.health.may_be_forgotten(now)
        is_asked = self.asking is not None and not self.asking.over
        if (
            self.line
            or self.is_busy
            or is_asked
            or self.parked_until > now
            or not is_well
        ):
            return False
        wishes = self.wishes.values()
        idle_since = max([self.last or 0.0, *(minded for _, minded in wishes)])
        longest = max([IDLE_HOST_SECONDS, *(seconds for seconds, _ in wishes)])
        return idle_since + longest < now


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
