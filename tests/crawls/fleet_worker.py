"""One worker of a fleet, as a process of its own: ``python -m tests.crawls.fleet_worker``.

Takes its settings as JSON. Prints a line for each page that was answered, or refused, and
at the end its stats as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

import redis
import scrapy
from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.defer import deferred_from_coro

from tests.wire import STAMPED

SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_rep.Addon": 500},
    "SCHEDULER": "scrapy_rep.Scheduler",
    "REP_UNREACHABLE_RETRY_DELAYS": [],
    "REP_BACK_OFF_FIRST": 0.1,
    "HTTPPROXY_ENABLED": False,
    "LOG_LEVEL": "INFO",
    "REMOTE_CONTROL_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "RETRY_TIMES": 5,
    **STAMPED,
}


class Fleet(scrapy.Spider):
    """Takes what is in the queue, and the setting URLS; a page may name further ones."""

    name = "fleet"

    async def start(self):
        for url in self.settings.getlist("URLS"):
            yield scrapy.Request(url)
        if self.settings.getbool("SEEDS"):
            deferred_from_coro(self.crawler.engine.close_spider_async(reason="seeded"))

    def parse(self, response):
        print("got", response.url, flush=True)
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, errback=self.failed)

    def failed(self, failure):
        print("refused", failure.request.url, repr(failure.value), flush=True)

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.print_stats, signals.engine_stopped)
        return spider

    def print_stats(self):
        stats = self.crawler.stats.get_stats()
        print("stats", json.dumps(stats, default=str), flush=True)


def set_clock_off(seconds: float) -> None:
    """Have this process' wall clock be wrong by up to *seconds*."""
    off, right = random.uniform(-seconds, seconds), time.time
    time.time = wrong = lambda: right() + off
    for module in list(sys.modules.values()):
        if vars(module).get("time") is right:  # it has imported it by name
            module.time = wrong  # type: ignore[attr-defined]


def wait_for(workers: int, server: str) -> None:
    """Wait until so many have come as far as this, so that all have the same chance."""
    if not workers:
        return
    with redis.Redis.from_url(server) as first:
        in_cluster = first.info("cluster")["cluster_enabled"]
    kind: Any = redis.RedisCluster if in_cluster else redis.Redis
    with kind.from_url(server) as client:
        client.incr("fleet:ready")
        while int(client.get("fleet:ready") or 0) < workers:
            time.sleep(0.01)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    set_clock_off(given.pop("CLOCKS_OFF", 0.0))
    together = given.pop("TOGETHER")
    process = AsyncCrawlerProcess(SETTINGS | given)
    wait_for(together, given["REP_FLEET"])
    process.crawl(Fleet)
    process.start()
