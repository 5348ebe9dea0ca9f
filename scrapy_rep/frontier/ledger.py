"""What keeps the requests that wait: the one interface of the ledgers.

A ledger keeps requests and fingerprints; the ``Frontier`` above it decides who goes when, and has
a few requests of each host at hand. Everything happens in the event loop's thread. Calls that are
no coroutines must not wait: a ledger behind a network notes what it is told, does it soon, and
tells the frontier: ``Above`` is what it may call and read there.

The life of a request, and who calls what:

1. ``file``, by the scheduler's ``enqueue_request``. The ledger gives the request to the frontier,
   now or when it is safe: ``arrive`` (with its octets where the ledger has it, too, so that the
   frontier may leave it there), or ``found`` (a number that waits in the ledger only).
2. ``fill``, by the frontier's ``pop``, when a host may be asked and nothing of it is at hand. The
   ledger answers with ``came``, at once or later.
3. ``note_taken``, by ``pop``, just before the engine gets the request:
   ``frontier.taken`` has it from then on.
4. ``done``, once the engine has forgotten the request and all that came of it was filed, by
   calls of ``file`` before this one. Or, if the gate has sent it back to wait, it is at hand
   again; or ``file`` for the place where it is to wait now, followed by ``done``. Or neither:
   then the process was killed, the crawl has dropped the request to stop sooner, or it could not
   be read, and it is the next run's, or the next owner's.

A request that was taken and is not done when the ledger is closed must be found again by who
opens it next.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Protocol

from scrapy import Request
from scrapy.utils.request import request_from_dict

from scrapy_rep.events.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Spider

    from scrapy_rep.events.waits import Held
    from scrapy_rep.protocol import Agent

    Key = tuple[str | None, Agent, str, bool]
    """Origin (``None``: its requests are not judged), agent, User-Agent header, and whether the
    HTTP cache was asked for its pages."""

    Seen = Callable[[Request], None]
    Unpackable = Callable[[Request, Exception], None]
    Entry = tuple[int, int, Any, Request | bytes]
    """Rank, order, the id that the ledger gave it (``None``: nobody but the frontier has it), and
    the request, or the octets that ``packed`` made of it. Requests of a host are handed out
    in the ascending order of the first two, which must differ among those of a host.

    The rank is -2 * priority; + 1 for a start request, where those come after the others."""

FINGERPRINT_OCTETS = 16
"""Octets. Among 10**9 URLs, the chance that two collide is 1 in 10**21."""


FIRST, LAST = (-inf, 0), (inf, 0)
"""An urgency before that of each request, and one after it."""

Where = Literal["due", "later", "unknown", "asked", "full", "gone"]
"""Where the frontier has a host queue; always in one place:

