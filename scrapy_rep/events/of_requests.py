"""What happens to a crawl as a whole, and what becomes of a request: judged, refused, sent, answered."""

# mypy: disable-error-code="override"

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy_rep.events import Event
from scrapy_rep.protocol.printable import explain, shorten

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.statscollectors import StatsCollector

    from scrapy_rep.events.of_hosts import Copy
    from scrapy_rep.exceptions import RobotsRefused
    from scrapy_rep.protocol import Agent, Policy, Verdict

FORMAT = 1
MAX_TOKENS = 20
"""User-agent lines that are kept with each request at the most."""


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
