"""What users are told of a robots.txt: what is new in it, and which code of theirs keeps it from us.

Requests for robots.txt files pass middlewares and signal handlers as pages do. What these raise
says nothing of the site: it is told as what it is, and no other crawl or run gets to know of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from pydispatch.dispatcher import (  # type: ignore[import-untyped]
    getAllReceivers,
    liveReceivers,
)
from scrapy import signals
from scrapy.exceptions import IgnoreRequest

from scrapy_rep.access import describe_error
from scrapy_rep.access.answers import REDIRECT_STATUSES, Access, access_of
from scrapy_rep.engine.starts import LOST, ROBOTS_HOP, kind_of
from scrapy_rep.events.of_hosts import (
    Copy,
    DeniesAll,
    NewCopy,
    Reachable,
    Unreachable,
    WantsDelay,
    WantsVisits,
)
from scrapy_rep.events.of_requests import Judged
from scrapy_rep.events.stream import Stream
from scrapy_rep.exceptions import HostRefused
from scrapy_rep.pacing.pace import FREE
from scrapy_rep.policies.lifecycle import STATES_WITHOUT_ANSWER, State
from scrapy_rep.protocol.printable import counted, explain, shorten

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.pacing.pace import Pace
    from scrapy_rep.policies.agreed import Approval, Permissions
    from scrapy_rep.policies.cache import Known
    from scrapy_rep.protocol import Agent, Policy
    from scrapy_rep.settings import Settings
    from scrapy_rep.store import Failures, Snapshot

BUGS = (
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    TypeError,
)
"""What no site and no network makes a download handler raise."""
METHODS = frozenset({"process_request", "process_response", "process_exception"})
"""Of downloader middlewares."""
ADVICE = (
    f'let requests through that have "{ROBOTS_HOP}" in their meta, or whose URL ends '
    "with /robots.txt"
)


BROWSERS_PAGE = re.compile(
    rb"\s*<html.{0,300}?"
    rb'(?:<pre style="word-wrap: break-word; white-space: pre-wrap;"'
    rb"|resource://(?:content-accessible|gre-resources)/plaintext\.css)",
    re.IGNORECASE | re.DOTALL,
)
"""How the page begins that a browser makes of plain text: Chromium and WebKit, or Firefox."""
# scrapy.signals.robots_parsed exists from Scrapy 2.18 on.
ROBOTS_PARSED = getattr(signals, "robots_parsed", None)
STATE_WORDS = {Access.SUCCESSFUL: "fetched", Access.DENIED: "denied"}
"""The state of an answer that decides, in a ``Copy``; all others are "unavailable"."""
MEANWHILE_WORDS = {
    State.UNREACHABLE: "nothing is fetched from there until it is asked again",
    State.HOLDING: "its last good copy serves until it is asked again",
    State.GIVEN_UP: "it has been for so long that it is taken for missing until it is "
    "asked again",
}
"""What happens meanwhile in the states of failure, for the log."""


@dataclass(eq=False)
class News:
    """Tells what is new about an origin; *before* is what was known of it until then."""

    events: Stream
    settings: Settings
    permissions: Permissions
    approval: Approval

    def __post_init__(self) -> None:
        self._hear_copies = self.events.listeners(NewCopy)
        self._hear_judged = self.events.listeners(Judged)  # which has a copy, too

    def tell_of(
        self, known: Known, before: State | None, agent: Agent, now: float
    ) -> None:
        """Tell what is known of an origin, to whoever wants to know it; *before* is its state."""
        snapshot = known.snapshot
        assert snapshot is not None
        self._tell_of_reach(known, before, snapshot.failures, now)
        if self._hear_copies or self._hear_judged:
            known.copy = copy_of(known, snapshot, self.settings)
            answer = snapshot.answer
            self.events.tell(
                NewCopy(known.copy, b"" if answer is None else answer.body)
            )
        if self.approval:
            self.approval.note(known, agent)

    def tell_of_file(
        self, known: Known, before: Known | None, agent: Agent, now: float
    ) -> None:
        """Tell what a file that is new asks of *agent*."""
        origin, policy = known.origin, known.policy
        permission = self.permissions.at(origin, now)
        if permission is not None and permission.delay is not None:
            return  # nothing in it is for us
        # At a prompt the refusals, each a warning, say the same.
        is_for_us = permission is None and self.settings.wait
        if is_for_us and known.answer_id is not None and policy.denies_all(agent):
            reason = explain(policy.verdict(origin + "/", agent))
            self.events.tell(DeniesAll(origin, reason))
        pace = known.pace_for(agent, self.settings)
        if pace is not FREE and (
            before is None or before.pace_for(agent, self.settings) != pace
        ):
            self._tell_of_pace(origin, pace, now)

    def _tell_of_pace(self, origin: str, pace: Pace, now: float) -> None:
        visit, asked = pace.visit, pace.asked(now)
        if visit is not None:
            hours = visit.start.isoformat("minutes"), visit.end.isoformat("minutes")
            opens_in, most = pace.opens_in(now), self.settings.visit_time_max
            self.events.tell(WantsVisits(origin, *hours, opens_in, most))
        if asked:
            self.events.tell(WantsDelay(origin, asked, pace.most, pace.drop))

    def _tell_of_reach(
        self, known: Known, before: State | None, failures: Failures | None, now: float
    ) -> None:
        state = known.standing.state
        if failures is not None and state in MEANWHILE_WORDS:
            words = MEANWHILE_WORDS[state]
            if state is State.UNREACHABLE and known.policy.allowed("/", ""):
                words = "it is taken for missing until it is asked again"
            self.events.tell(
                Unreachable(
                    known.origin,
                    failures.reason,
                    words,
                    failures.retry_at - now,
                    again=state is before,
                    waits=known.requests_wait and self.settings.wait,
                )
            )
        elif failures is None and before is State.UNREACHABLE:
            self.events.tell(Reachable(known.origin))


def copy_of(known: Known, snapshot: Snapshot, settings: Settings) -> Copy:
    """Return what is known of an origin as an audit has it."""
    origin, state = known.origin, known.standing.state
    failures, answer = snapshot.failures, snapshot.answer
    failure = None if failures is None else shorten(failures.reason) or None
    if answer is None or state in STATES_WITHOUT_ANSWER:
        return Copy(origin, state.value, failure=failure)
    status = answer.status
    access = access_of(status, deny_statuses=settings.deny_statuses)
    digest = None
    if access is Access.SUCCESSFUL and status not in REDIRECT_STATUSES:
        digest = f"sha256:{sha256(answer.body).hexdigest()}"
    told = STATE_WORDS.get(access, "unavailable")
    if state is State.HOLDING:
        told = state.value
    return Copy(origin, told, status, answer.url, answer.checked, digest, failure)


async def tell_of_parsed(crawler: Crawler, policy: Policy, page: Request) -> None:
    """Send Scrapy's signal of a robots.txt that was parsed, if anybody listens."""
    # Listed, as a receiver may be an object that is false.
    if ROBOTS_PARSED is None or not receivers_of(crawler, ROBOTS_PARSED):
        return
    # Late, as Scrapy's interface of parsers imports Protego, too.
    from scrapy_rep.compat.scrapy_parser import RepRobotParser  # noqa: PLC0415

    await crawler.signals.send_catch_log_async(
        signal=ROBOTS_PARSED, robotparser=RepRobotParser(policy), request=page
    )


