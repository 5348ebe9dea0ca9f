"""What is known of one host, and of the whole crawl over time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from scrapy_rep.evidence.report.gaps import Gaps

MAX_ORIGINS = 8
"""Origins that are kept of one host; most have one, or http and https."""
MAX_URLS = 3
"""URLs that are kept of the requests that one rule refused."""
MAX_CHARACTERS = 200
"""Characters of a text from the web that are kept; a robots.txt is kept as it is."""
MAX_PARTS = 120
"""Parts of the time of a crawl; an even number."""
PAGES_SENT, ROBOTS_SENT, REFUSALS = range(3)
WELL, MISSING, FAILING, SILENT, BACK_OFFS = range(5)
"""Answers: 2xx and 3xx, 4xx, 429 and 5xx, none; and that a host is left alone."""
WAIT_CAUSES = ("pace", "asked", "parked", "unreachable", "visit_time", "other")
OTHER = "other"
"""Counts all beyond those that are counted by name."""
MAX_NOTES = 6
"""Kinds of answers, and of pauses, that are kept of one host."""
MAX_WAITS = 3
"""The last waits that are."""


@dataclass(slots=True)
class Copy:
    """What was last learned about the robots.txt of an origin."""

    state: str
    status: int | None
    url: str | None
    fetched: float | None
    digest: str | None
    failure: str | None
    """Why it could not be had, maybe since this copy came."""
    text: str | None = None
    """The digest of the last text that came; *digest* is None if it could not be had since."""
    changes: int = 0
    """How often the text has changed."""
    placed: bool = False
    """Whether a host is known that it belongs to."""


@dataclass(slots=True, frozen=True)
class Why:
    """Why requests of one host were refused; all that one rule refused share it."""

    cause: str
    rule: str | None
    line: int | None
    digest: str | None
    enforced: bool
    """False: they were sent all the same, as REP_OBEY leaves it out."""


@dataclass(slots=True)
class Refusals:
    """Requests of one host that were refused for one reason."""

    reason: str
    group: str
    count: int = 0
    urls: list[str] = field(default_factory=list)


class Wait(NamedTuple):
    """Requests of one host have begun to wait."""

    time: float
    cause: str
    until: float | None
    requests: int


@dataclass(slots=True)
class Host:
    """One host, which keeps one pace, by whatever download slots it was asked."""

    name: str
    origins: list[str] = field(default_factory=list)
    origins_left_out: int = 0
    """Requests of origins beyond MAX_ORIGINS."""
    allowed: int = 0
    by_rule: int = 0
    otherwise: int = 0
    """Requests that were refused, but not by a rule."""
    sent_anyway: int = 0
    sent: int = 0
    robots: int = 0
    """Requests for robots.txt, which ``sent`` does not count."""
    last: float | None = None
    """When the last request was sent."""
    delay: float = 0.0
    """Seconds, as last asked for; 0: none."""
    least: float | None = None
    most: float = 0.0
    """The smallest and greatest delay that was asked for; None: nothing was."""
    delays: dict[str | None, float] | None = None
    """By origin, where there are several."""
    gaps: Gaps | None = None
    refusals: dict[Why, Refusals] | None = None
    not_itemised: int = 0
    """Refusals beyond those that are kept with their rules."""
    results: Counter[str] | None = None
    """Answers by status, or kind of error."""
    failed: int = 0
    """Of those, 429, 5xx and errors."""
    back_offs: int = 0
    """How often it was left alone."""
    left_alone: float = 0.0
    """For how many seconds in all."""
    left_alone_until: float = 0.0
    troubles: Counter[str] | None = None
    """Why: the answers, such as "503"."""
    waits: list[Wait] | None = None

    def take_result(self, result: str, *, failed: bool) -> None:
        """Take what a request was answered."""
        if self.results is None:
            self.results = Counter()
        count_up_to(MAX_NOTES, self.results, result)
        self.failed += failed

    def take_back_off(self, time: float, seconds: float, what: str) -> None:
        """Take that it is left alone from *time* on."""
        if self.troubles is None:
            self.troubles = Counter()
        count_up_to(MAX_NOTES, self.troubles, what)
        self.back_offs += 1
        until = max(self.left_alone_until, time + seconds)
        self.left_alone += until - max(self.left_alone_until, time)
        self.left_alone_until = until

    def take_wait(self, wait: Wait) -> None:
        self.waits = [*(self.waits or ())[-MAX_WAITS + 1 :], wait]

    @property
    def refused(self) -> int:
        return self.by_rule + self.otherwise

    @property
    def short(self) -> int:
        return self.gaps.short if self.gaps else 0

    def add_origin(self, origin: str) -> None:
        if origin in self.origins:
            return
        if len(self.origins) < MAX_ORIGINS:
            self.origins.append(origin)
        else:
            self.origins_left_out += 1

    def take_delay(self, origin: str | None, delay: float) -> None:
        """Take the delay that a decision names."""
        if delay:
            self.least = delay if self.least is None else min(self.least, delay)
            self.most = max(self.most, delay)
        if self.delays is not None or (delay != self.delay and len(self.origins) > 1):
            if self.delays is None:
                self.delays = dict.fromkeys(self.origins, self.delay)
            # Of origins beyond those that are kept, the slowest counts.
            name = origin if origin in self.origins else None
            before = 0.0 if name else self.delays.get(None, 0.0)
            self.delays[name] = max(delay, before)
        self.delay = delay

    @property
    def interval(self) -> float:
        """Return the seconds to keep between two requests: the longest of all origins."""
        return self.delay if self.delays is None else max(self.delays.values())

    def take_start(self, time: float) -> bool:
        """Take the time of a request; ``False``: it is before the last one's."""
        last, self.last = self.last, time
        if last is None:
            return True
        if time < last:
            return False
        if self.gaps is None:
            self.gaps = Gaps()
        self.gaps.add(time, time - last, self.interval)
        return True


