"""Workers of a fleet, several in one process: each is a crawler of its own."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
import redis
import scrapy
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep.crawl import Crawl as Shared
from scrapy_rep.pacing.hosts import Hosts
from scrapy_rep.redis import PoliteQueue
from scrapy_rep.redis.servers import Servers
from scrapy_rep.redis.store import RedisStore
from tests.utils import (
    SCRAPYS,
    crawl,
    make_crawler,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from scrapy_rep.redis.outbox import Pushed
    from tests.redis_cluster import Cluster
    from tests.redis_server import RedisServer
    from tests.slow_proxy import SlowProxy


fleet_tests = [
    pytest.mark.only_asyncio,
    # What scrapy-redis does is deprecated in these versions of Scrapy and redis-py.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning"),
]
"""The marks of modules that use a ``Crawl``, or scrapy-redis otherwise."""


class Worker:
    """What a worker shares with others, without a crawl."""

    def __init__(
        self, server: RedisServer | Cluster | SlowProxy, **settings: Any
    ) -> None:
        self.crawler = make_crawler(**{"REDIS_URL": server.url, **settings})
        self.servers = Servers.of(self.crawler)
        self.link = self.servers.first
        self.store: Any = RedisStore.from_crawler(self.crawler)
        self.starts: Any = self.store.bookings

    async def __aenter__(self) -> Self:
        self.link.keep_beating()
        await until(lambda: self.link.offset is not None or not self.link.up)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.store.close()
        await self.servers.close()

    async def show_up(self) -> None:
        """Give a sign of life now."""
        await self.link.show_up()

    def stat(self, name: str) -> Any:
        return self.crawler.stats.get_value(name)


async def at_once_when(true: Callable[[], Any]) -> None:
    """Go on in the turn of the event loop in which *true* becomes it, or in the next."""
    for _ in range(100_000):
        if true():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come true")


async def nothing() -> None:
    """Do nothing, in the place of something."""


async def promptly(coroutine: Any) -> Any:
    """Return what *coroutine* does, where it waits for none of the times of a test.

    Those that must not be waited for are longer than this waits.
    """
    return await asyncio.wait_for(coroutine, 60)


class Quiet(scrapy.Spider):
    """Does nothing until it is told to stop."""

    name = "quiet"
    stop: asyncio.Event
    opened: asyncio.Event

    async def start(self):
        self.opened.set()
        await self.stop.wait()
        return
        yield

    def parse(self, response):
        pass

    def other(self, response):
        pass


class Crawl:
    """A crawl that does nothing by itself, and a polite queue of which it asks nothing.

    A test does what the engine would: it pops, starts, and is done.
    """

    key = "%(spider)s:requests"
    places = 1
    """For so many requests the crawl has a free place."""

    def __init__(
        self, server: RedisServer | Cluster, *, serializer: Any = None, **settings: Any
    ) -> None:
        self.server = redis.Redis.from_url(server.url)
        self._serializer = serializer
        self.crawler = make_crawler(
            Quiet,
            **{
                "REDIS_URL": server.url,
                "SCHEDULER": SCRAPYS,
                **settings,
            },
        )

    async def __aenter__(self) -> Self:
        Quiet.stop, Quiet.opened = asyncio.Event(), asyncio.Event()
        self.stop = Quiet.stop
        opened = Quiet.opened
        self._crawling = asyncio.ensure_future(self._crawl())
        await opened.wait()
        self.shared: Any = Shared.of(self.crawler)
        self.keeper: Any = self.shared.keeper
        self.keeper.hosts = Hosts()  # as in a process of its own
        self._stand_in()
        self.queue: Any = PoliteQueue(
            self.server, self.crawler.spider, self.key, self._serializer
        )
        self.servers = Servers.of(self.crawler)
        self.link = self.servers.first
        await self.link.meet()
        self.shards: Any = self.queue.shards
        self.backlog: Any = self.shards.all[0]
        self.exchange: Any = self.queue.exchange
        self._held: tuple[float, str] | None = None
        self._line = ""
        self._stand_between()
        await self.exchange.beat()
        return self

    def _stand_in(self) -> None:
        """Tell the queue of starts as the keeper does, and note when it wakes the engine."""
        self._booked: list[Any] = []
        self.keeper.turns.on_booked = self._booked.append
        self.woken: list[float] = []
        downloader = self.shared.engine
        downloader.free_places = lambda: self.places
        wake, downloader.wake = downloader.wake, lambda: self._woken(wake)

    def _stand_between(self) -> None:
        """Have the queue hand over here what it pushes."""
        self._push, self.exchange.push = self.exchange.push, self._file

    def _woken(self, wake: Callable[[], None]) -> None:
        self.woken.append(time.monotonic())
        wake()

    def _file(self, pushed: Pushed) -> None:
        if self._held is not None:
            seconds, why = self._held
            until = time.monotonic() + seconds
            pushed = pushed._replace(parked_until=until, why=why)
        self._push(pushed._replace(host=self._line or pushed.host))

    async def _crawl(self) -> None:
        await maybe_deferred_to_future(deferred_from_coro(crawl(self.crawler)))

    async def __aexit__(self, *_: object) -> None:
        self.in_progress.clear()
        self.stop.set()
        await self._crawling
        self.server.close()
        self.shards.quick.close()

    @property
    def in_progress(self) -> Any:
        return self.shared.engine.in_progress()

    def hold(self, seconds: float, why: str = "parked") -> None:
        """Have what is pushed from now on wait for so long; 0: it need not."""
        self._held = seconds, why

    def file_under(self, line: str) -> None:
        """Have what is pushed from now on wait in this line."""
        self._line = line

    async def push(self, host: str, number: int = 0, **kwargs: Any) -> None:
        self.queue.push(scrapy.Request(f"http://{host}.example/{number}", **kwargs))
        await self.exchange.send()

    async def pop(self) -> Any:
        """Pop a request, which is then on its way; ``None``: there is none to be had."""
        await self.exchange.send()
        number = len(self.shards)
        self.exchange.ask_at = [0.0] * number
        await self.exchange.receive()
        self.exchange.ask_at = [time.monotonic() + 3600] * number  # not by itself
        request = self.queue.pop()
        if request is not None:
            self.in_progress.add(request)
        return request

    async def length(self) -> int:
        """Return how many wait or are with a worker, by what Redis says now."""
        await self.exchange.send()
        return int(self.shards.length())

    async def is_empty(self) -> bool:
        return not await self.length()

    async def start(self, request: Any, interval: float = 0.0) -> None:
        """Have *request* handed to its handler; the others know of it by then."""
        self.hand_over(request, interval)
        await self.exchange.send()

    def hand_over(self, request: Any, interval: float) -> None:
        for booked in self._booked:
            booked(request, request.url.split("/")[2], interval)

    def done(self, *requests: Any) -> None:
        for request in requests:
            self.in_progress.discard(request)

    async def take(self, interval: float = 0.0) -> str | None:
        """Pop, start and be done with a request; return the first letters of its URL."""
        request = await self.pop()
        if request is None:
            return None
        await self.start(request, interval)
        self.done(request)
        return short(request)

    async def take_all(self) -> list[str]:
        found = []
        while (url := await self.take()) is not None:
            found.append(url)
        return found

    async def leave(self) -> None:
        """Take leave, as when the crawl ends."""
        await self.exchange.leave()

    def die(self) -> None:
        """Give no more signs of life, and take no leave, as after kill -9."""
        self.exchange.stop()
        self.exchange.leave = nothing

    def stat(self, name: str) -> Any:
        return self.crawler.stats.get_value(name)


def short(request: Any) -> str:
    return str(request.url).removeprefix("http://").replace(".example/", "")
