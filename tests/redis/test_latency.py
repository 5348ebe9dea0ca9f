"""REP_LATENCY_FACTOR in a fleet: what one worker has measured serves all."""

from __future__ import annotations

from tests.redis.test_crawls import worker
from tests.redis.workers import Worker, fleet_tests
from tests.site import Site
from tests.utils import coroutine_test, crawl

pytestmark = fleet_tests


@coroutine_test
async def test_a_worker_begins_with_what_another_one_has_measured(redis_server):
    with Site() as site:
        async with Worker(redis_server) as other:
            await other.starts.tell_latency(site.host, 100.0)
            crawler = worker(
                redis_server, REP_LATENCY_FACTOR=5, REP_LATENCY_DELAY_MAX=0.7
            )
            urls = [site.url(f"/{n}") for n in range(3)]
            await crawl(crawler, urls=urls)
            assert min(site.gaps()) >= 0.65
            # Its own are shorter, which the others are told.
            assert await other.starts.latency(site.host) < 90
    assert len(crawler.spider.got) == 3
