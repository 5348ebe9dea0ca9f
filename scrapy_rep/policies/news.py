"""What the log tells when we learn what decides for an origin, or learn it anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydispatch.dispatcher import (  # type: ignore[import-untyped]
    getAllReceivers,
    liveReceivers,
)
from scrapy import signals

from scrapy_rep.policies.lifecycle import MEANWHILE_WORDS, State

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.log import CrawlLog
    from scrapy_rep.policies.cache import Known
    from scrapy_rep.policies.permissions import Permissions
    from scrapy_rep.protocol import Agent, Policy
    from scrapy_rep.settings import Settings
    from scrapy_rep.store import Snapshot

# scrapy.signals.robots_parsed exists from Scrapy 2.18 on.
ROBOTS_PARSED = getattr(signals, "robots_parsed", None)


class News:
    """Tells what is new about an origin; *before* is what was known of it until then."""

    def __init__(
        self, log: CrawlLog, settings: Settings, permissions: Permissions
    ) -> None:
        self._log = log
        self._permissions = permissions
        self._settings = settings

    def tell_of_file(
        self, known: Known, before: Known | None, agent: Agent, now: float
    ) -> None:
        """Tell what a file that is new asks of *agent*."""
        origin, policy = known.origin, known.policy
        permission = self._permissions.at(origin, now)
        if permission is not None and permission.delay is not None:
            return  # nothing in it is for us
        if (
            permission is None
            and known.answer_id is not None
            and policy.denies_all(agent)
        ):
            self._log.note_denial_of_all(origin, policy.verdict(origin + "/", agent))
        pace = known.pace_for(agent, self._settings)
        if not pace.free and (
            before is None or before.pace_for(agent, self._settings) != pace
        ):
            self._log.note_pace(origin, pace, now, self._settings.visit_time_max)

    def tell_of_reach(
        self, known: Known, before: State | None, snapshot: Snapshot, now: float
    ) -> None:
        """Tell whether the origin can be asked; *before* is the state until then."""
        state, failures = known.standing.state, snapshot.failures
        if failures is not None and state in MEANWHILE_WORDS:
            words = MEANWHILE_WORDS[state]
            if state is State.UNREACHABLE and known.policy.allowed("/", ""):
                words = "it is taken for missing until it is asked again"
            self._log.note_unreachable(
                known.origin,
                failures.reason,
                words,
                failures.retry_at - now,
                again=state is before,
                waits=known.requests_wait and self._settings.wait,
            )
        elif failures is None and before is State.UNREACHABLE:
            self._log.note_reachable(known.origin)


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
