"""Which hosts are due, and what the others wait for; whose robots.txt is asked for ahead of need."""

from __future__ import annotations

from collections import OrderedDict, deque
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from random import randrange
from time import monotonic
from typing import TYPE_CHECKING

from scrapy_rep.frontier.places import Where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_rep.frontier.permits import Permits
    from scrapy_rep.frontier.places import HostQueue, Place, Places

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
        """A heap: when each is due, a number that no other has, and the queue."""
        self._numbers = count()

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
        """Let *queue* be looked at again in its turn, once it has a free place."""
        if not (queue.where is DUE or queue.where is Where.FULL):
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
        if len(self.later) > 2 * queues + 16:  # most entries were replaced
            self.later = [*filter(_is_held, self.later)]
            heapify(self.later)
        heappush(self.later, (queue.due_at, next(self._numbers), queue))

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
        return (each[2] for each in sorted(self.later, reverse=True) if _is_held(each))

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


def _is_held(entry: tuple[float, int, HostQueue]) -> bool:
    due_at, _, queue = entry
    return queue.where is LATER and queue.due_at == due_at


class Ahead:
    """Has policies asked for on behalf of what waits: they are known, or on their way, in time."""

    def __init__(self, permits: Permits, schedule: Schedule, places: Places) -> None:
        self._permits = permits
        self._schedule = schedule
        self._places = places
        self.asked = 0
        """How many policies are being asked for."""
        self._asks = 0  # those that ever were

    def look(self) -> None:
        """Ask for policies that are not known, as many at a time as may be."""
        schedule, policies = self._schedule, self._permits.policies
        unknown = schedule.unknown
        while unknown and policies is not None:
            bound = policies.bound
            if self.asked >= self._permits.most_asked + bound.slow:
                return
            self._asks += 1
            if bound.hosts_hang and self._asks % 2:
                # So that a host behind hundreds that hang need not wait until all were asked.
                unknown.rotate(randrange(len(unknown)))  # noqa: S311
            queue = unknown.popleft()
            if queue.where is not Where.UNKNOWN:
                continue
            queue.where = Where.ASKED
            for place in queue.places:
                if self._permits.hold_of(place) is Where.UNKNOWN:
                    self._ask(place)
                    if len(queue.places) > 1:
                        schedule.make_due(queue)  # another place may go meanwhile
                    break
            else:  # known by now
                schedule.make_due(queue)

    def _ask(self, place: Place) -> None:
        page = self._places.next_of(place) or place.page()
        assert page is not None
        assert place.key is not None
        self.asked += 1
        place.asked = True
        policies = self._permits.policies
        assert policies is not None
        asking = policies.ask(place.key[0] or "", page, ahead=True)

        def answered(_: object) -> None:
            self.asked -= 1
            # If the answer must not be kept, or is forgotten before the host is due, asking
            # again would send requests for robots.txt and nothing else.
            place.asked = place.ask_ahead = False
            if place.queue.where is not Where.GONE:
                self._schedule.make_due(place.queue)
            self._permits.wake()

        asking.addBoth(answered)

    def promised(self) -> int:
        """Return how many free places are promised to requests whose policies are asked for.

        A policy that takes long has a place lent, and its requests are promised none.
        """
        if self._permits.policies is None or not self.asked:
            return 0
        bound = self._permits.policies.bound
        return self.asked - bound.slow + bound.prompt
