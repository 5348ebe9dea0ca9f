"""Places: the requests of one host that whatever holds one of them holds all.

Of each place, some requests are at hand, and the others behind them in the ledger.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from hashlib import sha256
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from scrapy_rep.frontier.ledger import FIRST, LAST, HostQueue, Place, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request, Spider

    from scrapy_rep.frontier.ledger import Entry, Key, Ledger, Where
    from scrapy_rep.frontier.permits import Permits

MOST_OCTETS_AT_HAND = 16 * 2**20
"""Octets of requests at hand that the ledger has, too."""
WINDOW = 20_000
"""So many places are known at a time; what waits in others is known to the ledger alone."""
FEW_AT_HAND = 4
"""Requests of a place that are read at a time while there are many octets at hand."""


class Places:
    """All places in which something waits, when their hosts are looked at, and what is at hand.

    What is at hand stays bounded, if ``Ledger.fill`` can bring it again; other requests are nowhere
    else. The deques and the heap may hold queues that have gone elsewhere since: they are
    skipped. So each step takes O(log n) for n queues, and most take O(1).
    """

    enter: Callable[[Place], None]
    """Called with a place in which something waits again."""

    def __init__(self, permits: Permits, ledger: Ledger, spider: Spider) -> None:
        self._permits = permits
        self._ledger = ledger
        self._spider = spider
        self._queues: dict[tuple[str, str], HostQueue] = {}
        self._number = 0
        self.count = 0
        """How many requests wait in all of them."""
        self.octets = 0
        """Of those at hand that are in the form in which they are kept."""
        self.due: deque[HostQueue] = deque()
        self.unknown: deque[HostQueue] = deque()
        self.full: OrderedDict[str, deque[HostQueue]] = OrderedDict()
        """By download slot, as a slot may be full for many hosts at once."""
        self.later: list[tuple[float, int, HostQueue]] = []
        """A heap: when each is due, a number that no other has, and the queue."""
        self._numbers = count()

    def __iter__(self) -> Iterator[Place]:
        # A copy: who asks may take several turns of the event loop.
        for queue in self.queues():
            yield from list(queue.places)

    def __len__(self) -> int:
        return self._number

    def queues(self) -> list[HostQueue]:
        return list(self._queues.values())

    # Which place

    def of(self, request: Request) -> Place:
        """Return the place of *request*, a new one if nothing waits there."""
        host, slot, key = self._permits.host_slot_key(request)
        part = self._ledger.part_of(host, request.url)
        queue = self._queues.get((host, slot))
        if queue is not None:
            for place in queue.places:
                if place.key == key and place.part == part:
                    return place
        name = ""
        if self._ledger.outlives:
            name = self._name_of(host, slot, key, part)
            if (named := self._find(queue, name)) is not None:  # its key was not known
                named.key = key
                return named
        return self._add(queue or HostQueue(host, slot), key, part, name)

    def named(self, name: str) -> Place:
        """Return the place of this *name*, a new one if nothing waits there."""
        host, origin, slot, own, part = _parts_of(name)
        queue = self._queues.get((host, slot))
        if (place := self._find(queue, name)) is None:
            key = None if own else (origin or None, *self._permits.usual(origin), False)
            place = self._add(queue or HostQueue(host, slot), key, part, name)
            place.was_named = True
        return place

    def has(self, name: str) -> bool:
        """Tell whether something waits in the place of this *name*."""
        host, _, slot, *_ = _parts_of(name)
        return self._find(self._queues.get((host, slot)), name) is not None

    def current(self, place: Place) -> Place:
        """Return *place* or, if it was forgotten, one of its name that is not."""
        return self.named(place.name) if place.is_gone else place

    def discard(self, place: Place) -> None:
        """Forget *place* and its requests, and its queue with the last place of that."""
        if place.is_gone:
            return
        self.count -= place.count
        self.octets -= sum(map(_size, place.hand))
        place.hand, place.behind = [], 0
        queue = place.queue
        queue.places.remove(place)
        place.is_gone = True
        self._number -= 1
        if not queue.places:
            del self._queues[queue.host, queue.slot]
            queue.where = "gone"

    def _find(self, queue: HostQueue | None, name: str) -> Place | None:
        places = () if queue is None else queue.places
        return next((place for place in places if place.name == name), None)

    def _add(self, queue: HostQueue, key: Key | None, part: str, name: str) -> Place:
        place = Place(queue, key, part, name)
        self._queues[queue.host, queue.slot] = queue
        queue.places.append(place)
        self._number += 1
        return place

    def _name_of(self, host: str, slot: str, key: Key, part: str) -> str:
        origin, agent, header, was_looked_up = key
        own = ""
        if was_looked_up or (agent, header) != self._permits.usual(origin):
            own = sha256(repr(key[1:]).encode()).hexdigest()[:12]
        other = "" if slot == host else slot.replace("\n", " ")
        return "\n".join((host, origin or "", other, own, part)).rstrip("\n")

    # What comes, as a ledger tells

    def arrive(self, place: Place, entry: Entry) -> bool:
        """Take a new request to hand; ``False``: the ledger alone knows of it.

        That is so if it can be read from the ledger, as its entry has octets, while the window is
        full and nothing waits in *place* as far as is known. What can be read comes to hand only if
        it is one of the first.
        """
        place, size = self.current(place) if place.is_gone else place, _size(entry)
        is_new = not (place.hand or place.behind)
        if size and is_new and self._number > WINDOW:
            self.discard(place)
            return False
        self.count += 1
        if size and place.behind and entry[:2] >= place.edge:
            place.behind += 1
            return True
        heappush(place.hand, entry)
        if size:
            self.octets += size
            self._shed_if_need_be(place)
        if is_new:
            self.enter(place)
        return True

    def found(self, place: Place, number: int) -> None:
        """Note that *number* more requests of *place* wait in the ledger, of any urgency."""
        place = self.current(place)
        is_new = not (place.hand or place.behind)
        place.behind += number
        place.edge = FIRST
        self.count += number
        if is_new:
            self.enter(place)

    def fill(self, place: Place) -> None:
        """Have requests of *place* come."""
        if place.behind and not place.filling:
            place.filling = True
            many = self.octets < MOST_OCTETS_AT_HAND // 2
            self._ledger.fill(place, self._ledger.at_hand if many else FEW_AT_HAND)

    def came(self, place: Place, entries: list[Entry], left: int | None = None) -> None:
        """Take what ``fill`` has asked for to hand, in ascending order.

        *left*: so many are behind them; ``None``: as many as were known before, less these. No
        *entries*: none is left.
        """
        place.filling = False
        if entries:  # else it may have been dropped, as nothing was left in the ledger
            place = self.current(place)
        if place.is_gone:
            return
        if left is None or not entries:
            left = max(0, place.behind - len(entries)) if entries else 0
        self.count += left + len(entries) - place.behind
        place.behind = left
        for entry in entries:
            heappush(place.hand, entry)
            self.octets += _size(entry)
        place.edge = entries[-1][:2] if left else LAST
        self._shed_if_need_be(place)
        if place.count:
            self.make_due(place.queue)
        else:
            self.discard(place)

    # What goes

    def next_of(self, place: Place) -> Request | None:
        """Return the next request at hand, read now if need be; ``None``: there is none.

        Those that cannot be read stay in the ledger, as if they were taken for good.
        """
        while place.hand:
            rank, order, id_, body = place.hand[0]
            if not isinstance(body, bytes):
                return body
            self.octets -= len(body)
            try:
                request = unpacked(body, self._spider)
            except Exception as error:  # noqa: BLE001 - whatever comes of what was stored
                self._permits.events.tell_failure(
                    f"A request of {place.host or 'no host'} cannot be read", error
                )
                heappop(place.hand)
                self.count -= 1
                self._ledger.note_unreadable(place, id_)
                self._permits.events.count("unreadable")
            else:
                place.hand[0] = rank, order, id_, request
                return request
        return None

    def _leave(self, place: Place, keep: int) -> None:
        """Leave all but the first *keep* at hand to the ledger, if it has them, too."""
        hand = sorted(place.hand, key=lambda entry: entry[:2])
        gone = [entry for entry in hand[keep:] if entry[2] is not None]
        if gone:
            place.hand = hand[:keep] + [each for each in hand[keep:] if each[2] is None]
            self.octets -= sum(map(_size, gone))
            place.behind += len(gone)
            place.edge = min(place.edge, gone[0][:2])

    def _shed_if_need_be(self, kept: Place) -> None:
        """Where that is too much, leave to the ledger what is at hand, but the first of *kept*."""
        if self.octets > MOST_OCTETS_AT_HAND and self._ledger.sheds:
            for place in self:
                if not place.filling:
                    self._leave(place, self._ledger.at_hand if place is kept else 0)

    # When each host is looked at

    def put(self, queue: HostQueue, where: Where) -> None:
        """Put *queue* at the end of the place *where*."""
        queue.where = where
        if where == "due":
            self.due.append(queue)
        elif where == "unknown":
            self.unknown.append(queue)
        elif where == "full":
            self.full.setdefault(queue.slot, deque()).append(queue)

    def make_due(self, queue: HostQueue) -> None:
        """Let *queue* be looked at again in its turn, once it has a free place."""
        if queue.where not in {"due", "full"}:
            self.put(queue, "due")

    def take_due(self) -> HostQueue | None:
        """Take out the queue that has been due for longest; ``None``: none is due."""
        while self.due:
            queue = self.due.popleft()
            if queue.where == "due":
                return queue
        return None

    def park(self, queue: HostQueue, wait: float) -> None:
        """Let *queue* wait for *wait* seconds."""
        queue.where = "later"
        queue.due_at = monotonic() + wait
        if len(self.later) > 2 * self._number + 16:  # most entries were replaced
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
                self.put(entry[2], "due")

    def latest(self) -> Iterator[HostQueue]:
        """Return those that wait for a time, the one that waits for longest first."""
        return (each[2] for each in sorted(self.later, reverse=True) if _is_held(each))

    def recheck_full(self, most: int) -> None:
        """Let one queue of up to *most* slots be looked at, if it has a free place now."""
        for _ in range(min(most, len(self.full))):
            slot, waiting = self.full.popitem(last=False)
            for _ in range(len(waiting)):
                queue = waiting.popleft()
                if queue.where != "full":
                    continue
                if self._permits.slot_left(queue) < inf:
                    self.put(queue, "due")
                    break
                waiting.append(queue)
            if waiting:
                self.full[slot] = waiting


def _is_held(entry: tuple[float, int, HostQueue]) -> bool:
    due_at, _, queue = entry
    return queue.where == "later" and queue.due_at == due_at


def _size(entry: Entry) -> int:
    """Return the octets of a request that is at hand in the form in which it is kept."""
    return len(entry[3]) if isinstance(entry[3], bytes) else 0


def _parts_of(name: str) -> tuple[str, str, str, str, str]:
    """Return host, origin, download slot, what tells a strange agent, and part."""
    host, origin, slot, own, part = (name.split("\n") + [""] * 4)[:5]
    return host, origin, slot or host, own, part
