"""Crawls with scrapy-redis' scheduler and ours for a queue, in this process."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING, Any
from weakref import ref

import pytest
import scrapy
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy_redis.spiders import RedisSpider

from scrapy_rep.pacing import HOSTS
from tests.crawls.test_vary import (
    EACH_ITS_OWN_TEN_TIMES,
    TenTimes,
    by_agent,
    seen,
)
from tests.redis.workers import fleet_tests
from tests.site import Reply, Site, at_night_only
from tests.utils import Enough, Pages, coroutine_test, crawl, make_crawler, sleep, until

if TYPE_CHECKING:
    from tests.redis_server import RedisServer

pytestmark = fleet_tests

FLEET: dict[str, Any] = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "SCHEDULER_QUEUE_CLASS": "scrapy_rep.redis.PoliteQueue",
    "REP_STORE": "redis",
}


def worker(server: RedisServer, spider: Any = None, **settings: Any) -> Any:
    return make_crawler(spider, **{**FLEET, "REDIS_URL": server.url, **settings})


def running(crawler: Any, **kwargs: Any) -> asyncio.Future[Any]:
    return asyncio.ensure_future(
        _awaited(maybe_deferred_to_future(deferred_from_coro(crawl(crawler, **kwargs))))
    )


async def _awaited(future: Any) -> Any:
    return await future


@coroutine_test
async def test_two_workers_share_robots_txt_pace_and_queue(redis_server):
    rules = Reply("User-agent: *\nCrawl-delay: 0.3\nDisallow: /no")
    with Site({"/robots.txt": rules}) as site:
        urls = [site.url(f"/{number}") for number in range(6)] + [site.url("/no")]
        one = worker(redis_server, SCHEDULER_PERSIST=True)
        two = worker(redis_server, SCHEDULER_PERSIST=True)
        await asyncio.gather(running(one, urls=urls), running(two, urls=[]))
        assert site.count("/robots.txt") == 1
        assert "/no" not in site.paths
        # A busy machine may hold a worker up between what is granted and what is sent.
        assert min(site.gaps()) >= 0.24
    got = one.spider.got + two.spider.got
    assert sorted(got) == sorted(urls[:-1])


@coroutine_test
async def test_workers_share_the_copy_of_each_agent(redis_server):
    """Where robots.txt depends on the User-Agent, and requests carry several."""
    # A worker that was told that nothing is due looks again after a second.
    slow = {
        f"/{kind}/{n}": Reply("page", after=0.5) for kind in "ab" for n in range(10)
    }
    with Site({"/robots.txt": by_agent(), **slow}) as site:
        one = worker(redis_server, TenTimes, SCHEDULER_PERSIST=True)
        two = worker(redis_server, TenTimes, SCHEDULER_PERSIST=True)
        await asyncio.gather(
            running(one, urls=[site.origin]), running(two, urls=[site.origin])
        )
        each = {
            key: 1 if key[1] == "/r" else 2 * times
            for key, times in EACH_ITS_OWN_TEN_TIMES.items()
        }
        assert seen(site) == each
        assert one.spider.got
        assert two.spider.got
        # Workers that come later, of another spider, too.
        later = worker(redis_server, TenTimes, SCHEDULER_QUEUE_KEY="later")
        await crawl(later, urls=[site.origin])
        assert site.count("/robots.txt") == 2


@coroutine_test
async def test_a_request_at_the_wrong_time_of_day_holds_no_other(redis_server):
    class Mixed(Pages):
        async def start(self):
            for number, request in enumerate(self.requests()):
                night = {"robotstxt_user_agent": "night"}
                yield request.replace(meta=night if number % 2 == 0 else {})

        def parse(self, response):
            super().parse(response)
            if len(self.got) == 5:
                raise scrapy.exceptions.CloseSpider("enough")

    with Site({"/robots.txt": at_night_only("night")}) as site:
        urls = [site.url(f"/{number}") for number in range(10)]
        crawler = worker(
            redis_server,
            Mixed,
            USER_AGENT="day",
            SCHEDULER_PERSIST=True,
            REP_VISIT_TIME_MAX=86400,
        )
        await crawl(crawler, urls=urls)
    assert sorted(crawler.spider.got) == sorted(urls[1::2])
    assert crawler.spider.failures == []
    # Those that wait are in the queue still, for the next worker.
    assert redis_server.client.get("{pages:requests}:count") == b"5"


@coroutine_test
async def test_what_was_said_of_another_host_stays_behind(redis_server):
    class Copying(Pages):
        def parse(self, response):
            super().parse(response)
            if response.url.startswith(here.origin):
                for path in ("/1", "/2", "/3", "/no"):
                    yield scrapy.Request(there.url(path), meta=response.meta)

    rules = "User-agent: *\nCrawl-delay: 0.3\nDisallow: /no"
    with Site({"/robots.txt": rules}, host="127.0.0.2") as there, Site() as here:
        crawler = worker(redis_server, Copying)
        meta = {"robotstxt_url": here.url("/page")}
        await crawl(crawler, urls=[here.url("/")], meta=meta)
        assert sorted(there.paths) == ["/1", "/2", "/3", "/robots.txt"]
        assert min(there.gaps()) >= 0.25


@coroutine_test
async def test_pages_that_the_http_cache_has(redis_server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    away = Reply(status=503)
    with Site() as site:
        urls = [site.url(f"/{number}") for number in range(8)]
        first = make_crawler(HTTPCACHE_ENABLED=True, REP_STORE="memory")
        await crawl(first, urls=urls)
        site.hits.clear()
        site.replies["/robots.txt"] = [away, Reply(status=503, after=1.5)]
        crawler = worker(
            redis_server, HTTPCACHE_ENABLED=True, REP_UNREACHABLE_RETRY_DELAYS=[0.3]
        )
        await crawl(crawler, urls=[*urls, site.url("/missing")])
        assert site.paths == ["/robots.txt", "/robots.txt"]
    assert sorted(crawler.spider.got) == urls
    (failure,) = crawler.spider.failures
    assert failure.url == site.url("/missing")
    enqueued = crawler.stats.get_value("scheduler/enqueued/redis")
    assert enqueued <= 9 + 5  # it is not handed out again and again


@coroutine_test
async def test_a_crawl_is_gone_when_it_is_over(redis_server):
    with Site({"/robots.txt": "User-agent: *\nDisallow: /no"}) as site:
        crawler = worker(redis_server)
        await crawl(crawler, urls=[site.url("/1"), site.url("/no")])
    assert len(crawler.spider.got) == 1
    gone = ref(crawler)
    del crawler
    gc.collect()
    assert gone() is None


@coroutine_test
async def test_no_connection_outlives_a_crawl(redis_server):
    class Twice(Pages):
        def parse(self, response):
            super().parse(response)
            yield response.follow("/2")  # which the filter looks at

    with Site() as site:
        crawler = worker(
            redis_server, Twice, DUPEFILTER_CLASS="scrapy_rep.redis.DupeFilter"
        )
        await crawl(crawler, urls=[site.url("/1")])
        assert crawler.spider.got == [site.url("/1"), site.url("/2")]
    connected = redis_server.client.client_list
    await until(lambda: len(connected()) == 1)  # the one that asks this
    assert crawler.engine is not None  # nothing was left to the garbage collector


@pytest.mark.parametrize("rules", ["", "User-agent: *\nCrawl-delay: 0.2"])
@coroutine_test
async def test_a_site_that_asks_one_worker_to_wait_is_asked_by_none(
    redis_server, rules
):
    busy = Reply(status=429, headers={"Retry-After": "2"})
    with Site({"/robots.txt": rules, "/3": [busy, "fine"]}) as site:
        urls = [site.url(f"/{number}") for number in range(8)]
        settings = {
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
            "RETRY_TIMES": 2,
            "SCHEDULER_PERSIST": True,
        }
        one = worker(redis_server, **settings)
        two = worker(redis_server, **settings)
        crawling = asyncio.gather(running(one, urls=urls), running(two, urls=[]))
        key = f"rep:{{{site.host}}}:parked"
        await until(lambda: redis_server.client.exists(key))
        told, asked = time.monotonic(), redis_server.client.pttl(key) / 1e3
        await crawling
        during = [hit for hit in site.hits if told < hit.sent < told + asked]
        # What the other one has in hand already may still go; with a pace, it may not.
        assert len(during) <= (0 if rules else 1)
        assert max(hit.sent for hit in site.hits) > told + asked
    assert sorted(one.spider.got + two.spider.got) == sorted(urls)
    counted = [w.stats.get_value("rep/backoff/count", 0) for w in (one, two)]
    assert sum(counted) == 1


@coroutine_test
async def test_a_site_that_is_left_alone_holds_up_no_other(redis_server):
    busy = Reply(status=429, headers={"Retry-After": "3600"})
    with Site({"/0": busy}) as site, Site(host="127.0.0.2") as other:
        theirs = [other.url(f"/{number}") for number in range(12)]
        urls = [site.url(f"/{number}") for number in range(3)] + theirs
        settings = {"CONCURRENT_REQUESTS": 2, "SCHEDULER_PERSIST": True}
        crawlers = [worker(redis_server, **settings) for _ in range(2)]
        crawling = [
            running(crawler, urls=theirs_first)
            for crawler, theirs_first in zip(crawlers, (urls, []), strict=True)
        ]
        await until(lambda: sum(len(c.spider.got) for c in crawlers if c.spider) == 12)
        for crawler in crawlers:
            await stopped(crawler)
        await asyncio.gather(*crawling)
        assert site.paths == ["/robots.txt", "/0"]
    assert sorted(url for c in crawlers for url in c.spider.got) == sorted(theirs)


async def stopped(crawler: Any) -> None:
    await crawler.stop_async() if hasattr(crawler, "stop_async") else crawler.stop()


@coroutine_test
async def test_a_worker_that_ends_gives_back_what_is_parked(redis_server):
    class Stops(Pages):
        async def start(self):
            for request in self.requests():
                yield request
            while not self.crawler.stats.get_value("rep/backoff/count"):
                await sleep(0.02)
            raise scrapy.exceptions.CloseSpider("parked")

    busy = Reply(status=429, headers={"Retry-After": "3600"})
    rules = "User-agent: *\nCrawl-delay: 0.2"
    with Site({"/robots.txt": rules, "/1": [busy, "fine"]}) as site:
        urls = [site.url(f"/{number}") for number in range(4)]
        settings = {"RETRY_TIMES": 1, "SCHEDULER_PERSIST": True}
        first = worker(redis_server, Stops, **settings)
        await crawl(first, urls=urls)
        assert site.paths[-1] == "/1"
        # It is kept there for whoever comes next.
        second = worker(redis_server, **settings, CLOSESPIDER_TIMEOUT=1)
        await crawl(second, urls=[])
        assert site.paths[-1] == "/1"
    left = int(redis_server.client.get("{pages:requests}:count"))
    assert left + len(first.spider.got) == 4


@pytest.mark.parametrize("persist", [True, False])
@coroutine_test
async def test_what_is_left_is_kept_where_it_is_to_persist(redis_server, persist):
    settings = {"SCHEDULER_PERSIST": persist, "CONCURRENT_REQUESTS": 1}
    with Site() as site:
        urls = [site.url(f"/{number}") for number in range(60)]
        begun = worker(redis_server, Enough, **settings)
        await crawl(begun, urls=urls)
        ended = worker(redis_server, **settings)
        await crawl(ended, urls=[])
        got = begun.spider.got + ended.spider.got
        assert 1 <= len(begun.spider.got) < 60  # Scrapy takes its time to stop
    if persist:
        assert sorted(got) == sorted(urls)
    else:
        assert ended.spider.got == []


@coroutine_test
async def test_flush_on_start(redis_server):
    redis_server.client.sadd("pages:dupefilter", "seen")
    redis_server.client.zadd("pages:requests", {b"unreadable": 0})
    with Site() as site:
        crawler = worker(redis_server, SCHEDULER_FLUSH_ON_START=True)
        await crawl(crawler, urls=[site.url("/")])
        assert crawler.spider.got == [site.url("/")]
    assert not redis_server.client.exists("pages:dupefilter", "pages:requests")


@coroutine_test
async def test_idle_before_close(redis_server):
    with Site() as site:
        crawler = worker(redis_server, SCHEDULER_IDLE_BEFORE_CLOSE=2)
        began = time.monotonic()
        await crawl(crawler, urls=[site.url("/")])
        assert time.monotonic() - began > 2
        assert len(crawler.spider.got) == 1


@coroutine_test
async def test_duplicates_are_sent_once(redis_server):
    class Twice(Pages):
        def requests(self):
            return [scrapy.Request(url) for url in self.urls * 2]

    with Site() as site:
        crawler = worker(redis_server, Twice)
        await crawl(crawler, urls=[site.url("/a"), site.url("/b")])
        assert sorted(site.paths) == ["/a", "/b", "/robots.txt"]


@coroutine_test
async def test_a_redis_spider_reads_start_urls_while_hosts_wait(redis_server):
    class Reads(RedisSpider):  # type: ignore[misc]
        name = "reads"
        max_idle_time = 1

        def parse(self, response):
            pass

    slow_rules = {"/robots.txt": Reply("User-agent: *\nCrawl-delay: 200")}
    with Site(slow_rules, host="127.0.0.2") as slow, Site() as quick:
        for number in range(2):
            redis_server.client.rpush("reads:start_urls", slow.url(f"/{number}"))
        crawler = worker(redis_server, Reads)
        crawling = running(crawler)
        await until(lambda: slow.count("/robots.txt"))
        redis_server.client.rpush("reads:start_urls", quick.url("/"))
        await until(lambda: quick.count("/"))
        assert slow.paths == ["/robots.txt"]
        await stopped(crawler)
        await crawling


@coroutine_test
async def test_a_crawl_lives_through_a_server_that_is_started_anew(
    redis_server, caplog
):
    rules = Reply("User-agent: *\nCrawl-delay: 0.2\nDisallow: /no")
    with Site({"/robots.txt": rules}) as site:
        urls = [site.url(f"/{number}") for number in range(12)] + [site.url("/no")]
        crawler = worker(redis_server, REP_REDIS_LEASE=6)
        crawling = running(crawler, urls=urls)
        await until(lambda: site.count("/2"))
        redis_server.hang()
        await asyncio.sleep(2)
        redis_server.resume()
        await crawling
        assert min(site.gaps()) >= 0.16
        assert "/no" not in site.paths
    assert sorted(crawler.spider.got) == sorted(urls[:-1])
    assert crawler.stats.get_value("rep/redis/away") >= 1


@coroutine_test
async def test_a_worker_begins_with_the_response_time_that_another_one_measured(
    redis_server,
):
    slow = Reply("page", after=0.4)
    with Site({"/1": slow, "/2": slow}) as site:
        for number, key in ((1, "one"), (2, "two")):
            crawler = worker(
                redis_server, SCHEDULER_QUEUE_KEY=key, REP_LATENCY_FACTOR=5
            )
            await crawl(crawler, urls=[site.url(f"/{number}")])
            HOSTS.forget_all()  # as in another process
        assert site.paths == ["/robots.txt", "/1", "/2"]
        assert site.hits[2].sent - site.hits[1].sent >= 1.9
