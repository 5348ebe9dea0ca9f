"""What a worker tells of what waits in the queue that it shares."""

from __future__ import annotations

import re
from time import sleep, time
from typing import Any

import pytest

from scrapy_rep.log.waits import in_words
from scrapy_rep.redis import orders
from tests.fleet import Fleet, seed
from tests.redis.test_orders import queue_at
from tests.redis.workers import Crawl
from tests.site import Reply, Site
from tests.utils import coroutine_test, until

pytestmark = pytest.mark.only_asyncio


@coroutine_test
async def test_what_waits_in_redis_is_told(redis_server):
    async with Crawl(redis_server) as one:
        for host, why in (
            ("parked", "parked"),
            ("nobody", "unreachable"),
            ("slow", ""),
        ):
            one.hold(60.0 if why else 0.0, why)
            for number in range(2):
                await one.push(host, number)
        await one.start(await one.pop(), 30.0)
        one.done(*one.exchange.handed_out)
        orders.block(queue_at(redis_server), "parked.example")
        waits: Any = one.shared.waits
        assert await one.pop() is None
        await until(waits.waiting)
        found = waits.waiting()
        assert [(each.host, each.why, each.requests) for each in found] == [
            ("parked.example", "an operator has blocked it", 2),
            ("slow.example", "its delay is not over", 1),
            ("nobody.example", "its robots.txt is unreachable", 2),
        ]
        assert found[0].until is None
        assert 0 < found[1].until - time() <= 30 < found[2].until - time() <= 60
        assert in_words(found).startswith(
            "5 requests of 3 hosts wait; next: slow.example in "
        )
        assert in_words(found).endswith("; parked.example (an operator has blocked it)")
        # It is not this crawl's own: none of it is lost when that ends.
        assert not list(waits.held())


def test_a_worker_that_only_waits_says_so(redis_server):
    with Site({"/robots.txt": Reply("User-agent: *\nCrawl-delay: 100\n")}) as site:
        seed(redis_server, [f"{site.origin}/{number}" for number in "12"])
        settings = {"LOGSTATS_INTERVAL": 0.5, "LOOK_EVERY": 0.5}
        with Fleet(redis_server, 1, **settings) as fleet:
            (worker,) = fleet.workers
            told = "(its delay is not over)"
            while told not in worker.log:
                assert worker.process.poll() is None
                sleep(0.1)
    assert re.search(r"requests? of 1 host waits?; next: 127.0.0.1 in ", worker.log)
