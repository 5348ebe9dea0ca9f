"""The witness keeps what decided about each request, so that it can be shown later.

REP_EVIDENCE puts that on ``request.meta``, REP_AUDIT_URI writes it down. Without one of these
settings there is no witness.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.events.event import writer_of
from scrapy_rep.events.of_requests import (
    Decided,
    Exempt,
    FromHttpCache,
    Judged,
    OnTheWay,
    said_by,
)
from scrapy_rep.judging.agents import name_of
from scrapy_rep.judging.purposes import stated_answers
from scrapy_rep.pacing import FREE, pace_of
from scrapy_rep.protocol.fields import CONTENT_USAGE
from scrapy_rep.protocol.printable import MAX_CHARACTERS
from scrapy_rep.settings import PACE_DIRECTIVES

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from scrapy_rep.events.of_sites import Copy
    from scrapy_rep.events.stream import Stream
    from scrapy_rep.pacing import Pace
    from scrapy_rep.protocol import Agent, Policy
    from scrapy_rep.settings import Settings

META_KEY = "rep_evidence"
"""The key of evidence in ``request.meta`` (REP_EVIDENCE)."""
EVIDENCE = (
    "url", "time", "agent", "allowed", "cause", "enforced", "reason", "group", "rule", "line",
    "delay", "preferences", "origin", "state", "status", "robots_url", "fetched", "digest", "failure",
)  # fmt: skip
"""The keys of evidence, in their order. What they are is declared in ``Decided`` and ``Copy``."""
MAX_DECISIONS = 4096
"""Decisions that are kept, each for many requests."""
Wishes = tuple["Pace", "dict[str, str] | None"]
"""What is asked of our speed, even if REP_OBEY leaves it out; and the preferences for all URLs,
``None``: they depend on the URL."""
NOTHING: Wishes = FREE, {}


OWN = writer_of(Decided, "time url", whole=False)
SHARED = writer_of(
    Decided, "agent allowed cause enforced reason group rule line digest", whole=False
)
ASKED = writer_of(Decided, "host delay preferences", whole=False)
"""What makes the parts of a decision's record."""


class Written(NamedTuple):
    """The record of a decision about one request."""

    time: float
    url: str
    decision: str
    """What it has in common with others, in JSON."""
    asked: str
    """The host, and what is asked of it."""

    def as_json(self) -> str:
        return f'{{"type":"{Decided.audit}"{OWN(self)}{self.decision}{self.asked}}}\n'


class Decision:
    """A decision, shared by many requests to an origin."""

    __slots__ = ("copy", "evidence", "host", "in_json", "last", "verdict", "wishes")

    def __init__(self, judged: Judged, wishes: Wishes) -> None:
        # It holds these two, by whose ids it is found.
        self.verdict, self.copy = judged.verdict, judged.copy
        self.wishes = wishes
        self.host: str | None = None
        """The host whose pace all of its requests keep; ``None``: they differ."""
        copy = judged.copy
        shared = {
            "agent": name_of(judged.agent),
            "allowed": judged.verdict.allowed,
            "cause": judged.cause,
            "enforced": judged.enforced,
            **said_by(judged.verdict),
        }
        self.in_json = SHARED(SimpleNamespace(**shared, digest=copy.digest))
        """What its records have in common."""
        self.last: tuple[object, str] = None, ""
        """Host, delay and preferences of the last request, and the JSON of these."""
        known: dict[str, Any] = {n: getattr(copy, n) for n in copy.__match_args__}
        known |= {**shared, "robots_url": copy.url}
        self.evidence: dict[str, Any] = {name: known.get(name) for name in EVIDENCE}
        """A dict for ``request.meta``, but for what depends on the request."""


class Witness:
    """Hears of every decision of the gate."""

    def __init__(
        self,
        settings: Settings,
        events: Stream,
        host_of: Callable[[Request], str],
        put: Callable[[Written], None] | None,
    ) -> None:
        """*host_of* returns the host whose pace a request keeps; *put* writes a record."""
        self._on_meta = settings.evidence
        self._host_of = host_of
        self._put = put
        self._origin_tells_host = not callable(settings.pace_by)
        self._all_paces = replace(settings, obey=PACE_DIRECTIVES)
        # Both are emptied when they are full.
        self._wishes: dict[
            tuple[Copy, Agent], Wishes
        ] = {}  # as reading them takes long
        self._decisions: dict[tuple[object, ...], Decision] = {}
        # Policies return the same verdicts again and again.
        events.listen(self._hear, [Judged])
        events.listen(self._hear_exempt, [Exempt, OnTheWay, FromHttpCache])

    def _hear_exempt(self, event: Exempt) -> None:
        """Drop evidence of another page."""
        event.request.meta.pop(META_KEY, None)

    def _hear(self, judged: Judged) -> None:
        decision = self._decision_of(judged)
        pace, preferences = decision.wishes
        delay = 0.0 if pace is FREE else pace.asked(judged.time)
        if preferences is None and judged.policy is not None:
            said = judged.policy.preferences(judged.url, judged.agent)
            preferences = stated_answers(said)
        if self._put is not None:
            host = decision.host
            if host is None:
                host = self._host_of(judged.request)
                if self._origin_tells_host:
                    decision.host = host
            self._write(judged, decision, host, delay, preferences)
        if self._on_meta:
            # Each request has its own: nothing that a spider does to one alters another.
            evidence = decision.evidence.copy()
            evidence["url"] = judged.url
            evidence["time"] = judged.time
            evidence["delay"] = delay
            evidence["preferences"] = (preferences or {}).copy()
            if evidence["group"] is not None:
                evidence["group"] = evidence["group"].copy()
            judged.request.meta[META_KEY] = evidence

    def _write(
        self,
        judged: Judged,
        decision: Decision,
        host: str,
        delay: float,
        preferences: dict[str, str] | None,
    ) -> None:
        assert self._put is not None
        asked = host, delay, preferences
        last, text = decision.last
        if asked != last:
            values = SimpleNamespace(
                host=host, delay=delay, preferences=preferences or None
            )
            text = ASKED(values)
            decision.last = asked, text
        self._put(Written(judged.time, judged.url, decision.in_json, text))

    def _decision_of(self, judged: Judged) -> Decision:
        verdict, copy = judged.verdict, judged.copy
        key = id(verdict), id(copy), judged.agent, judged.cause, judged.enforced
        decision = self._decisions.get(key)
        if decision is None:
            decision = Decision(judged, self._wishes_of(judged))
            if (
                len(decision.evidence["reason"]) < MAX_CHARACTERS
            ):  # else it is too large
                if len(self._decisions) >= MAX_DECISIONS:
                    self._decisions.clear()
                self._decisions[key] = decision
        return decision

    def _wishes_of(self, judged: Judged) -> Wishes:
        policy, agent = judged.policy, judged.agent
        if policy is None:
            return NOTHING
        wishes = self._wishes.get((judged.copy, agent))
        if wishes is None:
            wishes = self._read(policy, judged.copy.origin, agent)
            if len(self._wishes) >= MAX_DECISIONS:
                self._wishes.clear()
            self._wishes[judged.copy, agent] = wishes
        return wishes

    def _read(self, policy: Policy, origin: str, agent: Agent) -> Wishes:
        by_url = CONTENT_USAGE in str(policy).lower()
        pace = pace_of(policy, agent, self._all_paces)
        said = None if by_url else stated_answers(policy.preferences(origin, agent))
        return pace, said
