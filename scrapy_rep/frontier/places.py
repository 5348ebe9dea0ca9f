"""Places: the requests of one host that whatever holds one of them holds all."""

from __future__ import annotations

from enum import Enum, auto
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Any

from scrapy import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.frontier.ledger import Entry, Ledger
    from scrapy_rep.frontier.permits import Permits
    from scrapy_rep.protocol import Agent

    Key = tuple[str | None, Agent, str, bool]
    """Origin (``None``: its requests are not judged), agent, User-Agent header, and whether the
    HTTP cache was asked for its pages."""

FIRST, LAST = (-inf, 0), (inf, 0)
"""An urgency before that of each request, and one after it."""


class Where(Enum):
    """Where the frontier has a host queue; always in one place."""

    DUE = auto()
    """As far as is known it may be asked now."""
    LATER = auto()
    """It may not be asked before a time."""
    UNKNOWN = auto()
    """A policy is not known, and was not asked for yet."""
    ASKED = auto()
    """A policy is being asked for, or its requests are on their way from the ledger."""
    FULL = auto()
    """It has no free place."""
    GONE = auto()
    """Nothing waits in it."""


class Place:
    """Requests that wait for the same: of one host and download slot, origin and agent."""

    __slots__ = (
        "ask_ahead",
        "asked",
        "behind",
        "edge",
        "filling",
        "hand",
        "held_by",
        "held_since",
        "held_until",
        "is_gone",
        "key",
        "name",
        "noted",
        "part",
        "queue",
        "tag",
        "was_named",
    )

    def __init__(
        self,
        queue: HostQueue,
        key: Key | None,
        part: str,
        name: str,
        *,
        was_named: bool,
    ) -> None:
        self.queue = queue
        self.key = key
        """``None``: the name does not tell; its next request does."""
        self.part = part
        """Which part of a host that a ledger cuts into parts (``Ledger.part_of``)."""
        self.name = name
        """Tells the place in each process and run; "": nobody but the frontier knows it."""
        self.was_named = was_named
        """Whether another process or run has named it: its requests may belong elsewhere now."""
        self.is_gone = False
        """Whether nothing waited in it at last, so that it was forgotten."""
        self.hand: list[Entry] = []
        """A heap of the requests at hand."""
        self.behind = 0
        """How many more wait in the ledger."""
        self.edge: tuple[float, float] = LAST
        """No request behind goes before one of this urgency."""
        self.filling = False
        """Whether the ledger was asked for them."""
        self.tag: Any = None
        """The ledger's own."""
        self.asked = False
        """Whether its policy is being asked for."""
        self.ask_ahead = True
        """Whether that is asked for before a request is handed out; else the gate asks."""
        self.held_by = ""
        """The cause for which it waited when that was looked at last; "": none."""
        self.held_since = 0.0
        self.held_until = 0.0
        """By ``time.monotonic()``; 0: not known."""
        self.noted: tuple[str, float] = ("", 0.0)
        """The cause that the ledger was told last, and until when, in whole seconds."""

    @property
    def host(self) -> str:
        """The host whose pace its requests keep."""
        return self.queue.host

    def is_like(self, other: Place) -> bool:
        """Tell whether requests of *other* wait for the same."""
        mine, theirs = self.queue, other.queue
        return (self.key, self.part, mine.host, mine.slot) == (
            other.key,
            other.part,
            theirs.host,
            theirs.slot,
        )

    @property
    def count(self) -> int:
        return len(self.hand) + self.behind

    def page(self) -> Request | None:
        """Return a request that is judged like its own; ``None``: they are not judged."""
        key = self.key
        if key is None or key[0] is None:
            return None
        meta = {"robotstxt_user_agent": key[1]}
        return Request(key[0], headers={"User-Agent": key[2]}, meta=meta)


class HostQueue:
    """The places of one host in one download slot, which take its turns."""

    __slots__ = ("due_at", "host", "places", "slot", "ticket", "where")

    def __init__(self, host: str, slot: str) -> None:
        self.host = host
        self.slot = slot
        self.places: list[Place] = []
        self.where = Where.GONE
        self.ticket = 0
        """Of its entry among those that wait for a time."""
        self.due_at = 0.0
        """When it stops doing so, by ``time.monotonic()``."""


