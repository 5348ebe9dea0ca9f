"""Crawl-delay, measured at the server."""

from __future__ import annotations

from itertools import pairwise

import pytest
from scrapy import signals

from tests.site import Reply, Site
from tests.utils import (
    SCRAPYS_QUEUE,
    Pages,
    coroutine_test,
    crawl,
    make_crawler,
    sleep,
    timed,
)

pytestmark = timed

HALF_A_SECOND = "User-agent: *\nCrawl-delay: 0.5\n"
SHORTEST = 0.495  # a hundredth for clocks and wires


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="alone"),
        pytest.param(
            {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0.1},
            id="AutoThrottle",
        ),
        pytest.param({"DOWNLOAD_DELAY": 0.1}, id="a shorter delay with jitter"),
        pytest.param({"DOWNLOAD_DELAY": 0.51}, id="a longer delay with jitter"),
        pytest.param(
            {"DOWNLOAD_SLOTS": {"127.0.0.1": {"concurrency": 8, "delay": 0}}},
            id="DOWNLOAD_SLOTS",
        ),
    ],
)
@pytest.mark.parametrize("queue", ["scrapy_rep.PoliteQueue", SCRAPYS_QUEUE])
@coroutine_test
async def test_no_gap_is_shorter(queue, settings):
    with Site({"/robots.txt": HALF_A_SECOND}) as site:
        crawler = make_crawler(SCHEDULER_PRIORITY_QUEUE=queue, **settings)
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(6)])
        gaps = site.gaps(robots=True)
    assert len(crawler.spider.got) == 6
    assert len(gaps) == 6
    assert min(gaps) >= SHORTEST


@coroutine_test
async def test_after_the_slot_was_dropped_for_being_idle():
    class Pausing(Pages):
        async def start(self):
            for number, request in enumerate(self.requests()):
                if number == 2:
                    await self.idle()
                yield request

        async def idle(self):
            await sleep(1.7)
            slots = self.crawler.engine.downloader.slots
            self.crawler.engine.downloader._slot_gc(age=0)
            assert not slots

    with Site({"/robots.txt": HALF_A_SECOND}) as site:
        crawler = make_crawler(Pausing)
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(4)])
        gaps = site.gaps()
    assert len(gaps) == 3
    assert min(gaps) >= SHORTEST


@coroutine_test
async def test_retries_and_redirects_and_errors():
    with Site({"/robots.txt": HALF_A_SECOND}) as site:
        site.replies["/retried"] = [Reply(status=500), "fine"]
        site.replies["/from"] = Reply(status=302, headers={"Location": "/to"})
        crawler = make_crawler(RETRY_TIMES=2)
        urls = [site.url(path) for path in ("/retried", "/from", "/reset")]
        await crawl(crawler, urls=urls)
        gaps = site.gaps()
    assert len(gaps) == 4
    assert min(gaps) >= SHORTEST


@coroutine_test
async def test_two_origins_in_one_slot_keep_the_slower():
    slow = Site({"/robots.txt": HALF_A_SECOND})
    with slow, Site({"/robots.txt": "User-agent: *\nCrawl-delay: 0.1\n"}) as quick:
        crawler = make_crawler()
        urls = [site.url(f"/{n}") for n in range(3) for site in (slow, quick)]
        await crawl(crawler, urls=urls)
        assert slow.host == quick.host
        times = sorted(
            hit.seconds
            for hit in slow.hits + quick.hits
            if hit.path not in {"/robots.txt", "/0"}  # before both were known
        )
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(gaps) == 3
    assert min(gaps) >= SHORTEST


@coroutine_test
async def test_media_requests_keep_it_too(tmp_path):
    class Media(Pages):
        def parse(self, response):
            yield {"file_urls": [site.url(f"/{n}.pdf") for n in range(3)]}

    with Site({"/robots.txt": HALF_A_SECOND}) as site:
        crawler = make_crawler(
            Media,
            ITEM_PIPELINES={"scrapy.pipelines.files.FilesPipeline": 1},
            FILES_STORE=str(tmp_path),
        )
        await crawl(crawler, urls=[site.url("/start")])
        gaps = site.gaps()
    assert len(gaps) == 3
    assert min(gaps) >= SHORTEST


@coroutine_test
async def test_the_users_own_longer_delay_stays():
    delays: list[float] = []

    def reached(request):
        slot = crawler.engine.downloader.slots[request.meta["download_slot"]]
        delays.append(slot.delay)

    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 0.1\n"}) as site:
        crawler = make_crawler(DOWNLOAD_DELAY=0.3)
        crawler.signals.connect(reached, signals.request_reached_downloader)
        await crawl(crawler, urls=[site.url("/a"), site.url("/b")])
    assert delays == [0.3, 0.3, 0.3]


@coroutine_test
async def test_a_group_of_our_own_has_a_delay_of_its_own():
    # Without the empty rule both user-agent lines would head one group.
    body = "User-agent: *\nCrawl-delay: 30\nDisallow:\n\nUser-agent: me\nCrawl-delay: 0.1\n"
    with Site({"/robots.txt": body}) as site:
        crawler = make_crawler(USER_AGENT="me/1.0")
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(3)])
        gaps = site.gaps()
    assert min(gaps) >= 0.099
    assert max(gaps) < 5


@coroutine_test
async def test_over_the_maximum_is_refused_and_counted():
    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 999\n"}) as site:
        crawler = make_crawler()
        await crawl(crawler, urls=[site.url("/a"), site.url("/b")])
        assert site.paths == ["/robots.txt"]
    assert len(crawler.spider.failures) == 2
    assert "asks for 999 s" in crawler.spider.failures[0].reason
    stats = crawler.stats.get_stats()
    assert stats["rep/forbidden/crawl_delay"] == 2
    assert stats["rep/crawl_delay/longest"] == 999
    assert stats["rep/crawl_delay/over_max"] == 1


@coroutine_test
async def test_over_the_maximum_may_be_clamped():
    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 999\n"}) as site:
        crawler = make_crawler(
            REP_CRAWL_DELAY_MAX=0.5, REP_CRAWL_DELAY_OVER_MAX="clamp"
        )
        await crawl(crawler, urls=[site.url("/a"), site.url("/b")])
        gaps = site.gaps()
    assert len(gaps) == 1
    assert SHORTEST <= gaps[0] < 5


@coroutine_test
async def test_left_out_of_rep_obey():
    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 30\n"}) as site:
        crawler = make_crawler(REP_OBEY=["disallow"])
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(3)])
        assert max(site.gaps()) < 5
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