def count_up_to(most: int, counts: Counter[str], name: str) -> None:
    """Count *name*, or where there are *most* others already, "other"."""
    counts[name if name in counts or len(counts) < most else OTHER] += 1


class Timeline:
    """Counts over the time of the whole crawl, in at most MAX_PARTS parts of equal length."""

    def __init__(self, kinds: int) -> None:
        self.start = 0.0
        self.width = 0.125
        """Seconds of one part."""
        self.counts: list[list[int]] = []
        """For each part, that of each kind."""
        self._none = [0] * kinds

    def add(self, time: float, what: int) -> None:
        part = self.reach(time)
        self.counts[part][what] += 1

    def reach(self, time: float) -> int:
        """Extend the timeline to *time* if need be; return the number of the part it falls into."""
        if not self.counts:
            self.start = time // self.width * self.width
        # What comes too late to be in order belongs to the start, rather than nowhere.
        part = max(0, int((time - self.start) // self.width))
        while part >= MAX_PARTS:
            counts = self.counts
            if len(counts) % 2:
                counts.append(self._of_next())
            self.counts = [
                self._join(counts[at], counts[at + 1])
                for at in range(0, len(counts), 2)
            ]
            self.width *= 2
            part //= 2
        while len(self.counts) <= part:
            self.counts.append(self._of_next())
        return part

    def _of_next(self) -> list[int]:
        return self._none[:]

    def _join(self, one: list[int], other: list[int]) -> list[int]:
        return [sum(pair) for pair in zip(one, other, strict=True)]


class Levels(Timeline):
    """The level of each kind, until it changes; a part shows the moment with the highest sum."""

    def __init__(self, kinds: int) -> None:
        super().__init__(kinds)
        self._now = [0] * kinds
        self._of_file: dict[tuple[int, int], int] = {}

    def set(self, time: float, file: int, what: int, level: int) -> None:
        """Note that a *file*, which stands for a worker, has so much of a kind now."""
        part = self.reach(time)
        self._now[what] += level - self._of_file.get((file, what), 0)
        self._of_file[file, what] = level
        self.counts[part] = self._join(self.counts[part], self._now[:])

    def end(self, time: float, file: int) -> None:
        """Note that a worker has ended."""
        for what in range(len(self._now)):
            if self._of_file.get((file, what)):
                self.set(time, file, what, 0)

    def _of_next(self) -> list[int]:
        return self._now[:]

    def _join(self, one: list[int], other: list[int]) -> list[int]:
        return max(one, other, key=sum)
