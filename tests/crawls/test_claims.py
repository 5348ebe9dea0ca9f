"""Workers of a fleet that want the same robots.txt at the same moment."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager

import pytest

from scrapy_rep.redis import RedisStore
from tests.redis_server import RedisServer
from tests.site import Site
from tests.snapshots import snapshot_of
from tests.utils import coroutine_test, crawl, make_crawler


class OvertakenStore(RedisStore):
    """Another worker asks, and is through, after we looked and before we have the lease."""

    @asynccontextmanager
    async def claim(self, origin):
        answer = snapshot_of(
            status=404, url=origin, checked=time.time(), lifetime=3600.0
        )
        await self.put(origin, answer)
        async with super().claim(origin) as others_asked:
            yield others_asked


@pytest.mark.only_asyncio
@coroutine_test
async def test_what_another_worker_has_just_learnt_is_not_fetched_again():
    with RedisServer() as server, Site({"/robots.txt": "", "/": "page"}) as site:
        crawler = make_crawler(REP_STORE=OvertakenStore, REDIS_URL=server.url)
        await crawl(crawler, urls=[site.url("/")])
        assert site.paths == ["/"]
