"""What was agreed beyond a robots.txt, and what users are told of one.

What a site allows (``"allow"`` in REP_HOSTS) is beyond RFC 9309: nobody but the site may lift its
rules, so a reason is demanded, the host is named exactly, and the pace stays.

What people approved of (REP_APPROVED) is in a file that they read and compare: for each origin and
agent what it is told, in an order that does not depend on how the site wrote it::

    https://example.com for ExampleBot
        Allow: /cart/help
        Crawl-delay: 2
        Disallow: /cart/
        # may fetch https://example.com/
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta, timezone
from errno import EINVAL
from functools import lru_cache
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydispatch.dispatcher import (  # type: ignore[import-untyped]
    getAllReceivers,
    liveReceivers,
)
from scrapy import signals

from scrapy_rep.events.kinds import (
    Copy,
    DeniesAll,
    Judged,
    NewCopy,
    Permitted,
    Reachable,
    Unreachable,
    WantsDelay,
    WantsVisits,
)
from scrapy_rep.exceptions import SettingError
from scrapy_rep.pacing.hosts import FREE, Pace
from scrapy_rep.policies.lifecycle import STATES_WITHOUT_ANSWER, State
from scrapy_rep.protocol import RFC9309, product_tokens
from scrapy_rep.protocol.answers import REDIRECT_STATUSES, Access, access_of
from scrapy_rep.protocol.origins import host_in
from scrapy_rep.protocol.preferences import UNSTATED
from scrapy_rep.protocol.printable import duration, explain, printable, shorten

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.events.stream import Stream
    from scrapy_rep.policies.lifecycle import Known
    from scrapy_rep.protocol import Agent, Policy, RequestRate
    from scrapy_rep.settings import Settings
    from scrapy_rep.store import Failures, Snapshot

SETTING = "REP_APPROVED"
HEAD = "# What robots.txt files tell us, approved by: scrapy robots approve"
INDENT = "    "
NO_RULES, ALL_REFUSED = "no rules", "all is refused"
MOST_WARNED, MOST_COMPARED, MOST_SHOWN = 10, 10_000, 5
"""Origins of which a crawl warns, whose last difference is kept, and lines of one that are shown."""

Terms = tuple[str, ...]
Blocks = dict[str, Terms]
"""By what heads a block."""
# From Scrapy 2.18 on.
ROBOTS_PARSED = getattr(signals, "robots_parsed", None)


class Permission(NamedTuple):
    host: str
    reason: str
    """In the user's words."""
    until: date | None = None
    """The last day, in UTC."""
    delay: float | None = None
    """In seconds; ``None``: its Crawl-delay and Request-rate hold."""

    @property
    def ends(self) -> float:
        """In seconds since 1970."""
        if self.until is None:
            return inf
        day = datetime.combine(self.until, time(), timezone.utc)
        return (day + timedelta(days=1)).timestamp()

    def in_words(self) -> str:
        until, delay = "without an end", ""
        if self.until is not None:
            until = f"until the end of {self.until} (UTC)"
        if self.delay is not None:
            delay = f", with a delay of {duration(self.delay)}"
        return f"{self.reason}, {until}{delay}"

    def pace(self, asked: Pace) -> Pace:
        """*asked*: what the site's robots.txt asks for."""
        if self.delay is None:
            return asked
        if not self.delay and asked.visit is None:
            return FREE
        return Pace(self.delay, None, asked.visit, self.delay, drop=False)


