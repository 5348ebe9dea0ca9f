"""Which hosts are due, and what the others wait for."""

from __future__ import annotations

from collections import OrderedDict, deque
from heapq import heapify, heappop, heappush
from math import inf
from random import randrange
from time import monotonic
from typing import TYPE_CHECKING

from scrapy_rep.frontier.places import Where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_rep.frontier.places import HostQueue

DUE, LATER = Where.DUE, Where.LATER
"""By these names, as each pop needs them: a member of an ``Enum`` is looked up twenty times
as slowly before Python 3.12."""


class Schedule:
    """All host queues in which something waits, each in the one place that its ``where`` names.

    A ``deque`` or a heap may hold queues that have gone elsewhere since: they are skipped. So
    each step takes O(log n) for n queues, and most take O(1).
    """

    def __init__(self) -> None:
        self.due: deque[HostQueue] = deque()
        self.unknown: deque[HostQueue] = deque()
        self.full: OrderedDict[str, deque[HostQueue]] = OrderedDict()
        """By download slot, as a slot may be full for many hosts at once."""
        self.later: list[tuple[float, int, HostQueue]] = []
        """A heap: when each is due, its ticket, and the queue."""
        self._tickets = 0

    def put(self, queue: HostQueue, where: Where) -> None:
        """Put *queue* at the end of the place *where*."""
        queue.where = where
        if where is DUE:
            self.due.append(queue)
        elif where is Where.UNKNOWN:
            self.unknown.append(queue)
        elif where is Where.FULL:
            self.full.setdefault(queue.slot, deque()).append(queue)

    def make_due(self, queue: HostQueue) -> None:
        """Let *queue* be looked at again in its turn."""
        if queue.where is not DUE:
            self.put(queue, DUE)

    def take_due(self) -> HostQueue | None:
        """Take out the queue that has been due for longest; ``None``: none is due."""
        while self.due:
            queue = self.due.popleft()
            if queue.where is DUE:
                return queue
        return None

    # Those that wait for a time

    def park(self, queue: HostQueue, wait: float, queues: int) -> None:
        """Let *queue*, one of *queues* in all, wait for *wait* seconds."""
        queue.where = LATER
        queue.due_at = monotonic() + wait
        self._tickets += 1
        queue.ticket = self._tickets
        if len(self.later) > 2 * queues + 16:  # most entries were replaced
            self.later = [*filter(_is_held, self.later)]
            heapify(self.later)
        heappush(self.later, (queue.due_at, queue.ticket, queue))

    def left(self) -> float:
        """Return the seconds until the next queue may be due; ``inf``: none waits."""
        return self.later[0][0] - monotonic() if self.later else inf

    def wake_due(self) -> None:
        """Let those whose time has come be looked at."""
        later, now = self.later, monotonic()
        while later and later[0][0] <= now:
            entry = heappop(later)
            if _is_held(entry):
                self.put(entry[2], DUE)

    def latest(self) -> Iterator[HostQueue]:
        """Return those that wait for a time, the one that waits for longest first."""
        return (
            queue
            for *_, queue in sorted(self.later, reverse=True)
            if queue.where is LATER
        )

    # Those without a free place

    def recheck_full(self, most: int, is_free: Callable[[HostQueue], bool]) -> None:
        """Let one queue of up to *most* slots be looked at, if it has a free place now."""
        for _ in range(min(most, len(self.full))):
            slot, waiting = self.full.popitem(last=False)
            for _ in range(len(waiting)):
                queue = waiting.popleft()
                if queue.where is not Where.FULL:
                    continue
                if is_free(queue):
                    self.put(queue, DUE)
                    break
                waiting.append(queue)
            if waiting:
                self.full[slot] = waiting

    # Those without a policy

    def take_unknown(self, *, any_of_them: bool) -> HostQueue | None:
        """Take out a queue with an unknown policy; ``None``: there is none.

        *any_of_them*: a random one, so that a queue behind hundreds of hosts that hang need
        not wait until all of those were asked.
        """
        if any_of_them and self.unknown:
            place = randrange(len(self.unknown))  # noqa: S311
            self.unknown[0], self.unknown[place] = self.unknown[place], self.unknown[0]
        while self.unknown:
            queue = self.unknown.popleft()
            if queue.where is Where.UNKNOWN:
                return queue
        return None


def _is_held(entry: tuple[float, int, HostQueue]) -> bool:
    _, ticket, queue = entry
    return queue.where is LATER and queue.ticket == ticket
