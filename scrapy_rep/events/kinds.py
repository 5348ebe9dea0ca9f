"""All kinds of events, in their order: the crawl as a whole; what becomes of a request; what is learned of
a site; what happens to a host. Who reads audits needs them without Scrapy.
"""

# mypy: disable-error-code="override"

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy_rep.events import Event
from scrapy_rep.protocol.answers import Demand
from scrapy_rep.protocol.printable import counted, explain, shorten

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.statscollectors import StatsCollector

    from scrapy_rep.exceptions import RobotsRefused
    from scrapy_rep.protocol import Agent, Policy, Verdict

FORMAT = 1
MAX_TOKENS = 20
"""User-agent lines that are kept with each request at the most."""
NEWS_SECONDS = 0.5
"""Seconds: a host that is parked for so much longer than before is news. Requests that were in
flight together are answered with a pause at nearly the same time."""
GOES_ON = {"parked": "is no longer parked", "visit_time": "may be visited now"}


class Began(Event):
    """The crawl begins: the first line of its audit."""

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


class Ended(Event):
    """The crawl ended: the last line of its audit, unless it was killed."""

    audit = "end"
    reason: str | None
    """Why the crawl ended."""
    unsent: dict[str, Any] | None
    """How many requests were never sent, by cause of waiting."""


