"""What decided? The witness keeps it: on ``request.meta`` (REP_EVIDENCE), on items
(REP_EVIDENCE_FIELD), in the audit (REP_AUDIT_URI). Without these settings there is no witness.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any, NamedTuple

from itemadapter import ItemAdapter
from scrapy.exceptions import NotConfigured
from scrapy.spidermiddlewares.base import BaseSpiderMiddleware

from scrapy_rep.events.kinds import (
    Answered,
    Decided,
    Exempt,
    FromHttpCache,
    Judged,
    NotMarked,
    OnTheWay,
    Sent,
    said_by,
)
from scrapy_rep.events.stream import Stream
from scrapy_rep.judging.target import how_judged
from scrapy_rep.pacing.hosts import FREE, pace_of
from scrapy_rep.protocol.groups import name_of
from scrapy_rep.protocol.language import CONTENT_USAGE
from scrapy_rep.protocol.printable import MAX_CHARACTERS
from scrapy_rep.settings import PACE_DIRECTIVES, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.crawl import Crawl
    from scrapy_rep.events.kinds import Copy
    from scrapy_rep.pacing.hosts import Pace
    from scrapy_rep.protocol import Agent

META_KEY = "rep_evidence"
"""The key of evidence in ``request.meta`` (REP_EVIDENCE)."""
OF_DECISION = (
    "url", "time", "agent", "allowed", "cause", "enforced", "reason", "group", "rule", "line",
    "delay", "preferences",
)  # fmt: skip
OF_COPY = ("origin", "state", "status", "robots_url", "fetched", "digest", "failure")
EVIDENCE = OF_DECISION + OF_COPY
"""The keys of evidence, declared in ``Decided`` and ``Copy`` ("robots_url" is its ``url``)."""
MAX_DECISIONS = 4096
URL = '"url":""'


class Wishes(NamedTuple):
    """What a file wishes of an agent, read once, and what it has decided."""

    pace: Pace
    """What is asked of our speed, even if REP_OBEY leaves it out."""
    preferences: dict[str, str] | None
    """Those for all URLs; ``None``: they depend on the URL."""
    host: str
    """Whose pace all its requests keep; "": that depends on the request."""
    decisions: dict[tuple[object, ...], Decision]


class Decision:
    """A decision, shared by many requests to a host."""

    def __init__(
        self, judged: Judged, host: str, delay: float, preferences: dict[str, str]
    ) -> None:
        self.verdict = judged.verdict  # by whose id it is found
        decided = Decided(
            "",
            name_of(judged.agent),
            cause=judged.cause,
            enforced=judged.enforced,
            digest=judged.copy.digest,
            host=host,
            delay=delay,
            preferences=preferences or None,
            **said_by(judged.verdict),
        )
        self.rest = decided.as_json().partition(URL)[2]
        self.evidence = {name: getattr(decided, name) for name in OF_DECISION}
        """For ``request.meta``, but for what depends on the request."""
        self.evidence["preferences"] = preferences
        for name in OF_COPY:
            self.evidence[name] = getattr(judged.copy, name.removeprefix("robots_"))

    def line(self, judged: Judged) -> str:
        about = f'"time":{judged.time:.4f},"url":{quoted(judged.url)}'
        return f'{{"type":"decision",{about}{self.rest}'

    def evidence_on(self, judged: Judged) -> dict[str, Any]:
        # A copy, as spiders may alter it.
        evidence = self.evidence.copy()
        evidence["url"], evidence["time"] = judged.url, judged.time
        evidence["preferences"] = evidence["preferences"].copy()
        if evidence["group"] is not None:
            evidence["group"] = evidence["group"].copy()
        return evidence


def collect_evidence(crawl: Crawl) -> None:
    """Keep what REP_EVIDENCE and REP_AUDIT_URI ask for from now on."""
    settings, events, write = crawl.settings, crawl.events, None
    if settings.audit_uri is not None:
        from scrapy_rep.events.audit import Audit  # noqa: PLC0415 - few need it

        agent, uri = lambda: name_of(crawl.agents.of()), settings.audit_uri
        crawl.audit = Audit(crawl.crawler, uri, events, crawl.waits, agent)
        write = crawl.audit.write
    if settings.evidence or write:
        Witness(settings, events, crawl.keeper.host_of, write)
    if events.listeners(Sent) or events.listeners(Answered):
        from scrapy_rep.events.audit import Departures  # noqa: PLC0415 - few need it

        Departures(crawl.engine.starts, events, how_judged)


@dataclass(eq=False, repr=False)
class Witness:
    _settings: Settings
    _events: Stream
    _host_of: Callable[[Request], str]
    """Returns the host whose pace a request keeps."""
    _write: Callable[[str], None] | None
    """Has a line written."""

    def __post_init__(self) -> None:
        settings, events = self._settings, self._events
        self._on_meta = settings.evidence
        self._origin_tells_host = not callable(settings.pace_by)
        self._all_paces = replace(settings, obey=PACE_DIRECTIVES)
        self._wishes: dict[tuple[Copy, Agent], Wishes] = {}
        self._kept = 0
        events.listen(self._hear, [Judged])
        events.listen(self._hear_exempt, [Exempt, OnTheWay, FromHttpCache])

    def _hear_exempt(self, event: Exempt) -> None:
        event.request.meta.pop(META_KEY, None)  # of another page

    def _hear(self, judged: Judged) -> None:
        decision = self._decision_of(judged)
        if self._write is not None:
            self._write(decision.line(judged))
        if self._on_meta:
            judged.request.meta[META_KEY] = decision.evidence_on(judged)

    def _decision_of(self, judged: Judged) -> Decision:
        wishes = self._wishes.get((judged.copy, judged.agent)) or self._read(judged)
        pace, preferences, host, decisions = wishes
        delay = 0.0 if pace is FREE else pace.asked(judged.time)
        asked: tuple[object, ...] = ()
        if preferences is None:
            preferences = self._preferences_of(judged, judged.url)
            asked = tuple(preferences.items())
        host = host or self._host_of(judged.request)
        # Policies return the same verdicts again and again.
        kind = id(judged.verdict), judged.cause, judged.enforced
        key = *kind, delay, host, *asked
        decision = decisions.get(key)
        if decision is None:
            decision = Decision(judged, host, delay, preferences)
            if len(decision.evidence["reason"]) < MAX_CHARACTERS:  # else it is large
                self._make_room()
                decisions[key] = decision
        return decision

    def _read(self, judged: Judged) -> Wishes:
        policy, copy, agent = judged.policy, judged.copy, judged.agent
        if policy is None:
            return Wishes(FREE, {}, "", {})
        host = self._host_of(judged.request) if self._origin_tells_host else ""
        pace = pace_of(policy, agent, self._all_paces)
        by_url = CONTENT_USAGE in str(policy).lower()
        of_all = None if by_url else self._preferences_of(judged, copy.origin)
        self._make_room()
        wishes = self._wishes[copy, agent] = Wishes(pace, of_all, host, {})
        return wishes

    def _make_room(self) -> None:
        if self._kept >= MAX_DECISIONS:
            self._wishes.clear()
            self._kept = 0
        self._kept += 1

    def _preferences_of(self, judged: Judged, url: str) -> dict[str, str]:
        assert judged.policy is not None
        return judged.policy.preferences(url, judged.agent).stated()


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

    def get_processed_item(self, item: Any, response: Response | None) -> Any:
        if response is None:
            return item
        evidence = response.meta.get(META_KEY)
        digest = None if evidence is None else evidence["digest"]
        try:
            ItemAdapter(item)[self._field] = digest
        except (KeyError, TypeError) as error:  # it has no such field, or is no item
            self._events.tell(NotMarked(repr(self._field), error))
        return item
