"""Parsed policies in memory, bounded in octets."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from scrapy_rep.events.of_sites import Copy
from scrapy_rep.pacing import FREE, pace_of
from scrapy_rep.policies.lifecycle import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.pacing import Pace
    from scrapy_rep.policies.lifecycle import Standing
    from scrapy_rep.protocol import Agent, Policy
    from scrapy_rep.settings import Settings
    from scrapy_rep.store import Snapshot

ENTRY_BYTES = 660
"""Octets of an entry besides its policy: itself, its key, standing and links; measured."""
ANSWER_BYTES = 700
"""Octets of its answer besides the body."""
ANSWERS_DIVISOR = 4
"""Answers that are remembered without their policies take REP_CACHE_BYTES divided by this."""
MAX_FAILING = 20_000
"""Origins of which only failures are known, some 400 octets each, that are remembered when they fall out of
the cache. Else requests would wait for an origin for ever, as nobody knew how often it has failed."""
COPY_BYTES = 320
"""Octets of its copy, if there is one; measured."""
MAX_OTHER_PACES = 16
"""An entry keeps the pace of its first agent, and of so many others."""


class Known:
    """What is known of one origin, ready to judge with."""

    __slots__ = (
        "_agent",
        "_pace",
        "_paces",
        "answer_id",
        "copy",
        "fault",
        "is_large",
        "key",
        "origin",
        "policy",
        "requests_wait",
        "snapshot",
        "standing",
        "varies",
        "weight",
    )

    def __init__(
        self, origin: str, policy: Policy, standing: Standing, answer_id: object
    ) -> None:
        self.origin = origin
        self.key = origin
        """As in the store: the origin, or its ``variant`` for a User-Agent."""
        self.varies = False
        """Whether answers depend on the User-Agent, so that this entry decides nothing."""
        self.policy = policy
        self.standing = standing
        self.answer_id = answer_id
        """Equal for equal answers; ``None`` where no answer decides."""
        self.copy: Copy | None = None
        """What was told of the answer; ``None``: nobody wanted to know it."""
        self.is_large = False
        """Whether a thread reads the file for each agent: it would hold the event loop."""
        self.requests_wait = False
        """Whether requests wait for the next retry rather than be refused."""
        self.fault: Exception | None = None
        """What asking for it has raised, if whoever asks for a page is to get that."""
        self.snapshot: Snapshot | None = None
        """What is known of it besides, with failures that no store is told of."""
        self.weight = 0
        self._agent: Agent | None = None  # that asked for its pace first
        self._pace = FREE
        self._paces: dict[Agent, Pace] | None = None  # of others

    @property
    def unreachable(self) -> bool:
        return self.standing.state is State.UNREACHABLE

    def as_copy(self) -> Copy:
        """Return its copy, or what is told of it where asking was broken off."""
        return self.copy or Copy(self.origin, self.standing.state.value)

    def pace_for(self, agent: Agent, settings: Settings) -> Pace:
        """Return the pace that the policy asks of *agent*."""
        if agent == self._agent:
            return self._pace
        paces = self._paces
        pace = None if paces is None else paces.get(agent)
        if pace is None:
            pace = pace_of(self.policy, agent, settings)
            if self._agent is None:  # the only one that asks, in nearly every crawl
                self._agent, self._pace = agent, pace
            elif paces is None or len(paces) >= MAX_OTHER_PACES:
                self._paces = {agent: pace}
            else:
                paces[agent] = pace
        return pace


def weight_of(known: Known) -> int:
    """Return the octets of memory that *known* takes once it is in use, within a third or so."""
    weight = ENTRY_BYTES + len(known.key) + known.policy.size_bytes()
    if known.copy is not None:
        weight += COPY_BYTES
    return weight + answer_weight(known.snapshot)


def answer_weight(snapshot: Snapshot | None) -> int:
    """Return the octets of memory that *snapshot* takes."""
    answer = None if snapshot is None else snapshot.answer
    return ANSWER_BYTES + (0 if answer is None else len(answer.body))


class PolicyCache:
    """Keeps the policies last used, at most *max_bytes* of them by their own estimate.

    The policy that was put in last always stays. Of those that fall out the answers are
    remembered, which take a fraction of that, in a quarter as many octets; what falls out
    there is known to the store, or asked for again.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.evictions = 0
        self._entries: OrderedDict[str, Known] = OrderedDict()  # oldest use first
        self._answers: OrderedDict[str, Snapshot] = OrderedDict()
        self._answer_bytes = 0
        self._failing: OrderedDict[str, Snapshot] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Known]:
        return iter(self._entries.values())

    def peek(self, key: str) -> Known | None:
        """Return the entry of *key*, without counting it as used."""
        return self._entries.get(key)

    def get(self, key: str) -> Known | None:
        """Return the entry of *key*, and count it as used."""
        known = self._entries.get(key)
        if known is not None:
            self._entries.move_to_end(key)
        return known

    def snapshot(self, key: str) -> Snapshot | None:
        """Return what is known, or remembered, of *key*."""
        known = self._entries.get(key)
        if known is not None:
            return known.snapshot
        return self._answers.get(key) or self._failing.get(key)

    def put(self, known: Known) -> None:
        """Keep *known*, weigh it, and drop the entries that were not used for longest."""
        before = self._entries.pop(known.key, None)
        if before is not None:
            self.bytes -= before.weight
        self._forget(known.key)
        self._entries[known.key] = known
        known.weight = weight_of(known)
        self.bytes += known.weight
        while self.bytes > self.max_bytes and len(self._entries) > 1:
            _, evicted = self._entries.popitem(last=False)
            self.bytes -= evicted.weight
            self.evictions += 1
            if evicted.snapshot is not None:
                self._remember(evicted.key, evicted.snapshot)

    def _remember(self, key: str, snapshot: Snapshot) -> None:
        if snapshot.answer is None and snapshot.failures is not None:
            self._failing[key] = snapshot
            if len(self._failing) > MAX_FAILING:
                self._failing.popitem(last=False)
            return
        self._answers[key] = snapshot
        self._answer_bytes += len(key) + answer_weight(snapshot)
        while self._answer_bytes > self.max_bytes // ANSWERS_DIVISOR:
            self._forget(next(iter(self._answers)))

    def _forget(self, key: str) -> None:
        self._failing.pop(key, None)
        snapshot = self._answers.pop(key, None)
        if snapshot is not None:
            self._answer_bytes -= len(key) + answer_weight(snapshot)
