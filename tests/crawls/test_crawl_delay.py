"""Crawl-delay: no two requests reach a host closer, whatever the user's settings and spiders do."""

from __future__ import annotations

import time
from typing import Any

import pytest
import scrapy
from scrapy import signals
from scrapy.core import downloader as scrapys_downloader
from scrapy.core.engine import ExecutionEngine
from scrapy.utils.asyncio import call_later

from scrapy_rep.judging.ruling import Action
from scrapy_rep.testing import robots_for
from tests.site import Reply, Site, gaps_between, pages, some_sites
from tests.utils import (
    SCRAPYS,
    Media,
    Pages,
    both_schedulers,
    coroutine_test,
    crawl,
    crawled,
    make_crawler,
    until,
)

DELAY = 0.2
DELAYED = f"User-agent: *\nCrawl-delay: {DELAY}\n"
HAS_JITTER = tuple(map(int, scrapy.__version__.split(".")[:2])) >= (2, 19)
JITTER: dict[str, Any] = (
    {"DOWNLOAD_DELAY_JITTER": 0.5} if HAS_JITTER else {"RANDOMIZE_DOWNLOAD_DELAY": True}
)


@pytest.mark.invariant2
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="alone"),
        pytest.param(
            {
                "AUTOTHROTTLE_ENABLED": True,
                "AUTOTHROTTLE_START_DELAY": 0.05,
                "AUTOTHROTTLE_TARGET_CONCURRENCY": 8,
            },
            id="AutoThrottle",
        ),
        pytest.param({"DOWNLOAD_DELAY": 0.15, **JITTER}, id="jitter, shorter"),
        pytest.param({"DOWNLOAD_DELAY": 0.22, **JITTER}, id="jitter, longer"),
        pytest.param({"CONCURRENT_REQUESTS": 1}, id="one place"),
        pytest.param(
            {"DOWNLOAD_SLOTS": {"127.0.0.2": {"concurrency": 8, "delay": 0}}},
            id="DOWNLOAD_SLOTS",
        ),
    ],
)
@both_schedulers
@coroutine_test
async def test_no_gap_is_shorter(scheduler, settings, monkeypatch):
    # The engine asks the queue when it is woken only, and not every five seconds.
    monkeypatch.setattr(ExecutionEngine, "_SLOT_HEARTBEAT_INTERVAL", 3600.0)
    rate = "User-agent: *\nRequest-rate: 300/1m\n"
    with some_sites(2, DELAYED) as two, Site({"/robots.txt": rate}) as rated:
        sites = [*two, rated]
        crawler = make_crawler(SCHEDULER=scheduler, **settings)
        await crawl(crawler, urls=[url for site in sites for url in pages(site, 4)])
    assert len(crawler.spider.got) == 12
    assert min(gap for site in sites for gap in gaps_between(site.hits)) >= DELAY


class Dropping(Pages):
    """Has Scrapy drop idle slots all the time, and not once a minute."""

    def requests(self):
        self.drop()
        return super().requests()

    def drop(self):
        engine: Any = self.crawler.engine
        if engine.spider is not None:
            engine.downloader._slot_gc()
            engine.downloader._slot_gc(age=0)
            call_later(0.02, self.drop)


class Following(Pages):
    """Finds the pages of one origin on those of another one, in turns."""

    def requests(self):
        self.others = iter(super().requests())
        yield next(self.others)

    def parse(self, response):
        super().parse(response)
        if len(self.got) == 1:
            yield from self.others


@pytest.mark.invariant2
@pytest.mark.parametrize("spider", [Dropping, Following])
@coroutine_test
async def test_two_origins_on_one_host_keep_the_slower(spider):
    """Whichever of their files is known first, and though slots are forgotten meanwhile."""
    slow, quick = (
        Site({"/robots.txt": f"User-agent: *\nCrawl-delay: {seconds}"})
        for seconds in (DELAY, 0.1)
    )
    with slow, quick:
        crawler = make_crawler(spider)
        # The quick one's robots.txt is not known when the slow one's pages begin.
        turns = zip(pages(slow, 4), pages(quick, 4), strict=True)
        await crawl(crawler, urls=[url for both in turns for url in both])
    assert len(crawler.spider.got) == 8
    began = next(hit.sent for hit in slow.hits if hit.path == "/0")
    after = [hit for hit in slow.hits + quick.hits if hit.sent >= began]
    assert min(gaps_between(after)) >= DELAY


@pytest.mark.invariant2
@coroutine_test
async def test_retries_and_redirects_into_a_delayed_host():
    with Site() as quick, some_sites(1, DELAYED) as (slow,):
        for n in range(3):
            location = {"Location": slow.url(f"/{n}")}
            quick.replies[f"/{n}"] = Reply(status=302, headers=location)
        slow.replies["/1"] = [Reply(status=503), Reply("short", cut=5), "fine"]
        crawler = make_crawler(RETRY_TIMES=3)
        await crawl(crawler, urls=pages(quick, 3) + pages(slow, 2, start=5))
    assert len(crawler.spider.got) == 5
    assert slow.count("/1") == 3
    assert min(gaps_between(slow.hits)) >= DELAY


