"""The polite queue in real crawls: what was sent to the sites, and when."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

import pytest
import scrapy
from scrapy.core.engine import ExecutionEngine
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro

from scrapy_rep import RobotsUnreachable
from scrapy_rep.frontier.sqlite import look
from scrapy_rep.policies.service import Policies
from tests.site import Reply, Site, gaps_between, pages, some_sites
from tests.utils import (
    SCRAPYS,
    Enough,
    Pages,
    calls_back_at_once,
    coroutine_test,
    crawl,
    crawled,
    make_crawler,
    sleep,
    until,
)


def delay(seconds: float, *more: str) -> str:
    return "\n".join(
        ["User-agent: *", f"Crawl-delay: {seconds}", *more, "Disallow: /no"]
    )


def stat(crawler: Any, name: str) -> Any:
    return crawler.stats.get_value(name)


@pytest.fixture
def no_heartbeat(monkeypatch):
    """Have the engine ask the queue when it is woken only, and not every five seconds."""
    monkeypatch.setattr(ExecutionEngine, "_SLOT_HEARTBEAT_INTERVAL", 3600.0)


@coroutine_test
async def test_one_origin_that_is_away_does_not_keep_the_others_of_its_host():
    away = Site({"/robots.txt": Reply(status=503)}, host="127.0.0.2")
    with away, Site(host="127.0.0.2") as there:
        crawler = make_crawler(Enough, REP_UNREACHABLE_RETRY_DELAYS=[600])
        # The one that waits is not at the end, but holds none of the other origin.
        urls = pages(there, 2) + pages(away, 1) + pages(there, 2, 2)
        await crawl(crawler, urls=urls, enough=4)
        assert sorted(crawler.spider.got) == pages(there, 4)
        crawler = await crawled(urls, REP_UNREACHABLE_RETRY_DELAYS=[0.1])
    assert len(crawler.spider.got) == 4
    assert len(crawler.spider.failures) == 1


class LetAnswer(Pages):
    """Lets a site answer when it has got so many pages."""

    def __init__(self, pages: int, answer: Event, **kwargs: Any):
        super().__init__(**kwargs)
        self.pages = pages
        self.answer = answer

    def parse(self, response):
        super().parse(response)
        if len(self.got) == self.pages:
            self.answer.set()


class Urgent(Pages):
    """Asks for an urgent page of another origin of the same host, once some pages have come."""

    urgent: str

    def parse(self, response):
        super().parse(response)
        if len(self.got) == 3:
            yield scrapy.Request(self.urgent, super().parse, priority=10)


@pytest.mark.invariant8
@pytest.mark.parametrize("robots", ["", delay(0.1)], ids=["no delay", "delay"])
@coroutine_test
async def test_an_urgent_request_of_an_unknown_origin_need_not_wait_for_its_host(
    robots,
):
    site, other = (Site({"/robots.txt": robots}, host="127.0.0.2") for _ in "12")
    with site, other:
        crawler = make_crawler(Urgent, CONCURRENT_REQUESTS_PER_DOMAIN=1)
        urgent = other.url("/urgent")
        await crawl(crawler, urls=pages(site, 20), urgent=urgent)
    assert len(crawler.spider.got) == 21
    assert crawler.spider.got.index(urgent) < 10


@pytest.mark.parametrize("scheme", ["data", "file"])
@coroutine_test
async def test_who_has_no_robots_txt_waits_for_none(scheme, tmp_path, caplog):
    """Nor for one that others of its download slot wait for."""
    (tmp_path / "page").write_text("page")
    free = "data:,page" if scheme == "data" else (tmp_path / "page").as_uri()
    answer = Event()
    in_time = []

    class AllAtOnce(LetAnswer):
        async def start(self):
            for request in self.requests():
                self.crawler.engine.crawl(request)
            return
            yield

    def robots(hit):
        in_time.append(answer.wait(10))
        return Reply("# fine")

    with Site({"/robots.txt": robots}) as site:
        urls = [site.url("/1"), free, site.url("/0"), free]  # the last one is the next
        crawler = make_crawler(AllAtOnce)
        slot = {"download_slot": "of all of them"}
        await crawl(crawler, urls=urls, meta=slot, pages=1, answer=answer)
        alone = await crawled([free], AllAtOnce, pages=1, answer=answer)
    assert in_time == [True]
    assert sorted(crawler.spider.got) == sorted(urls)
    assert alone.spider.got == [free]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@calls_back_at_once
@coroutine_test
async def test_what_was_in_a_job_waits_for_no_robots_txt_of_what_comes_now(tmp_path):
    job: dict[str, Any] = {"JOBDIR": str(tmp_path), "CONCURRENT_REQUESTS": 1}
    answer = Event()
    in_time = []

    def robots(hit):
        in_time.append(answer.wait(10))
        return Reply("# fine")

    with Site() as before, Site({"/robots.txt": robots}) as now:
        urls = pages(before, 6)
        first = await crawled(urls, Enough, **job)
        left = len(urls) - len(first.spider.got)
        second = make_crawler(LetAnswer, **job)
        await crawl(second, urls=[now.url("/0")], pages=left, answer=answer)
    assert left > 1
    assert in_time == [True]
    got = first.spider.got + second.spider.got
    assert sorted(got) == sorted([*urls, now.url("/0")])


@pytest.mark.parametrize("scheduler", ["scrapy_rep.Scheduler", SCRAPYS])
@coroutine_test
async def test_a_visit_time_that_opens(scheduler, monkeypatch, no_heartbeat):
    opens = 20_000 * 86400 + 9 * 3600
    started = time.monotonic()
    monkeypatch.setattr(
        Policies, "now", lambda self: opens - 1.0 + time.monotonic() - started
    )
    body = "User-agent: *\nVisit-time: 0900-1000\n"
    with some_sites(1, body) as (site,):
        crawler = await crawled(pages(site, 3), SCHEDULER=scheduler)
    if scheduler == SCRAPYS:  # where they cannot wait, they are refused
        assert len(crawler.spider.failures) == 3
        assert site.count("/0") == 0
        return
    assert len(crawler.spider.got) == 3
    first = next(hit for hit in site.hits if hit.path == "/0")
    assert first.sent - started >= 1.0
    assert stat(crawler, "rep/forbidden/visit_time") is None


@pytest.mark.invariant3
@pytest.mark.parametrize(
    "robots",
    [
        pytest.param(delay(250), id="Crawl-delay"),
        pytest.param("User-agent: *\nVisit-time: 0900-1000", id="Visit-time"),
        pytest.param(Reply(status=503), id="unreachable"),
    ],
)
@coroutine_test
async def test_delayed_hosts_do_not_hold_up_others(robots, monkeypatch):
    """The crawl would not come to its end if they did."""

    class OthersLater(Enough):
        async def start(self):
            requests = list(self.requests())
            for request in requests[:6]:
                yield request
            await until(lambda: self.crawler.stats.get_value("rep/put_off", 0) >= 3)
            for request in requests[6:]:
                yield request

    monkeypatch.setattr(Policies, "now", lambda self: 20_000 * 86400.0)
    with some_sites(3, robots) as waiting, Site() as quick:
        crawler = make_crawler(
            OthersLater,
            REP_UNREACHABLE_RETRY_DELAYS=[600],
            REP_VISIT_TIME_MAX=86400,
            CONCURRENT_REQUESTS=2,
        )
        urls = [url for site in waiting for url in pages(site, 2)]
        await crawl(crawler, urls=urls + pages(quick, 20), enough=20)
        assert [site.paths for site in waiting] == [["/robots.txt"]] * 3
    assert sorted(crawler.spider.got) == sorted(pages(quick, 20))


@coroutine_test
async def test_a_refresh_that_changes_the_delay():
    short = Reply(delay(0.1), headers={"Cache-Control": "max-age=1"})
    long = Reply(delay(0.3), headers={"Cache-Control": "max-age=100"})
    with some_sites(1, [short, long]) as (site,):
        crawler = await crawled(pages(site, 16), REP_MIN_AGE=1)
    assert len(crawler.spider.got) == 16
    hits = sorted(site.hits, key=lambda hit: hit.sent)
    places = [place for place, hit in enumerate(hits) if hit.path == "/robots.txt"]
    refreshed = places[1]
    assert refreshed > 1
    assert min(site.gaps(robots=True)) >= 0.1
    # The first page after it may have been on its way.
    after = gaps_between(hits[refreshed + 2 :])
    assert len(after) >= 2
    assert min(after) >= 0.3


@pytest.mark.parametrize("scheduler", ["scrapy_rep.Scheduler", SCRAPYS])
@coroutine_test
async def test_a_refresh_does_not_queue_behind_pages(scheduler):
    robots = Reply(delay(0.15), headers={"Cache-Control": "max-age=1"})
    with some_sites(1, robots) as (site,):
        crawler = await crawled(
            pages(site, 24), REP_MIN_AGE=1, SCHEDULER=scheduler, CONCURRENT_REQUESTS=8
        )
    assert len(crawler.spider.got) == 24
    asked = [number for number, path in enumerate(site.paths) if path == "/robots.txt"]
    # With Scrapy's queue 16 pages are in the downloader by then, and the next one, which finds
    # it out of date, comes when half of them have left. It would come behind the other half.
    assert asked[1] <= 12
    assert min(site.gaps(robots=True)) >= 0.15


@coroutine_test
async def test_an_origin_that_heals(no_heartbeat, caplog):
    caplog.set_level("DEBUG", logger="scrapy_rep")
    with some_sites(1, [Reply(status=503), delay(0.1)]) as (site,):
        crawler = await crawled(pages(site, 3), REP_UNREACHABLE_RETRY_DELAYS=[0.5])
        waited = site.hits[1].sent - site.hits[0].sent
    assert len(crawler.spider.got) == 3
    assert site.count("/robots.txt") == 2
    assert waited >= 0.45
    assert stat(crawler, "robotstxt/forbidden") is None
    told = [each.getMessage() for each in caplog.records]
    first, *_, last = (
        each for each in told if each.startswith("127.0.0.2 waits for 0.")
    )
    assert first.endswith("its robots.txt is unreachable")
    assert last.endswith("its delay is not over")
    assert stat(crawler, "rep/put_off") >= 2


class StoppedEarly(Pages):
    """Is stopped as by Ctrl-C a moment after its third page."""

    def parse(self, response):
        super().parse(response)
        if len(self.got) == 3:
            call_later(0.1, self.stop)

    def stop(self):
        deferred_from_coro(self.crawler.engine.stop_async())


@coroutine_test
async def test_shutdown_does_not_wait_for_delays(tmp_path):
    settings: dict[str, Any] = {"JOBDIR": str(tmp_path)}
    with some_sites(3, delay(250)) as sites, Site() as quick:
        urls = [url for site in sites for url in pages(site, 5)]
        crawler = make_crawler(StoppedEarly, **settings, CONCURRENT_REQUESTS=4)
        await crawl(crawler, urls=urls + pages(quick, 3))
    assert sorted(crawler.spider.got) == sorted(pages(quick, 3))
    waiting = {each.name: each.waiting for each in look(tmp_path)[0]}
    assert waiting == {site.host: 5 for site in sites}


@coroutine_test
async def test_disallowed_pages_use_up_no_delays():
    """If they did the crawl would last longer than it may."""
    with some_sites(1, delay(0.5)) as (site,):
        crawler = make_crawler()
        refused = [site.url(f"/no/{n}") for n in range(150)]
        urls = [*refused[:75], site.url("/a"), *refused[75:], site.url("/b")]
        await crawl(crawler, urls=urls)
    assert site.paths == ["/robots.txt", "/a", "/b"]
    assert len(crawler.spider.failures) == 150
    assert min(site.gaps(robots=True)) >= 0.5


@coroutine_test
async def test_an_answer_that_is_not_to_be_kept():
    """It decides for the requests that made us ask, and is asked for again."""
    robots = Reply(
        "User-agent: *\nDisallow: /no", headers={"Cache-Control": "no-store"}
    )
    with some_sites(1, robots) as (site,):
        crawler = await crawled([*pages(site, 3), site.url("/no")], REP_MIN_AGE=0)
    assert len(crawler.spider.got) == 3
    assert len(crawler.spider.failures) == 1
    assert site.count("/robots.txt") <= 5


@coroutine_test
async def test_a_fault_of_ours_is_not_repeated_for_ever(caplog):
    with some_sites(1, delay(0.1)) as (site,):
        crawler = make_crawler()
        meta = {"robotstxt_user_agent": 5}
        await crawl(crawler, urls=pages(site, 3), meta=meta)
    assert len(crawler.spider.failures) == 3
    assert site.paths == ["/robots.txt"]


@coroutine_test
async def test_a_cache_that_holds_one_policy():
    with some_sites(5, delay(0.1)) as sites:
        crawler = make_crawler(REP_CACHE_BYTES=0)
        await crawl(crawler, urls=[url for site in sites for url in pages(site, 3)])
    assert len(crawler.spider.got) == 15
    # What falls out of the cache is asked for again, and not over and over: once for each
    # request, or twice where its host's delay held it until the copy had fallen out.
    assert sum(site.count("/robots.txt") for site in sites) <= 5 + 2 * 15
    assert min(gap for site in sites for gap in site.gaps()) >= 0.1


@coroutine_test
async def test_what_falls_out_of_memory_is_not_asked_for_ever():
    """How often an origin has failed is remembered, or its requests would wait for ever."""
    with some_sites(3, Reply(status=503)) as sites:
        crawler = make_crawler(
            REP_CACHE_BYTES=0, REP_UNREACHABLE_RETRY_DELAYS=[0.1, 0.2]
        )
        await crawl(crawler, urls=[url for site in sites for url in pages(site, 2)])
    assert len(crawler.spider.failures) == 6
    # Three times in patience; then for each request that is to be refused.
    assert all(3 <= site.count("/robots.txt") <= 5 for site in sites)


@coroutine_test
async def test_what_a_crawl_that_ends_does_not_ask_for_is_no_failure(tmp_path):
    """A robots.txt whose turn comes too late is not taken for unreachable."""

    class Slow:
        async def close_spider(self):
            await sleep(0.5)

        def process_item(self, item):
            return item

    settings: dict[str, Any] = {"JOBDIR": str(tmp_path), "REP_FETCH_CONCURRENCY": 1}
    with some_sites(8, Reply("# fine", after=0.2)) as sites:
        urls = [site.url("/0") for site in sites]
        first = await crawled(urls, Enough, ITEM_PIPELINES={Slow: 1}, **settings)
        assert sum(site.count("/robots.txt") for site in sites) < 8
        second = await crawled([], **settings)
    assert not second.spider.failures
    assert sorted(first.spider.got + second.spider.got) == sorted(urls)


@coroutine_test
async def test_what_no_queue_handed_out_goes_back_to_none():
    """It would only be asked for again, without end."""

    class Downloading(Pages):
        async def start(self):
            with pytest.raises(RobotsUnreachable):
                await self.crawler.engine.download_async(scrapy.Request(site.url("/0")))
            return
            yield

    with some_sites(1, Reply(status=503)) as (site,):
        crawler = await crawled(spider=Downloading, REP_UNREACHABLE_RETRY_DELAYS=[600])
    assert stat(crawler, "rep/forbidden/unreachable") == 1
