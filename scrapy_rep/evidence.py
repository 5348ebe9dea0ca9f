"""Evidence: what decided about each request, kept to be shown later.

REP_EVIDENCE puts it on ``request.meta``, REP_AUDIT_URI writes it down. Who looks on is a
``Witness``; without one of these settings there is none.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from itemadapter import ItemAdapter
from scrapy.exceptions import NotConfigured
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware

from scrapy_rep.audit import Audit, encode
from scrapy_rep.exceptions import explain
from scrapy_rep.life import State
from scrapy_rep.pace import FREE, pace_of
from scrapy_rep.protocol.access import REDIRECTS, Access, access_of
from scrapy_rep.protocol.preferences import CONTENT_USAGE
from scrapy_rep.purposes import answers
from scrapy_rep.report import Report
from scrapy_rep.settings import Settings
from scrapy_rep.signals import dropped

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.agents import Agent, Agents
    from scrapy_rep.cache import Known
    from scrapy_rep.downloads import Downloads
    from scrapy_rep.exceptions import RobotsRefused
    from scrapy_rep.pace import Pace
    from scrapy_rep.policies import Policies
    from scrapy_rep.protocol import Verdict
    from scrapy_rep.store import Snapshot

logger = logging.getLogger("scrapy_rep")

KEY = "rep_evidence"
"""Of ``request.meta``."""
MOST_SAID = 4096
"""Decisions of which the part that does not depend on the URL is remembered."""
LONGEST, MOST_TOKENS = 500, 20
"""Characters of a text, and user-agent lines, beyond which evidence is cut: a rule may be
half a megabyte long, and there is evidence for each request."""

PACES = frozenset({"crawl-delay", "request-rate", "visit-time"})
"""Of REP_OBEY: what asks something of our speed."""
STATES = {Access.SUCCESSFUL: "fetched", Access.DENIED: "denied"}
IN_AUDIT = (
    "origin",
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


COPY_FIELDS = tuple(field.name for field in fields(Copy))


class Asked(NamedTuple):
    """What a copy says to an agent besides its rules, which is slow to read."""

    pace: Pace
    """What is asked of our speed, also where REP_OBEY leaves it out."""
    preferences: dict[str, str] | None
    """The answers for every URL; ``None``: they depend on it."""


@dataclass(slots=True, eq=False)
class Said:
    """The part of a decision's evidence that does not depend on the URL."""

    evidence: dict[str, Any]
    shared: str
    """The same for the audit, in JSON without braces."""
    asked: Asked
    _slot: str | None = None
    _delay: float = 0.0
    _preferences: dict[str, str] | None = None
    _json: str = ""
    """What ``in_json`` returned last, for these."""

    def in_json(self, slot: str, delay: float, preferences: dict[str, str]) -> str:
        """Return what follows the URL in a record of the audit."""
        if (
            slot != self._slot
            or delay != self._delay
            or preferences != self._preferences
        ):
            self._slot, self._delay, self._preferences = slot, delay, preferences
            rest = f'"slot":{encode(slot)},"delay":{delay!r},{self.shared}'
            if preferences:
                rest = f'{rest},"preferences":{encode(preferences)}'
            self._json = rest
        return self._json


NOTHING_ASKED = Asked(FREE, {})


