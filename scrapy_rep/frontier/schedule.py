"""Which hosts are due, and what the others wait for; whose robots.txt is asked for ahead of need."""

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

    from scrapy import Request

    from scrapy_rep.frontier.permits import Permits
    from scrapy_rep.frontier.places import HostQueue, Place

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


class Ahead:
    """Has policies asked for on behalf of what waits: they are known, or on their way, in time."""

    def __init__(
        self,
        permits: Permits,
        schedule: Schedule,
        next_of: Callable[[Place], Request | None],
    ) -> None:
        """*next_of* returns the next request of a place; ``None``: none is at hand."""
        self._permits = permits
        self._schedule = schedule
        self._next_of = next_of
        self.asked = 0
        """How many policies are being asked for."""
        self._asks = 0  # those that ever were

    def look(self) -> None:
        """Ask for policies that are not known, as many at a time as may be."""
        schedule, permits = self._schedule, self._permits
        while schedule.unknown and permits.may_ask(self.asked):
            self._asks += 1
            any_of_them = bool(self._asks % 2) and permits.hosts_hang()
            queue = schedule.take_unknown(any_of_them=any_of_them)
            if queue is None:
                return
            queue.where = Where.ASKED
            for place in queue.places:
                if not place.asked and not permits.is_known(place):
                    self._ask(place)
                    if len(queue.places) > 1:
                        schedule.make_due(queue)  # another place may go meanwhile
                    break
            else:  # known by now
                schedule.make_due(queue)

    def _ask(self, place: Place) -> None:
        self.asked += 1
        place.asked = True
        asking = self._permits.ask(place, self._next_of(place))

        def answered(_: object) -> None:
            self.asked -= 1
            # If the answer must not be kept, or is forgotten before the host is due, asking
            # again would send requests for robots.txt and nothing else.
            place.asked = place.ask_ahead = False
            if place.queue.where not in {Where.GONE, Where.FULL}:
                self._schedule.make_due(place.queue)
            self._permits.wake()

        asking.addBoth(answered)
