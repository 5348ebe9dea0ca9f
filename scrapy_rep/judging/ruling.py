"""The ruling: a request is sent now, waits, or is refused. Pure.

It belongs to the request: another agent, or URL of the same origin, may get another one.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.exceptions import HostRefused, RobotsForbidden, RobotsUnreachable
from scrapy_rep.pacing.hosts import FREE, LONGEST_AT_PROMPT, pace_of
from scrapy_rep.policies.agreed import Permissions
from scrapy_rep.protocol import Verdict
from scrapy_rep.protocol.preferences import (
    EVERYTHING_UNSTATED,
    NO,
    UNSTATED,
    WELL_KNOWN,
)
from scrapy_rep.protocol.printable import duration
from scrapy_rep.settings import PACE_DIRECTIVES

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.exceptions import RobotsRefused
    from scrapy_rep.pacing.hosts import Pace
    from scrapy_rep.policies import Approval, Known
    from scrapy_rep.policies.agreed import Permission
    from scrapy_rep.protocol import Agent, Policy, Preference, Preferences
    from scrapy_rep.settings import Settings

UNREACHABLE, CRAWL_DELAY, VISIT_TIME = "unreachable", "crawl_delay", "visit_time"
DOWN, BUDGET, APPROVAL, PURPOSE = "down", "budget", "approval", "purpose"
OF_HOST = frozenset({DOWN, BUDGET})
"""Causes that no robots.txt knows of."""
PARKED = "parked"


class Action(Enum):
    SEND = "send"
    WAIT = "wait"
    REFUSE = "refuse"


class Objection(NamedTuple):
    cause: str
    """As in ``rep/forbidden/CAUSE``; where REP_WAIT is off, also "parked"."""
    verdict: Verdict

    def refusal(self, url: str, origin: str) -> RobotsRefused:
        kind: type[RobotsRefused] = RobotsForbidden
        if self.cause == UNREACHABLE:
            kind = RobotsUnreachable
        elif self.cause in OF_HOST:
            kind = HostRefused
        return kind(url, origin, self.verdict)


class Ruling(NamedTuple):
    action: Action
    objection: Objection | None = None
    """Why it waits or is refused; ``None``: it is sent."""
    seconds: float = 0.0
    """For how long it waits. What cannot wait is refused for the same objection."""
    interval: float = 0.0
    """Seconds between two starts that the robots.txt asks of its agent; 0: none."""
    left_out: tuple[Objection, ...] = ()
    """What is against it as well, but is left out of REP_OBEY."""
    permission: Permission | None = None
    """By which it is not judged by its site's rules (REP_HOSTS)."""


SEND = Ruling(Action.SEND)


class Purposes:
    """What a crawl is for (REP_PURPOSE), against what sites say of such use."""

    def __init__(self, settings: Settings) -> None:
        self._purposes = settings.purpose
        self._refuses_unstated = settings.purpose_unstated == "refuse"
        self.of_file: Callable[[str], Preferences] = lambda url: EVERYTHING_UNSTATED
        """Returns what the tdmrep.json of its origin says of a URL."""

    def objection(self, url: str, policy: Policy, agent: Agent) -> Objection | None:
        if url.endswith(WELL_KNOWN):
            return None  # what tells of preferences is read, not used
        preferences = policy.preferences(url, agent)
        for purpose in self._purposes:
            found = preferences.of(purpose)
            if found.answer == NO:
                said = f"{found.said} (line {found.line})"
                return because(PURPOSE, f"no to {purpose} (REP_PURPOSE): {said}")
            if found.answer == UNSTATED and self._refuses_unstated:
                found = self.of_file(url).of(purpose)
                if found.answer == UNSTATED:
                    said = f"nothing is said of {purpose}"
                elif found.answer == NO:
                    said = f"no to {purpose}: {found.said}"
                else:
                    continue
                return because(PURPOSE, f"{said} (REP_PURPOSE_UNSTATED)")
        return None

    def refused_by(self, preferences: Preferences) -> Preference | None:
        found = map(preferences.of, self._purposes)
        return next((each for each in found if each.answer == NO), None)


