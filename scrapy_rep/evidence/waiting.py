"""Writes what waits to an audit, from time to time rather than at each request."""

from __future__ import annotations

from heapq import nlargest
from time import monotonic
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.downloader import sleep
from scrapy_rep.events.of_crawls import Waited
from scrapy_rep.log.waits import ASKED, PACE, add_held

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_rep.events.stream import Stream
    from scrapy_rep.log import Held, Waits

LEAST_LOOK_SECONDS, MOST_LOOK_SECONDS = 1.0, 60.0
"""Seconds between two looks: at first, and at the most."""
LOOK_TIME_PART = 0.01
"""The next look comes after this part of the time that the crawl has taken so far."""
MOST_COST_PART = 0.002
"""The part of the time that looks may take at the most."""
AT_A_TIME = 500
"""How much of what waits is looked at in one turn of the event loop."""
MOST_HOSTS = 20
"""Hosts that one look names; the next look names others."""
SAME_END_SECONDS = 1.0
"""Seconds by which the end of a wait may move without being told again."""
COMMON_CAUSES = frozenset({PACE, ASKED})
"""All hosts wait for these now and then, shortly: no lines are written for single hosts."""


class WaitingLines:
    """Writes down what waits, in few lines however many hosts there are.

    Each look writes a line for each cause whose numbers have changed, and names up to
    ``MOST_HOSTS`` hosts that were not named yet, those with most requests first.
    """

    def __init__(self, crawler: Crawler, events: Stream, waits: Waits) -> None:
        self._events = events
        self._waits = waits
        self._began = monotonic()
        self._closed = False
        self._timer: CallLaterResult | None = None
        self._named: dict[tuple[str, str], float] = {}
        """Host and cause -> until when it waits, as last written."""
        self._last: dict[str, tuple[int, int]] = {}
        """Cause -> how many hosts and requests waited at the last look."""
        crawler.signals.connect(self._begin, signals.spider_opened)

    def _begin(self) -> None:
        self._began = monotonic()
        self._look_in(LEAST_LOOK_SECONDS)

    def _look_in(self, seconds: float) -> None:
        if not self._closed:
            self._timer = call_later(seconds, self._begin_look)

    def _begin_look(self) -> None:
        self._timer = None
        deferred_from_coro(self._look())

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    async def _look(self) -> None:
        found: dict[tuple[str, str], Held] = {}
        took, begun = 0.0, monotonic()
        for number, held in enumerate(self._waits.held(), 1):
            add_held(found, held)
            if not number % AT_A_TIME:
                took += monotonic() - begun
                await sleep(0)
                if self._closed:
                    return
                begun = monotonic()
        self._write_sums(found)
        self._write_hosts(found)
        now = monotonic()
        took += now - begun
        part = min(LOOK_TIME_PART * (now - self._began), MOST_LOOK_SECONDS)
        self._look_in(max(LEAST_LOOK_SECONDS, part, took / MOST_COST_PART))

    def _write_sums(self, found: dict[tuple[str, str], Held]) -> None:
        by_cause: dict[str, list[Held]] = {cause: [] for cause in self._last}
        for held in found.values():
            by_cause.setdefault(held.cause, []).append(held)
        now = {
            cause: (len(some), sum(held.requests for held in some))
            for cause, some in by_cause.items()
        }
        changed = {
            cause: requests - self._last.get(cause, (0, 0))[1]
            for cause, (hosts, requests) in now.items()
            if self._last.get(cause) != (hosts, requests)
        }
        # Falling numbers first, so that no request seems to wait for two causes.
        for cause in sorted(changed, key=changed.__getitem__):
            hosts, requests = now[cause]
            ends = (held.until for held in by_cause[cause] if held.until is not None)
            times = [self._events.at(until) for until in ends]
            first, last = min(times, default=None), max(times, default=None)
            self._events.tell(
                Waited(cause, requests, hosts=hosts, until=first, last=last)
            )
        self._last = {cause: numbers for cause, numbers in now.items() if numbers[0]}

    def _write_hosts(self, found: dict[tuple[str, str], Held]) -> None:
        self._named = {key: at for key, at in self._named.items() if key in found}
        new = (
            held
            for key, held in found.items()
            if held.cause not in COMMON_CAUSES
            and (
                key not in self._named
                or (held.until or 0.0) > self._named[key] + SAME_END_SECONDS
            )
        )
        for held in nlargest(MOST_HOSTS, new, key=lambda held: held.requests):
            self._named[held.host, held.cause] = held.until or 0.0
            until = None if held.until is None else self._events.at(held.until)
            self._events.tell(
                Waited(held.cause, held.requests, host=held.host, until=until)
            )