class Permissions:
    """Those of one crawl. False where there are none."""

    def __init__(
        self, settings: Settings, warn: Callable[[str], None] | None = None
    ) -> None:
        """*warn* is called once for each that is found to be over."""
        self._of = {
            host: Permission(host, own["allow"], own.get("until"), own.get("delay"))
            for host, own in settings.hosts.items()
            if "allow" in own
        }
        self._warn = warn

    def __bool__(self) -> bool:
        return bool(self._of)

    def tell_of_all(self, events: Stream, now: float) -> None:
        for each in list(self._of.values()):
            if self._check(each, now) is not None:
                events.tell(Permitted(each.host, each.in_words()))

    def at(self, origin: str, now: float) -> Permission | None:
        found = self._of.get(host_in(origin)) if self._of else None
        return None if found is None else self._check(found, now)

    def _check(self, found: Permission, now: float) -> Permission | None:
        if now < found.ends:
            return found
        del self._of[found.host]
        if self._warn is not None:
            self._warn(
                f"{found.host} is judged by its robots.txt again, as what allowed us more has "
                f"ended (REP_HOSTS): {found.in_words()}"
            )
        return None

    def pace(self, origin: str, asked: Pace, now: float) -> Pace:
        found = self.at(origin, now)
        return asked if found is None else found.pace(asked)


@lru_cache(maxsize=4096)
def head_of(origin: str, agent: Agent) -> str:
    """It names the agent's tokens, so that versions may change."""
    tokens = agent if isinstance(agent, tuple) else product_tokens(agent)
    return printable(f"{origin} for {', '.join(tokens) or '*'}")


def terms_of(policy: Policy, origin: str, agent: Agent, settings: Settings) -> Terms:
    verdict = policy.verdict(f"{origin}/", agent)
    if not verdict.allowed and verdict.rule is None:
        return (ALL_REFUSED,)
    rules = [
        f"{'Allow' if rule.allow else 'Disallow'}: {rule.path}"
        for group in policy.groups_for(agent)
        for rule in group.rules
        if rule.path
    ]
    if settings.dialect is RFC9309:  # in others the first rule that matches decides
        rules.sort()
    delay = policy.crawl_delay(agent)
    rate, visit = policy.request_rate(agent), policy.visit_time(agent)
    stated = policy.preferences(f"{origin}/", agent)
    answers = {purpose: stated.of(purpose).answer for purpose in settings.purpose}
    lines = [
        *dict.fromkeys(rules),
        *([f"Crawl-delay: {delay:g}"] if delay else ()),
        *([f"Request-rate: {_rate(rate)}"] if rate else ()),
        *([f"Visit-time: {visit.start:%H%M}-{visit.end:%H%M}"] if visit else ()),
        *(f"{name}: {its}" for name, its in answers.items() if its != UNSTATED),
    ]
    return tuple(printable(" ".join(line.split())) for line in lines) or (NO_RULES,)


def _rate(rate: RequestRate) -> str:
    span = f" {rate.start:%H%M}-{rate.end:%H%M}" if rate.start is not None else ""
    return f"{rate.requests}/{rate.seconds:g}s{span}"