class Places:
    """All places in which something waits, by host and download slot."""

    def __init__(self, permits: Permits, ledger: Ledger) -> None:
        self._permits = permits
        self._ledger = ledger
        self._queues: dict[str | tuple[str, str], HostQueue] = {}
        self._count = 0

    def __iter__(self) -> Iterator[Place]:
        # A copy: who asks may take several turns of the event loop.
        for queue in list(self._queues.values()):
            yield from list(queue.places)

    def queues(self) -> list[HostQueue]:
        return list(self._queues.values())

    def __len__(self) -> int:
        return self._count

    def of(self, request: Request) -> Place:
        """Return the place of *request*, a new one if nothing waits there."""
        host, slot, key = self._permits.host_slot_key(request)
        part = self._ledger.part_of(host, request.url)
        queue = self._queues.get(host if slot == host else (host, slot))
        if queue is None:
            queue = HostQueue(host, slot)
        for place in queue.places:
            if place.key == key and place.part == part:
                return place
        name = ""
        if self._ledger.outlives:
            name = self._name_of(host, slot, key, part)
            for place in queue.places:
                if place.name == name:  # its key was not known
                    place.key = key
                    return place
        return self._add(queue, key, part, name, was_named=False)

    def named(self, name: str) -> Place:
        """Return the place of this *name*, a new one if nothing waits there."""
        host, origin, slot, own, part = (name.split("\n") + [""] * 4)[:5]
        queue = self._queue(host, slot or host)
        for place in queue.places:
            if place.name == name:
                return place
        key = None if own else (origin or None, *self._permits.usual(origin), False)
        return self._add(queue, key, part, name, was_named=True)

    def has(self, name: str) -> bool:
        """Tell whether something waits in the place of this *name*."""
        host, _, slot = (name.split("\n") + [""] * 2)[:3]
        queue = self._queues.get(_index(host, slot or host))
        return queue is not None and any(place.name == name for place in queue.places)

    def discard(self, place: Place) -> None:
        """Forget *place*, and its queue with the last one of that."""
        queue = place.queue
        queue.places.remove(place)
        place.is_gone = True
        self._count -= 1
        if not queue.places:
            del self._queues[_index(queue.host, queue.slot)]
            queue.where = Where.GONE

    def current(self, place: Place) -> Place:
        """Return *place* or, if it was forgotten, one like it that is not."""
        if not place.is_gone:
            return place
        queue = self._queue(place.queue.host, place.queue.slot)
        for other in queue.places:
            if other.is_like(place) or (place.name and other.name == place.name):
                return other
        return self._add(
            queue, place.key, place.part, place.name, was_named=place.was_named
        )

    def _queue(self, host: str, slot: str) -> HostQueue:
        return self._queues.get(_index(host, slot)) or HostQueue(host, slot)

    def _add(
        self,
        queue: HostQueue,
        key: Key | None,
        part: str,
        name: str,
        *,
        was_named: bool,
    ) -> Place:
        place = Place(queue, key, part, name, was_named=was_named)
        if not queue.places:
            self._queues[_index(queue.host, queue.slot)] = queue
        queue.places.append(place)
        self._count += 1
        return place

    def _name_of(self, host: str, slot: str, key: Key, part: str) -> str:
        origin, agent, header, was_looked_up = key
        own = ""
        if was_looked_up or (agent, header) != self._permits.usual(origin):
            own = sha256(repr(key[1:]).encode()).hexdigest()[:12]
        other = "" if slot == host else slot.replace("\n", " ")
        return "\n".join((host, origin or "", other, own, part)).rstrip("\n")


def urgency_of(place: Place) -> tuple[float, float]:
    """Return rank and order of its next request; the lowest goes first."""
    return place.hand[0][:2] if place.hand else FIRST


def _index(host: str, slot: str) -> str | tuple[str, str]:
    return host if slot == host else (host, slot)
