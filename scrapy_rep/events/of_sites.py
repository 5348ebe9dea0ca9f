"""What is learned of a site: its robots.txt, or that it cannot be fetched."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_rep.events.event import Event

if TYPE_CHECKING:
    from scrapy_rep.events.event import Stats


@dataclass(slots=True, eq=False)
class Copy(Event):
    """What is known of an origin's robots.txt, each time that it is learned."""

    audit = "copy"
    origin: str
    """Whose robots.txt decided."""
    state: str = "unknown"
    """Of that: "fetched"; "unavailable", there is none; "denied", see REP_DENY_STATUSES;
    "holding", an earlier copy while it cannot be fetched; "unreachable"; "given up", for
    REP_UNREACHABLE_MAX; "unknown"."""
    status: int | None = None
    """Of the answer that decided."""
    url: str | None = None
    """Where that came from, redirects followed."""
    fetched: float | None = None
    """When it came, or was last confirmed by a 304."""
    digest: str | None = None
    """Of its body, octet by octet: "sha256:..."; only of a 2xx."""
    failure: str | None = None
    """Why it could not be fetched since, in words."""
    encoding: str | None = None
    """The charset in which body has that digest."""
    body: str | None = None
    """The file, with the first line of each digest; its lines end with CR, LF or both."""


@dataclass(slots=True, eq=False)
class NewCopy(Event):
    """It is learned what decides for an origin, or learned anew."""

    copy: Copy
    """Without the body."""
    body: bytes


@dataclass(slots=True, eq=False)
class Unreachable(Event):
    """A robots.txt cannot be fetched, and is asked for again."""

    counts = ("unreachable",)
    origin: str
    failure: str
    meanwhile: str
    """What holds until then, in words."""
    retry: float
    """Seconds until then."""
    again: bool
    """It could not be fetched before either."""
    waits: bool
    """Requests wait for that."""

    @property
    def topic(self) -> str:
        return "origins given up" if self.is_given_up else "unreachable origins"

    @property
    def is_given_up(self) -> bool:
        return self.again and not self.waits

    @property
    def words(self) -> str:
        if self.is_given_up:
            return (
                "robots.txt of %(origin)s is still unreachable (%(failure)s) after "
                "%(passed)s: its requests are refused%(that_waited)s; asked again in %(retry)s"
            )
        still = "still " if self.again else ""
        return (
            f"robots.txt of %(origin)s is {still}unreachable (%(failure)s): "
            f"%(meanwhile)s, in %(retry)s{'%(that_wait)s' * self.waits}"
        )


@dataclass(slots=True, eq=False)
class Reachable(Event):
    """A robots.txt is there that could not be fetched before."""

    words = "robots.txt of %(origin)s is there after %(passed)s%(that_go_on)s"
    topic = "origins that are back"
    origin: str


@dataclass(slots=True, eq=False)
class DeniesAll(Event):
    """A robots.txt allows us nothing."""

    words = "robots.txt of %(origin)s allows us nothing: %(reason)s"
    topic = "origins that allow us nothing"
    origin: str
    reason: str


@dataclass(slots=True, eq=False)
class WantsVisits(Event):
    """A robots.txt wants visits during a part of the day only."""

    topic = "origins with a visit time"
    origin: str
    start: str
    end: str
    opens_in: float
    """Seconds until then; 0: it is then."""
    most: float
    """REP_VISIT_TIME_MAX."""

    @property
    def words(self) -> str:
        told = (
            "robots.txt of %(origin)s wants visits from %(start)s to %(end)s UTC only"
        )
        if not self.opens_in:
            return told
        told = f"{told}, which begins in %(opens_in)s"
        if self.opens_in <= self.most:
            return f"{told}%(that_wait)s"
        return f"{told}, more than REP_VISIT_TIME_MAX (%(most)s), so nothing is fetched"


@dataclass(slots=True, eq=False)
class WantsDelay(Event):
    """A robots.txt asks for a delay between requests."""

    topic = "origins that ask for a delay"
    origin: str
    asked: float
    most: float
    """REP_CRAWL_DELAY_MAX."""
    drop: bool
    """Its requests are refused where it asks for more."""

    @property
    def words(self) -> str:
        how = "kept"
        if self.asked > self.most:
            done = "nothing is fetched" if self.drop else "that is kept instead"
            how = f"over REP_CRAWL_DELAY_MAX (%(most)s), so {done}"
        return f"robots.txt of %(origin)s asks for %(asked)s between requests: {how}"

    def count(self, stats: Stats) -> None:
        stats.count("crawl_delay/origins")
        stats.longest("crawl_delay/longest", self.asked)
        if self.asked > self.most:
            stats.count("crawl_delay/over_max")


@dataclass(slots=True, eq=False)
class NoTdmrep(Event):
    """A tdmrep.json cannot be fetched."""

    words = (
        "tdmrep.json of %(origin)s cannot be fetched (%(failure)s): items of pages that "
        "say nothing of text and data mining are dropped"
    )
    topic = "origins whose tdmrep.json cannot be fetched"
    counts = ("tdmrep/failures",)
    origin: str
    failure: str


@dataclass(slots=True, eq=False)
class StoreFailed(Event):
    """The store failed; what it cannot tell is fetched again."""

    level = logging.WARNING
    words = (
        "The store (REP_STORE) could not %(doing)s %(origin)s: %(error)s. The crawl goes "
        "on; what is not kept is fetched again. Later failures are only counted, in "
        "rep/store/errors"
    )
    once = True
    counts = ("store/errors",)
    doing: str
    origin: str
    error: str
