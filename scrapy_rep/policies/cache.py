"""What a crawl knows of each origin, in memory and bounded in octets."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, TypeVar

from scrapy_rep.events.of_hosts import Copy
from scrapy_rep.pacing.pace import FREE, Pace, pace_of
from scrapy_rep.policies.lifecycle import State
from scrapy_rep.store.packed import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from scrapy_rep.policies.lifecycle import Standing
    from scrapy_rep.protocol import Agent, Policy
    from scrapy_rep.settings import Settings
    from scrapy_rep.store import Snapshot

T = TypeVar("T")
ENTRY_BYTES = 660
"""Octets of an entry besides its policy: itself, its key, standing and links; measured."""
ANSWER_BYTES = 700
"""Octets of its answer besides the body."""
COPY_BYTES = 320
"""Octets of its copy, if there is one; measured."""
FALLEN_DIVISOR, LEAST_FALLEN, FALLEN_BYTES = 4, 8_000_000, 180
"""What falls out is remembered in REP_CACHE_BYTES divided by this, but at least in so many octets: of
20,000 origins that fail. Else requests would wait for one for ever, as nobody knew how often it has
failed. Each takes so many octets besides what is packed; measured."""


@dataclass(slots=True, eq=False)
class Known:
    """What is known of one origin, ready to judge with."""

    origin: str
    policy: Policy
    standing: Standing
    answer_id: object = None
    """Equal for equal answers; ``None`` where no answer decides."""
    key: str = ""
    """As in the store: the origin, or its ``variant`` for a User-Agent."""
    varies: bool = False
    """Whether answers depend on the User-Agent, so that this entry decides nothing."""
    copy: Copy | None = None
    """What was told of the answer; ``None``: nobody wanted to know it."""
    is_large: bool = False
    """Whether a thread reads the file for each agent: it would hold the event loop."""
    requests_wait: bool = False
    """Whether requests wait for the next retry rather than be refused."""
    fault: Exception | None = None
    """What asking for it has raised, if whoever asks for a page is to get that."""
    snapshot: Snapshot | None = None
    """What is known of it besides, with failures that no store is told of."""
    weight: int = 0
    _agent: Agent | None = None
    _pace: Pace = FREE

    def __post_init__(self) -> None:
        self.key = self.key or self.origin

    @property
    def unreachable(self) -> bool:
        return self.standing.state is State.UNREACHABLE

    def as_copy(self) -> Copy:
        """Return its copy, or what is told of it where asking was broken off."""
        return self.copy or Copy(self.origin, self.standing.state.value)

    def pace_for(self, agent: Agent, settings: Settings) -> Pace:
        """Return the pace that the policy asks of *agent*; that of the last one is kept."""
        if agent != self._agent:
            self._agent, self._pace = agent, pace_of(self.policy, agent, settings)
        return self._pace


def weight_of(known: Known) -> int:
    """Return the octets of memory that *known* takes once it is in use, within a third or so."""
    copy = 0 if known.copy is None else COPY_BYTES
    answer = None if known.snapshot is None else known.snapshot.answer
    body = 0 if answer is None else len(answer.body)
    own = ENTRY_BYTES + ANSWER_BYTES + len(known.key) + body + copy
    return own + known.policy.size_bytes()


class Bounded(Generic[T]):
    """Keeps what was last used, up to a weight of *most*; but *least* entries, whatever they weigh."""

    def __init__(self, most: int, weigh: Callable[[T], int], least: int = 0) -> None:
        self.most, self._weigh, self._least = most, weigh, least
        self.weight = 0
        self.entries: OrderedDict[Hashable, T] = OrderedDict()  # oldest use first

    def get(self, key: Hashable) -> T | None:
        """Return the entry of *key*, and count it as used."""
        entry = self.entries.get(key)
        if entry is not None:
            self.entries.move_to_end(key)
        return entry

    def put(self, key: Hashable, entry: T) -> list[T]:
        """Keep *entry*, and return what falls out for it."""
        self.pop(key)
        self.entries[key] = entry
        self.weight += self._weigh(entry)
        fallen = []
        while self.weight > self.most and len(self.entries) > self._least:
            oldest = self.pop(next(iter(self.entries)))
            assert oldest is not None
            fallen.append(oldest)
        return fallen

    def pop(self, key: Hashable) -> T | None:
        """Forget the entry of *key*, and return it."""
        entry = self.entries.pop(key, None)
        if entry is not None:
            self.weight -= self._weigh(entry)
        return entry


class PolicyCache(Bounded[Known]):
    """Keeps the policies last used, at most *max_bytes* of them by their own estimate.

    The policy that was put in last always stays. Of those that fall out the snapshots are
    remembered, packed; what falls out there is known to the store, or asked for again.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, attrgetter("weight"), least=1)
        self.evictions = 0
        most = max(max_bytes // FALLEN_DIVISOR, LEAST_FALLEN)
        self.fallen: Bounded[bytes] = Bounded(
            most, lambda packed: FALLEN_BYTES + len(packed)
        )

    def snapshot(self, key: str) -> Snapshot | None:
        """Return what is known, or remembered, of *key*."""
        known = self.entries.get(key)
        if known is not None:
            return known.snapshot
        packed = self.fallen.entries.get(key)
        return None if packed is None else unpack(key, packed)

    def keep(self, known: Known) -> None:
        """Keep *known*, weigh it, and remember the snapshots of what falls out for it."""
        for kept in (self, self.fallen):
            kept.pop(known.key)  # before it is weighed anew
        known.weight = weight_of(known)
        for fallen in self.put(known.key, known):
            self.evictions += 1
            snapshot = fallen.snapshot
            # What own code did to it is for no other memory to know.
            if snapshot is not None and not snapshot.has_failed_here:
                self.fallen.put(fallen.key, pack(fallen.key, snapshot))