class Waited(Event):
    """What waits: one host, noticed for the first time; or, where no host is named,
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


class AuditFailed(Event):
    """The audit could not be written, or not stored at its end."""

    level = logging.ERROR
    words = (
        "The audit (REP_AUDIT_URI) could not be written to %(name)s: %(error)s. The crawl "
        "goes on; what is missing is counted in rep/audit/lost, and later failures in "
        "rep/audit/errors"
    )
    situation = ""  # it is told once
    name: str
    error: str
    times: int

    def count(self, stats: StatsCollector) -> None:
        stats.inc_value("rep/audit/errors", self.times)


class NotMarked(Event):
    """An item has no field for evidence, or is none."""

    level = logging.WARNING
    words = (
        "Items without a field %(field)s (REP_EVIDENCE_FIELD) are not marked: %(error)s. "
        "They are counted in rep/evidence/no_field"
    )
    situation = ""  # it is told once
    counts = ("evidence/no_field",)
    field: str
    error: Exception


class Counted(Event):
    """Something happened that only a stat knows of."""

    name: str
    number: int

    def count(self, stats: StatsCollector) -> None:
        stats.inc_value(f"rep/{self.name}", self.number)


class Told(Event):
    """The user is told what is so, or could be better."""

    words = "%(sentence)s"
    sentence: str


class Warned(Told):
    """The user is told what must be changed."""

    level = logging.WARNING
    raised: BaseException | None = None


class Failed(Told):
    """The user is told what has failed, of ours or of theirs."""

    level = logging.ERROR
    raised: BaseException | None = None


class Judged(Event):
    """The gate has decided about a request: it is sent, or refused."""

    request: Request
    url: str
    """What was judged."""
    agent: Agent
    verdict: Verdict
    cause: str | None
    """Why not, as in ``rep/forbidden/CAUSE``; ``None``: it is allowed."""
    enforced: bool
    """False: REP_OBEY leaves that out, so it is sent."""
    policy: Policy | None
    """``None``: nothing is known of the origin."""
    copy: Copy


def said_by(verdict: Verdict) -> dict[str, Any]:
    """Return what a ``Ruled`` has of its verdict."""
    rule, group = verdict.rule, verdict.group
    kind = "Allow" if rule and rule.allow else "Disallow"
    return {
        "allowed": verdict.allowed,
        "reason": shorten(explain(verdict)),
        "group": None if group is None else [*map(shorten, group[:MAX_TOKENS])],
        "rule": rule and shorten(f"{kind}: {rule.path}"),
        "line": rule and rule.line,
    }


class Ruled(Event):
    """What was decided by a robots.txt, and why."""

    url: str
    """What was judged."""
    agent: str | None
    """Whose rules were obeyed."""
    allowed: bool
    """Whether it may be fetched."""
    cause: str | None
    """Why not, as in rep/forbidden/CAUSE (Stats and log)."""
    enforced: bool | None
    """False: REP_OBEY leaves that out, so the request was sent."""
    reason: str | None
    """The same in words."""
    group: list[str] | None
    """The user-agent lines of the groups that hold."""
    rule: str | None
    """The rule that decided, such as "Disallow: /private/"."""
    line: int | None
    """Its line in the file, counted from 1."""
    digest: str | None
    """Of its body, octet by octet: "sha256:..."; only of a 2xx."""


class Decided(Ruled):
    """What was decided about a request; the origin is that of its url."""

    audit = "decision"
    host: str | None
    """Whose pace it keeps."""
    delay: float | None
    """The seconds between two requests that the site asks for, whether REP_OBEY has that or
    not; 0: it asks for none."""
    preferences: dict[str, Any] | None
    """What the file says of the use of the URL, such as {"train-ai": "no"}; see Preferences."""


class InBrowser(Ruled):
    """What was decided about a request that a page in a browser makes by itself."""

    level = logging.DEBUG
    audit = "browser"

    @property
    def words(self) -> str:
        done = "Aborted" if self.enforced else "Not aborted (REP_OBEY)"
        told = f"{done} of a page in the browser, %(url)s: %(reason)s"
        return told if self.cause else ""

    def count(self, stats: StatsCollector) -> None:
        if self.cause and self.enforced:
            stats.inc_value("rep/browser/aborted")
            stats.inc_value(f"rep/browser/aborted/{self.cause}")
        elif self.cause:
            stats.inc_value("rep/browser/would_abort")
        else:
            stats.inc_value("rep/browser/allowed")


class Refused(Event):
    """A request is not sent."""

    refusal: RobotsRefused
    cause: str
    by_robots: bool
    """Its robots.txt is against it, rather than its host."""
    instead: str = ""
    """For a prompt: what a crawl would do. Then it is a warning, for a person."""

    @property
    def level(self) -> int:
        return logging.WARNING if self.instead else logging.DEBUG

    @property
    def words(self) -> str:
        told = "Not fetched. %(refusal)s. %(instead)s"
        return told if self.instead else "%(refusal)s"

    def count(self, stats: StatsCollector) -> None:
        if self.by_robots:
            stats.inc_value("robotstxt/forbidden")
        stats.inc_value(f"rep/forbidden/{self.cause}")


class SentAgainstRules(Event):
    """A request is sent against its robots.txt: REP_OBEY leaves that out."""

    level = logging.DEBUG
    words = "Sent all the same (REP_OBEY): %(refusal)s"
    counts = ("would_forbid", "would_forbid/{cause}")
    refusal: RobotsRefused
    cause: str


class Exempt(Event):
    """A request is not judged."""

    request: Request


class OnTheWay(Exempt):
    """A request is not judged, as a middleware holds up its robots.txt for it."""

    words = (
        "%(url)s is not judged: a middleware sends it before it lets the request for "
        "robots.txt of %(origin)s go"
    )
    topic = "requests that hold up their own robots.txt"
    counts = ("on_the_way",)
    url: str
    origin: str


class FromHttpCache(Exempt):
    """A page comes from the HTTP cache, as its robots.txt cannot be fetched."""

    level = logging.DEBUG
    words = "From the HTTP cache, as robots.txt of %(origin)s is unreachable: %(url)s"
    counts = ("from_http_cache",)
    url: str
    origin: str


class Unsent(Event):
    """A request was not sent: it must not wait, or the crawl ended meanwhile."""

    level = logging.DEBUG
    words = "%(why)s"
    counts = ("backoff/unsent",)
    why: Exception


class Sent(Event):
    """A request is handed over to be downloaded, each time that it is; where nobody has judged
    it, it has this line only.
    """

    audit = "sent"
    url: str
    """Of the request."""
    host: str | None
    """Whose pace it keeps."""
    robots: bool | None = None
    """True for a robots.txt."""
    exempt: str | None = None
    """Why nobody has judged it: "dont_obey_robotstxt"; "on_the_way", its robots.txt waited for
    it; "REP_HOSTS: ..." with the reason given there; "no_origin", it is neither http nor https;
    "passed_by", it has not come through RepMiddleware."""
    judged: str | None = None
    """By which URL it was judged instead (robotstxt_url)."""


class Answered(Event):
    """What came of a request that was sent; answers of Scrapy's HTTP cache have none."""

    audit = "answer"
    url: str
    """Of the request."""
    host: str | None
    """Whose pace it keeps."""
    seconds: float | None
    """From when it was sent until the answer was there."""
    headers: float | None
    """From when it was sent until the headers were there, or it had failed: then the delay of
    its host begins; only where there is one."""
    octets: int | None
    """Of the body, as it was sent."""
    status: int | None
    """Of the answer."""
    error: str | None
    """Why there is none: its kind, such as "timeout"."""
    robots: bool | None
    """True for a robots.txt."""


class Dropped(Event):
    """Page rules or the headers of a page have decided about a request or an item."""

    level = logging.DEBUG
    words = "Dropped %(shown)s, found on %(page)s, which says %(reason)s"
    counts = ("page/dropped/{cause}",)
    audit = "dropped"
    url: str
    """Of the request; of an item that of its page."""
    page: str | None
    """The URL of the page."""
    what: str | None
    """"request" or "item"."""
    agent: str | None
    """Whose rules were obeyed."""
    cause: str
    """As in rep/page/dropped/CAUSE (Stats and log)."""
    reason: str | None
    """The same in words."""

    @property
    def shown(self) -> str:
        return "an item" if self.what == "item" else f"the request for {self.url}"


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


EVENTS: tuple[type[Event], ...] = tuple(
    each
    for each in list(vars().values())
    if isinstance(each, type) and issubclass(each, Event) and each is not Event
)
"""In the order in which they are declared."""
