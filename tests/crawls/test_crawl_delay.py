"""Crawl-delay, from the sending of one request to that of the next."""

from __future__ import annotations

import time
from typing import Any

import pytest
from scrapy import signals
from scrapy.core import downloader as scrapys_downloader

from scrapy_rep.judging.ruling import Action
from tests.site import Reply, Site, gaps_between
from tests.utils import (
    SCRAPYS,
    Pages,
    coroutine_test,
    crawl,
    make_crawler,
    sleep,
    with_files,
)
from tests.wire import Stamping

DELAY = 0.2
DELAYED = f"User-agent: *\nCrawl-delay: {DELAY}\n"


@pytest.mark.invariant2
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="alone"),
        pytest.param(
            {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0.1},
            id="AutoThrottle",
        ),
        pytest.param({"DOWNLOAD_DELAY": 0.1}, id="a shorter delay with jitter"),
        pytest.param({"DOWNLOAD_DELAY": 0.22}, id="a longer delay with jitter"),
        pytest.param(
            {"DOWNLOAD_SLOTS": {"127.0.0.1": {"concurrency": 8, "delay": 0}}},
            id="DOWNLOAD_SLOTS",
        ),
    ],
)
@pytest.mark.parametrize("scheduler", ["scrapy_rep.Scheduler", SCRAPYS])
@coroutine_test
async def test_no_gap_is_shorter(scheduler, settings):
    with Site({"/robots.txt": DELAYED}) as site:
        crawler = make_crawler(SCHEDULER=scheduler, **settings)
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(6)])
    assert len(crawler.spider.got) == 6
    assert len(site.hits) == 7
    assert min(gaps_between(site.hits)) >= DELAY


@coroutine_test
async def test_after_the_slot_was_dropped_for_being_idle():
    class Pausing(Pages):
        async def start(self):
            for number, request in enumerate(self.requests()):
                if number == 2:
                    await self.idle()
                yield request

        async def idle(self):
            downloader = self.crawler.engine.downloader
            while len(self.got) < 2 or downloader.slots:
                await sleep(0.02)
                downloader._slot_gc(age=0)  # those that have outlived their delay

    with Site({"/robots.txt": DELAYED}) as site:
        crawler = make_crawler(Pausing)
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(4)])
    assert len(site.gaps()) == 3
    assert min(site.gaps()) >= DELAY


@pytest.mark.invariant2
@coroutine_test
async def test_retries_and_redirects_and_errors():
    with Site({"/robots.txt": DELAYED}) as site:
        site.replies["/retried"] = [Reply(status=500), "fine"]
        site.replies["/from"] = Reply(status=302, headers={"Location": "/to"})
        site.replies["/cut"] = Reply("short", cut=5)
        crawler = make_crawler(RETRY_TIMES=1)
        urls = [site.url(path) for path in ("/retried", "/from", "/cut")]
        await crawl(crawler, urls=urls)
    assert len(site.gaps()) == 5
    assert min(site.gaps()) >= DELAY


@coroutine_test
async def test_two_origins_in_one_slot_keep_the_slower():
    slow = Site({"/robots.txt": DELAYED})
    quick = Site({"/robots.txt": "User-agent: *\nCrawl-delay: 0.1\n"})

    class Following(Pages):
        def parse(self, response):
            super().parse(response)
            if len(self.got) == 1:
                for number in range(1, 4):
                    yield response.follow(f"/{number}")
                    yield response.follow(quick.url(f"/{number}"))

    with slow, quick:
        crawler = make_crawler(Following)
        await crawl(crawler, urls=[slow.url("/0")])
        assert slow.host == quick.host
        hits = slow.hits + quick.hits
    assert len(hits) == 9
    assert min(gaps_between(hits)) >= DELAY


class Held(Stamping):
    """Has the whole process stand still before some requests are written."""

    @classmethod
    def from_crawler(cls, crawler):
        handler = super().from_crawler(crawler)
        download = handler.download_request

        async def download_request(request):
            if request.url.endswith(("robots.txt", "/1", "/3")):
                time.sleep(0.75 * DELAY)  # noqa: ASYNC251
            return await download(request)

        handler.download_request = download_request
        return handler


@coroutine_test
async def test_a_request_that_leaves_late_puts_off_the_next():
    with Site({"/robots.txt": DELAYED}) as site:
        crawler = make_crawler(DOWNLOAD_HANDLERS={"http": Held})
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(5)])
    assert len(site.hits) == 6
    assert min(gaps_between(site.hits)) >= DELAY


@coroutine_test
async def test_a_slot_that_lets_two_go_at_once(monkeypatch):
    """As Scrapy's do when the process stands still between its looks at the clock."""
    schedule = vars(scrapys_downloader)["_schedule_coro"]

    def then_stand_still(coroutine):
        schedule(coroutine)
        time.sleep(1.2 * DELAY)

    monkeypatch.setattr(scrapys_downloader, "_schedule_coro", then_stand_still)
    with Site({"/robots.txt": DELAYED}) as site:
        crawler = make_crawler(SCHEDULER=SCRAPYS)
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(5)])
    assert len(site.hits) == 6
    assert min(gaps_between(site.hits)) >= DELAY


