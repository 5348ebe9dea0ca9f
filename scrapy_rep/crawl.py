"""What the components of one crawl share."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from scrapy import Request, signals
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_rep.engine.inner import Engine
from scrapy_rep.engine.tools import OneForEachCrawler
from scrapy_rep.events import Event
from scrapy_rep.events.kinds import EVENTS
from scrapy_rep.events.log import Log, tell_plainly
from scrapy_rep.events.stream import Stream
from scrapy_rep.events.waits import Waits
from scrapy_rep.exceptions import SettingError
from scrapy_rep.judging.ruling import Judge
from scrapy_rep.judging.target import Agents, make_namer
from scrapy_rep.pacing.keeper import Keeper
from scrapy_rep.policies import Approval, Fetcher, Permissions, Policies
from scrapy_rep.protocol.origins import robots_url
from scrapy_rep.protocol.printable import describe_error, mask_uri
from scrapy_rep.settings import Settings
from scrapy_rep.store import Store

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.events.audit import Audit

FLEET_SERVER = "scrapy_rep.frontier.redis_server.Server"
FLEET_STORE = "scrapy_rep.frontier.redis_hosts.FleetStore"
FLEET_BOOKINGS = "scrapy_rep.frontier.redis_hosts.FleetBookings"
"""Parts of a fleet, which few crawls are; they need redis."""
STORES = {
    "memory": "scrapy_rep.store.MemoryStore",
    "sqlite": "scrapy_rep.store.sqlite.SqliteStore",
}
STORE_METHODS = [
    name for name in vars(Store) if not name.startswith("_") and name != "from_crawler"
]


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
        try:
            return load_object(FLEET_SERVER)(self)
        except ImportError as error:
            expected = f'to be used where scrapy_rep is installed with its extra "redis" ({error})'
            raise SettingError("REP_FLEET", self.settings.fleet, expected) from error

    @cached_property
    def store(self) -> Store:
        if self.settings.store is None and self.fleet is not None:
            kept: Store = load_object(FLEET_STORE)(self.fleet)
            return kept
        name = self.settings.store
        kind = store_kind(name)
        try:
            if isinstance(kind, type) and not issubclass(kind, Store):
                # It has the methods, and now the defaults of those that it lacks.
                kind = type(kind.__name__, (kind, Store), {})
            made: Store = build_from_crawler(kind, self.crawler)
            if missing := [name for name in STORE_METHODS if not hasattr(made, name)]:
                raise TypeError(f"what it makes has no {', '.join(missing)}")
            return made
        except SettingError:
            raise
        except (ImportError, NameError, ValueError, TypeError, OSError) as error:
            raise_wrong_store(name, error)

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
        host = self.keeper.host_of(Request(robots_url(origin)))
        self.keeper.keep(host, origin, interval)

    async def _spider_closed(self, reason: str) -> None:
        await self.policies.close()
        if self.audit is not None:
            await self.audit.close(reason)


def store_kind(name: Any) -> Any:
    """Return what makes the store of REP_STORE; raises ``SettingError`` where nothing does."""
    path = STORES.get(name, name) if isinstance(name, str) else name
    try:
        kind = load_object(path)
        if not callable(kind):
            raise TypeError(f"{type(kind).__name__!r} object is not callable")
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise_wrong_store(name, error)
    return kind


def raise_wrong_store(name: Any, error: Exception) -> NoReturn:
    fault = describe_error(error, str(name))
    expected = f"{', '.join(STORES)} or the import path of a store ({fault})"
    # Where the error may tell a secret, so may its traceback.
    cause = error if mask_uri(str(name)) == str(name) else None
    raise SettingError("REP_STORE", name, expected) from cause
