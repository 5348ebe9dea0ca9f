"""The gate: every request passes it, and nothing that robots.txt forbids does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_rep.downloader.timers import sleep
from scrapy_rep.evidence import Witness
from scrapy_rep.exceptions import (
    RobotsForbidden,
    RobotsRefused,
    RobotsUnreachable,
    SettingError,
    StillParked,
)
from scrapy_rep.judging.agents import Agents
from scrapy_rep.judging.purposes import Purposes
from scrapy_rep.judging.target import judged, leave_behind
from scrapy_rep.log import Report
from scrapy_rep.pacing.downloads import ROBOTS_HOP, Downloads
from scrapy_rep.pacing.pace import FREE, pace_of
from scrapy_rep.policies.fetcher import Fetcher
from scrapy_rep.policies.freshness import retry_after
from scrapy_rep.policies.service import Policies
from scrapy_rep.protocol import Verdict
from scrapy_rep.robots import Robots
from scrapy_rep.settings import DIRECTIVES, Settings, unknown_names
from scrapy_rep.signals import request_forbidden

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from scrapy_rep.pacing.pace import Pace
    from scrapy_rep.policies.cache import Known
    from scrapy_rep.protocol import Agent
    from scrapy_rep.store import Store

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

STORES = {
    "memory": "scrapy_rep.store.memory.MemoryStore",
    "sqlite": "scrapy_rep.store.sqlite.SqliteStore",
    "redis": "scrapy_rep.redis.store.RedisStore",
}


class RepMiddleware:
    """Downloader middleware that judges each request by its origin's robots.txt."""

    def __init__(self, crawler: Crawler) -> None:
        if not crawler.settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured("ROBOTSTXT_OBEY is not set")
        self.settings = Settings.read(crawler.settings)
        self.report = Report(crawler)
        self.downloads = Downloads(crawler)
        self.queued = False
        """Whether a polite queue holds back what must wait."""
        self._crawler = crawler
        self._waiting = 0
        self.downloads.back_off.heed = self._heed
        self._left_out = _what_is_left_out(self.settings)
        self._purposes = Purposes(self.settings) if self.settings.purpose else None
        for sentence in unknown_names(crawler.settings):
            self.report.warn(sentence)
        self._agents = Agents(crawler, self.settings)
        store = _store(crawler, self.settings)
        if (starts := getattr(store, "starts", None)) is not None:
            self.downloads.share_pace(starts)
        self.policies = Policies(
            crawler,
            self.settings,
            agent_of=self._agents.of,
            user_agent_of=self._agents.header,
            fetcher=Fetcher(crawler, self.settings, self.downloads),
            store=store,
            report=self.report,
        )
        self._robots = Robots(self.policies, self._agents)
        self._witness: Witness | None = None
        if self.settings.evidence or self.settings.audit_uri is not None:
            self._witness = Witness(
                crawler, self.settings, self.policies, self._agents, self.downloads
            )
        if crawler.spider is not None:
            self._equip(crawler.spider)
        crawler.signals.connect(self._equip, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _equip(self, spider: Spider) -> None:
        spider.robots = self._robots  # type: ignore[attr-defined]
        self._agents.check()

    async def _spider_closed(self, reason: str) -> None:
        await self.policies.close()
        if self._witness is not None:
            await self._witness.close(reason)

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
        known = self.policies.known(origin, request)
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
                self.policies.weigh(known)

    async def _wait_for(self, origin: str, request: Request) -> Known:
        self._waiting += 1
        try:
            return await self.policies.get(origin, request)
        finally:
            self._waiting -= 1

    def _judge(
        self, request: Request, url: str, known: Known, agent: Agent, allowed: bool
    ) -> Request | None:
        if not allowed:
            waits = known.patient or (known.unreachable and self.downloads.ends())
            if waits and self._can_wait(request):
                return self._again(request)
            refusal, cause = _by_rules(url, known, agent)
            if "disallow" in self.settings.obey:
                self._refuse(request, refusal, cause, known)
            self._would_refuse(request, refusal, cause)
        if self._purposes is not None:
            against = self._purposes.refusal(url, known, agent)
            if against is not None:
                if "disallow" in self.settings.obey:
                    self._refuse(request, against, "purpose", known)
                self._would_refuse(request, against, "purpose")
        if self._left_out is not None:
            wish = pace_of(known.policy, agent, self._left_out)
            hindrance = _by_pace(url, known, wish, self.policies.now())
            if hindrance is not None:
                self._would_refuse(request, *hindrance)
        pace = known.pace_for(agent, self.settings)
        if pace is FREE:
            if self.downloads.keeps_any():
                slot = self.downloads.slot_of(request)
                self.downloads.keep(slot, known.origin, 0.0)
                if self._is_put_off(request):
                    return self._again(request)
            return None
        return self._keep_pace(request, url, known, pace)

    def _keep_pace(
        self, request: Request, url: str, known: Known, pace: Pace
    ) -> Request | None:
        now = self.policies.now()
        hindrance = _by_pace(url, known, pace, now)
        if hindrance is not None:
            if not pace.refuses(now) and self._can_wait(request):
                return self._again(request)  # it is only not the time of day
            self._refuse(request, *hindrance, known)
        slot = self.downloads.slot_of(request)
        self.downloads.keep(slot, known.origin, pace.interval(now))
        if self.downloads.due_in(slot) > AT_HAND and self._can_wait(request):
            return self._again(request)  # its pace was not known when it was handed out
        return None

    def _is_put_off(self, request: Request) -> bool:
        """Tell whether the slot of *request* is parked, and it can wait for that."""
        slot = self.downloads.slot_of(request)
        return self.downloads.back_off.left(slot) > AT_HAND and self._can_wait(request)

    def _heed(self, request: Request, response: Response) -> None:
        """Park the slot of *request* where *response* asks for that, by Retry-After."""
        if ROBOTS_HOP in request.meta:
            return  # it is asked again later, and its pages wait for that
        asked = retry_after(response.headers, self.policies.now())
        if not asked:
            return
        if "retry-after" not in self.settings.obey:
            self.report.count("backoff/ignored")
            return
        most = self.settings.retry_after_max
        slot = self.downloads.slot_of(request)
        longer = self.downloads.back_off.park(slot, min(asked, most))
        self.report.backed_off(slot, response, asked, most, longer)

    def process_exception(
        self, request: Request, exception: Exception
    ) -> Request | None:
        """Send back what still waits in a parked slot when the crawl ends."""
        if not isinstance(exception, StillParked) or ROBOTS_HOP in request.meta:
            return None
        if self._can_wait(request):
            return self._again(request)
        self.report.unsent(exception)
        return None

    def _can_wait(self, request: Request) -> bool:
        """Tell whether *request* comes from a polite queue, which parks it."""
        slot = self.downloads.slot_of(request)
        return self.queued and self.downloads.handed_out.has(slot, request)

    def _may_go_back(self, request: Request) -> bool:
        """Tell whether *request* comes from a scheduler, which takes it again.

        From another queue than ours everything seems to, but for requests of media
        pipelines and the like: those have ``NO_CALLBACK``.
        """
        if self.queued:
            return self._can_wait(request)
        return request.callback is not NO_CALLBACK

    def _again(self, request: Request) -> Request:
        """Return *request* as the scheduler takes it a second time."""
        again = request.replace(dont_filter=True)
        self.downloads.handed_out.sent_back.add(again)
        return again

    def _would_refuse(
        self, request: Request, refusal: RobotsRefused, cause: str
    ) -> None:
        """Note that REP_OBEY leaves out what is against *request*."""
        self.report.would_refuse(refusal, cause)
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
        self.report.refused(refusal, cause)
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


def _store(crawler: Crawler, settings: Settings) -> Store:
    name = settings.store
    path = STORES.get(name, name) if isinstance(name, str) else name
    try:
        store: Store = build_from_crawler(load_object(path), crawler)
    except SettingError:
        raise
    except (ImportError, NameError, ValueError, TypeError) as error:
        if path == STORES["redis"] and isinstance(error, ImportError):
            expected = f"pip install scrapy-rep[redis] for it ({error})"
            raise SettingError("REP_STORE", name, expected) from error
        expected = f"{', '.join(STORES)} or the import path of a store ({error})"
        raise SettingError("REP_STORE", name, expected) from error
    return store