due: as far as is known it may be asked now. later: it may not be asked before a time. unknown: a
policy is not known, and was not asked for yet. asked: that is being asked for, or requests are on
their way from the ledger. full: it has no free place. gone: nothing waits in it."""


@dataclass(slots=True, eq=False)
class Place:
    """Requests that wait for the same: of one host and download slot, origin and agent."""

    queue: HostQueue
    key: Key | None
    """``None``: the name does not tell; its next request does."""
    part: str
    """Which part of a host that a ledger cuts into parts (``Ledger.part_of``)."""
    name: str
    """Tells the place in each process and run; "": nobody but the frontier knows it."""
    was_named: bool = False
    """Whether another process or run has named it: its requests may belong elsewhere now."""
    is_gone: bool = False
    """Whether nothing waited in it at last, so that it was forgotten."""
    hand: list[Entry] = field(default_factory=list)
    """A heap of the requests at hand."""
    behind: int = 0
    """How many more wait in the ledger."""
    edge: tuple[float, float] = LAST
    """No request behind goes before one of this urgency."""
    filling: bool = False
    """Whether the ledger was asked for them."""
    asked: bool = False
    """Whether its policy is being asked for."""
    ask_ahead: bool = True
    """Whether that is asked for before a request is handed out; else the gate asks."""
    held_by: str = ""
    """The cause for which it waited when that was looked at last; "": none."""
    held_since: float = 0.0
    held_until: float = 0.0
    """By ``time.monotonic()``; 0: not known."""

    @property
    def host(self) -> str:
        return self.queue.host

    @property
    def count(self) -> int:
        return len(self.hand) + self.behind

    @property
    def urgency(self) -> tuple[float, float]:
        """Rank and order of its next request; the lowest goes first."""
        return self.hand[0][:2] if self.hand else FIRST

    def page(self) -> Request | None:
        """Return a request that is judged like its own; ``None``: they are not judged."""
        origin, agent, header, _ = self.key or (None, "", "", False)
        if origin is None:
            return None
        meta = {"robotstxt_user_agent": agent}
        return Request(origin, headers={"User-Agent": header}, meta=meta)


@dataclass(slots=True, eq=False)
class HostQueue:
    """The places of one host in one download slot, which take its turns."""

    host: str
    slot: str
    places: list[Place] = field(default_factory=list)
    where: Where = "gone"
    due_at: float = 0.0
    """When it stops waiting for a time, by ``time.monotonic()``."""


class Above(Protocol):
    """What a ledger may call and read of the frontier above it."""

    places: Any
    """The ``Places`` in which something waits."""
    taken: dict[Request, tuple[Place, Entry]]
    """The requests that the engine has."""

    @property
    def room(self) -> int: ...

    def arrive(self, place: Place, entry: Entry) -> bool: ...

    def found(self, place: Place, number: int) -> None: ...

    def came(
        self, place: Place, entries: list[Entry], left: int | None = None
    ) -> None: ...

    def drop(self, place: Place) -> None: ...

    def held(self) -> Iterable[Held]: ...

    def wake(self) -> None: ...


class Ledger:
    """Keeps requests and fingerprints. ``bind`` comes first, ``open`` next, ``close`` last."""

    frontier: Above
    spider: Spider
    last_first = True, False
    """Whether, of two requests with equal rank, the one filed last goes first (LIFO): of most
    requests; and of start requests that have an odd rank."""
    where = "disk"
    """The last word of the stats ``scheduler/enqueued/...`` and ``scheduler/dequeued/...``."""
    at_hand = 8
    """How many requests of a place ``fill`` is asked for."""
    fills_ahead = False
    """Whether ``fill`` takes time: then it is asked for before the last one at hand is gone."""
    outlives = True
    """Whether what is in it outlives the process. What waits at the end is lost if not."""
    sheds = False
    """Whether ``fill`` can bring again what is at hand: then the frontier may forget that, so that
    its memory is bounded, and the places beyond its window."""
    is_ready = True
    """Whether requests may be handed out now: not while a file cannot be written, or a lease is
    over. A ledger that becomes ready again calls ``frontier.wake``."""

    def bind(
        self,
        frontier: Above,
        spider: Spider,
        on_seen: Seen,
        on_unpackable: Unpackable,
    ) -> None:
        """Note whom to tell.

        *on_seen* is called with a request that was seen before, where ``file`` could not tell so
        at once; *on_unpackable* with one that cannot be serialised, and why. Both count and log.
        """
        self.frontier, self.spider = frontier, spider
        self.events = Stream.of(spider.crawler)
        self.on_seen, self.on_unpackable = on_seen, on_unpackable
        self.only_here: set[bytes] = set()
        """Fingerprints of requests that cannot be serialised: seen, but for this run alone."""

    def packed(self, request: Request, fingerprint: bytes | None) -> bytes | None:
        """Return *request* as octets; ``None``: that cannot be done, and was told."""
        try:
            return pickle.dumps(request.to_dict(spider=self.spider), protocol=4)
        except Exception as error:  # noqa: BLE001 - whatever comes of what users put there
            self.on_unpackable(request, error)
            if fingerprint is not None:
                self.only_here.add(fingerprint)
            return None

    async def open(self) -> None:
        """Open it, and tell the frontier what waits (``places.named``, then ``found``).

        Called once, before any of what follows. May wait for as long as it takes: the
        engine asks for no request before it is over. Raises what is to end the crawl at once, such
        as ``JobError``.
        """

    def part_of(self, host: str, url: str) -> str:
        """Return which part of *host* the page at *url* belongs to; "": it is not cut into parts.

        Asked for each request before it is filed, with the host whose pace it keeps. Requests
        of different parts are in different places. Pure: the same in each process and run.
        """
        return ""

    def file(
        self, place: Place, rank: int, request: Request, fingerprint: bytes | None
    ) -> str:
        """Keep *request* and its *fingerprint* in one step; return where it is kept.

        "": nowhere, as a request with this fingerprint was kept before; else ``where``, or
        "memory" if it cannot be serialised and so does not outlive the process. *fingerprint*
        ``None``: it is kept whatever was seen before.

        A ledger that cannot tell at once whether it was seen says ``where``, and ``on_seen`` later.
        It must count such a request in ``pending`` until then. Once it has told the
        frontier of it, ``pending`` counts it no more. Idempotent where it is tried again: the
        fingerprint that it finds may be its own.
        """
        raise NotImplementedError

    def fill(self, place: Place, number: int) -> None:
        """Have the first *number* of those ``place.behind`` come to hand.

        Called by ``Frontier.pop`` for a place that may be asked, never twice before it is answered.
        Answer it by ``frontier.came``, once, in this call or later; with no entries if
        there are none. If the server is away, answer when it is back; if the file is, have
        ``place.filling`` false, and it is asked for again. No answer is needed where the frontier
        was told to ``drop`` the place.
        """

    def hold_of(self, place: Place) -> tuple[float, str] | None:
        """Return for how many seconds the ledger holds *place*, and why; ``None``: it does not.

        Asked each time before a request of *place* is handed out: of a host that an operator
        has blocked, or whose part of the ledger is away. The cause is one of ``log.waits``.
        """
        return None

    def note_taken(self) -> None:
        """Note that the engine gets a request now, one that has an id.

        For as long as it is in ``frontier.taken``, no ``fill`` may bring it again.
        """

    def note_unreadable(self, place: Place, id_: Any) -> None:
        """Note that what ``fill`` brought cannot be read: it counts as taken, for good."""

    def done(self, gone: Iterable[tuple[Place, Any]]) -> None:
        """Note that the engine is through with requests, by place and id; no id is ``None``.

        All that came of them was filed by earlier calls, and must be kept no later than this.
        Idempotent; a place may be dropped by now, or be another owner's: then it does nothing.
        """

    def pending(self) -> int:
        """Return how many requests wait of which the frontier was not told.

        Those of hosts beyond its window, those on their way to it, and in a fleet, as far as is
        known, those that other workers have. 0: nothing but what the frontier counts.
        """
        return 0

    def note_wait(self, place: Place, cause: str, until: float | None) -> None:
        """Note why requests of *place* wait, for who looks from outside; "": they do not.

        *cause* is one of ``log.waits``, *until* in seconds since 1970, ``None``: nobody
        knows. Called when it changes. May be forgotten: no decision hangs on it.
        """

    def may_end(self) -> bool:
        """Tell whether the crawl, which is idle, may end.

        Not while something is not written yet that can be, or a fleet has work left. Called
        at each ``spider_idle``, after ``done`` for all that is done.
        """
        return True

    async def close(self) -> None:
        """Write what is left, and give back what is not done.

        Called once, even after ``open`` has failed. The spider is closed by then, and nothing is
        in the engine's hands. May wait, but not for ever: it gives up within seconds, says what
        is lost by that, and raises nothing for a fault of file or server.
        """


class MemoryLedger(Ledger):
    """The ledger of a crawl of which nothing outlives the process: all requests are at hand."""

    where = "memory"
    outlives = False

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._orders = 0

    def file(
        self, place: Place, rank: int, request: Request, fingerprint: bytes | None
    ) -> str:
        if fingerprint is not None:
            fingerprint = shortened(fingerprint)
            if fingerprint in self._seen:
                return ""
            self._seen.add(fingerprint)
        self._orders += 1
        order = -self._orders if self.last_first[rank % 2] else self._orders
        self.frontier.arrive(place, (rank, order, None, request))
        return self.where


def unpacked(body: bytes, spider: Spider) -> Request:
    """Return what ``Ledger.packed`` made *body* of.

    Raises whatever comes of octets that are damaged, or of a callback that *spider* lacks.
    """
    return request_from_dict(pickle.loads(body), spider=spider)  # noqa: S301


def shortened(fingerprint: bytes) -> bytes:
    """Return what stands for *fingerprint*, of FINGERPRINT_OCTETS octets at the most."""
    if len(fingerprint) <= FINGERPRINT_OCTETS:
        return fingerprint
    return blake2b(fingerprint, digest_size=FINGERPRINT_OCTETS).digest()
