"""The audit (REP_AUDIT_URI): the events of a crawl that have a record, one a line."""

from __future__ import annotations

import os
import socket
from collections import defaultdict
from dataclasses import dataclass, replace
from heapq import nlargest
from math import inf
from operator import itemgetter
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.engine.inner import kind_of
from scrapy_rep.engine.tools import Alarm, sleep
from scrapy_rep.events import as_text
from scrapy_rep.events.kinds import (
    EVENTS,
    FORMAT,
    Answered,
    AuditFailed,
    Began,
    Ended,
    NewCopy,
    Sent,
    Waited,
)
from scrapy_rep.events.sink import SETTING_NAME, Sink
from scrapy_rep.events.waits import ASKED, PACE, add_held
from scrapy_rep.protocol import __version__
from scrapy_rep.protocol.printable import without_user
from scrapy_rep.settings import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from scrapy_rep.engine.inner import Departure, Outcome, Starts
    from scrapy_rep.events import Event
    from scrapy_rep.events.stream import Stream
    from scrapy_rep.events.waits import Held, Waits

MAX_DIGESTS = 10_000
USERS_SETTINGS = ("ROBOTSTXT_USER_AGENT", "USER_AGENT", "DOWNLOAD_DELAY")
LEAST_LOOK_SECONDS, MOST_LOOK_SECONDS = 1.0, 60.0
"""Seconds between two looks at what waits: at first, and at the most."""
LOOK_TIME_PART = 0.01
"""Of the time that the crawl has taken so far, until the next look."""
SECONDS_FOR_A_HOST = 0.001
"""Until the next look, for each host that waits: some 500 times what looking takes."""
AT_A_TIME = 500
"""How much is looked at in one turn of the event loop."""
MOST_HOSTS = 20
SAME_END_SECONDS = 1.0
"""Seconds by which the end of a wait may move without being told again."""
COMMON_CAUSES = frozenset({PACE, ASKED})
"""All hosts wait for these now and then, shortly: none is named."""


@dataclass(eq=False, repr=False)
class Audit:
    _crawler: Crawler
    _uri: str
    _events: Stream
    _waits: Waits
    _agent: Callable[[], str]
    """Returns whose rules are obeyed."""

    def __post_init__(self) -> None:
        """Open it, now or when there is a spider.

        Raises ``SettingError`` if it cannot be opened.
        """
        crawler, events = self._crawler, self._events
        self._sink: Sink | None = None
        self._digests: dict[str, None] = {}  # in the order in which they came
        self._waiting_lines = WaitingLines(crawler, events, self._waits)
        events.listen(self._hear_copy, [NewCopy])
        # If there is another file, it has no bodies yet.
        events.listen(lambda _: self._digests.clear(), [AuditFailed])
        events.listen(self._hear, [kind for kind in EVENTS if kind.audit])
        if crawler.spider is not None:
            self._open()
        else:  # as in a shell
            crawler.signals.connect(self._open, signals.spider_opened)

    def _open(self) -> None:
        if self._sink is not None:
            return
        worker = f"{socket.gethostname()}-{os.getpid()}-{token_hex(4)}"
        # The URI of the audit may have a password.
        names = [*(name for name in DEFAULTS if name != SETTING_NAME), *USERS_SETTINGS]
        value_of = self._crawler.settings.get
        began = Began(
            FORMAT,
            getattr(self._crawler.spider, "name", None),
            self._agent(),
            worker,
            __version__,
            {name: value_of(name, DEFAULTS.get(name)) for name in names},
            time=self._events.at(monotonic()),
        )
        self._sink = Sink(
            self._crawler, self._uri, worker, began.as_json(), self._events
        )
        self._events.tell_user(f"The audit goes to {self._sink.name}")

    def write(self, line: str) -> None:
        if self._sink is not None:
            self._sink.put(line)

    def _hear(self, event: Event) -> None:
        if event.is_news:
            self.write(event.as_json())

    def _hear_copy(self, event: NewCopy) -> None:
        if self._sink is None:
            return  # it is written, with its body, when it is learned under a spider
        copy, digest = replace(event.copy, time=event.time), event.copy.digest
        if digest is not None and digest not in self._digests:
            self._digests[digest] = None
            if len(self._digests) > MAX_DIGESTS:
                del self._digests[next(iter(self._digests))]
            copy.encoding, copy.body = as_text(event.body)
        self.write(copy.as_json())

    async def close(self, reason: str) -> None:
        self._waiting_lines.close()
        self._waits.end()
        sink = self._sink
        if sink is None:
            return
        self._events.tell(Ended(reason, dict(self._waits.left) or None))
        self._sink = None
        await sink.close()
        self._events.count("audit/records", sink.written + 1)  # and the first one
        if sink.lost:
            self._events.count("audit/lost", sink.lost)


