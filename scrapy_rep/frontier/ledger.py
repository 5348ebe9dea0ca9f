"""What keeps the requests that wait: the one interface of the ledgers.

A ledger keeps requests and fingerprints; the ``Frontier`` above it decides who goes when. All
happens in the event loop's thread. Calls that are no coroutines must not wait: a ledger behind a
network does soon what it is told, and tells the frontier then. The life of a request:

1. ``file``, by ``enqueue_request``. Now, or when it is safe, the ledger tells the frontier:
   ``arrive``, with its octets where the ledger has it, too; or ``found``, if only the ledger has it.
2. ``fill``, by ``pop``, when a host may be asked and nothing of it is at hand; ``came`` answers.
3. ``note_taken``, by ``pop``, just before the engine gets it. ``frontier.taken`` has it from then on.
4. ``done``, once the engine has forgotten it, and all that came of it was filed. Or, if the gate
   sent it back, it is at hand again, or filed for another place and done here. Or neither, as the
   process was killed, the crawl dropped it to stop sooner, or it cannot be read: who opens the
   ledger next must find it again.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING, Any, Literal

from scrapy import Request

from scrapy_rep.events.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scrapy import Spider

    from scrapy_rep.protocol import Agent

    Key = tuple[str | None, Agent, str, bool]
    """Origin (``None``: not judged), agent, User-Agent header, and whether the HTTP cache was asked."""

    Entry = tuple[int, int, Any, Request | bytes]
    """Rank (-2 * priority; + 1 for a start request, where those come last) and order, which differ
    among those of a host, and in which they go; the ledger's id (``None``: only the frontier has it);
    and the request, or the octets that ``packed`` made of it."""

FINGERPRINT_OCTETS = 16
"""Of 10**9 URLs, two collide by a chance of 1 in 10**21."""

LOST_REASON = "requests_lost"
"""A crawl ends with it if what outlives the process has lost requests."""

FIRST, LAST = (-inf, 0), (inf, 0)
"""An urgency before that of each request, and one after it."""

Where = Literal["due", "later", "unknown", "behind", "asked", "full", "gone"]
"""Where the frontier has a host queue. later: it waits for a time. unknown: for a policy that was not
asked for yet. behind: until it may be, as its host is asked for another one. asked: for one that
was, or for requests from the ledger. full: for a free place of its slot or host. gone: nothing waits
in it."""


@dataclass(slots=True, eq=False)
class Place:
    """Requests that wait for the same: of one host, slot, origin and agent."""

    queue: HostQueue
    key: Key | None
    """``None``: the name does not tell; its next request does."""
    part: str
    """Which part of a host that is cut into parts (``Ledger.wide``); "": it is not."""
    name: str
    """The same in each process and run; "": only the frontier knows it."""
    was_named: bool = False
    is_gone: bool = False
    hand: list[Entry] = field(default_factory=list)
    behind: int = 0
    edge: tuple[float, float] = LAST
    """No request behind goes before one of this urgency."""
    filling: bool = False
    asked: bool = False
    ask_ahead: bool = True
    """Whether that is before a request is handed out; else the gate asks."""
    held_by: str = ""
    """The cause for which it waited at the last look; "": none."""
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
        return self.hand[0][:2] if self.hand else FIRST

    def page(self) -> Request | None:
        """A request that is judged like its own; ``None``: they are not judged."""
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


class Ledger:
    """Keeps requests and fingerprints. ``bind`` comes first, ``open`` next, ``close`` last."""

    frontier: Any
    """The ``Frontier``, which is told in ``bind``."""
    spider: Spider
    last_first = True, False
    """Whether, of two requests of equal rank, the one filed last goes first; and of odd ranks."""
    where = "disk"
    """The last word of the stats ``scheduler/enqueued/...`` and ``scheduler/dequeued/...``."""
    at_hand = 8
    """How many requests of a place ``fill`` is asked for."""
    fills_ahead = False
    """Whether ``fill`` takes time: then it is asked for before the last one at hand is gone."""
    kept_in = ""
    """Where what is in it outlives the process, as people are told; "": nowhere."""
    sheds = False
    """Whether ``fill`` can bring again what is at hand: then the frontier may forget that, and the
    places beyond its window."""
    is_ready = True
    """Whether requests may be handed out now. Who becomes ready again calls ``frontier.wake``."""
    wide: Mapping[str, int] = {}
    """Host -> into how many parts it is cut; requests of different parts are in different places."""
    hold_of: Callable[[Place], tuple[float, str] | None] | None = None
    """If it can hold a place: tells for how many seconds it does, and the cause (one of
    ``events.waits``). Asked each time before a request is handed out."""

    def bind(
        self,
        frontier: Any,
        spider: Spider,
        on_seen: Callable[[Request], None],
        on_unpackable: Callable[[Request, Exception], None],
    ) -> None:
        """Note whom to tell of what ``file`` finds later to be seen, and of what it cannot serialise."""
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

        The engine asks for nothing before it is over. Raises what is to end the crawl at once.
        """

    def file(
        self, place: Place, rank: int, request: Request, fingerprint: bytes | None
    ) -> str:
        """Keep *request* and its *fingerprint* (``None``: whatever was seen) in one step; return where.

        "": nowhere, as it was seen; "memory": it cannot be serialised; else ``where``. Who cannot tell
        at once says ``where``, calls ``on_seen`` later, and counts it in ``pending`` until then.
        """
        raise NotImplementedError

    def fill(self, place: Place, number: int) -> None:
        """Have the first *number* of those ``place.behind`` come to hand.

        Answered by ``frontier.came``, once, now or later; not asked again before. If a server is
        away, answer when it is back; if a file is, set ``place.filling`` to false.
        """

    def note_taken(self) -> None:
        """Note that the engine gets one that has an id. While it has it, no ``fill`` brings it."""

    def note_unreadable(self, place: Place, id_: Any) -> None:
        """Note that what ``fill`` brought cannot be read: it counts as taken, for good."""

    def done(self, gone: Iterable[tuple[Place, Any]]) -> None:
        """Note that the engine is through with requests, by place and id, none of them ``None``.

        All that came of them was filed by earlier calls, and must be kept no later than this.
        Idempotent; a place may be dropped by now, or be another owner's.
        """

    def pending(self) -> int:
        """Return how many requests wait of which the frontier was not told."""
        return 0

    def unwritten(self) -> int:
        """Return how many requests would be lost if the process ended now, but those without an id."""
        return 0

    def note_wait(self, place: Place, cause: str, until: float | None) -> None:
        """Note why requests of *place* wait ("": they do not), for who looks from outside.

        *until* is in seconds since 1970; ``None``: nobody knows. No decision hangs on it.
        """

    def may_end(self) -> bool:
        """Tell whether the crawl, which is idle, may end; asked at each ``spider_idle``."""
        return True

    async def close(self) -> None:
        """Write what is left, and give back what is not done.

        Called even after ``open`` has failed. Gives up within seconds, says what is lost by that,
        and raises nothing for a fault of file or server.
        """


class MemoryLedger(Ledger):
    where = "memory"

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


def shortened(fingerprint: bytes) -> bytes:
    if len(fingerprint) <= FINGERPRINT_OCTETS:
        return fingerprint
    return blake2b(fingerprint, digest_size=FINGERPRINT_OCTETS).digest()
