"""When each host was last asked, and may be asked again: for all crawls of the process.

Pure but for the clock: callers wait elsewhere, and then ask again. Nothing here belongs to an
event loop, as one crawl may begin long after another one has ended.
"""

from __future__ import annotations

import os
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Protocol
from weakref import ReferenceType, WeakKeyDictionary, ref

from scrapy_rep.pacing.health import WELL

if TYPE_CHECKING:
    from scrapy_rep.downloader import Departure
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


class Lane(Protocol):
    """The place of a fetch among those that may run at once."""

    def step_aside(self) -> None: ...
    def come_back(self) -> None: ...


class Asking:
    """One fetch of a robots.txt, until its content is known."""

    over = False
    lane: Lane | None = None
    """Its place, which it leaves to others while one of its requests waits for a grant."""


class Host:
    """What is known of one host."""

    __slots__ = (
        "asking",
        "granted_to",
        "has_pace",
        "health",
        "is_measured",
        "last",
        "latency",
        "line",
        "probe",
        "wishes",
    )

    def __init__(self) -> None:
        self.last: float | None = None
        """When its last request arrived, or was granted; ``None``: not by this process."""
        self.wishes: dict[Wisher, tuple[float, float]] = {}
        """The seconds that an origin asks of a crawl, and when the crawl last kept to them."""
        self.granted_to: ReferenceType[Departure] | None = None
        """The request that was last granted a start, until it is answered."""
        self.line: WeakKeyDictionary[Departure, None] | None = None
        """Requests that wait for a grant, in their order."""
        self.asking: Asking | None = None
        """The first fetch of a robots.txt here: the file may ask for a delay."""
        self.health: Health = WELL
        self.has_pace = False
        """Whether an interval may have to be kept: there is a wish, or it is not well."""
        self.probe: ReferenceType[Departure] | None = None
        """The request that was last granted a start while only one at a time is (a probe)."""
        self.latency: float | None = None
        """Its response time, smoothed, in seconds."""
        self.is_measured = True
        """Whether the response time is known, or not wanted."""

    def look_at_pace(self) -> None:
        """Set ``has_pace``: something that it depends on has changed."""
        self.has_pace = bool(self.wishes) or self.health is not WELL

    @property
    def departing(self) -> Departure | None:
        """Return ``granted_to``; ``None``: there is none, or it ended with its event loop."""
        return None if self.granted_to is None else self.granted_to()

    def interval(self, crawl: int, now: float) -> float:
        """Return the seconds between two starts: the longest of all wishes; 0: there is none.

        A wish to another crawl counts until that crawl has been idle for as many seconds.
        """
        longest = 0.0 if self.health is WELL else self.health.interval(now)
        for (minding, _), (seconds, minded) in self.wishes.items():
            if seconds > longest and (minding == crawl or minded + seconds >= now):
                longest = seconds
        return longest

    def mind(self, crawl: int, now: float) -> None:
        """Note that *crawl* still keeps to what it was asked for."""
        for wisher, (seconds, _) in self.wishes.items():
            if wisher[0] == crawl:
                self.wishes[wisher] = seconds, now

    @property
    def is_probed(self) -> bool:
        """Tell whether it gets one request at a time only."""
        return self.health.level > 0 or not self.is_measured

    def is_probed_by_another(self, departure: Departure) -> bool:
        probe = None if self.probe is None else self.probe()
        return probe is not None and probe is not departure and not probe.is_over

    def may_be_forgotten(self, now: float) -> bool:
        busy = self.departing is not None or self.line
        if busy or not (self.asking is None or self.asking.over):
            return False
        if self.health is not WELL and not self.health.may_be_forgotten(now):
            return False
        idle_since = max((minded for _, minded in self.wishes.values()), default=0.0)
        if self.last is not None:
            idle_since = max(idle_since, self.last)
        longest = max((seconds for seconds, _ in self.wishes.values()), default=0.0)
        return idle_since + max(longest, IDLE_HOST_SECONDS) < now


