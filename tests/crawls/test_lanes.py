"""How many robots.txt are asked for at once (REP_FETCH_CONCURRENCY)."""

from __future__ import annotations

from threading import Condition
from time import sleep
from typing import Any

from scrapy_rep.policies import concurrency
from tests.site import Reply, some_sites
from tests.utils import coroutine_test, crawl, make_crawler


class Crowded:
    """A robots.txt that is answered when so many are asked for at once, and a moment later."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._changed = Condition()
        self._asked_for = 0
        self.most = 0

    def __call__(self, hit: Any) -> Reply:
        with self._changed:
            self._asked_for += 1
            self.most = max(self.most, self._asked_for)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most >= self._number, 20)
        sleep(0.2)  # in which one more than there may be would come
        with self._changed:
            self._asked_for -= 1
        return Reply("# fine")


async def most_at_once(sites: int, at_once: int, expected: int) -> int:
    robots = Crowded(expected)
    with some_sites(sites, robots) as asked:
        crawler = make_crawler(REP_FETCH_CONCURRENCY=at_once)
        await crawl(crawler, urls=[site.url("/") for site in asked])
    assert len(crawler.spider.got) == sites
    return robots.most


@coroutine_test
async def test_so_many_at_once(monkeypatch):
    monkeypatch.setattr(concurrency, "PATIENCE_SECONDS", 60)
    assert await most_at_once(6, 2, expected=2) == 2


@coroutine_test
async def test_slow_ones_make_way_and_are_limited_too(monkeypatch):
    monkeypatch.setattr(concurrency, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(concurrency, "SLOW_LANES", 3)
    assert await most_at_once(5, 1, expected=3) == 3