def receivers_of(crawler: Crawler, signal: object) -> list[Any]:
    """Return who receives *signal* in a crawl."""
    return list(liveReceivers(getAllReceivers(crawler, signal)))


# Who on this machine keeps a robots.txt from us


class OwnCode:
    """Tells a user which code of theirs keeps robots.txt files from us; each kind once."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._events = Stream.of(crawler)
        self._told: set[tuple[str, ...]] = set()

    def note_raised(self, error: Exception, origin: str) -> str:
        """Tell that the user's code raised *error* for *origin*; return that in words."""
        who = _raiser(error)
        words = f"{described(error)}, raised by {who}"
        if not self._is_news(who, type(error).__name__):
            return words
        if isinstance(error, IgnoreRequest):
            self._events.warn_user(
                f"{who} refuses the request for robots.txt of {origin} "
                f"({described(error)}), so nobody knows what is allowed there: {ADVICE}"
            )
        else:
            self._events.tell_failure(
                f"{who} fails at the request for robots.txt of {origin}, so nobody knows "
                "what is allowed there. The errbacks of its pages get this exception",
                error,
            )
        return words

    def note_stopped(self, origin: str, octets: int) -> str:
        """Tell that a handler of a signal stopped a download; return who that was, in words.

        So many *octets* of the body have come.
        """
        # The signal of the headers comes first.
        name = "bytes_received" if octets else "headers_received"
        receivers = receivers_of(self._crawler, getattr(signals, name))
        names = [_name_of(each) for each in receivers if not _is_ours(each)]
        who = " or ".join(names) or "a download handler or middleware"
        if self._is_news(who, name):
            self._events.warn_user(
                f"{who}, which handles the signal {name}, stopped the download of "
                f"robots.txt of {origin} after {counted(octets, 'octet')}. A rule may be "
                f"missing, so nobody knows what is allowed there: {ADVICE}"
            )
        return who

    def note_rendered(self, origin: str) -> str:
        """Tell that a browser has made a page of a robots.txt; return that in words."""
        words = "a browser made HTML of it"
        if self._is_news(words):
            self._events.warn_user(
                f"robots.txt of {origin} came as a page of a browser, in which there are no "
                "rules, so nobody knows what is allowed there: have such requests fetched "
                "without a browser, by REP_ROBOTS_META or in the middleware that sends them "
                f'there, which can tell them by "{ROBOTS_HOP}" in their meta'
            )
        return words

    def _is_news(self, *kind: str) -> bool:
        is_news = kind not in self._told
        self._told.add(kind)
        return is_news


