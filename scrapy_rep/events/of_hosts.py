"""What happens to a host: it waits and goes on, is parked, is down, has had its budget."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_rep.access.demands import Demand
from scrapy_rep.events.event import Event
from scrapy_rep.protocol.printable import counted

if TYPE_CHECKING:
    from scrapy_rep.events.event import Stats

NEWS_SECONDS = 0.5
"""Seconds: a host that is parked for so much longer than before is news. Requests that were in
flight together are answered with a pause at nearly the same time."""
GOES_ON = {"parked": "is no longer parked", "visit_time": "may be visited now"}


@dataclass(slots=True, eq=False)
class Permitted(Event):
    """A host has allowed us more as the crawl begins."""

    words = "%(host)s is not judged by its robots.txt (REP_HOSTS): %(why)s"
    topic = "hosts that have allowed us more"
    host: str
    why: str


@dataclass(slots=True, eq=False)
class PutOff(Event):
    """A host is not asked now, as its requests must wait."""

    level = logging.DEBUG
    words = "%(host)s waits for %(wait)s, as %(why)s"
    counts = ("put_off",)
    host: str
    wait: float
    cause: str


@dataclass(slots=True, eq=False)
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


@dataclass(slots=True, eq=False)
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

    def count(self, stats: Stats) -> None:
        asked = self.asked or self.seconds
        stats.count("backoff/count")
        stats.add("backoff/time", self.longer or 0.0)
        stats.longest("backoff/longest", asked)
        if asked > self.seconds:
            stats.count("backoff/over_max")


@dataclass(slots=True, eq=False)
class Demanded(Event):
    """A site gives a page only with a licence, or for a payment."""

    topic = "hosts that want a licence or a payment"
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


@dataclass(slots=True, eq=False)
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


@dataclass(slots=True, eq=False)
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