class Witness:
    """Sees every decision of the gate, and every copy of a robots.txt."""

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        policies: Policies,
        agents: Agents,
        downloads: Downloads,
    ) -> None:
        self._settings = settings
        self._on_meta = settings.evidence
        self._policies = policies
        self._agents = agents
        self._downloads = downloads
        self._all_kept = settings.obey >= PACES
        self._all_paces = replace(settings, obey=PACES)
        # Both are emptied when they are full.
        self._asked: dict[tuple[Copy, Agent], Asked] = {}
        self._said: dict[tuple[Copy, Agent, Verdict, str | None, bool], Said] = {}
        self._left_out: tuple[Request, RobotsRefused, str] | None = None
        self._audit: Audit | None = None
        policies.learned = self._learned
        if settings.audit_uri is not None:
            self._audit = Audit(
                crawler,
                settings.audit_uri,
                now=policies.now,
                agent=lambda: _named(agents.default()),
            )
            downloads.sent = self._audit.sent
            crawler.signals.connect(self._dropped, dropped)

    async def close(self, reason: str) -> None:
        if self._audit is not None:
            await self._audit.close(reason)

    def _learned(self, known: Known, snapshot: Snapshot) -> None:
        copy = known.evidence = copy_of(known, snapshot, self._settings)
        if self._audit is not None:
            self._audit.copy(_record_of(copy), snapshot.body)

    def _dropped(
        self, what: str, url: str, response: Response, cause: str, reason: str
    ) -> None:
        """Write down what page rules have decided about a request or an item."""
        assert self._audit is not None
        assert response.request is not None
        record = {
            "page": response.url,
            "what": what,
            "agent": _named(self._agents.of(response.request)),
            "cause": cause,
            "reason": _cut(reason),
        }
        rest = encode(record)[1:-1]
        self._audit.put("dropped", self._policies.now(), url, rest)

    # What becomes of a request

    def exempt(self, request: Request) -> None:
        """*request* is not judged. What its meta has is of the page that it comes from."""
        request.meta.pop(KEY, None)

    def left_out(self, request: Request, refusal: RobotsRefused, cause: str) -> None:
        """*refusal* is against *request*, which REP_OBEY lets pass; the first one counts."""
        if self._left_out is None or self._left_out[0] is not request:
            self._left_out = request, refusal, cause

    def passed(
        self, request: Request, url: str, known: Known, agent: Agent, verdict: Verdict
    ) -> None:
        """*request*, judged by *url*, may be sent."""
        cause = None
        if self._left_out is not None:
            left_out, self._left_out = self._left_out, None
            if left_out[0] is request:
                _, refusal, cause = left_out
                verdict = refusal.verdict
        said = self._say(known, agent, verdict, cause, enforced=cause is None)
        self._tell(request, url, known, said)

    def refused(
        self, request: Request, refusal: RobotsRefused, cause: str, known: Known | None
    ) -> None:
        """*request* is not sent; *known* is ``None`` where nothing is known yet."""
        self._left_out = None
        agent = self._agents.of(request)
        if known is None:
            copy = Copy(refusal.origin, State.UNKNOWN.value)
            said = _said(copy, agent, refusal.verdict, cause, enforced=True)
        else:
            said = self._say(known, agent, refusal.verdict, cause, enforced=True)
        self._tell(request, refusal.url, known, said)

    def _say(
        self,
        known: Known,
        agent: Agent,
        verdict: Verdict,
        cause: str | None,
        *,
        enforced: bool,
    ) -> Said:
        key = known.evidence, agent, verdict, cause, enforced
        said = self._said.get(key)
        if said is not None:
            return said
        copy = known.evidence
        if copy is None:  # asking was broken off
            copy = Copy(known.origin, known.standing.state.value)
        asked = self._what_is_asked(known, copy, agent)
        said = _said(copy, agent, verdict, cause, enforced=enforced, asked=asked)
        if copy is known.evidence and len(said.evidence["reason"]) < LONGEST:
            if len(self._said) >= MOST_SAID:
                self._said.clear()
            self._said[key] = said  # a longer one would hold too much memory
        self._policies.weigh(known)  # what was asked of its policy makes it grow
        return said

    def _what_is_asked(self, known: Known, copy: Copy, agent: Agent) -> Asked:
        asked = self._asked.get((copy, agent))
        if asked is None:
            policy = known.policy
            preferences = None
            if CONTENT_USAGE not in str(policy).lower():
                preferences = answers(policy.preferences(known.origin, agent))
            if self._all_kept:
                pace = known.pace_for(agent, self._settings)
            else:
                pace = pace_of(policy, agent, self._all_paces)
            asked = Asked(pace, preferences)
            if len(self._asked) >= MOST_SAID:
                self._asked.clear()
            self._asked[copy, agent] = asked
        return asked

    def _tell(
        self, request: Request, url: str, known: Known | None, said: Said
    ) -> None:
        now = self._policies.now()
        pace, preferences = said.asked
        delay = 0.0 if pace is FREE else pace.asked(now)
        if preferences is None:
            assert known is not None
            agent = self._agents.of(request)
            preferences = answers(known.policy.preferences(url, agent))
        if self._audit is not None:
            slot = self._downloads.slot_of(request)
            rest = said.in_json(slot, delay, preferences)
            self._audit.put("decision", now, url, rest)
        if self._on_meta:
            # Each request has its own: nothing that a spider does to one alters another.
            evidence = said.evidence.copy()
            evidence["url"] = url
            evidence["time"] = now
            evidence["delay"] = delay
            evidence["preferences"] = preferences.copy()
            if evidence["group"] is not None:
                evidence["group"] = evidence["group"].copy()
            request.meta[KEY] = evidence


