"""The slots of a polite queue, and where each of them is."""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from heapq import heapify, heappop, heappush
from math import inf
from random import randrange
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.queue.lines import Line


class Where(Enum):
    """Where a slot is; always in one place."""

    DUE = auto()
    """As far as we know it may be asked now."""
    LATER = auto()
    """It may not be asked before a time."""
    UNKNOWN = auto()
    """A policy is not known, and was not asked for yet."""
    ASKED = auto()
    """A policy is being asked for."""
    FULL = auto()
    """It has no free place."""
    GONE = auto()
    """Nothing waits in it any more."""


DUE, LATER = Where.DUE, Where.LATER
"""By these names, as each pop needs them: a member of an ``Enum`` is looked up twenty times
as slowly before Python 3.12."""


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
        self.heap: list[tuple[float, int, Slot]] = []
        """When each is due, its ticket, and the slot; of those, too, that are due since."""
        self._tickets = 0

    def __len__(self) -> int:
        return len(self.heap)

    def __iter__(self) -> Iterator[Slot]:
        return (slot for *_, slot in filter(self._is_held, self.heap))

    def add(self, slot: Slot, wait: float, slots: int) -> None:
        """Let *slot*, one of *slots* in all, wait for *wait* seconds."""
        slot.where = LATER
        slot.due_at = monotonic() + wait
        self._tickets += 1
        slot.ticket = self._tickets
        if len(self.heap) > 2 * slots + 16:  # most entries were replaced
            self.heap = [*filter(self._is_held, self.heap)]
            heapify(self.heap)
        heappush(self.heap, (slot.due_at, slot.ticket, slot))

    def left(self) -> float:
        """Return the seconds until the next slot may be due; ``inf``: none waits."""
        return self.heap[0][0] - monotonic() if self.heap else inf

    def take_due(self) -> Iterator[Slot]:
        now = monotonic()
        while self.heap and self.heap[0][0] <= now:
            place = heappop(self.heap)
            if self._is_held(place):
                yield place[-1]

    def clear(self) -> None:
        self.heap.clear()

    @staticmethod
    def _is_held(place: tuple[float, int, Slot]) -> bool:
        _, ticket, slot = place
        return slot.where is LATER and slot.ticket == ticket


class Slots:
    """All slots with requests, each in the one place that its ``where`` names.

    A ``deque`` may hold slots that have gone elsewhere since: they are skipped.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Slot] = {}
        self.due: deque[Slot] = deque()
        self.later = Later()
        self.unknown: deque[Slot] = deque()
        self.full: deque[Slot] = deque()

    def get(self, name: str) -> Slot:
        """Return the slot of this *name*, a new one if there is none."""
        return self.by_name.get(name) or self.by_name.setdefault(name, Slot(name))

    def make_due(self, slot: Slot) -> None:
        """Let *slot* be looked at again in its turn."""
        if slot.where is not DUE:
            self.put(slot, DUE)

    def put(self, slot: Slot, where: Where) -> None:
        """Put *slot* at the end of the place *where*."""
        slot.where = where
        if where is DUE:
            self.due.append(slot)
        elif where is Where.UNKNOWN:
            self.unknown.append(slot)
        elif where is Where.FULL:
            self.full.append(slot)

    def park(self, slot: Slot, wait: float) -> None:
        """Let *slot* wait for *wait* seconds."""
        self.later.add(slot, wait, len(self.by_name))

    def discard(self, slot: Slot) -> None:
        slot.where = Where.GONE
        del self.by_name[slot.name]

    def take_due(self) -> Slot | None:
        """Take out the slot that has been due for longest; ``None``: none is due."""
        while self.due:
            slot = self.due.popleft()
            if slot.where is DUE:  # else it has gone elsewhere since
                return slot
        return None

    def take_unknown(self, *, any_of_them: bool) -> Slot | None:
        """Take out a slot with an unknown policy; ``None``: there is none.

        *any_of_them*: a random one, so that a slot behind hundreds of hosts that hang need
        not wait until all of those were asked.
        """
        if any_of_them and self.unknown:
            place = randrange(len(self.unknown))  # noqa: S311
            self.unknown[0], self.unknown[place] = self.unknown[place], self.unknown[0]
        while self.unknown:
            slot = self.unknown.popleft()
            if slot.where is Where.UNKNOWN:
                return slot
        return None

    def clear(self) -> None:
        for slot in self.by_name.values():
            slot.where = Where.GONE
        for place in (self.by_name, self.due, self.later, self.unknown, self.full):
            place.clear()
