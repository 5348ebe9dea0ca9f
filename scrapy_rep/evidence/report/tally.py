"""Sums an audit up: figures of the whole crawl and of each host, in bounded memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from json import dumps
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy_rep.access.origins import origin_of
from scrapy_rep.evidence.format import (
    ANSWER,
    BACK_OFF,
    BROWSER,
    COPY,
    CRAWL,
    DECISION,
    DROPPED,
    END,
    END_OF_TIME,
    SENT,
    WAITING,
)
from scrapy_rep.evidence.report.hosts import (
    BACK_OFFS,
    FAILING,
    MAX_CHARACTERS,
    MAX_URLS,
    MISSING,
    OTHER,
    PAGES_SENT,
    REFUSALS,
    ROBOTS_SENT,
    SILENT,
    WAIT_CAUSES,
    WELL,
    Copy,
    Host,
    Levels,
    Refusals,
    Timeline,
    Wait,
    Why,
    count_up_to,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.evidence.report.reader import Dated, Record

WITH_SLOT = frozenset({DECISION.name, SENT.name})
MAX_SETTINGS = 50
"""Settings of a run that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is kept of a crawl however long it is; the rest is counted and said."""

    hosts: int = 50_000
    rules_of_a_host: int = 12
    rules: int = 50_000
    """With their sample URLs, of all hosts together."""
    runs: int = 1000
    causes: int = 40


@dataclass(slots=True)
class Run:
    """One worker from its start to its end."""

    file: int
    time: float
    spider: str
    agent: str
    worker: str
    version: str
    settings: list[tuple[str, str]]
    """Names, and values as JSON."""
    end: str | None = None
    """Why it ended; ``None``: nobody said that it did."""


@dataclass(slots=True)
class Tally:
    limits: Limits = field(default_factory=Limits)
    chosen: frozenset[str] = frozenset()
    """Names of hosts that are kept whatever the limits."""
    records: int = 0
    unknown: int = 0
    """Records of types that are not known."""
    first: float | None = None
    last: float | None = None
    runs: list[Run] = field(default_factory=list)
    runs_left_out: int = 0
    copies: dict[str, Copy] = field(default_factory=dict)
    """By origin."""
    copies_left_out: int = 0
    """Records of origins beyond what is kept."""
    hosts: dict[str, Host] = field(default_factory=dict)
    others: Host = field(default_factory=lambda: Host("all other hosts"))
    """All hosts beyond what is kept, together; their gaps are not measured."""
    refused: Counter[str] = field(default_factory=Counter)
    """By cause."""
    sent_anyway: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    aborted: Counter[str] = field(default_factory=Counter)
    """Of what pages in a browser asked for."""
    results: Counter[str] = field(default_factory=Counter)
    """Answers by kind: a status, or that of an error."""
    failed: int = 0
    """Of those, 429, 5xx and errors."""
    back_offs: int = 0
    unsent: Counter[str] = field(default_factory=Counter)
    """Requests that still waited when their run ended, by cause."""
    timeline: Timeline = field(default_factory=lambda: Timeline(3))
    answers: Timeline = field(default_factory=lambda: Timeline(5))
    waiting: Levels = field(default_factory=lambda: Levels(len(WAIT_CAUSES)))
    """Requests that wait, by cause."""
    late: int = 0
    """Requests before their predecessor: gaps that could not be measured."""
    rules: int = 0
    """Kept, of all hosts together."""

    def take(self, records: Iterable[Dated]) -> None:
        """Count *records*, which come in the order of time."""
        takers = {
            CRAWL.name: self._take_crawl,
            COPY.name: self._take_copy,
            DECISION.name: self._take_decision,
            SENT.name: self._take_sent,
            ANSWER.name: self._take_answer,
            BACK_OFF.name: self._take_back_off,
            WAITING.name: self._take_waiting,
            BROWSER.name: self._take_browser,
            DROPPED.name: self._take_dropped,
            END.name: self._take_end,
        }
        for time, file, record in records:
            self.records += 1
            taker = takers.get(record["type"])
            if taker is None:
                self.unknown += 1
                continue
            if self.first is None:
                self.first = self.last = time
                for line in (self.timeline, self.answers, self.waiting):
                    line.reach(time)
            elif time > self.last:  # type: ignore[operator]
                self.last = time
            taker(time, file, record)
        if self.first is not None and self.last is not None:
            for line in (self.timeline, self.answers, self.waiting):
                line.reach(self.last)

    def _take_crawl(self, time: float, file: int, record: Record) -> None:
        if len(self.runs) >= self.limits.runs:
            self.runs_left_out += 1
            return
        settings = record.get("settings") or {}
        self.runs.append(
            Run(
                file=file,
                time=time,
                spider=text_of(record.get("spider")),
                agent=text_of(record.get("agent")),
                worker=text_of(record.get("worker")),
                version=text_of(record.get("version")),
                settings=[
                    (kept_part(name), kept_part(dumps(settings[name])))
                    for name in sorted(settings)[:MAX_SETTINGS]
                ],
            )
        )

    def _take_end(self, time: float, file: int, record: Record) -> None:
        self.waiting.end(time, file)
        for cause, number in list((record.get("unsent") or {}).items())[:MAX_SETTINGS]:
            if type(number) is int and 0 <= number < END_OF_TIME:
                self.unsent[kept_part(cause)] += number
        for run in reversed(self.runs):
            if run.file == file and run.end is None:
                run.end = kept_part(record.get("reason") or "ended")
                return

    def _take_copy(self, time: float, file: int, record: Record) -> None:
        origin = kept_part(record["origin"])
        before = self.copies.get(origin)
        if before is None and len(self.copies) >= self.limits.hosts:
            self.copies_left_out += 1
            return
        digest = record.get("digest")
        url, failure = record.get("url"), record.get("failure")
        copy = self.copies[origin] = Copy(
            state=kept_part(record["state"]),
            status=record.get("status"),
            url=None if url is None else kept_part(url),
            fetched=record.get("fetched"),
            digest=digest,
            failure=None if failure is None else kept_part(failure),
        )
        copy.text = digest
        if before is not None:
            copy.text = digest or before.text
            copy.changes = before.changes + (before.text not in {None, copy.text})
            copy.placed = before.placed

    def place_copies(self) -> None:
        """Give the copies of origins that nothing was asked of to hosts of their own."""
        for origin, copy in self.copies.items():
            if not copy.placed:
                self._host({}, origin)

    def _take_decision(self, time: float, file: int, record: Record) -> None:
        origin = _origin_of(record)
        host = self._host(record, origin)
        delay = record.get("delay")
        if delay is not None:
            host.take_delay(origin, delay)
        if record["allowed"]:
            host.allowed += 1
            return
        cause = kept_part(record.get("cause") or "no cause given")
        enforced = record.get("enforced") is not False
        self._itemise(host, cause, record, enforced=enforced)
        if not enforced:
            host.sent_anyway += 1
            self._count(self.sent_anyway, cause)
            return
        if cause == "rule":
            host.by_rule += 1
        else:
            host.otherwise += 1
        self._count(self.refused, cause)
        self.timeline.add(time, REFUSALS)

    def _itemise(
        self, host: Host, cause: str, record: Record, *, enforced: bool
    ) -> None:
        """Keep what refused a request, and the URL if there are few."""
        rule = record.get("rule")
        why = Why(
            cause=cause,
            rule=None if rule is None else kept_part(rule),
            line=record.get("line"),
            digest=record.get("digest"),
            enforced=enforced,
        )
        if host.refusals is None:
            host.refusals = {}
        refusals = host.refusals.get(why)
        if refusals is None:
            if (
                host is self.others
                or len(host.refusals) >= self.limits.rules_of_a_host
                or self.rules >= self.limits.rules
            ):
                host.not_itemised += 1
                return
            self.rules += 1
            refusals = host.refusals[why] = Refusals(
                reason=kept_part(record.get("reason") or ""),
                group=text_of(record.get("group")),
            )
        refusals.count += 1
        if len(refusals.urls) < MAX_URLS:
            refusals.urls.append(kept_part(record["url"]))

    def _take_sent(self, time: float, file: int, record: Record) -> None:
        origin = _origin_of(record)
        host = self._host(record, origin)
        if record.get("robots"):
            host.robots += 1
            self.timeline.add(time, ROBOTS_SENT)
        else:
            host.sent += 1
            self.timeline.add(time, PAGES_SENT)
        if host is not self.others and not host.take_start(time):
            self.late += 1

    def _take_answer(self, time: float, file: int, record: Record) -> None:
        status, error = record.get("status"), record.get("error")
        if status is None:
            result, kind = kept_part(error or "no answer"), SILENT
        else:
            result, kind = str(status), WELL if status < 400 else MISSING
            if status == 429 or status >= 500:
                kind = FAILING
        self.answers.add(time, kind)
        if record.get("robots"):
            return  # see the copies
        failed = kind in {FAILING, SILENT}
        self._count(self.results, result)
        self.failed += failed
        self._host(record, _origin_of(record)).take_result(result, failed=failed)

    def _take_back_off(self, time: float, file: int, record: Record) -> None:
        self.back_offs += 1
        self.answers.add(time, BACK_OFFS)
        what = kept_part(record.get("what") or OTHER)
        self._host(record, None).take_back_off(time, record["seconds"], what)

    def _take_waiting(self, time: float, file: int, record: Record) -> None:
        cause, requests = kept_part(record["cause"]), record["requests"]
        if record.get("host") is not None:
            wait = Wait(time, cause, record.get("until"), requests)
            self._host(record, None).take_wait(wait)
            return
        known = WAIT_CAUSES.index(cause if cause in WAIT_CAUSES else OTHER)
        self.waiting.set(time, file, known, requests)

    def _take_dropped(self, time: float, file: int, record: Record) -> None:
        self._count(self.dropped, kept_part(record.get("cause") or "no cause given"))

    def _take_browser(self, time: float, file: int, record: Record) -> None:
        if not record["allowed"] and record.get("enforced") is not False:
            cause = kept_part(record.get("cause") or "no cause given")
            self._count(self.aborted, cause)

    def _host(self, record: Record, origin: str | None) -> Host:
        """Return the host of a record: the one whose pace it keeps.

        Where that is not said, as in older audits, it is that of its URL: several download
        slots of one host are one host.
        """
        name = record.get("host") or host_name_of(origin or "")
        if not name and record.get("type") in WITH_SLOT:
            name = record.get("slot")
        name = kept_part(name or "")
        host = self.hosts.get(name)
        if host is None:
            if len(self.hosts) >= self.limits.hosts and name not in self.chosen:
                return self.others
            host = self.hosts[name] = Host(name)
        if origin is not None:
            host.add_origin(origin)
            copy = self.copies.get(origin)
            if copy is not None:
                copy.placed = True
        return host

    def _count(self, causes: Counter[str], cause: str) -> None:
        count_up_to(self.limits.causes, causes, cause)


def kept_part(text: str) -> str:
    """Return as much of a text from the web as is kept of it."""
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}… ({len(text) - MAX_CHARACTERS:,} more characters)"


def _origin_of(record: Record) -> str | None:
    """Return the origin of a record's URL; ``None``: it has none."""
    origin = origin_of(record["url"])
    return None if origin is None else kept_part(origin)


def host_name_of(origin: str) -> str:
    try:
        return urlsplit(origin).hostname or origin
    except ValueError:
        return origin


def text_of(value: Any) -> str:
    """Return a string, or a list of some, as one string."""
    if isinstance(value, list):
        return kept_part(", ".join(str(each)[:MAX_CHARACTERS] for each in value[:20]))
    return "" if value is None else kept_part(str(value))