def read_approved(path: str) -> Blocks:
    """Raises ``SettingError``, which names the line."""
    expected = "a file that scrapy robots approve has written"
    try:
        if Path(path).is_fifo() or Path(path).is_char_device():
            raise OSError(EINVAL, "no regular file")  # reading it may never end
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # which an odd name or text is
        why = getattr(error, "strerror", None) or error
        raise SettingError(SETTING, path, f"{expected} ({why})") from None
    blocks: dict[str, list[str]] = {}
    terms: list[str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        if line[0].isspace() and terms is not None:
            terms.append(content)
        elif not line[0].isspace() and "://" in content and " for " in content:
            terms = blocks.setdefault(content, [])
        else:
            wrong = f"{expected}; line {number}, {content!r}, is neither ORIGIN for AGENT nor below one"
            raise SettingError(SETTING, path, wrong)
    return {head: tuple(each) for head, each in blocks.items()}


class Approval:
    """What was approved for one crawl. False where nothing is asked for."""

    def __init__(self, settings: Settings, events: Stream) -> None:
        """Raises ``SettingError``."""
        self._settings = settings
        self._events = events
        self._path = settings.approved
        self._blocks = {} if self._path is None else read_approved(self._path)
        self.is_strict = self._path is not None and settings.approved_strict
        self._last: dict[str, tuple[Policy, str]] = {}
        """By head: the policy that was compared last, and what differs."""
        self._warned = 0

    def __bool__(self) -> bool:
        return self._path is not None

    def objection(self, known: Known, agent: Agent) -> str:
        """How *known* differs from what was approved for *agent*; "": in nothing."""
        head = head_of(known.origin, agent)
        policy, said = self._last.get(head, (None, ""))
        if policy is not known.policy:
            policy = known.policy
            terms = terms_of(policy, known.origin, agent, self._settings)
            said = self._difference(head, terms)
            self._last[head] = policy, said
            if len(self._last) > MOST_COMPARED:
                del self._last[next(iter(self._last))]
        return said

    def _difference(self, head: str, terms: Terms) -> str:
        before = self._blocks.get(head)
        if before is None:
            return f"{head} was not approved"
        new = [f"new is {each}" for each in terms if each not in before]
        gone = [f"gone is {each}" for each in before if each not in terms]
        found = new + gone
        if not found and terms != before:  # in a dialect whose order counts
            found = ["the order of its rules"]
        more = f"; and {len(found) - MOST_SHOWN} more" * (len(found) > MOST_SHOWN)
        return "; ".join(found[:MOST_SHOWN]) + more

    def note(self, known: Known, agent: Agent) -> None:
        """Warn of what was learned, if it differs from what was approved."""
        if known.unreachable or known.varies:
            return  # nobody knows what differs
        before = self._last.get(head_of(known.origin, agent), (None, ""))[1]
        said = self.objection(known, agent)
        if not said or said == before:
            return
        self._events.count("unapproved")
        self._warned += 1
        if self._warned > MOST_WARNED:
            return
        then = "its requests are refused" if self.is_strict else "the crawl goes on"
        self._events.warn_user(
            f"robots.txt of {known.origin} is not as approved in {self._path} (REP_APPROVED): "
            f"{said}; {then}. If it is right, type scrapy robots approve"
        )
        if self._warned == MOST_WARNED:
            self._events.warn_user("More of them are only counted, in rep/unapproved")


STATE_WORDS = {Access.SUCCESSFUL: "fetched", Access.DENIED: "denied"}
TAKEN_FOR_MISSING = "it is taken for missing until it is asked again"
MEANWHILE_WORDS = {
    State.UNREACHABLE: "nothing is fetched from there until it is asked again",
    State.HOLDING: "its last good copy serves until it is asked again",
    State.GIVEN_UP: "it has been for so long that " + TAKEN_FOR_MISSING,
}


@dataclass(eq=False)
class News:
    events: Stream
    settings: Settings
    permissions: Permissions
    approval: Approval

    def __post_init__(self) -> None:
        self._hear_copies = self.events.listeners(NewCopy)
        self._hear_judged = self.events.listeners(Judged)  # which has a copy, too

    def tell_of(
        self,
        known: Known,
        before: State | None,
        agent_of: Callable[[None], Agent],
        now: float,
    ) -> None:
        """*before*: its state until then."""
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
            self.approval.note(known, agent_of(None))

    def tell_of_file(
        self, known: Known, before: Known | None, agent: Agent, now: float
    ) -> None:
        """Tell what a new file asks of *agent*; *before* is what was known until then."""
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
                words = TAKEN_FOR_MISSING
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
    """As an audit has it."""
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
    # Listed, as a receiver may be an object that is false.
    if ROBOTS_PARSED is None or not receivers_of(crawler, ROBOTS_PARSED):
        return
    # Late, as Scrapy's interface of parsers imports Protego, too.
    from scrapy_rep.policies.scrapy_parser import RepRobotParser  # noqa: PLC0415

    await crawler.signals.send_catch_log_async(
        signal=ROBOTS_PARSED, robotparser=RepRobotParser(policy), request=page
    )


def receivers_of(crawler: Crawler, signal: object) -> list[Any]:
    return list(liveReceivers(getAllReceivers(crawler, signal)))
