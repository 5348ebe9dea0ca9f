"""Workers of a fleet, several in one process: each is a crawler of its own."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from scrapy_rep.redis.link import Link
from scrapy_rep.redis.starts import Starts
from scrapy_rep.redis.store import RedisStore
from tests.utils import make_crawler

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from tests.redis_server import RedisServer


class Worker:
    """What a worker shares with others, without a crawl. ``clock`` sets its clocks on."""

    def __init__(self, server: RedisServer, **settings: Any) -> None:
        self.crawler = make_crawler(**{"REDIS_URL": server.url, **settings})
        self.link = Link.of(self.crawler)
        self.store = RedisStore.from_crawler(self.crawler)
        self.starts: Any = self.store.starts

    async def __aenter__(self) -> Self:
        self.link._keep_beating()
        await until(lambda: self.link.offset is not None or not self.link.up)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.store.close()
        await self.link.close()

    def stat(self, name: str) -> Any:
        return self.crawler.stats.get_value(name)

    def more_starts(self) -> Starts:
        """Return what another spider's crawl in this very worker might use."""
        return Starts(self.crawler)


async def until(true: Callable[[], Any], seconds: float = 5.0) -> None:
    """Wait until *true* is."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it does not come true"
        await asyncio.sleep(0.01)