@coroutine_test
async def test_a_request_that_is_answered_late_puts_off_the_next():
    """It may have arrived as late: by 0.05 s, or what it took longer than the quickest."""

    class Timing(Pages):
        def parse(self, response):
            super().parse(response)
            latency[int(response.url[-1])] = response.meta["download_latency"]

    latency: dict[int, float] = {}
    with Site({"/robots.txt": DELAYED}) as site:
        for number in range(1, 6, 2):
            site.replies[f"/{number}"] = Reply("page", after=0.1)
        crawler = make_crawler(Timing)
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(6)])
    order = [int(hit.path[1:]) for hit in site.hits[1:]]
    for place, gap in list(enumerate(site.gaps()))[1:]:
        seen = [latency[number] for number in order[: place + 1]]
        assert gap >= DELAY + min(0.05, seen[-1] - min(seen))


@pytest.mark.invariant2
@coroutine_test
async def test_media_requests_keep_it_too(tmp_path):
    with Site({"/robots.txt": DELAYED}) as site:
        files = [site.url(f"/{n}.pdf") for n in range(3)]
        urls = [site.url("/start")]
        await crawl(with_files(tmp_path), urls=urls, item={"file_urls": files})
    assert len(site.gaps()) == 3
    assert min(site.gaps()) >= DELAY


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
        await crawl(crawler, urls=[site.url("/a"), site.url("/b")])
    assert delays == [0.2, 0.2, 0.2]


@coroutine_test
async def test_a_group_of_our_own_has_a_delay_of_its_own():
    # Without the empty rule both user-agent lines would head one group.
    body = "User-agent: *\nCrawl-delay: 100\nDisallow:\n\nUser-agent: me\nCrawl-delay: 0.1\n"
    with Site({"/robots.txt": body}) as site:
        crawler = make_crawler(USER_AGENT="me/1.0")
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(3)])
    assert len(site.gaps()) == 2
    assert min(site.gaps()) >= 0.1
    assert crawler.stats.get_value("rep/crawl_delay/longest") == 0.1


@coroutine_test
async def test_over_the_maximum_is_refused_and_counted():
    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 999\n"}) as site:
        crawler = make_crawler()
        await crawl(crawler, urls=[site.url("/a"), site.url("/b")])
        assert site.paths == ["/robots.txt"]
    assert len(crawler.spider.failures) == 2
    assert "asks for 16 min 39 s" in crawler.spider.failures[0].reason
    stats = crawler.stats.get_stats()
    assert stats["rep/forbidden/crawl_delay"] == 2
    assert stats["rep/crawl_delay/longest"] == 999
    assert stats["rep/crawl_delay/over_max"] == 1


@coroutine_test
async def test_over_the_maximum_may_be_clamped():
    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 999\n"}) as site:
        crawler = make_crawler(
            REP_CRAWL_DELAY_MAX=DELAY, REP_CRAWL_DELAY_OVER_MAX="clamp"
        )
        await crawl(crawler, urls=[site.url("/a"), site.url("/b")])
    (gap,) = site.gaps()
    assert gap >= DELAY  # and the crawl has ended


@coroutine_test
async def test_left_out_of_rep_obey():
    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 100\n"}) as site:
        crawler = make_crawler(REP_OBEY=["disallow"])
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(3)])
    assert len(crawler.spider.got) == 3  # without a delay the crawl has ended
    assert crawler.stats.get_value("rep/would_forbid") is None


@coroutine_test
async def test_what_is_left_out_of_rep_obey_is_judged_and_counted():
    body = "User-agent: *\nCrawl-delay: 999\nVisit-time: 0000-0000\n"
    with Site({"/robots.txt": body}) as site:
        crawler = make_crawler(REP_OBEY=["disallow", "visit-time"])
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(3)])
        assert len(site.gaps()) == 2
    assert crawler.stats.get_value("rep/would_forbid") == 3
    assert crawler.stats.get_value("rep/would_forbid/crawl_delay") == 3


@coroutine_test
async def test_what_the_crawl_would_do_now():
    """``spider.robots.ruling`` reckons with the limit on delays, ``allowed`` does not."""
    found: list[Any] = []

    class Asks(Pages):
        def failed(self, failure):
            super().failed(failure)
            url = failure.value.url
            found.append((self.robots.allowed(url), self.robots.ruling(url)))
            found.append(self.robots.ruling("https://not-known.example/"))

    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 1000\n"}) as site:
        await crawl(make_crawler(Asks), urls=[site.url("/")])
    (allowed, ruling), unknown = found
    assert allowed
    assert (ruling.action, ruling.objection.cause) == (Action.REFUSE, "crawl_delay")
    assert unknown is None
