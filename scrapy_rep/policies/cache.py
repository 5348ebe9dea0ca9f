"""Parsed policies in memory, bounded in octets."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from scrapy_rep.pacing import pace_of
from scrapy_rep.policies.lifecycle import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.pacing import Pace
    from scrapy_rep.policies.lifecycle import Standing
    from scrapy_rep.protocol import Agent, Policy
    from scrapy_rep.settings import Settings

ENTRY_BYTES = 470
"""What an entry weighs besides its policy: itself, its key, standing and links; measured."""
EVIDENCE_BYTES = 320
"""What its evidence weighs, where it is kept; measured."""
MOST_PACES = 16
"""Agents whose pace is kept with an entry. One asks, in nearly every crawl."""


class Known:
    """What is known of one origin, ready to judge with."""

    __slots__ = (
        "_paces",
        "copy",
        "evidence",
        "origin",
        "patient",
        "policy",
        "standing",
        "weight",
    )

    def __init__(
        self, origin: str, policy: Policy, standing: Standing, copy: object
    ) -> None:
        self.origin = origin
        self.policy = policy
        self.standing = standing
        self.copy = copy
        """Equal for equal bodies; ``None`` where no copy decides."""
        self.evidence: Any = None
        """What ``Policies.learned`` keeps here of the copy, if anything."""
        self.patient = False
        """Unreachable, and requests wait for the next retry rather than being refused."""
        self.weight = 0
        self._paces: dict[Agent, Pace] = {}

    @property
    def unreachable(self) -> bool:
        return self.standing.state is State.UNREACHABLE

    def pace_for(self, agent: Agent, settings: Settings) -> Pace:
        """Return the pace that the policy asks of *agent*."""
        pace = self._paces.get(agent)
        if pace is None:
            if len(self._paces) >= MOST_PACES:
                self._paces.clear()
            pace = self._paces[agent] = pace_of(self.policy, agent, settings)
        return pace


class PolicyCache:
    """Keeps the policies used last, at most *max_bytes* of them by their own estimate.

    The one that was put in last stays, whatever it weighs. What falls out is not lost:
    the store knows it, or its origin is asked again.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.evictions = 0
        self._entries: OrderedDict[str, Known] = OrderedDict()  # oldest use first

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Known]:
        return iter(self._entries.values())

    def peek(self, origin: str) -> Known | None:
        """Return the entry of *origin*, without counting it as used."""
        return self._entries.get(origin)

    def get(self, origin: str) -> Known | None:
        """Return the entry of *origin*, which is then the one used last."""
        entries = self._entries
        if origin not in entries:
            return None
        entries.move_to_end(origin)
        known = entries[origin]
        if known.policy.grown:
            self._weigh(known)
        return known

    def weigh(self, known: Known) -> None:
        """Weigh *known* again, whose policy has grown, if it is still kept.

        What is asked of a policy makes it grow: for each agent's rules, and for the first
        refusal to three times of what it was.
        """
        if self._entries.get(known.origin) is known:
            self._weigh(known)

    def put(self, known: Known) -> None:
        """Keep *known*, weigh it, and let go of what was not used for longest."""
        before = self._entries.get(known.origin)
        if before is not None:
            self.bytes -= before.weight
        known.weight = 0
        self._entries[known.origin] = known
        self._entries.move_to_end(known.origin)
        self._weigh(known)

    def _weigh(self, known: Known) -> None:
        self.bytes -= known.weight
        known.weight = ENTRY_BYTES + len(known.origin) + known.policy.size_bytes()
        if known.evidence is not None:
            known.weight += EVIDENCE_BYTES
        self.bytes += known.weight
        while self.bytes > self.max_bytes and len(self._entries) > 1:
            _, evicted = self._entries.popitem(last=False)
            self.bytes -= evicted.weight
            self.evictions += 1
