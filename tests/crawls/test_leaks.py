"""What a crawl leaves behind, and that crawls in one process share nothing."""

from __future__ import annotations

import gc
import logging
from contextvars import copy_context
from weakref import ref

import pytest
from scrapy import signals

from scrapy_rep import RepMiddleware, Scheduler
from scrapy_rep.crawl import Crawl
from scrapy_rep.engine.inner import Departure
from scrapy_rep.policies.lifecycle import PolicyCache
from scrapy_rep.policies.service import Policies
from tests.benchmarks import leaks
from tests.play import play
from tests.site import Reply, Site, pages
from tests.utils import (
    Pages,
    at_once,
    both_downloaders,
    coroutine_test,
    crawl,
    make_crawler,
    sleep,
)

HOSTS = 400
DISALLOW_P = "User-agent: *\nDisallow: /p\n"


@pytest.mark.invariant5
@coroutine_test
async def test_nothing_grows_with_the_hosts(caplog):
    logging.getLogger("scrapy").setLevel(logging.ERROR)  # caplog would keep it all
    try:
        found = await leaks.look(HOSTS)
    finally:
        logging.getLogger("scrapy").setLevel(logging.NOTSET)
    assert found.stats["rep/origins"] >= HOSTS
    assert found.stats["rep/cache/evictions"] > 100
    assert found.pages > HOSTS / 2
    assert found.stats["robotstxt/forbidden"] > HOSTS / 2
    before, half, _, after = found.counts
    assert (
        half.ours["scrapy_rep.policies.lifecycle.Known"] > 10
    )  # there is something to count
    assert found.grown == {}
    for name in ("Task", "Future", "Deferred", "DelayedCall", "Timer"):
        for kind in after.types:
            if kind.endswith(f".{name}"):
                assert after.types[kind] <= before.types[kind] + 10, kind


@pytest.mark.invariant5
@both_downloaders
@coroutine_test
async def test_a_context_that_is_kept_keeps_no_crawl(downloader):
    kept = []

    class Keeps:
        def process_request(self, request):
            kept.append(copy_context())  # as timers and connections do

    settings = {"DOWNLOADER_MIDDLEWARES": {Keeps: 543}, "DOWNLOADER": downloader}
    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 0.05\n"}) as site:
        crawler = make_crawler(**settings)
        await crawl(crawler, urls=pages(site, 2))
    assert len(kept) == 3
    crawler = ref(crawler)
    await sleep(0)
    gc.collect()
    assert crawler() is None


@coroutine_test
async def test_no_request_waits_for_the_garbage_collector():
    """It would have more to do for each, and hold the event loop for longer."""
    gc.collect()
    gc.disable()
    try:
        with Site({"/robots.txt": DISALLOW_P}) as site:
            played = await play(site, {}, pages(site, 10))
            assert len(played.spider.got) == 10
        # By its type: what stands for another object would have to be asked.
        left = [each for each in gc.get_objects() if type(each) is Departure]
    finally:
        gc.enable()
    assert left == []


@coroutine_test
async def test_a_leak_is_found(monkeypatch):
    kept = []
    put = PolicyCache.keep

    def leaking_put(self, *args):
        kept.append([args])
        return put(self, *args)

    monkeypatch.setattr(PolicyCache, "keep", leaking_put)
    monkeypatch.setattr(leaks, "WARM_UP", 10)
    found = await leaks.look(100)
    assert "builtins.list" in found.grown


@coroutine_test
async def test_a_crawl_is_gone_when_it_is_over():
    def alive():
        gc.collect()
        ours = (RepMiddleware, Scheduler, Policies)
        return sum(type(thing) in ours for thing in gc.get_objects())

    before = alive()
    with Site({"/robots.txt": DISALLOW_P}) as site:
        crawler = make_crawler()
        await crawl(crawler, urls=[site.url("/p"), site.url("/q")])
        assert alive() > before
        del crawler
        await sleep(0)  # without asyncio we are still inside of what has ended it
        assert alive() == before


@pytest.mark.invariant8
@coroutine_test
async def test_two_crawlers_share_nothing():
    rules = "User-agent: one\nDisallow: /p\n\nUser-agent: two\nDisallow: /q\n"
    with Site({"/robots.txt": Reply(rules, after=0.1)}) as site:
        urls = [site.url("/p"), site.url("/q")]
        one = make_crawler(USER_AGENT="one", REP_CRAWL_DELAY_MAX=1)
        two = make_crawler(USER_AGENT="two", REP_OBEY=["crawl-delay"])
        await at_once(crawl(one, urls=urls), crawl(two, urls=urls))
        # Each asks for itself: under its own User-Agent it may be told other rules.
        assert site.count("/robots.txt") == 2
        agents = {hit.headers["User-Agent"] for hit in site.hits}
    assert agents == {"one", "two"}
    assert one.spider.got == [site.url("/q")]
    assert sorted(two.spider.got) == urls  # a dry run
    assert one.stats.get_value("robotstxt/forbidden") == 1
    assert two.stats.get_value("robotstxt/forbidden") is None
    assert two.stats.get_value("rep/would_forbid") == 1
    assert one.spider.robots is not two.spider.robots
    shared = [vars(Crawl.of(crawler)) for crawler in (one, two)]
    for name in ("policies", "engine", "keeper", "log", "settings"):
        assert shared[0][name] is not shared[1][name]


@coroutine_test
async def test_the_next_crawl_of_a_spider_begins_anew():
    answers = [Reply(status=503), DISALLOW_P, "# fine"]
    outcomes = []
    with Site({"/robots.txt": answers}) as site:
        for _ in range(3):
            played = await play(site, {}, ["/p"])
            outcomes.append(len(played.spider.got))
            assert played.stats("robotstxt/")["request_count"] == 1
        assert site.count("/robots.txt") == 3
    assert outcomes == [0, 0, 1]


@coroutine_test
async def test_a_spider_that_is_opened_twice():
    """Some schedulers and tests send spider_opened themselves."""

    class Twice(Pages):
        async def start(self):
            before = self.robots
            for _ in range(2):
                self.crawler.signals.send_catch_log(signals.spider_opened, spider=self)
            assert self.robots is before
            for request in self.requests():
                yield request

    with Site({"/robots.txt": DISALLOW_P}) as site:
        played = await play(site, {}, ["/p", "/q"], Twice)
        assert site.paths == ["/robots.txt", "/q"]
    assert played.stats("robotstxt/")["forbidden"] == 1
