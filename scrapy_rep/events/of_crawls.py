"""What happens to a crawl as a whole, and what its user is told."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_rep.events.event import Event

if TYPE_CHECKING:
    from scrapy_rep.events.event import Stats

FORMAT = 1


@dataclass(slots=True, eq=False)
class Began(Event):
    """The first line of a file."""

    audit = "crawl"
    format: int | None
    """1"""
    spider: str | None
    """The name of the spider."""
    agent: str | None
    """Whose rules the crawl obeys."""
    worker: str | None
    """Host, process and a random part: %(worker)s"""
    version: str | None
    """Of scrapy_rep."""
    settings: dict[str, Any] | None
    """Those of scrapy_rep but REP_AUDIT_URI, which may have a password, and
    ROBOTSTXT_USER_AGENT, USER_AGENT and DOWNLOAD_DELAY."""


@dataclass(slots=True, eq=False)
class Ended(Event):
    """The last line, unless the crawl was killed."""

    audit = "end"
    reason: str | None
    """Why the crawl ended."""
    unsent: dict[str, Any] | None
    """How many requests were never sent, by cause of waiting."""


@dataclass(slots=True, eq=False)
class Waited(Event):
    """What waits at a time: one host, noticed for the first time; or, where no host is named,
    all that wait for one cause.
    """

    audit = "waiting"
    cause: str
    """"unreachable", "visit_time", "parked" (see backoff), "elsewhere" (another worker asks
    it), "pace" (its delay), "asked" (its robots.txt); the last two have no lines of hosts."""
    requests: int
    """How many requests wait."""
    host: str | None = None
    """Whose requests wait."""
    hosts: int | None = None
    """How many hosts wait, where none is named."""
    until: float | None = None
    """When the first of them goes on, where that is known."""
    last: float | None = None
    """When the last of them does, where no host is named."""


@dataclass(slots=True, eq=False)
class AuditFailed(Event):
    """The audit could not be written, or not stored at its end."""

    level = logging.ERROR
    words = (
        "The audit (REP_AUDIT_URI) could not be written to %(name)s: %(error)s. The crawl "
        "goes on; what is missing is counted in rep/audit/lost, and later failures in "
        "rep/audit/errors"
    )
    once = True
    name: str
    error: str
    times: int

    def count(self, stats: Stats) -> None:
        stats.count("audit/errors", self.times)


@dataclass(slots=True, eq=False)
class Counted(Event):
    """Something happened that only a stat knows of."""

    name: str
    number: int

    def count(self, stats: Stats) -> None:
        stats.count(self.name, self.number)


@dataclass(slots=True, eq=False)
class Told(Event):
    """The user is told what is so, or could be better."""

    words = "%(sentence)s"
    sentence: str


@dataclass(slots=True, eq=False)
class Warned(Told):
    """The user is told what must be changed."""

    level = logging.WARNING
