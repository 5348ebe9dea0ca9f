"""What evidence and audit tell about one decision, apart from its request."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from scrapy_rep.access.results import REDIRECT_STATUSES, Access, access_of
from scrapy_rep.evidence.format import DECISION, encode
from scrapy_rep.exceptions import explain
from scrapy_rep.pacing import FREE
from scrapy_rep.policies.lifecycle import STATES_WITHOUT_ANSWER, State

if TYPE_CHECKING:
    from scrapy_rep.pacing import Pace
    from scrapy_rep.policies.cache import Known
    from scrapy_rep.protocol import Agent, Verdict
    from scrapy_rep.settings import Settings
    from scrapy_rep.store import Snapshot

MAX_CHARACTERS, MAX_TOKENS = 500, 20
"""Characters of a text, and user-agent lines, that evidence has at the most: a rule may be half a
megabyte long, and there is evidence for each request."""

STATE_WORDS = {Access.SUCCESSFUL: "fetched", Access.DENIED: "denied"}
"""The state of an answer that decides, in evidence; all others are "unavailable"."""
REQUEST_FIELDS = frozenset({"time", "url", "slot", "host", "delay", "preferences"})
DECISION_FIELDS = tuple(name for name in DECISION.kinds if name not in REQUEST_FIELDS)
"""Fields that all records of one decision have in common."""


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """What was known of a robots.txt when it decided, as keys of evidence."""

    origin: str
    state: str
    status: int | None = None
    robots_url: str | None = None
    fetched: float | None = None
    digest: str | None = None
    failure: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def as_record(self) -> dict[str, Any]:
        """Return the values of a ``COPY``, but for the body."""
        values = self.as_dict()
        values["url"] = values.pop("robots_url")
        return values


@dataclass(slots=True, eq=False)
class Decision:
    """A decision, shared by many requests to an origin."""

    copy: Copy
    agent: Agent
    verdict: Verdict
    cause: str | None
    """The cause in the stats; ``None``: the request is let through."""
    enforced: bool
    """False: REP_OBEY leaves it out."""
    pace: Pace = FREE
    """What is asked of our speed, even if REP_OBEY leaves it out."""
    preferences: dict[str, str] | None = field(default_factory=dict)
    """The preferences for all URLs; ``None``: they depend on the URL."""
    evidence: dict[str, Any] = field(init=False)
    """A plain dict, in which the parts that depend on the request are filled in later."""
    host: str = ""
    """The host whose pace all of its requests keep; empty: they differ."""
    _shared: str = ""
    """The JSON that all of its records have in common, without braces."""
    _json: str = ""
    """What ``in_json`` returned last, for these two:"""
    _delay: float = 0.0
    _stated: dict[str, str] | None = None

    def __post_init__(self) -> None:
        rule, group = self.verdict.rule, self.verdict.group
        self.evidence = {
            "url": "",
            "time": 0.0,
            "agent": name_of(self.agent),
            "allowed": self.verdict.allowed,
            "cause": self.cause,
            "enforced": self.enforced,
            "reason": shorten(explain(self.verdict)),
            "group": None
            if group is None
            else [shorten(t) for t in group[:MAX_TOKENS]],
            "rule": None,
            "line": None,
            "delay": 0.0,
            "preferences": {},
            **self.copy.as_dict(),
        }
        if rule is not None:
            kind = "Allow" if rule.allow else "Disallow"
            self.evidence["rule"] = shorten(f"{kind}: {rule.path}")
            self.evidence["line"] = rule.line

    def in_json(self, delay: float, preferences: dict[str, str]) -> str:
        """Return the rest of a record's JSON, after its slot and host, from the comma on."""
        if delay != self._delay or preferences != self._stated:
            self._delay, self._stated = delay, preferences
            if not self._shared:
                found = self.evidence
                shared = {n: found[n] for n in DECISION_FIELDS if found[n] is not None}
                self._shared = encode(shared)[1:-1]
            rest = f',"delay":{delay!r},{self._shared}'
            if preferences:
                rest = f'{rest},"preferences":{encode(preferences)}'
            self._json = rest
        return self._json


def copy_of(known: Known, snapshot: Snapshot, settings: Settings) -> Copy:
    """Return what is known of an origin in the form of evidence."""
    origin, state = known.origin, known.standing.state
    failures, answer = snapshot.failures, snapshot.answer
    failure = None if failures is None else shorten(failures.reason) or None
    if answer is None or state in STATES_WITHOUT_ANSWER:
        return Copy(origin, state.value, failure=failure)
    status = answer.status
    access = access_of(status, deny_statuses=settings.deny_statuses)
    digest = None
    if access is Access.SUCCESSFUL and status not in REDIRECT_STATUSES:
        digest = f"sha256:{sha256(answer.body).hexdigest()}"
    return Copy(
        origin,
        state.value
        if state is State.HOLDING
        else STATE_WORDS.get(access, "unavailable"),
        status,
        answer.url,
        answer.checked,
        digest,
        failure,
    )


def shorten(text: str) -> str:
    """Return *text*, cut to ``MAX_CHARACTERS``."""
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[: MAX_CHARACTERS - 3]}..."


def name_of(agent: Agent) -> str:
    """Return the name of an agent in evidence: its tokens, separated by commas."""
    return agent if isinstance(agent, str) else ", ".join(agent)
