"""``scrapy_rep.Scheduler`` in real crawls: what Scrapy's users know of theirs holds with ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import scrapy
from scrapy import signals
from scrapy.core import scheduler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.exceptions import DontCloseSpider

import scrapy_rep
from tests.site import Site, pages
from tests.utils import (
    SCRAPYS,
    Pages,
    calls_back_at_once,
    coroutine_test,
    crawl,
    crawled,
    make_crawler,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OURS = "scrapy_rep.Scheduler"
FIFO = {
    f"SCHEDULER_{kind}_QUEUE": f"scrapy.squeues.{name}"
    for kind, name in (("MEMORY", "FifoMemoryQueue"), ("DISK", "PickleFifoDiskQueue"))
}


@pytest.fixture(params=[False, True], ids=["memory", "job"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return {"JOBDIR": str(tmp_path / "job")} if request.param else {}


@pytest.fixture(params=["memory", "job", SCRAPYS])
def each_way(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    own = {"job": {"JOBDIR": str(tmp_path / "job")}, SCRAPYS: {"SCHEDULER": SCRAPYS}}
    return own.get(request.param, {})


class Tree(scrapy.Spider):
    """Follows the pages of a tree, each of which has three below it; some links come twice."""

    name = "tree"
    most = 40

    def __init__(self, site: Site, **kwargs: Any):
        super().__init__(**kwargs)
        self.site = site
        self.got: list[int] = []
        self.dropped: list[str] = []

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.drop, signals.request_dropped)
        return spider

    def drop(self, request: scrapy.Request) -> None:
        self.dropped.append(request.url)

    async def start(self):
        for number in (1, 2):
            yield scrapy.Request(self.site.url(f"/{number}"))

    def parse(self, response):
        number = int(response.url.rpartition("/")[2])
        self.got.append(number)
        for child in range(3 * number, 3 * number + 4):
            if child < self.most:
                yield scrapy.Request(
                    self.site.url(f"/{child}"), priority=child % 2, meta={"n": child}
                )


@pytest.mark.invariant8
@pytest.mark.parametrize("order", [{}, FIFO], ids=["LIFO", "FIFO"])
@calls_back_at_once
@coroutine_test
async def test_order_and_stats_are_scrapys(order, job):
    """With one request at a time, and no delay, they are the same to the last one."""
    found = []
    with Site() as site:
        for scheduler in (OURS, SCRAPYS):
            crawler = make_crawler(
                Tree,
                SCHEDULER=scheduler,
                CONCURRENT_REQUESTS=1,
                DEPTH_PRIORITY=1,
                **order,
                **{name: f"{path} of {scheduler}" for name, path in job.items()},
            )
            await crawl(crawler, site=site)
            stats = {
                name: value
                for name, value in crawler.stats.get_stats().items()
                if name.startswith(("scheduler/", "dupefilter/"))
            }
            found.append((crawler.spider.got, sorted(crawler.spider.dropped), stats))
    ours, scrapys = found
    assert len(ours[0]) == 39
    assert ours[2]["dupefilter/filtered"] == len(ours[1]) > 10
    assert ours == scrapys


@pytest.mark.invariant8
@pytest.mark.only_asyncio
@coroutine_test
async def test_a_fleet_drops_the_same(redis_server):
    """It finds later what was seen before, and says so as the engine does."""
    dropped = []
    with Site() as site:
        for settings in ({}, {"REP_FLEET": redis_server.url}):
            crawler = make_crawler(Tree, **settings)
            await crawl(crawler, site=site)
            dropped.append(sorted(crawler.spider.dropped))
    assert dropped[1] == dropped[0]
    assert len(dropped[0]) > 10


class Lowers(RFPDupeFilter):
    """Takes pages that differ by the case of their URLs for one."""

    calls: list[str] = []

    def open(self):
        self.calls.append("open")

    def request_seen(self, request):
        return super().request_seen(request.replace(url=request.url.lower()))

    def close(self, reason):
        self.calls.append(reason)
        super().close(reason)


@pytest.mark.invariant8
@coroutine_test
async def test_a_filter_of_the_users(each_way):
    Lowers.calls = []
    with Site() as site:
        urls = [site.url(path) for path in ("/a", "/A", "/b", "/B", "/a")]
        crawler = await crawled(urls, Filtered, DUPEFILTER_CLASS=Lowers, **each_way)
    assert sorted(crawler.spider.got) == [site.url("/a"), site.url("/b")]
    assert crawler.stats.get_value("dupefilter/filtered") == 3
    assert Lowers.calls == ["open", "finished"]


class Filtered(Pages):
    """Asks for no URL twice, unless it says so."""

    def requests(self) -> Iterator[scrapy.Request]:
        for request in super().requests():
            yield request.replace(dont_filter=request.url.endswith("?again"))


class ByPath:
    """A fingerprinter that knows pages by their paths."""

    def fingerprint(self, request):
        return request.url.partition("?")[0].encode()


@coroutine_test
async def test_a_fingerprinter_of_the_users_and_dont_filter(each_way):
    with Site() as site:
        paths = ["/a", "/a?x=1", "/b?y=2", "/b", "/a?again", "/a?again"]
        urls = [site.url(path) for path in paths]
        crawler = make_crawler(Filtered, REQUEST_FINGERPRINTER_CLASS=ByPath, **each_way)
        await crawl(crawler, urls=urls)
    assert sorted(crawler.spider.got) == sorted(
        [urls[0], urls[2], site.url("/a?again"), site.url("/a?again")]
    )


class Unpackable(Pages):
    def requests(self) -> Iterator[scrapy.Request]:
        for number, request in enumerate(super().requests()):
            if number % 2:
                request.meta["lambda"] = lambda: None
            yield request


@pytest.mark.parametrize("debug", [False, True])
@coroutine_test
async def test_what_cannot_be_serialised(debug, tmp_path, caplog):
    with Site() as site:
        crawler = make_crawler(Unpackable, SCHEDULER_DEBUG=debug, JOBDIR=str(tmp_path))
        await crawl(crawler, urls=pages(site, 8))
    assert len(crawler.spider.got) == 8
    stat = crawler.stats.get_value
    assert stat("scheduler/unserializable") == 4
    for what in ("enqueued", "dequeued"):
        assert stat(f"scheduler/{what}/memory") == stat(f"scheduler/{what}/disk") == 4
        assert stat(f"scheduler/{what}") == 8
    (warning,) = [r for r in caplog.records if "cannot be serialised" in r.getMessage()]
    assert bool(warning.exc_info) == debug


class WhenIdle(Pages):
    """Asks for one URL more whenever it is idle."""

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.more, signals.spider_idle)
        return spider

    async def start(self):
        self.left = list(self.requests())
        return
        yield

    def more(self) -> None:
        if self.left:
            self.crawler.engine.crawl(self.left.pop())
            raise DontCloseSpider


@pytest.mark.parametrize("base", [scheduler.Scheduler, scrapy_rep.Scheduler])
@coroutine_test
async def test_a_scheduler_of_the_users_that_is_derived(base: Any):
    class Counting(base):  # type: ignore[misc]
        def enqueue_request(self, request):
            assert self.crawler.spider is self.spider
            assert isinstance(self.df, RFPDupeFilter)
            self.stats.inc_value("tried")
            return super().enqueue_request(request)

    with Site() as site:
        crawler = await crawled(pages(site, 2), SCHEDULER=Counting)
    assert crawler.stats.get_value("tried") == 2
    assert site.count("/0") == 1


@coroutine_test
async def test_a_spider_that_asks_for_more_when_it_is_idle(each_way):
    with Site() as site:
        urls = pages(site, 4)
        crawler = await crawled(urls, WhenIdle, **each_way)
    assert sorted(crawler.spider.got) == urls
    assert crawler.stats.get_value("finish_reason") == "finished"


@coroutine_test
async def test_a_crawl_that_is_to_end_after_some_pages(each_way):
    with Site() as site:
        crawler = await crawled(
            pages(site, 20), CLOSESPIDER_PAGECOUNT=3, CONCURRENT_REQUESTS=1, **each_way
        )
    assert 2 <= len(crawler.spider.got) < 10  # the robots.txt counts, too
    assert crawler.stats.get_value("finish_reason") == "closespider_pagecount"
