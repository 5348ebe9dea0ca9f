"""The gate: every request passes it, and nothing that robots.txt forbids does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from scrapy.exceptions import NotConfigured
from scrapy.http.request import NO_CALLBACK

from scrapy_rep.crawl import Crawl
from scrapy_rep.downloader import ROBOTS_HOP, sleep
from scrapy_rep.exceptions import (
    RobotsForbidden,
    RobotsRefused,
    RobotsUnreachable,
    StillParked,
)
from scrapy_rep.judging.purposes import Purposes
from scrapy_rep.judging.target import judged, leave_behind
from scrapy_rep.pacing import FREE, pace_of
from scrapy_rep.policies.freshness import retry_after
from scrapy_rep.protocol import Verdict
from scrapy_rep.settings import DIRECTIVES, Settings
from scrapy_rep.signals import request_forbidden

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from scrapy_rep.pacing import Pace
    from scrapy_rep.policies.cache import Known
    from scrapy_rep.protocol import Agent

BACK_OFF_STATUSES = frozenset({429, 503})
"""Those whose Retry-After says when requests are welcome again."""
MAX_WAITING = 1000
"""How many requests of a crawl wait here for a robots.txt; the others go back."""
AGAIN_AFTER = 0.1
"""Seconds after which they do. Scrapy may hand them out again at once, and without asyncio
before anything else happens: the robots.txt would never come."""
AT_HAND = 1.0
"""Seconds for which a request may wait in the downloader, rather than in the queue."""
TOO_MANY_WAIT = (
    f"its robots.txt is not known yet, and {MAX_WAITING} requests wait for theirs"
)


class RepMiddleware:
    """Downloader middleware that judges each request by its origin's robots.txt."""

    def __init__(self, crawler: Crawler) -> None:
        if not crawler.settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured("ROBOTSTXT_OBEY is not set")
        self._crawler = crawler
        self._crawl = crawl = Crawl.of(crawler)
        crawl.join_gate()
        self._settings = crawl.settings
        self._report = crawl.report
        self._agents = crawl.agents
        self._policies = crawl.policies
        self._downloader = crawl.downloader
        self._keeper = crawl.keeper
        self._witness = crawl.witness
        self._left_out = _what_is_left_out(crawl.settings)
        self._purposes = Purposes(crawl.settings) if crawl.settings.purpose else None
        self._waiting = 0
        crawl.downloader.on_answer(self._heed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    # Where the policy is known, nothing is awaited.
    async def process_request(self, request: Request) -> Request | None:
        """Let *request* pass, or raise RobotsForbidden or RobotsUnreachable.

        A request that may be sent later goes back to a polite queue, to wait there.
        """
        if "redirect_urls" in request.meta:
            leave_behind(request)
        found = judged(request)
        if found is None:
            if self._witness is not None:
                self._witness.exempt(request)
            return None
        url, origin = found
        known = self._policies.known(origin, request)
        if known is None:
            if self._is_put_off(request):  # nor is its robots.txt asked for
                return self._again(request)
            if self._waiting >= MAX_WAITING:
                if self._may_go_back(request):
                    await sleep(AGAIN_AFTER)
                    return self._again(request)
                refusal = RobotsUnreachable(url, origin, _because(TOO_MANY_WAIT))
                self._refuse(request, refusal, "waiting")
            known = await self._wait_for(origin, request)
        agent = self._agents.of(request)
        try:
            if self._witness is None:
                allowed = known.policy.allowed(url, agent)
                return self._judge(request, url, known, agent, allowed)
            verdict = known.policy.verdict(url, agent)
            again = self._judge(request, url, known, agent, verdict.allowed)
            if again is None:
                self._witness.passed(request, url, known, agent, verdict)
            return again
        finally:  # whatever was asked of the policy, and whatever came of it
            if known.policy.grown:
                self._policies.weigh(known)

    async def _wait_for(self, origin: str, request: Request) -> Known:
        self._waiting += 1
        try:
            return await self._policies.get(origin, request)
        finally:
            self._waiting -= 1

    def _judge(
        self, request: Request, url: str, known: Known, agent: Agent, allowed: bool
    ) -> Request | None:
        if not allowed:
            waits = known.patient or (known.unreachable and self._downloader.ends())
            if waits and self._can_wait(request):
                return self._again(request)
            refusal, cause = _by_rules(url, known, agent)
            if "disallow" in self._settings.obey:
                self._refuse(request, refusal, cause, known)
            self._would_refuse(request, refusal, cause)
        if self._purposes is not None:
            against = self._purposes.refusal(url, known, agent)
            if against is not None:
                if "disallow" in self._settings.obey:
                    self._refuse(request, against, "purpose", known)
                self._would_refuse(request, against, "purpose")
        if self._left_out is not None:
            wish = pace_of(known.policy, agent, self._left_out)
            hindrance = _by_pace(url, known, wish, self._policies.now())
            if hindrance is not None:
                self._would_refuse(request, *hindrance)
        pace = known.pace_for(agent, self._settings)
        if pace is FREE:
            if self._keeper.keeps_any():
                slot = self._downloader.slot_of(request)
                self._keeper.keep(slot, known.origin, 0.0)
                if self._is_put_off(request):
                    return self._again(request)
            return None
        return self._keep_pace(request, url, known, pace)

    def _keep_pace(
        self, request: Request, url: str, known: Known, pace: Pace
    ) -> Request | None:
        now = self._policies.now()
        hindrance = _by_pace(url, known, pace, now)
        if hindrance is not None:
            if not pace.refuses(now) and self._can_wait(request):
                return self._again(request)  # it is only not the time of day
            self._refuse(request, *hindrance, known)
        slot = self._downloader.slot_of(request)
        self._keeper.keep(slot, known.origin, pace.interval(now))
        if self._keeper.due_in(slot) > AT_HAND and self._can_wait(request):
            return self._again(request)  # its pace was not known when it was handed out
        return None

    def _is_put_off(self, request: Request) -> bool:
        """Tell whether the slot of *request* is parked, and it can wait for that."""
        slot = self._downloader.slot_of(request)
        return self._keeper.back_off.left(slot) > AT_HAND and self._can_wait(request)

    def _heed(self, request: Request, response: Response) -> None:
        """Park the slot of *request* where *response* asks for that, by Retry-After."""
        if response.status not in BACK_OFF_STATUSES or ROBOTS_HOP in request.meta:
            return  # it is asked again later, and its pages wait for that
        asked = retry_after(response.headers, self._policies.now())
        if not asked:
            return
        if "retry-after" not in self._settings.obey:
            self._report.count("backoff/ignored")
            return
        most = self._settings.retry_after_max
        slot = self._downloader.slot_of(request)
        longer = self._keeper.back_off.park(slot, min(asked, most))
        self._report.backed_off(slot, response, asked, most, longer)

    def process_exception(
        self, request: Request, exception: Exception
    ) -> Request | None:
        """Send back what still waits in a parked slot when the crawl ends."""
        if not isinstance(exception, StillParked) or ROBOTS_HOP in request.meta:
            return None
        if self._can_wait(request):
            return self._again(request)
        self._report.unsent(exception)
        return None

    def _can_wait(self, request: Request) -> bool:
        """Tell whether *request* comes from a polite queue, which parks it."""
        slot = self._downloader.slot_of(request)
        return self._crawl.is_queued and self._downloader.handed_out.has(slot, request)

    def _may_go_back(self, request: Request) -> bool:
        """Tell whether *request* comes from a scheduler, which takes it again.

        From another queue than ours everything seems to, but for requests of media
        pipelines and the like: those have ``NO_CALLBACK``.
        """
        if self._crawl.is_queued:
            return self._can_wait(request)
        return request.callback is not NO_CALLBACK

    def _again(self, request: Request) -> Request:
        """Return *request* as the scheduler takes it a second time."""
        again = request.replace(dont_filter=True)
        self._downloader.handed_out.sent_back.add(again)
        return again

    def _would_refuse(
        self, request: Request, refusal: RobotsRefused, cause: str
    ) -> None:
        """Note that REP_OBEY leaves out what is against *request*."""
        self._report.would_refuse(refusal, cause)
        if self._witness is not None:
            self._witness.left_out(request, refusal, cause)

    def _refuse(
        self,
        request: Request,
        refusal: RobotsRefused,
        cause: str,
        known: Known | None = None,
    ) -> NoReturn:
        """Raise *refusal*, which is counted under *cause*."""
        self._report.refused(refusal, cause)
        if self._witness is not None:
            self._witness.refused(request, refusal, cause, known)
        self._crawler.signals.send_catch_log(
            signal=request_forbidden,
            request=request,
            verdict=refusal.verdict,
            spider=self._crawler.spider,
        )
        raise refusal


def _by_rules(url: str, known: Known, agent: Agent) -> tuple[RobotsRefused, str]:
    """Return the refusal of what the policy does not allow, and its name in the stats."""
    verdict = known.policy.verdict(url, agent)
    if known.unreachable:
        return RobotsUnreachable(url, known.origin, verdict), "unreachable"
    cause = "status" if verdict.rule is None else "rule"
    return RobotsForbidden(url, known.origin, verdict), cause


def _by_pace(
    url: str, known: Known, pace: Pace, now: float
) -> tuple[RobotsRefused, str] | None:
    """Return the refusal of what *pace* does not let through *now*, if anything."""
    if pace.refuses(now):
        cause = "crawl_delay"
        reason = (
            f"robots.txt asks for {pace.asked(now):g} s between requests, more than "
            f"REP_CRAWL_DELAY_MAX ({pace.most:g} s)"
        )
    elif pace.opens_in(now):
        assert pace.visit is not None
        cause = "visit_time"
        reason = (
            f"robots.txt wants visits from {pace.visit.start:%H:%M} to "
            f"{pace.visit.end:%H:%M} UTC only"
        )
    else:
        return None
    return RobotsForbidden(url, known.origin, _because(reason)), cause


def _because(reason: str) -> Verdict:
    return Verdict(allowed=False, rule=None, group=None, reason=reason)


def _what_is_left_out(settings: Settings) -> Settings | None:
    """Return *settings* for the paces that REP_OBEY lacks; ``None``: it has them all."""
    left_out = frozenset(DIRECTIVES) - settings.obey - {"disallow", "retry-after"}
    return replace(settings, obey=left_out) if left_out else None
