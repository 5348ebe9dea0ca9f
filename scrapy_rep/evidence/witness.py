"""The witness keeps what decided about each request, so that it can be shown later.

REP_EVIDENCE puts that on ``request.meta``, REP_EVIDENCE_FIELD on items, REP_AUDIT_URI writes it
down. Without one of these settings there is no witness.
"""

from __future__ import annotations

from dataclasses import replace
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any, NamedTuple

from itemadapter import ItemAdapter
from scrapy.exceptions import NotConfigured
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware

from scrapy_rep.events.of_requests import (
    Decided,
    Exempt,
    FromHttpCache,
    Judged,
    OnTheWay,
    said_by,
)
from scrapy_rep.events.stream import Stream
from scrapy_rep.judging.ruling import stated_answers
from scrapy_rep.judging.target import name_of
from scrapy_rep.pacing.pace import FREE, pace_of
from scrapy_rep.protocol.fields import CONTENT_USAGE
from scrapy_rep.protocol.printable import MAX_CHARACTERS
from scrapy_rep.settings import PACE_DIRECTIVES, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.events.of_hosts import Copy
    from scrapy_rep.pacing.pace import Pace
    from scrapy_rep.protocol import Agent

META_KEY = "rep_evidence"
"""The key of evidence in ``request.meta`` (REP_EVIDENCE)."""
OF_DECISION = (
    "url", "time", "agent", "allowed", "cause", "enforced", "reason", "group", "rule", "line",
    "delay", "preferences",
)  # fmt: skip
OF_COPY = ("origin", "state", "status", "robots_url", "fetched", "digest", "failure")
EVIDENCE = OF_DECISION + OF_COPY
"""The keys of evidence, in their order. What they are is declared in ``Decided`` and ``Copy``,
in which "robots_url" is ``url``."""
MAX_DECISIONS = 4096
"""Decisions that are kept, each for many requests."""
Wishes = tuple["Pace", "dict[str, str] | None", "str | None"]
"""What is asked of our speed, even if REP_OBEY leaves it out; the preferences for all URLs, and the
host that all of them have; ``None``: these depend on the URL."""
NOTHING: Wishes = FREE, {}, None
URL = '"url":""'


class Written(NamedTuple):
    """The record of a decision about one request."""

    time: float
    url: str
    rest: str
    """What it has in common with others, in JSON."""

    def as_json(self) -> str:
        url = quoted(self.url)
        return f'{{"type":"decision","time":{self.time:.4f},"url":{url}{self.rest}'


class Decision:
    """A decision, shared by many requests to a host."""

    def __init__(
        self, judged: Judged, host: str, delay: float, preferences: dict[str, str]
    ) -> None:
        # It holds these two, by whose ids it is found.
        self.verdict, self.copy = judged.verdict, judged.copy
        decided = Decided(
            "",
            name_of(judged.agent),
            cause=judged.cause,
            enforced=judged.enforced,
            digest=self.copy.digest,
            host=host,
            delay=delay,
            preferences=preferences or None,
            **said_by(judged.verdict),
        )
        self.rest = decided.as_json().partition(URL)[2]
        """What its records have in common."""
        self.evidence = {name: getattr(decided, name) for name in OF_DECISION}
        """A dict for ``request.meta``, but for what depends on the request."""
        self.evidence["preferences"] = preferences
        for name in OF_COPY:
            self.evidence[name] = getattr(self.copy, name.removeprefix("robots_"))

    def evidence_on(self, judged: Judged) -> dict[str, Any]:
        """Return a copy: nothing that a spider does to one request alters another."""
        evidence = self.evidence.copy()
        evidence["url"], evidence["time"] = judged.url, judged.time
        evidence["preferences"] = evidence["preferences"].copy()
        if evidence["group"] is not None:
            evidence["group"] = evidence["group"].copy()
        return evidence


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
        self._wishes: dict[tuple[Copy, Agent], Wishes] = {}
        self._decisions: dict[tuple[object, ...], Decision] = {}
        events.listen(self._hear, [Judged])
        events.listen(self._hear_exempt, [Exempt, OnTheWay, FromHttpCache])

    def _hear_exempt(self, event: Exempt) -> None:
        """Drop evidence of another page."""
        event.request.meta.pop(META_KEY, None)

    def _hear(self, judged: Judged) -> None:
        decision = self._decision_of(judged)
        if self._put is not None:
            self._put(Written(judged.time, judged.url, decision.rest))
        if self._on_meta:
            judged.request.meta[META_KEY] = decision.evidence_on(judged)

    def _decision_of(self, judged: Judged) -> Decision:
        pace, preferences, host = self._wishes_of(judged)
        delay = 0.0 if pace is FREE else pace.asked(judged.time)
        if preferences is None and judged.policy is not None:
            said = judged.policy.preferences(judged.url, judged.agent)
            preferences = stated_answers(said)
        if host is None:
            host = self._host_of(judged.request)
        # Policies return the same verdicts again and again.
        kind = id(judged.verdict), id(judged.copy), judged.agent, judged.cause
        asked = tuple(preferences.items()) if preferences else ()
        key = *kind, judged.enforced, host, delay, asked
        decision = self._decisions.get(key)
        if decision is None:
            decision = Decision(judged, host, delay, preferences or {})
            if len(decision.evidence["reason"]) < MAX_CHARACTERS:  # else it is large
                if len(self._decisions) >= MAX_DECISIONS:
                    self._decisions.clear()
                self._decisions[key] = decision
        return decision

    def _wishes_of(self, judged: Judged) -> Wishes:
        """Return what is wished in a file, read once for each agent, as that takes long."""
        policy, copy, agent = judged.policy, judged.copy, judged.agent
        if policy is None:
            return NOTHING
        wishes = self._wishes.get((copy, agent))
        if wishes is None:
            by_url = CONTENT_USAGE in str(policy).lower()
            pace = pace_of(policy, agent, self._all_paces)
            said = policy.preferences(copy.origin, agent)
            host = self._host_of(judged.request) if self._origin_tells_host else None
            wishes = pace, None if by_url else stated_answers(said), host
            if len(self._wishes) >= MAX_DECISIONS:
                self._wishes.clear()
            self._wishes[copy, agent] = wishes
        return wishes


class EvidenceSpiderMiddleware(BaseSpiderMiddleware):
    """Puts the digest of the robots.txt that let a page be fetched on the page's items.

    In a pipeline an item has no response any more, so this is a spider middleware.
    """

    def __init__(self, crawler: Crawler) -> None:
        field = Settings.of(crawler).evidence_field
        if field is None or not crawler.settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured  # without a message: it is what the user wants
        super().__init__(crawler)
        self._field = field
        self._events = Stream.of(crawler)
        self._warned = False

    def get_processed_item(self, item: Any, response: Response | None) -> Any:
        """Return *item* with the digest in its field; ``None``: no file decided."""
        if response is None:
            return item
        evidence = response.meta.get(META_KEY)
        digest = None if evidence is None else evidence["digest"]
        try:
            ItemAdapter(item)[self._field] = digest
        except (KeyError, TypeError) as error:  # it has no such field, or is no item
            self._events.count("evidence/no_field")
            if not self._warned:
                self._warned = True
                self._events.warn_user(
                    f"Items without a field {self._field!r} (REP_EVIDENCE_FIELD) are not "
                    f"marked: {error}. They are counted in rep/evidence/no_field"
                )
        return item