@pytest.mark.invariant2
@coroutine_test
async def test_a_host_whose_robots_txt_another_host_uses_is_delayed_from_then_on():
    class ThenIts(Pages):
        async def start(self):
            first, then = self.requests()
            yield first
            await until(lambda: self.robots.policy(first.url) is not None)
            yield then

    with Site() as quick, some_sites(1, DELAYED) as (slow,):
        there = {"Location": slow.url("/robots.txt")}
        quick.replies["/robots.txt"] = Reply(status=302, headers=there)
        await crawled([quick.url("/"), slow.url("/page")], ThenIts)
    assert slow.paths == ["/robots.txt", "/robots.txt", "/page"]
    assert min(gaps_between(slow.hits)) >= DELAY


@pytest.mark.invariant2
@pytest.mark.parametrize("kind", ["file", "image"])
@coroutine_test
async def test_media_of_a_delayed_host(kind, tmp_path):
    pipeline = f"scrapy.pipelines.{kind}s.{kind.title()}sPipeline"
    stores = {"FILES_STORE": str(tmp_path), "IMAGES_STORE": str(tmp_path)}
    with Site() as quick, some_sites(1, DELAYED) as (slow,):
        crawler = make_crawler(Media, ITEM_PIPELINES={pipeline: 1}, **stores)
        item = {f"{kind}_urls": [slow.url(f"/{n}.png") for n in range(3)]}
        await crawl(crawler, urls=[quick.url("/"), *pages(slow, 2)], item=item)
    assert len(crawler.spider.got) == 3
    assert len(slow.hits) == 6
    assert min(gaps_between(slow.hits)) >= DELAY


@coroutine_test
async def test_a_slot_that_lets_two_go_at_once(monkeypatch):
    """As Scrapy's do when the process stands still between its looks at the clock."""
    schedule = vars(scrapys_downloader)["_schedule_coro"]

    def then_stand_still(coroutine):
        schedule(coroutine)
        time.sleep(1.2 * DELAY)

    monkeypatch.setattr(scrapys_downloader, "_schedule_coro", then_stand_still)
    with Site({"/robots.txt": DELAYED}) as site:
        await crawled(pages(site, 5), SCHEDULER=SCRAPYS)
    assert len(site.hits) == 6
    assert min(gaps_between(site.hits)) >= DELAY


@pytest.mark.invariant8
@coroutine_test
async def test_the_users_own_longer_delay_stays():
    delays: list[float] = []

    def reached(request):
        slot = crawler.engine.downloader.slots[request.meta["download_slot"]]
        delays.append(slot.delay)

    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 0.1\n"}) as site:
        crawler = make_crawler(DOWNLOAD_DELAY=0.2)
        crawler.signals.connect(reached, signals.request_reached_downloader)
        await crawl(crawler, urls=pages(site, 2))
    assert delays == [0.2, 0.2, 0.2]


@pytest.mark.parametrize("over", ["drop", "clamp"])
@coroutine_test
async def test_over_the_maximum(over):
    with some_sites(1, "User-agent: *\nCrawl-delay: 100") as (site,):
        crawler = make_crawler(REP_CRAWL_DELAY_MAX=0.1, REP_CRAWL_DELAY_OVER_MAX=over)
        await crawl(crawler, urls=pages(site, 3))
    stats = crawler.stats.get_stats()
    assert stats["rep/crawl_delay/longest"] == 100
    assert stats["rep/crawl_delay/over_max"] == 1
    if over == "clamp":
        assert len(crawler.spider.got) == 3
        assert min(gaps_between(site.hits)) >= 0.1
        return
    assert site.paths == ["/robots.txt"]
    assert len(crawler.spider.failures) == stats["rep/forbidden/crawl_delay"] == 3
    assert "asks for 1 min 40 s" in crawler.spider.failures[0].reason


@pytest.mark.parametrize(
    ("delay", "obey", "would"),
    [(100, ["disallow"], None), (999, ["disallow", "visit-time"], 3)],
)
@coroutine_test
async def test_left_out_of_rep_obey(delay, obey, would):
    """What is left out, and would refuse, is judged and counted."""
    body = f"User-agent: *\nCrawl-delay: {delay}\nVisit-time: 0000-0000\n"
    with Site({"/robots.txt": body}) as site:
        crawler = await crawled(pages(site, 3), REP_OBEY=obey)
    assert len(crawler.spider.got) == 3  # without a delay the crawl has ended
    assert crawler.stats.get_value("rep/would_forbid") == would
    assert crawler.stats.get_value("rep/would_forbid/crawl_delay") == would


def test_what_the_crawl_would_do_now():
    """``spider.robots.ruling`` reckons with the limit on delays, ``allowed`` does not."""
    robots, url = robots_for("User-agent: *\nCrawl-delay: 1000\n"), "http://a.example/"
    ruling = robots.ruling(url)
    assert robots.allowed(url)
    assert ruling is not None
    assert ruling.objection is not None
    assert (ruling.action, ruling.objection.cause) == (Action.REFUSE, "crawl_delay")
