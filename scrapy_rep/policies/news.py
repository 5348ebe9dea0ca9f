"""What is told when we learn what decides for an origin, or learn it anew."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from pydispatch.dispatcher import (  # type: ignore[import-untyped]
    getAllReceivers,
    liveReceivers,
)
from scrapy import signals

from scrapy_rep.access.answers import REDIRECT_STATUSES, Access, access_of
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
from scrapy_rep.pacing.pace import FREE
from scrapy_rep.policies.lifecycle import (
    MEANWHILE_WORDS,
    STATES_WITHOUT_ANSWER,
    State,
)
from scrapy_rep.protocol.printable import explain, shorten

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.events.stream import Stream
    from scrapy_rep.pacing.pace import Pace
    from scrapy_rep.policies.cache import Known
    from scrapy_rep.policies.permissions import Permissions
    from scrapy_rep.protocol import Agent, Policy
    from scrapy_rep.settings import Settings
    from scrapy_rep.store import Snapshot

# scrapy.signals.robots_parsed exists from Scrapy 2.18 on.
ROBOTS_PARSED = getattr(signals, "robots_parsed", None)
STATE_WORDS = {Access.SUCCESSFUL: "fetched", Access.DENIED: "denied"}
"""The state of an answer that decides, in a ``Copy``; all others are "unavailable"."""


class News:
    """Tells what is new about an origin; *before* is what was known of it until then."""

    def __init__(
        self, events: Stream, settings: Settings, permissions: Permissions
    ) -> None:
        self._tell = events.tell
        self._hear_copies = events.listeners(NewCopy)
        self._hear_judged = events.listeners(Judged)  # which has a copy, too
        self._permissions = permissions
        self._settings = settings

    def tell_of_copy(self, known: Known, snapshot: Snapshot) -> None:
        """Tell what is known of an origin, if anybody wants to know it."""
        if self._hear_copies or self._hear_judged:
            known.copy = copy_of(known, snapshot, self._settings)
            answer = snapshot.answer
            self._tell(NewCopy(known.copy, b"" if answer is None else answer.body))

    def tell_of_file(
        self, known: Known, before: Known | None, agent: Agent, now: float
    ) -> None:
        """Tell what a file that is new asks of *agent*."""
        origin, policy = known.origin, known.policy
        permission = self._permissions.at(origin, now)
        if permission is not None and permission.delay is not None:
            return  # nothing in it is for us
        # At a prompt the refusals, each a warning, say the same.
        is_for_us = permission is None and self._settings.wait
        if is_for_us and known.answer_id is not None and policy.denies_all(agent):
            reason = explain(policy.verdict(origin + "/", agent))
            self._tell(DeniesAll(origin, reason))
        pace = known.pace_for(agent, self._settings)
        if pace is not FREE and (
            before is None or before.pace_for(agent, self._settings) != pace
        ):
            self._tell_of_pace(origin, pace, now)

    def _tell_of_pace(self, origin: str, pace: Pace, now: float) -> None:
        visit, asked = pace.visit, pace.asked(now)
        if visit is not None:
            hours = visit.start.isoformat("minutes"), visit.end.isoformat("minutes")
            opens_in, most = pace.opens_in(now), self._settings.visit_time_max
            self._tell(WantsVisits(origin, *hours, opens_in, most))
        if asked:
            self._tell(WantsDelay(origin, asked, pace.most, pace.drop))

    def tell_of_reach(
        self, known: Known, before: State | None, snapshot: Snapshot, now: float
    ) -> None:
        """Tell whether the origin can be asked; *before* is the state until then."""
        state, failures = known.standing.state, snapshot.failures
        if failures is not None and state in MEANWHILE_WORDS:
            words = MEANWHILE_WORDS[state]
            if state is State.UNREACHABLE and known.policy.allowed("/", ""):
                words = "it is taken for missing until it is asked again"
            self._tell(
                Unreachable(
                    known.origin,
                    failures.reason,
                    words,
                    failures.retry_at - now,
                    again=state is before,
                    waits=known.requests_wait and self._settings.wait,
                )
            )
        elif failures is None and before is State.UNREACHABLE:
            self._tell(Reachable(known.origin))


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
    words = STATE_WORDS.get(access, "unavailable")
    holds = state is State.HOLDING
    return Copy(
        origin,
        state.value if holds else words,
        status,
        answer.url,
        answer.checked,
        digest,
        failure,
    )


async def tell_of_parsed(crawler: Crawler, policy: Policy, page: Request) -> None:
    """Send Scrapy's signal of a robots.txt that was parsed, if anybody listens."""
    if ROBOTS_PARSED is None:
        return
    # Listed, as a receiver may be an object that is false.
    if not list(liveReceivers(getAllReceivers(crawler, ROBOTS_PARSED))):
        return
    # Late, as Scrapy's interface of parsers imports Protego, too.
    from scrapy_rep.parser import RepRobotParser  # noqa: PLC0415

    await crawler.signals.send_catch_log_async(
        signal=ROBOTS_PARSED, robotparser=RepRobotParser(policy), request=page
    )