class Hosts:
    """Hosts by name. A host that was idle for longer than its delay is forgotten."""

    def __init__(self) -> None:
        self.by_name: dict[str, Host] = {}
        self.parked: dict[str, float] = {}
        """Host -> until when it is parked, by ``time.monotonic()``."""
        self.parked_for: dict[str, str] = {}
        """Host -> what parked it, in words, if that is known here."""
        self.forget_all()

    def forget_all(self) -> None:
        """Begin anew, as a process that has just started."""
        self.by_name.clear()
        self.parked.clear()
        self.parked_for.clear()
        self.began = monotonic()
        """Until then, an earlier process may have asked any host."""
        self._recalled: dict[str, float] = {}
        """Host -> when an earlier process last asked it, if that is known."""
        self._sweep_at = FIRST_SWEEP_HOSTS

    def go_on_in_child(self) -> None:
        """Go on in a forked process: the parent may have asked any host until now."""
        self.began = monotonic()
        self._recalled.clear()
        for host in self.by_name.values():
            host.last = self.began
            host.granted_to = host.line = host.asking = host.probe = None

    def _host(self, name: str) -> Host:
        host = self.by_name.get(name)
        if host is None:
            if len(self.by_name) >= self._sweep_at:
                self.sweep()
            host = self.by_name[name] = Host()
            host.last = self._recalled.pop(name, None)
        return host

    def sweep(self) -> None:
        """Forget the hosts of which nothing matters any more."""
        now = monotonic()
        for name in [
            n for n, host in self.by_name.items() if host.may_be_forgotten(now)
        ]:
            del self.by_name[name]
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
            if name not in self.by_name:
                self._recalled[name] = now - max(0.0, ago)

    # What is asked for

    def note_wish(self, name: str, crawl: int, origin: str, seconds: float) -> None:
        """Note that *origin* asks *crawl* for *seconds* between two starts; 0: for none."""
        if seconds:
            host = self._host(name)
            host.wishes[crawl, origin] = seconds, monotonic()
            host.has_pace = True
        elif (known := self.by_name.get(name)) is not None and known.wishes:
            known.wishes.pop((crawl, origin), None)
            known.look_at_pace()

    def interval(self, name: str, crawl: int) -> float:
        """Return the seconds that *crawl* is to keep between two starts; 0: any."""
        host = self.by_name.get(name)
        if host is None or not host.has_pace:
            return 0.0
        return host.interval(crawl, monotonic())

    # Health

    def health(self, name: str) -> Health:
        """Return the health of a host; ``WELL`` if it was never in trouble."""
        host = self.by_name.get(name)
        return WELL if host is None else host.health

    def note_health(self, name: str, health: Health) -> None:
        host = self._host(name)
        host.health = health
        host.look_at_pace()

    # Starts

    def note_start(self, name: str) -> None:
        """Note that a request of a host without a pace starts now."""
        self._host(name).last = monotonic()

    def due_in(self, name: str, crawl: int, *, knows: bool) -> float:
        """Return the seconds until *crawl* may ask the host again; 0: it may now.

        *knows*: no other process can have asked it since this one began.
        """
        host = self.by_name.get(name)
        if host is None or not host.has_pace:
            return 0.0
        now = monotonic()
        interval = host.interval(crawl, now)
        left = self._left(host, interval, now, knows=knows)
        return left + len(host.line) * interval if host.line else left

    def _left(self, host: Host, interval: float, now: float, *, knows: bool) -> float:
        if not interval:
            return 0.0
        last = host.last
        if last is None:
            last = self.began if knows else -inf
        left = max(0.0, last + interval - now)
        if host.departing is not None:
            left = max(left, min(RECHECK_PART * interval, RECHECK_MOST))
        return left

    def turn(
        self,
        departure: Departure,
        crawl: int,
        asking: Asking | None,
        *,
        knows: bool,
    ) -> float:
        """Grant *departure* its start, and return 0; or the seconds until it must ask again.

        Starts are granted in the order in which they were asked for. *asking* is the fetch,
        if the request is for a robots.txt: while nothing is known of the host, only one
        fetch goes on there.
        """
        host = self._host(departure.host)
        if host.probe is not None and host.probe() is departure:
            host.probe = None  # it asks again, and those in the line may be before it
        now = monotonic()
        interval = 0.0
        if host.has_pace:
            host.mind(crawl, now)
            interval = host.interval(crawl, now)
        wait = self._left(host, interval, now, knows=knows)
        if asking is not None and not interval:
            if host.asking is None:
                host.asking = asking
            elif host.asking is not asking and not host.asking.over:
                wait = max(wait, LEARNING_RECHECK_SECONDS)
        if host.is_probed and host.is_probed_by_another(departure):
            wait = max(wait, LEARNING_RECHECK_SECONDS)
        if host.line:
            before = list(host.line)
            place = before.index(departure) if departure in host.line else len(before)
            if place and asking is None:  # a robots.txt is before all pages
                wait = max(wait + place * interval, LEARNING_RECHECK_SECONDS)
        if wait:
            if host.line is None:
                host.line = WeakKeyDictionary()
            host.line[departure] = None
            return wait
        self.leave_line(departure)
        host.last = now
        if interval or asking is not None:
            host.granted_to = ref(departure)
        if host.is_probed:
            host.probe = ref(departure)
        return 0.0

    def leave_line(self, departure: Departure) -> None:
        """Take *departure* out of the line that waits."""
        host = self.by_name.get(departure.host)
        if host is not None and host.line is not None:
            host.line.pop(departure, None)
            if not host.line:
                host.line = None

    def restart(self, departure: Departure) -> None:
        """Note that *departure* starts now: other processes have granted its start, too."""
        host = self.by_name.get(departure.host)
        if host is not None:
            host.last = monotonic()

    def wants_latency(self, name: str) -> bool:
        """Note that the response time of a host is wanted; tell whether it is unknown."""
        host = self._host(name)
        host.is_measured = host.latency is not None
        return not host.is_measured

    def latency(self, name: str) -> float | None:
        host = self.by_name.get(name)
        return None if host is None else host.latency

    def measure(self, name: str, latency: float, *, well: bool) -> float:
        """Note a response time in seconds; return the smoothed one.

        *well*: the answer was a page. Errors come quickly, so they never make it shorter.
        """
        host = self._host(name)
        before = host.latency
        if before is None:
            host.latency = latency
        elif well or latency > before:
            host.latency = before + LATENCY_SMOOTHING * (latency - before)
        host.is_measured = True
        assert host.latency is not None
        return host.latency

    def give_back(self, departure: Departure) -> None:
        """Note that *departure* does not start now, although its start was granted."""
        self.note_arrived(departure, 0.0)
        host = self.by_name.get(departure.host)
        if host is not None and host.probe is not None and host.probe() is departure:
            host.probe = None

    def note_arrived(self, departure: Departure, at: float) -> None:
        """Note that *departure* has arrived, or will not; the next interval begins *at*."""
        host = self.by_name.get(departure.host)
        if host is None:
            return
        if host.departing in {departure, None}:
            host.granted_to = None
        if host.last is None or host.last < at:
            host.last = at


HOSTS = Hosts()
"""The hosts of this process."""
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=HOSTS.go_on_in_child)
