"""What the components of one crawl share."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.utils.misc import load_object

from scrapy_rep.engine.inner import Engine
from scrapy_rep.engine.tools import OneForEachCrawler
from scrapy_rep.events import Event
from scrapy_rep.events.kinds import EVENTS
from scrapy_rep.events.log import Log, tell_plainly
from scrapy_rep.events.stream import Stream
from scrapy_rep.events.waits import Waits
from scrapy_rep.judging.ruling import Judge
from scrapy_rep.judging.target import Agents, make_namer
from scrapy_rep.pacing.keeper import Keeper
from scrapy_rep.policies import Approval, Fetcher, Permissions, Policies
from scrapy_rep.settings import Settings
from scrapy_rep.store import made_store

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.events.audit import Audit
    from scrapy_rep.store import Store

FLEET_SERVER = "scrapy_rep.frontier.redis_server.Server"
FLEET_STORE = "scrapy_rep.frontier.redis_hosts.FleetStore"
FLEET_BOOKINGS = "scrapy_rep.frontier.redis_hosts.FleetBookings"
"""Parts of a fleet, which few crawls are; they need redis."""


class Crawl(OneForEachCrawler):
    """What needs the network or a store is made when it is first used.

    Raises ``SettingError`` if a setting is wrong.
    """

    def __init__(self, crawler: Crawler) -> None:
        tell_plainly()
        self.crawler = crawler
        self.settings = Settings.of(crawler)
        self.events = Stream.of(crawler)
        """All that happens, for whoever listens."""
        counted = [
            each for each in EVENTS if each.counts or each.count is not Event.count
        ]
        self.events.listen(lambda event: event.count(crawler.stats), counted)
        self.engine = Engine(crawler, self.events.warn_user)
        namer = make_namer(self.settings, self.events.tell_failure)
        self.keeper = Keeper(self.engine, namer, self.settings)
        self.waits = Waits(self.engine, self.keeper)
        self.log = Log(crawler, self.settings, self.events, self.engine, self.waits)
        self.agents = Agents(crawler, self.settings, self.events.warn_user)
        self.permissions = Permissions(self.settings, self.events.warn_user)
        self.approval = Approval(self.settings, self.events)
        self.judge = Judge(self.settings, self.permissions, self.approval)
        self.audit: Audit | None = None
        """``None``: there is none, or no gate yet."""
        self.is_judged = False
        """Whether a gate judges its requests."""
        self.is_queued = False
        """Whether the frontier holds back what must wait."""

    @cached_property
    def fleet(self) -> Any:
        """The Redis server of REP_FLEET; ``None``: this process crawls alone.

        Raises ``SettingError``, or ``RedisStartError`` if the server cannot be used.
        """
        if self.settings.fleet is None:
            return None
        return load_object(FLEET_SERVER)(self)

    @cached_property
    def store(self) -> Store:
        if self.settings.store is None and self.fleet is not None:
            kept: Store = load_object(FLEET_STORE)(self.fleet)
            return kept
        return made_store(self.settings.store, self.crawler)

    @cached_property
    def policies(self) -> Policies:
        if self.fleet is not None:
            self.keeper.share(load_object(FLEET_BOOKINGS)(self.fleet))
        fetcher = Fetcher(self.crawler, self.settings, self.engine, self.keeper)
        policies = Policies(
            crawler=self.crawler,
            settings=self.settings,
            agent_of=self.agents.of,
            user_agent_of=self.agents.header,
            fetcher=fetcher,
            store=self.store,
            keep=self._keep_pace,
            engine=self.engine,
            permissions=self.permissions,
            approval=self.approval,
        )
        self.crawler.signals.connect(self._spider_closed, signals.spider_closed)
        return policies

    @cached_property
    def has_cache(self) -> bool:
        """Whether pages of Scrapy's HTTP cache may be used while a robots.txt is unreachable.

        Not if they need not wait anyway, or the crawl's purpose must be allowed in words
        (REP_PURPOSE_UNSTATED).
        """
        settings = self.settings
        kept = settings.unreachable == "disallow" and "disallow" in settings.obey
        unstated = settings.purpose and settings.purpose_unstated == "refuse"
        enabled = self.crawler.settings.getbool("HTTPCACHE_ENABLED")
        return enabled and kept and not unstated

    def _keep_pace(self, origin: str, interval: float) -> None:
        # By a method of this, so that whoever has the policies holds the crawl, too.
        self.keeper.keep_at(origin, interval)

    async def _spider_closed(self, reason: str) -> None:
        await self.policies.close()
        if self.audit is not None:
            await self.audit.close(reason)
