"""What evidence and audit tell of one decision, but for the request that it is about."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from scrapy_rep.access.results import REDIRECTS, Access, access_of
from scrapy_rep.exceptions import explain
from scrapy_rep.pacing import FREE
from scrapy_rep.policies.lifecycle import State

if TYPE_CHECKING:
    from scrapy_rep.pacing import Pace
    from scrapy_rep.policies.cache import Known
    from scrapy_rep.protocol import Agent, Verdict
    from scrapy_rep.settings import Settings
    from scrapy_rep.store import Snapshot

encode = json.JSONEncoder(separators=(",", ":"), default=str).encode

LONGEST, MOST_TOKENS = 500, 20
"""Characters of a text, and user-agent lines, beyond which evidence is cut: a rule may be
half a megabyte long, and there is evidence for each request."""

STATES = {Access.SUCCESSFUL: "fetched", Access.DENIED: "denied"}
IN_AUDIT = (
    "agent",
    "allowed",
    "cause",
    "enforced",
    "reason",
    "group",
    "rule",
    "line",
    "digest",
)
"""What a decision record has of the evidence; the copy has a record of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """What was known of an origin's robots.txt when it decided."""

    origin: str
    state: str
    """"fetched"; "unavailable", there is none; "denied", see REP_DENY_STATUSES; "holding",
    an earlier copy while it cannot be had; "unreachable"; "given up", unreachable for
    REP_UNREACHABLE_MAX; "unknown"."""
    status: int | None = None
    """Of the answer that decides; ``None``: none does."""
    robots_url: str | None = None
    """Where that came from, redirects followed."""
    fetched: float | None = None
    """When it came, or was last confirmed, in seconds since 1970."""
    digest: str | None = None
    """Of its body, where it was a 2xx."""
    failure: str | None = None
    """Why it could not be had since, in words."""

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in COPY_FIELDS}

    def as_record(self) -> dict[str, Any]:
        record = self.as_dict()
        record["url"] = record.pop("robots_url")
        return record


COPY_FIELDS = tuple(each.name for each in fields(Copy))


@dataclass(slots=True, eq=False)
class Decision:
    """A decision, which is the same for many requests to an origin."""

    copy: Copy
    agent: Agent
    verdict: Verdict
    cause: str | None
    """What it is counted under; ``None``: the request is let through."""
    enforced: bool
    """Not left out by REP_OBEY."""
    pace: Pace = FREE
    """What is asked of our speed, also where REP_OBEY leaves it out."""
    preferences: dict[str, str] | None = field(default_factory=dict)
    """The answers for every URL; ``None``: they depend on it."""
    evidence: dict[str, Any] = field(init=False)
    """A plain dict; what depends on the request is to be filled in."""
    _shared: str = ""
    """What all of its records have in common, without braces."""
    _json: str = ""
    """What ``in_json`` returned last, for these:"""
    _delay: float = 0.0
    _stated: dict[str, str] | None = None

    def __post_init__(self) -> None:
        rule, group = self.verdict.rule, self.verdict.group
        self.evidence = {
            "url": "",
            "time": 0.0,
            "agent": named(self.agent),
            "allowed": self.verdict.allowed,
            "cause": self.cause,
            "enforced": self.enforced,
            "reason": cut(explain(self.verdict)),
            "group": None if group is None else [cut(t) for t in group[:MOST_TOKENS]],
            "rule": None,
            "line": None,
            "delay": 0.0,
            "preferences": {},
            **self.copy.as_dict(),
        }
        if rule is not None:
            kind = "Allow" if rule.allow else "Disallow"
            self.evidence["rule"] = cut(f"{kind}: {rule.path}")
            self.evidence["line"] = rule.line

    def in_json(self, delay: float, preferences: dict[str, str]) -> str:
        """Return what follows the slot in a record of the audit, from the comma on."""
        if delay != self._delay or preferences != self._stated:
            self._delay, self._stated = delay, preferences
            if not self._shared:
                found = self.evidence
                shared = {n: found[n] for n in IN_AUDIT if found[n] is not None}
                self._shared = encode(shared)[1:-1]
            rest = f',"delay":{delay!r},{self._shared}'
            if preferences:
                rest = f'{rest},"preferences":{encode(preferences)}'
            self._json = rest
        return self._json


def copy_of(known: Known, snapshot: Snapshot, settings: Settings) -> Copy:
    """Return what is known of an origin as evidence tells it."""
    origin, state = known.origin, known.standing.state
    failure = cut(snapshot.failure) or None
    if state in {State.UNREACHABLE, State.GIVEN_UP}:
        return Copy(origin, state.value, failure=failure)
    status = snapshot.status
    access = access_of(status, deny_statuses=settings.deny_statuses)
    digest = None
    if access is Access.SUCCESSFUL and status not in REDIRECTS:
        digest = f"sha256:{sha256(snapshot.body).hexdigest()}"
    return Copy(
        origin,
        state.value if state is State.HOLDING else STATES.get(access, "unavailable"),
        status,
        snapshot.url,
        snapshot.checked,
        digest,
        failure,
    )


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def named(agent: Agent) -> str:
    return agent if isinstance(agent, str) else ", ".join(agent)
