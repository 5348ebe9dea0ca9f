"""What waits in a polite queue: slots, and the lines of requests in each."""

from __future__ import annotations

from enum import Enum, auto
from hashlib import sha256
from heapq import heapify, heappop, heappush
from math import inf
from random import randrange
from time import monotonic
from typing import TYPE_CHECKING

from scrapy import Request

from scrapy_rep.judging import judged

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator

    from scrapy.pqueues import ScrapyPriorityQueue

    from scrapy_rep.judging import Agents
    from scrapy_rep.protocol import Agent

    Key = tuple[str | None, Agent, str, bool, str]
    """Origin, agent, the User-Agent that is sent, whether the HTTP cache was asked, and the
    host whose pace is kept."""


UNJUDGED: Key = (None, "", "", False, "")
"""Of requests that are not judged."""


class Where(Enum):
    """Where a slot is; always in one place."""

    DUE = auto()
    """It may be asked as far as we know."""
    LATER = auto()
    """Not before a time."""
    UNKNOWN = auto()
    """A policy is not known, and nobody has asked for it yet."""
    ASKED = auto()
    """Somebody has."""
    FULL = auto()
    """It has no free place."""
    GONE = auto()
    """Nothing waits in it any more."""


class Line:
    """Requests of one slot, origin, host and agent: what holds one holds all."""

    __slots__ = (
        "ask_ahead",
        "asked",
        "count",
        "held_by",
        "held_since",
        "held_until",
        "key",
        "mixed",
        "name",
        "place",
        "queue",
    )

    def __init__(
        self, name: str, key: Key, queue: ScrapyPriorityQueue, *, mixed: bool
    ) -> None:
        self.name = name
        self.key = key
        self.place: object = key  # among the lines of its slot
        self.queue = queue
        self.count = len(queue)
        self.mixed = mixed  # out of a job directory: only its next request is known
        self.asked = False  # its policy is being asked for
        self.held_by = ""  # the cause for which it waited when that was looked at
        self.held_since = 0.0
        self.held_until = 0.0  # 0: nobody knows
        self.ask_ahead = True  # False: somebody has, for the next request

    def page(self) -> Request | None:
        return page_of(self.key)

    @property
    def host(self) -> str:
        return self.key[4]

    @property
    def urgency(self) -> int:
        """Scrapy's priority, negated: the lowest goes first."""
        priority = self.queue.curprio
        return 0 if priority is None else priority


class Slot:
    """What waits for one download slot."""

    __slots__ = ("due_at", "lines", "name", "ticket", "where")

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[object, Line] = {}  # by place; of equal urgency, in turns
        self.where = Where.GONE
        self.ticket = 0  # of its place in ``Later``
        self.due_at = 0.0  # when it was to leave that; 0: it was not there

    def by_urgency(self) -> list[Line]:
        lines = list(self.lines.values())
        if len(lines) > 1:
            lines.sort(key=lambda line: line.urgency)
        return lines


class Later:
    """The slots that wait for a time."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Slot]] = []
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Slot]:
        return (slot for *_, slot in filter(self._is_held, self._heap))

    def add(self, slot: Slot, wait: float, slots: int) -> None:
        """Have *slot*, one of so many *slots*, wait for so many seconds."""
        slot.where = Where.LATER
        slot.due_at = monotonic() + wait
        self._tickets += 1
        slot.ticket = self._tickets
        if len(self._heap) > 2 * slots + 16:  # of slots that are due since
            self._heap = [*filter(self._is_held, self._heap)]
            heapify(self._heap)
        heappush(self._heap, (slot.due_at, slot.ticket, slot))

    def left(self) -> float:
        """Return the seconds until the next one may be due; ``inf``: none waits."""
        return self._heap[0][0] - monotonic() if self._heap else inf

    def take_due(self) -> Iterator[Slot]:
        now = monotonic()
        while self._heap and self._heap[0][0] <= now:
            place = heappop(self._heap)
            if self._is_held(place):
                yield place[-1]

    def clear(self) -> None:
        self._heap.clear()

    @staticmethod
    def _is_held(place: tuple[float, int, Slot]) -> bool:
        _, ticket, slot = place
        return slot.where is Where.LATER and slot.ticket == ticket


def key_of(request: Request, agents: Agents, host: str) -> Key:
    """Return what tells which requests of a slot wait for the same as *request*.

    *host* is whose pace it keeps.
    """
    try:
        found = judged(request)
        if found is not None:
            return found[1], agents.of(request), agents.header(request), False, host
    except ValueError:  # the middleware will say what is wrong
        pass
    return (*UNJUDGED[:4], host)


def page_of(key: Key) -> Request | None:
    """Return a request that is judged as those of *key* are; ``None``: they are not."""
    origin, _, user_agent, *_ = key
    if origin is None:
        return None
    return Request(origin, headers={"User-Agent": user_agent})


def slot_in(name: str) -> str:
    """Return the slot of a line that is called *name*."""
    return name.partition("\n")[0]


def line_name(slot: str, key: Key) -> str:
    """Return what a line is called in a job directory, if *slot* has another one."""
    return f"{slot}\n{sha256(repr(key).encode()).hexdigest()[:16]}"


def bring_any_forward(slots: deque[Slot]) -> None:
    """Have any one of *slots* come next.

    Who stands behind hundreds of hosts that hang need not wait until all these are asked.
    """
    place = randrange(len(slots))  # noqa: S311
    slots[0], slots[place] = slots[place], slots[0]