def is_rendered(body: bytes) -> bool:
    """Tell whether *body* is the page that a browser makes of plain text."""
    return BROWSERS_PAGE.match(body) is not None


def is_of_own_code(
    error: Exception, download_error: Exception | None, url: str
) -> bool:
    """Tell whether a user's code raised *error*, rather than a download of *url*.

    *download_error* is what the download handler has raised; ``None``: nothing.
    """
    if isinstance(error, HostRefused) and error.url == url:
        return False  # the gate did, as its host is down
    if error is download_error:
        return isinstance(error, BUGS)
    # Else a network has failed there, too.
    return kind_of(error) == type(error).__name__


def described(error: Exception) -> str:
    """Return the kind of *error*, or its name and what it says."""
    name, kind = type(error).__name__, kind_of(error)
    if kind not in {name, LOST}:
        return kind
    words = describe_error(error)
    return words if words == name else f"{name}: {words}"


def _is_ours(receiver: object) -> bool:
    return str(getattr(receiver, "__module__", "")).startswith("scrapy_rep.")


def _raiser(error: Exception) -> str:
    """Return the name of the middleware's method that let *error* pass, or of what raised it."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    if not frames:
        return "something"
    # The first one: what it has sent itself may have passed others.
    methods = (each for each in frames if each.f_code.co_name in METHODS)
    frame = next(methods, frames[-1])
    function, own = frame.f_code.co_name, frame.f_locals.get("self")
    if own is None:
        return f"{frame.f_globals.get('__name__')}.{function}"
    return f"{type(own).__module__}.{type(own).__qualname__}.{function}"


def _name_of(receiver: Any) -> str:
    """Return the name of a handler of a signal: a function, a method or another callable."""
    named = receiver if hasattr(receiver, "__qualname__") else type(receiver)
    return f"{named.__module__}.{named.__qualname__}"