def _said(
    copy: Copy,
    agent: Agent,
    verdict: Verdict,
    cause: str | None,
    *,
    enforced: bool,
    asked: Asked = NOTHING_ASKED,
) -> Said:
    rule, group = verdict.rule, verdict.group
    evidence = {
        "url": "",
        "time": 0.0,
        "agent": _named(agent),
        "allowed": verdict.allowed,
        "cause": cause,
        "enforced": enforced,
        "reason": _cut(explain(verdict)),
        "group": None if group is None else [_cut(t) for t in group[:MOST_TOKENS]],
        "rule": None,
        "line": None,
        "delay": 0.0,
        "preferences": {},
        **_fields(copy),
    }
    if rule is not None:
        kind = "Allow" if rule.allow else "Disallow"
        evidence["rule"] = _cut(f"{kind}: {rule.path}")
        evidence["line"] = rule.line
    shared = encode({name: evidence[name] for name in IN_AUDIT})[1:-1]
    return Said(evidence, shared, asked)


def copy_of(known: Known, snapshot: Snapshot, settings: Settings) -> Copy:
    """Return what is known of an origin as evidence tells it."""
    origin, state = known.origin, known.standing.state
    failure = _cut(snapshot.failure) or None
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


def _fields(copy: Copy) -> dict[str, Any]:
    return {name: getattr(copy, name) for name in COPY_FIELDS}


def _record_of(copy: Copy) -> dict[str, Any]:
    record = _fields(copy)
    record["url"] = record.pop("robots_url")
    return record


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _named(agent: Agent) -> str:
    return agent if isinstance(agent, str) else ", ".join(agent)


class EvidenceSpiderMiddleware(BaseSpiderMiddleware):
    """Puts the digest of the robots.txt that let a page be fetched on the page's items.

    In a pipeline an item has no response any more, so this is a spider middleware.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = Settings.read(crawler.settings)
        if not crawler.settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured("ROBOTSTXT_OBEY is not set")
        if settings.evidence_field is None:
            raise NotConfigured
        super().__init__(crawler)
        self._field = settings.evidence_field
        self._report = Report(crawler)
        self._warned = False

    def get_processed_item(self, item: Any, response: Response | None) -> Any:
        """Return *item* with the digest in its field; ``None``: no file decided."""
        if response is None:
            return item
        evidence = response.meta.get(KEY)
        digest = None if evidence is None else evidence["digest"]
        try:
            ItemAdapter(item)[self._field] = digest
        except (KeyError, TypeError) as error:  # it has no such field, or is no item
            self._report.count("evidence/no_field")
            if not self._warned:
                self._warned = True
                self._report.warn(
                    f"Items without a field {self._field!r} (REP_EVIDENCE_FIELD) are not "
                    f"marked: {error}. They are counted in rep/evidence/no_field"
                )
        return item