class WaitingLines:
    """Writes down what waits from time to time, in few lines however many hosts there are.

    A look writes a line for each cause whose numbers have changed, and names up to
    ``MOST_HOSTS`` hosts that were not named yet, those with most requests first.
    """

    def __init__(self, crawler: Crawler, events: Stream, waits: Waits) -> None:
        self._events = events
        self._waits = waits
        self._began = monotonic()
        self._closed = False
        self._alarm = Alarm(lambda: deferred_from_coro(self._look()))
        self._named: dict[tuple[str, str], float] = {}
        self._last: dict[str, tuple[int, int]] = {}
        crawler.signals.connect(self._begin, signals.spider_opened)

    def _begin(self) -> None:
        self._began = monotonic()
        self._alarm.set(LEAST_LOOK_SECONDS)

    def close(self) -> None:
        self._closed = True
        self._alarm.cancel()

    async def _look(self) -> None:
        found: dict[tuple[str, str], Held] = {}
        for number, held in enumerate(self._waits.held(), 1):
            add_held(found, held)
            if not number % AT_A_TIME:
                await sleep(0)
                if self._closed:
                    return
        self._write_sums(found)
        self._write_hosts(found)
        part = min(LOOK_TIME_PART * (monotonic() - self._began), MOST_LOOK_SECONDS)
        self._alarm.set(max(LEAST_LOOK_SECONDS, part, SECONDS_FOR_A_HOST * len(found)))

    def _write_sums(self, found: dict[tuple[str, str], Held]) -> None:
        by_cause: defaultdict[str, list[Held]] = defaultdict(list)
        for held in found.values():
            by_cause[held.cause].append(held)
        changed: list[tuple[int, Waited]] = []
        for cause in self._last.keys() | by_cause.keys():
            some = by_cause[cause]
            hosts, requests = len(some), sum(held.requests for held in some)
            before = self._last.get(cause, (0, 0))
            if before != (hosts, requests):
                self._last[cause] = hosts, requests
                times = [self._events.at(held.until) for held in some if held.until]
                first, last = min(times, default=None), max(times, default=None)
                told = Waited(cause, requests, hosts=hosts, until=first, last=last)
                changed.append((requests - before[1], told))
        # Falling numbers first, so that no request seems to wait for two causes.
        for _, told in sorted(changed, key=itemgetter(0)):
            self._events.tell(told)

    def _write_hosts(self, found: dict[tuple[str, str], Held]) -> None:
        self._named = {key: at for key, at in self._named.items() if key in found}
        new = [
            (held.requests, key)
            for key, held in found.items()
            if held.cause not in COMMON_CAUSES
            and (held.until or 0.0) > self._named.get(key, -inf) + SAME_END_SECONDS
        ]
        for requests, key in nlargest(MOST_HOSTS, new, key=itemgetter(0)):
            (host, cause), until = key, found[key].until
            self._named[key] = until or 0.0
            at = None if until is None else self._events.at(until)
            self._events.tell(Waited(cause, requests, host, until=at))


class Departures:
    """Tells of each request that is sent, and of what comes of it."""

    def __init__(
        self, starts: Starts, events: Stream, how_judged: Callable[..., Any]
    ) -> None:
        """*how_judged* returns ``exempt`` and ``judged`` of a ``Sent`` for a URL and its meta."""
        self._events = events
        self._how_judged = how_judged
        starts.on_start.append(self._note_start)
        starts.on_over.append(self._note_over)

    def _note_start(self, departure: Departure) -> None:
        request, host, judged = departure.request, departure.host or None, (None, None)
        robots = departure.robots_hop is not None or None
        if robots is None:
            judged = self._how_judged(request.url, request.meta)
        url, time = without_user(request.url), self._events.at(departure.started_at)
        self._events.tell(Sent(url, host, robots, *judged, time=time))

    def _note_over(self, departure: Departure, outcome: Outcome) -> None:
        if outcome is None:
            return
        error, octets, status = None, None, None
        if isinstance(outcome, Exception):
            error = kind_of(outcome)
        else:
            octets, status = len(outcome.body), outcome.status
        began, arrived = departure.started_at, departure.arrived_at
        headers = None if arrived is None else arrived - began
        url, host = without_user(departure.request.url), departure.host or None
        took, robots = monotonic() - began, departure.robots_hop is not None or None
        self._events.tell(
            Answered(url, host, took, headers, octets, status, error, robots)
        )
