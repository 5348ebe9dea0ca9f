"""What a pop costs with many hosts in Redis, beside scrapy-redis' own queue.

``python -m tests.benchmarks.fleet_queue [HOSTS...]``
"""

from __future__ import annotations

import asyncio
import sys
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import scrapy
from scrapy_redis.queue import PriorityQueue

from tests.redis.workers import Crawl
from tests.redis_server import RedisServer

POPS = 1000


async def seconds_each(queue: Any) -> list[float]:
    """Pop and push as often, so that the queue stays as long as it is."""
    taken = []
    for number in range(POPS):
        began = perf_counter()
        request = queue.pop()
        taken.append(perf_counter() - began)
        assert request is not None
        queue.push(scrapy.Request(f"http://again{number}.example/"))
        await asyncio.sleep(0)  # the others are told in the background
    return taken


def say(name: str, hosts: int, taken: list[float]) -> float:
    middle, last = median(taken), quantiles(taken, n=100)[-1]
    print(
        f"{name:12} {hosts:7} hosts: a pop takes {middle * 1e6:5.0f} µs,"
        f" in 99 % at most {last * 1e6:5.0f} µs",
        flush=True,
    )
    return middle


async def measure(hosts: int) -> float:
    with RedisServer() as server:
        async with Crawl(server, TWISTED_REACTOR_ENABLED=False) as crawl:
            theirs = PriorityQueue(
                server.client, crawl.crawler.spider, "theirs:%(spider)s"
            )
            for number in range(hosts):
                request = scrapy.Request(f"http://h{number}.example/")
                crawl.queue.push(request)
                theirs.push(request)
                if not number % 100:
                    await asyncio.sleep(0)
            say("scrapy-redis", hosts, await seconds_each(theirs))
            ours = say("PoliteQueue", hosts, await seconds_each(crawl.queue))
            crawl.queue.clear()
    return ours


async def main(sizes: list[int]) -> None:
    found = [await measure(hosts) for hosts in sizes]
    print(f"the last row's pop costs {found[-1] / found[0]:.2f} x the first's")


if __name__ == "__main__":
    asyncio.run(main([int(size) for size in sys.argv[1:]] or [100, 100_000]))
