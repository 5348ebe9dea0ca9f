"""What is found out about URLs, before it is put into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_rep.judging import Action
from scrapy_rep.judging.ruling import CRAWL_DELAY, objection_to_pace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.judging import Judge, Ruling
    from scrapy_rep.policies import Known
    from scrapy_rep.protocol import (
        Agent,
        Group,
        Policy,
        RequestRate,
        Rule,
        Verdict,
        VisitTime,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One answer on the way to a robots.txt."""

    status: int
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Where a policy comes from. Times are in seconds; ``None``: it has no such time."""

    asked: str
    """The URL of the robots.txt, or the name of the file."""
    came_by: str
    """"network": asked now; "confirmed": kept, and a 304 now; "store": kept; "file";
    "none": no answer decides."""
    status: int | None = None
    """Of the answer that decides."""
    url: str = ""
    """Where that came from, redirects followed."""
    state: str = ""
    """As in the table "The life of a policy" in policies/README.rst; "" for files."""
    hops: tuple[Hop, ...] = ()
    """The answers that were had now, the last one included."""
    failure: str = ""
    """Why it could not be had, in words, where it could not."""
    checked: float | None = None
    """When it came or was last confirmed, since 1970."""
    age: float | None = None
    """Since then."""
    ask_in: float | None = None
    """Until it is asked for again; negative where that is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a policy says to one agent about one URL."""

    agent: Agent
    allowed: bool | None
    """``None``: not known, as the robots.txt could not be had."""
    verdict: Verdict
    groups: tuple[Group, ...]
    """Those whose rules hold for the agent."""
    lost: tuple[Rule, ...]
    """The other rules that match, the next to decide first."""
    crawl_delay: float | None
    request_rate: RequestRate | None
    visit_time: VisitTime | None
    too_slow: bool
    """The site asks for more than REP_CRAWL_DELAY_MAX: this project goes without it."""
    ruling: Ruling
    """What this project would do with a request for the URL now."""

    @property
    def sent_now(self) -> bool | None:
        """Tell whether the request would be sent now; ``None``: not known."""
        if self.allowed is None and self.ruling.objection is not None:
            return None
        return self.ruling.action is Action.SEND

    @property
    def by_default(self) -> bool:
        """Tell whether the groups are those of ``*``, as none names the agent."""
        return self.verdict.group == ("*",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """All that is to be said about one URL."""

    url: str
    copy: Copy | None = None
    policy: Policy | None = None
    judgements: tuple[Judgement, ...] = ()
    sitemaps: tuple[str, ...] = ()
    """Absolute, where it is known to what."""
    problem: str = ""
    """Why nothing was found out, in words."""


def judgement(
    known: Known, url: str, agent: Agent, judge: Judge, now: float
) -> Judgement:
    policy = known.policy
    verdict = policy.verdict(url, agent)
    objection = objection_to_pace(known.pace_for(agent, judge.settings), now)
    return Judgement(
        agent=agent,
        allowed=None if known.unreachable else verdict.allowed,
        verdict=verdict,
        groups=policy.groups_for(agent),
        lost=tuple(
            rule for rule in policy.matching(url, agent) if rule != verdict.rule
        ),
        crawl_delay=policy.crawl_delay(agent),
        request_rate=policy.request_rate(agent),
        visit_time=policy.visit_time(agent),
        too_slow=objection is not None and objection.cause == CRAWL_DELAY,
        ruling=judge.rule(url, known, agent, now, verdict.allowed),
    )


def exit_status(allowed: Sequence[bool | None]) -> int:
    """Return 0 for all allowed, 1 for some refused, 2 for some that nobody could tell."""
    if None in allowed:
        return 2
    return 1 if False in allowed else 0
