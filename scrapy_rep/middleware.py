"""The gate: every request passes it, and nothing that robots.txt forbids does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_rep.agents import Agents
from scrapy_rep.exceptions import (
    RobotsForbidden,
    RobotsRefused,
    RobotsUnreachable,
    SettingError,
)
from scrapy_rep.fetch import Fetcher
from scrapy_rep.pace import DownloadSlots
from scrapy_rep.policies import Policies
from scrapy_rep.protocol import Verdict
from scrapy_rep.protocol.origin import origin_from, origin_of
from scrapy_rep.report import Report
from scrapy_rep.robots import Robots
from scrapy_rep.settings import Settings, unknown_names
from scrapy_rep.signals import request_forbidden

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from scrapy_rep.cache import Known
    from scrapy_rep.store import Store

STORES = {
    "memory": "scrapy_rep.store.memory.MemoryStore",
    "sqlite": "scrapy_rep.store.sqlite.SqliteStore",
}


class RepMiddleware:
    """Downloader middleware that judges each request by its origin's robots.txt."""

    def __init__(self, crawler: Crawler) -> None:
        if not crawler.settings.getbool("ROBOTSTXT_OBEY"):
            raise NotConfigured("ROBOTSTXT_OBEY is not set")
        self.settings = Settings.read(crawler.settings)
        self._crawler = crawler
        self._report = Report(crawler)
        for sentence in unknown_names(crawler.settings):
            self._report.warn(sentence)
        self._agents = Agents(crawler, self.settings)
        self.policies = Policies(
            crawler,
            self.settings,
            agents=self._agents,
            fetcher=Fetcher(crawler, self.settings),
            store=_store(crawler, self.settings),
            report=self._report,
        )
        self._slots = DownloadSlots(crawler)
        self._robots = Robots(self.policies, self._agents)
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

    async def _spider_closed(self) -> None:
        await self.policies.close()

    # Not a coroutine itself: where the policy is known, nothing is awaited.
    def process_request(self, request: Request) -> Awaitable[None] | None:
        """Let *request* pass, or raise RobotsForbidden or RobotsUnreachable."""
        meta = request.meta
        if "redirect_urls" in meta:
            _leave_behind(request)
        if meta.get("dont_obey_robotstxt"):
            return None
        if "robotstxt_url" in meta:
            url = meta["robotstxt_url"]
            origin = origin_of(url) if isinstance(url, str) else None
            if origin is None:
                raise SettingError(
                    'meta["robotstxt_url"]', url, "an absolute http or https URL"
                )
        else:
            url = request.url
            parts = urlparse_cached(request)
            origin = origin_from(parts.scheme, parts.netloc)
            if origin is None:
                return None  # RFC 9309 2.3 knows http and https only here
        known = self.policies.known(origin, request)
        if known is None:
            return self._judge_later(request, url, origin)
        self._judge(request, url, known)
        return None

    async def _judge_later(self, request: Request, url: str, origin: str) -> None:
        self._judge(request, url, await self.policies.get(origin, request))

    def _judge(self, request: Request, url: str, known: Known) -> None:
        agent = self._agents.of(request)
        if not known.policy.allowed(url, agent):
            verdict = known.policy.verdict(url, agent)
            if known.unreachable:
                refusal: RobotsRefused = RobotsUnreachable(url, known.origin, verdict)
            else:
                refusal = RobotsForbidden(url, known.origin, verdict)
            self._refuse(request, refusal, _cause(refusal), "disallow")
        pace = known.pace_for(agent, self.settings)
        if pace.refused:
            reason = (
                f"robots.txt asks for {pace.asked:g} s between requests, more than "
                f"REP_CRAWL_DELAY_MAX ({self.settings.crawl_delay_max:g} s)"
            )
            verdict = Verdict(allowed=False, rule=None, group=None, reason=reason)
            refusal = RobotsForbidden(url, known.origin, verdict)
            self._refuse(request, refusal, "crawl_delay", "crawl-delay")
        self._slots.keep(request, known.origin, pace.interval)

    def _refuse(
        self, request: Request, refusal: RobotsRefused, cause: str, directive: str
    ) -> None:
        """Raise *refusal*, counted under *cause*, if REP_OBEY has *directive*."""
        if directive not in self.settings.obey:
            self._report.would_refuse(refusal, cause)
            return
        self._report.refused(refusal, cause)
        self._crawler.signals.send_catch_log(
            signal=request_forbidden,
            request=request,
            verdict=refusal.verdict,
            spider=self._crawler.spider,
        )
        raise refusal


def _cause(refusal: RobotsRefused) -> str:
    """Return the name under which a refusal for what robots.txt says is counted."""
    if isinstance(refusal, RobotsUnreachable):
        return "unreachable"
    return "status" if refusal.verdict.rule is None else "rule"


def _leave_behind(request: Request) -> None:
    """Drop what a redirect to another origin must not inherit.

    The slot would have this host asked at another one's pace, and a leave to ignore one
    site's robots.txt is no leave to ignore another's.
    """
    source = request.meta["redirect_urls"][-1]
    if origin_of(source) != origin_of(request.url):
        request.meta.pop("download_slot", None)
        request.meta.pop("dont_obey_robotstxt", None)


def _store(crawler: Crawler, settings: Settings) -> Store:
    name = settings.store
    path = STORES.get(name, name) if isinstance(name, str) else name
    try:
        store: Store = build_from_crawler(load_object(path), crawler)
    except (ImportError, NameError, ValueError, TypeError) as error:
        expected = f"{', '.join(STORES)} or the import path of a store ({error})"
        raise SettingError("REP_STORE", name, expected) from error
    return store
