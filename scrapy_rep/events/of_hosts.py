"""What is learned of a site, and what happens to a host: it waits, goes on, is parked, is down."""

# mypy: disable-error-code="override"

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy_rep.access.answers import Demand
from scrapy_rep.events import Event
from scrapy_rep.protocol.printable import counted

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

NEWS_SECONDS = 0.5
"""Seconds: a host that is parked for so much longer than before is news. Requests that were in
flight together are answered with a pause at nearly the same time."""
GOES_ON = {"parked": "is no longer parked", "visit_time": "may be visited now"}


class Copy(Event):
    """What is known of an origin's robots.txt, each time that it is learned."""

    audit = "copy"
    origin: str
    """Whose robots.txt decided."""
    state: str = "unknown"
    """What is known: "fetched"; "unavailable", there is none; "denied", see REP_DENY_STATUSES;
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


class NewCopy(Event):
    """It is learned what decides for an origin, or learned anew."""

    copy: Copy
    """Without the body."""
    body: bytes


class Unreachable(Event):
    """A robots.txt cannot be fetched, and is asked for again."""

    counts = ("unreachable",)
    origin: str
    failure: str
    meanwhile: str
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


class Reachable(Event):
    """A robots.txt is there that could not be fetched before."""

    words = "robots.txt of %(origin)s is there after %(passed)s%(that_go_on)s"
    topic = "origins that are back"
    origin: str


class DeniesAll(Event):
    """A robots.txt allows us nothing."""

    words = "robots.txt of %(origin)s allows us nothing: %(reason)s"
    topic = "origins that allow us nothing"
    origin: str
    reason: str


class WantsVisits(Event):
    """A robots.txt wants visits during a part of the day only."""

    topic = "origins with a visit time"
    origin: str
    start: str
    end: str
    opens_in: float
    """Seconds until then; 0: it is then."""
    most: float

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

    def count(self, stats: StatsCollector) -> None:
        stats.inc_value("rep/crawl_delay/origins")
        stats.max_value("rep/crawl_delay/longest", self.asked)
        if self.asked > self.most:
            stats.inc_value("rep/crawl_delay/over_max")


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


class StoreFailed(Event):
    """The store failed; what it cannot tell is fetched again."""

    level = logging.WARNING
    words = (
        "The store (REP_STORE) could not %(doing)s %(origin)s: %(error)s. The crawl goes "
        "on; what is not kept is fetched again. Later failures are only counted, in "
        "rep/store/errors"
    )
    situation = whose = ""  # it is told once
    counts = ("store/errors",)
    doing: str
    origin: str
    error: str


class Permitted(Event):
    """A host has allowed us more as the crawl begins."""

    words = "%(host)s is not judged by its robots.txt (REP_HOSTS): %(why)s"
    topic = "hosts that have allowed us more"
    host: str
    why: str


class PutOff(Event):
    """A host is not asked now, as its requests must wait."""

    level = logging.DEBUG
    words = "%(host)s waits for %(wait)s, as %(cause)s"
    counts = ("put_off",)
    host: str
    wait: float
    cause: str

    @property
    def situation(self) -> str:
        return self.cause


class GoesOn(Event):
    """A host is asked again."""

    host: str
    cause: str
    waited: float
    requests: int

    @property
    def topic(self) -> str:
        return f"hosts that go on ({self.cause})"

    @property
    def words(self) -> str:
        how = GOES_ON.get(self.cause, "is asked again")
        those = counted(self.requests, "request goes on", "requests go on")
        return f"%(host)s {how}, after %(waited)s; {those}"


class BackedOff(Event):
    """A site has asked for a pause, or is in trouble; once for all that came together."""

    audit = "backoff"
    host: str
    """Which is left alone."""
    url: str | None
    """Of the request that has told."""
    what: str | None
    """The status, or the kind of error, such as "timeout"."""
    seconds: float
    """For how long it is left alone now."""
    longer: float | None
    """By how much that is longer than it was before."""
    asked: float | None
    """The seconds for which a Retry-After has asked."""
    down: bool | None
    """True: its requests are refused (REP_BACK_OFF_GIVE_UP)."""

    @property
    def is_news(self) -> bool:
        longer = self.longer or 0.0
        return 0 < longer >= min(self.seconds, NEWS_SECONDS)

    @property
    def topic(self) -> str:
        return "parked hosts" if self.asked is None else "parked hosts (Retry-After)"

    @property
    def words(self) -> str:
        why = ""
        if self.asked is not None:
            over = self.asked > self.seconds
            why = "%(asked)s, more than REP_RETRY_AFTER_MAX" if over else "that"
            why = f": it asks for {why}"
        told = "%(host)s is parked for %(seconds)s (%(what)s for %(url)s)"
        return f"{told}{why}%(more_that_wait)s"

    def count(self, stats: StatsCollector) -> None:
        asked = self.asked or self.seconds
        stats.inc_value("rep/backoff/count")
        before = stats.get_value("rep/backoff/time", 0.0)
        stats.set_value("rep/backoff/time", before + (self.longer or 0.0))
        stats.max_value("rep/backoff/longest", asked)
        if asked > self.seconds:
            stats.inc_value("rep/backoff/over_max")


class Demanded(Event):
    """A site gives a page only with a licence, or for a payment."""

    topic = "hosts that want a licence or a payment"
    situation = ""
    counts = ("demanded", "demanded/{cause}")
    audit = "demand"
    host: str | None
    """Whose pace it keeps."""
    url: str
    """Of the request."""
    status: int | None
    """Of the answer."""
    cause: str
    """"license" (WWW-Authenticate: License) or "payment" (402)."""
    license: str | None
    """The URL of the licence, where one is named."""
    price: str | None
    """Where one is named, such as "USD 0.01"."""

    @property
    def words(self) -> str:
        wanted = Demand(self.cause, self.license or "", self.price or "").in_words()
        return (
            f"%(host)s wants {wanted.replace('%', '%%')} for a page (%(status)s for "
            "%(url)s), which is not asked for again"
        )


class Down(Event):
    """A host has done nothing but fail: no request waits for it any more."""

    words = (
        "%(host)s has done nothing but fail for %(seconds)s (REP_BACK_OFF_GIVE_UP): while "
        "it is parked, its requests are refused"
    )
    topic = "hosts that are down"
    counts = ("backoff/down",)
    host: str
    seconds: float


class BudgetSpent(Event):
    """A host gets no more requests from this crawl: the first one is refused."""

    topic = "hosts with a spent budget"
    host: str
    budget: int

    @property
    def words(self) -> str:
        return (
            f"%(host)s has had the {counted(self.budget, 'request')} that this crawl may send "
            "it (REP_HOST_BUDGET): all others are refused%(among_them)s"
        )