class Judge:
    def __init__(
        self,
        settings: Settings,
        permissions: Permissions | None = None,
        approval: Approval | None = None,
    ) -> None:
        self.settings = settings
        self._permissions = permissions or Permissions(settings) or None
        is_strict = approval is not None and approval.is_strict
        self._approval = approval if is_strict else None
        self._longest_wait = settings.visit_time_max
        if not settings.wait:
            self._longest_wait = min(self._longest_wait, LONGEST_AT_PROMPT)
        self._obeys_rules = "disallow" in settings.obey
        self.purposes = Purposes(settings) if settings.purpose else None
        left_out = PACE_DIRECTIVES - settings.obey
        self._left_out = replace(settings, obey=left_out) if left_out else None

    def rule(
        self, url: str, known: Known, agent: Agent, now: float, allowed: bool
    ) -> Ruling:
        """Return what happens to a request for *url*.

        *allowed* is what the policy of *known* says of it to *agent*; *now* is in seconds since 1970.
        """
        if self._permissions is not None and (
            permission := self._permissions.at(known.origin, now)
        ):
            ruling = self.rule_line(known, agent, now, refuses=True)
            return ruling._replace(permission=permission)
        left_out: tuple[Objection, ...] = ()
        if not allowed:
            objection = _by_rules(url, known, agent)
            if known.requests_wait and self.settings.wait:
                return _wait_for_robots(objection, known, now)
            if self._obeys_rules:
                return Ruling(Action.REFUSE, objection)
            left_out = (objection,)
        if (
            self._approval is not None
            and not known.unreachable
            and (differs := self._approval.objection(known, agent))
        ):
            why = because(APPROVAL, f"{differs} (REP_APPROVED)")
            return Ruling(Action.REFUSE, why)
        if self.purposes is not None:
            against = self.purposes.objection(url, known.policy, agent)
            if against is not None:
                if self._obeys_rules:
                    return Ruling(Action.REFUSE, against, left_out=left_out)
                left_out += (against,)
        if self._left_out is not None:
            wish = pace_of(known.policy, agent, self._left_out)
            if (too_slow := objection_to_pace(wish, now)) is not None:
                left_out += (too_slow,)
        pace = known.pace_for(agent, self.settings)
        ruling = SEND if pace is FREE else self._by_pace(pace, now)
        return ruling._replace(left_out=left_out) if left_out else ruling

    def rule_line(
        self, known: Known, agent: Agent, now: float, *, refuses: bool = False
    ) -> Ruling:
        """Return what happens to all requests of *agent* that the rules allow.

        Unless it *refuses*, that is to send or to wait: what is to be refused may go to the gate.
        """
        if known.requests_wait and self.settings.wait:
            return _wait_for_robots(_by_rules(known.origin, known, agent), known, now)
        pace = known.pace_for(agent, self.settings)
        if self._permissions is not None:
            pace = self._permissions.pace(known.origin, pace, now)
        if pace is FREE:
            return SEND
        ruling = self._by_pace(pace, now)
        return ruling if refuses or ruling.action is not Action.REFUSE else SEND

    def _by_pace(self, pace: Pace, now: float) -> Ruling:
        objection = objection_to_pace(pace, now)
        if objection is None:
            return Ruling(Action.SEND, interval=pace.interval(now))
        if objection.cause == VISIT_TIME:
            opens_in = pace.opens_in(now)
            if opens_in <= self._longest_wait:
                return Ruling(Action.WAIT, objection, opens_in)
            if opens_in > (most := self.settings.visit_time_max):
                more = f"which is more than REP_VISIT_TIME_MAX ({duration(most)})"
                reason = f"{objection.verdict.reason}, in {duration(opens_in)}, {more}"
                objection = because(VISIT_TIME, reason)
        return Ruling(Action.REFUSE, objection)


def _by_rules(url: str, known: Known, agent: Agent) -> Objection:
    verdict = known.policy.verdict(url, agent)
    if known.unreachable:
        return Objection(UNREACHABLE, verdict)
    return Objection("status" if verdict.rule is None else "rule", verdict)


def _wait_for_robots(objection: Objection, known: Known, now: float) -> Ruling:
    return Ruling(Action.WAIT, objection, max(0.0, known.standing.ask_at - now))


def objection_to_pace(pace: Pace, now: float) -> Objection | None:
    if pace.refuses(now):
        asked, most = duration(pace.asked(now)), duration(pace.most)
        reason = f"robots.txt asks for {asked} between requests, more than REP_CRAWL_DELAY_MAX ({most})"
        return because(CRAWL_DELAY, reason)
    if pace.opens_in(now):
        assert pace.visit is not None
        hours = f"{pace.visit.start:%H:%M} to {pace.visit.end:%H:%M}"
        return because(VISIT_TIME, f"robots.txt wants visits from {hours} UTC only")
    return None


def too_soon(wait: float, interval: float, *, is_parked: bool) -> Objection:
    if is_parked:
        return because(PARKED, f"its host is parked for {duration(wait)} more")
    reason = (
        f"robots.txt asks for {duration(interval)} between requests, and the next may "
        f"start in {duration(wait)}"
    )
    return because(CRAWL_DELAY, reason)


def because(cause: str, reason: str) -> Objection:
    """Return an objection that no rule has decided."""
    verdict = Verdict(allowed=False, rule=None, group=None, reason=reason)
    return Objection(cause, verdict)
