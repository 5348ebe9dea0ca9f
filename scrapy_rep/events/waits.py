"""What waits in a crawl: why, until when, and how many requests."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from math import inf
from time import monotonic, time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from scrapy import signals

from scrapy_rep.protocol.printable import counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy import Request

    from scrapy_rep.engine.inner import Departure, Engine, Outcome

PACE, ASKED, TURN = "pace", "asked", "turn"
PARKED = "parked"
AWAY, BLOCKED = "away", "blocked"
WHY = {
    "unreachable": "its robots.txt is unreachable",
    "visit_time": "its robots.txt wants visits at another time",
    PARKED: "it is parked",
    PACE: "its delay is not over",
    ASKED: "its robots.txt is being asked for",
    AWAY: "the Redis server that has its requests is away",
    BLOCKED: "an operator has blocked it",
    TURN: "its turn had not come",
}
"""Why a host waits; other causes are shown as they are."""
NAMES_LENGTH = 500


class Held(NamedTuple):
    """Requests of one host that wait for the same cause, as a queue tells it."""

    host: str
    cause: str
    until: float | None
    """By ``time.monotonic()``; ``None``: nobody knows."""
    requests: int


class Waiting(NamedTuple):
    host: str
    why: str
    until: float | None
    """In seconds since 1970; ``None``: nobody knows."""
    requests: int


class Queue(Protocol):
    def held(self) -> Iterable[Held]: ...

    def requests_of(self, host: str, origin: str) -> int:
        """One of *host* and *origin* is empty."""

    def next_due(self) -> float:
        """Seconds until it may hand out one; inf: it has none."""


class Paces(Protocol):  # of a ``Keeper``
    def host_of(self, request: Request) -> str: ...

    def is_any_parked(self) -> bool: ...

    def parked_left(self, host: str) -> float: ...

    def parked_by(self, host: str) -> str: ...

    def pace_left(self, host: str, *, behind: bool) -> float: ...


class Waits:
    """Knows all that waits in one crawl: in its queue, in the downloader, or elsewhere."""

    def __init__(self, engine: Engine, keeper: Paces) -> None:
        self._engine = engine
        self._keeper = keeper
        self.queue: Queue | None = None
        """``None``: none of ours holds back what must wait, or the crawl is over."""
        self._beside: Counter[tuple[str, str, float | None]] = Counter()
        """What waits beside queue and downloader: by host, cause and until when."""
        self._idle_since: float | None = None
        self.on_idle: Callable[[float], object] = lambda seconds: None
        """Called when the queue finds that all hosts wait, with the seconds until one is due."""
        self.idle_time = 0.0
        """Seconds in which the crawl had nothing but hosts that wait."""
        self.left: Counter[str] = Counter()
        self.kept_in, self.kept = "", 0
        """Where requests of ``left`` are kept for the next run, and how many."""
        self.hosts_left = 0
        self._is_over = False
        self._under_way = 0
        """Requests that were handed over, where no queue is followed."""

    @contextmanager
    def holding(
        self, host: str, cause: str, seconds: float | None = None
    ) -> Iterator[None]:
        held = host, cause, None if seconds is None else monotonic() + seconds
        self._beside[held] += 1
        try:
            yield
        finally:
            self._beside[held] -= 1
            self._beside += Counter()  # without those that are 0

    def are_at_gate(self, pages: int) -> bool:
        """Whether so many *pages* in the downloader all wait for a robots.txt."""
        return pages <= sum(
            number for held, number in self._beside.items() if held[1] == ASKED
        )

    def end(self, kept_in: str = "", lost: int = 0) -> None:
        """Note what waits as the crawl ends, which the next run finds in *kept_in*, all but *lost*."""
        if self._is_over:
            return
        self._is_over = True
        hosts = set()
        for host, cause, _, requests in self._in_queue_and_downloader():
            self.left[cause] += requests
            hosts.add(host)
        self.hosts_left = len(hosts)
        if kept_in:
            self.kept_in, self.kept = kept_in, max(0, self.left.total() - lost)
        self.queue = None

    def held(self) -> Iterator[Held]:
        """In no order; a host may come more than once."""
        if self._is_over:
            return
        for held in self._in_queue_and_downloader():
            if held.cause != TURN:
                yield held
        for beside, number in list(self._beside.items()):
            yield Held(*beside, number)

    def _in_queue_and_downloader(self) -> Iterator[Held]:
        if self.queue is not None:
            yield from self.queue.held()
        # In the downloader for a host in trouble, as requests of media pipelines do; where no
        # queue of ours holds anything back, also for the delays of hosts.
        keeper, has_queue = self._keeper, self.queue is not None
        if has_queue and not keeper.is_any_parked():
            return
        hosts = Counter(map(keeper.host_of, self._engine.active()))
        for host, number in hosts.items():
            if left := keeper.parked_left(host):
                yield Held(host, PARKED, monotonic() + left, number)
            elif not has_queue and (left := keeper.pace_left(host, behind=False)):
                yield Held(host, PACE, monotonic() + left, number)

    def waiting(self) -> list[Waiting]:
        """What goes on first comes first."""
        since_1970 = time() - monotonic()
        found: dict[tuple[str, str], Held] = {}
        for held in self.held():
            add_held(found, held)
        waiting = (
            Waiting(host, self._why(host, cause), at and at + since_1970, number)
            for host, cause, at, number in found.values()
        )
        return sorted(waiting, key=lambda each: each.until or 0.0)

    def _why(self, host: str, cause: str) -> str:
        words = WHY.get(cause, cause)
        what = self._keeper.parked_by(host) if cause == PARKED else ""
        return f"{words} ({what})" if what else words

    def requests_of(self, *, host: str = "", origin: str = "") -> int:
        return 0 if self.queue is None else self.queue.requests_of(host, origin)

    # Idle: all that the crawl has waits for a time

    def note_idle(self) -> None:
        """Note that the queue has requests, but none to hand out now."""
        seconds = 0.0
        if self.queue is not None and not self._engine.active():
            seconds = self.queue.next_due()
        if seconds <= 0:
            self.note_busy()
        else:
            self.note_waiting()
            self.on_idle(seconds)

    def note_waiting(self) -> None:
        if self._idle_since is None:
            self._idle_since = monotonic()

    def follow_downloader(self, connect: Callable[..., object]) -> None:
        """Note when all that is in the downloader waits, which no queue of ours will tell."""
        starts = self._engine.starts
        starts.on_start.append(self._note_start)
        starts.on_over.append(self._note_over)
        connect(self._note_reached, signals.request_reached_downloader)

    def _note_start(self, departure: Departure) -> None:
        self._under_way += 1
        self.note_busy()

    def _note_over(self, departure: Departure, outcome: Outcome) -> None:
        self._under_way -= departure.is_sent
        active = self._engine.active()
        if len(active) > (departure.request in active):
            self._note_reached()

    def _note_reached(self) -> None:
        if not self._under_way:
            self.note_waiting()

    def idle_for(self) -> float:
        """Seconds for which all hosts have waited; 0: the crawl is busy."""
        return 0.0 if self._idle_since is None else monotonic() - self._idle_since

    def note_busy(self) -> None:
        if self._idle_since is not None:  # which is rare at a hand-out
            self.idle_time += self.idle_for()
            self._idle_since = None


def add_held(found: dict[tuple[str, str], Held], held: Held) -> None:
    """Add *held* to *found*, by host and cause; of two times the earlier one counts."""
    key = held.host, held.cause
    other = found.get(key)
    if other is not None:
        times = [each for each in (held.until, other.until) if each is not None]
        requests = held.requests + other.requests
        held = held._replace(until=min(times, default=None), requests=requests)
    found[key] = held


def in_words(waiting: list[Waiting]) -> str:
    """Return *waiting*, which is not empty, in a line that names those due first."""
    requests = sum(each.requests for each in waiting)
    hosts = len({each.host for each in waiting})
    wait = "waits" if requests == 1 else "wait"
    # Those come last of which nobody knows when they are due.
    in_order = sorted(waiting, key=lambda each: each.until or inf)
    named: set[str] = set()
    by_reason: dict[str, list[str]] = {}
    length = 0
    for each in in_order:
        length += len(_when(each)) + len(", ")
        length += 0 if each.why in by_reason else len(each.why)
        if named and length > NAMES_LENGTH:
            break
        named.add(each.host)
        by_reason.setdefault(each.why, []).append(_when(each))
    parts = [f"{', '.join(found)} ({why})" for why, found in by_reason.items()]
    if more := hosts - len(named):
        parts.append(f"{more:,} more, all of them in spider.robots.waiting()")
    return (
        f"{counted(requests, 'request')} of {counted(hosts, 'host')} {wait}; next: "
        f"{'; '.join(parts)}"
    )


def _when(each: Waiting) -> str:
    if each.until is None:
        return each.host
    return f"{each.host} in {duration(max(0.0, each.until - time()))}"
