"""REP_LATENCY_FACTOR: a host waits so many times its response time between two starts."""

from __future__ import annotations

from itertools import pairwise
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from tests.site import Hit, Reply, Site, pages
from tests.utils import Pages, both_schedulers, coroutine_test, crawl, make_crawler

if TYPE_CHECKING:
    from collections.abc import Callable


class Loaded:
    """Takes longer for each request that it has at once."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.until: list[float] = []

    def __call__(self, hit: Hit) -> Reply:
        with self.lock:
            now = monotonic()
            self.until = [until for until in self.until if until > now]
            after = 0.05 * (1 + len(self.until))
            self.until.append(now + after)
        return Reply("page", after=after)


def every_page(
    answer: Callable[[Hit], Reply] | Reply, number: int
) -> dict[str, object]:
    return {f"/{n}": answer for n in range(number)}


@both_schedulers
@coroutine_test
async def test_a_site_that_suffers_from_load_settles(scheduler):
    smallest = []
    for factor in (0, 4):
        with Site(every_page(Loaded(), 15), host=f"127.0.0.{factor + 2}") as site:
            crawler = make_crawler(SCHEDULER=scheduler, REP_LATENCY_FACTOR=factor)
            await crawl(crawler, urls=pages(site, 15))
            if factor:
                # Nothing is known before the first answer, so that one goes alone.
                assert site.hits[2].sent - site.hits[1].sent >= 0.02
            smallest.append(min(site.gaps()))
        assert len(crawler.spider.got) == 15
    assert smallest[0] < 0.15 <= smallest[1]  # four times 50 ms, less what is smoothed


@pytest.mark.parametrize(
    ("least", "most", "gap"), [(0.4, 30, 0.38), (0, 0.1, 0.0)], ids=["least", "most"]
)
@coroutine_test
async def test_no_less_and_no_more(least, most, gap):
    reply = Reply("page", after=0.1)
    with Site(every_page(reply, 4)) as site:
        crawler = make_crawler(
            REP_LATENCY_FACTOR=1.0 if least else 1000,
            REP_LATENCY_DELAY_MIN=least,
            REP_LATENCY_DELAY_MAX=most,
        )
        await crawl(crawler, urls=pages(site, 4))
        assert min(site.gaps()) >= gap
    assert len(crawler.spider.got) == 4


@pytest.mark.filterwarnings("ignore:The RANDOMIZE_DOWNLOAD_DELAY")
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"DOWNLOAD_DELAY": 0.4}, id="DOWNLOAD_DELAY"),
        pytest.param(
            {"DOWNLOAD_SLOTS": {"127.0.0.1": {"delay": 0.4, "concurrency": 1}}},
            id="DOWNLOAD_SLOTS",
        ),
    ],
)
@coroutine_test
async def test_delays_of_the_users_own_wait_in_the_queue(settings):
    with Site() as site, Site(host="127.0.0.2") as other:
        if "DOWNLOAD_DELAY" in settings:
            settings = settings | {
                "DOWNLOAD_SLOTS": {"127.0.0.2": {"delay": 0, "concurrency": 8}}
            }
        crawler = make_crawler(OnTheWay, RANDOMIZE_DOWNLOAD_DELAY=False, **settings)
        await crawl(crawler, urls=pages(site, 4) + pages(other, 6))
        # Scrapy's own delay is between departures: arrivals may be closer.
        sent = sorted(hit.sent for hit in site.hits if hit.path != "/robots.txt")
        assert min(later - earlier for earlier, later in pairwise(sent)) >= 0.38
    assert len(crawler.spider.got) == 10
    assert crawler.spider.most <= 1


class OnTheWay(Pages):
    """Notes how many requests to a host there are in the downloader at the most."""

    most = 0

    def parse(self, response):
        super().parse(response)
        active = self.crawler.engine.downloader.active
        there = [each for each in active if "//127.0.0.1:" in each.url]
        self.most = max(self.most, len(there))


@pytest.mark.filterwarnings("ignore:The RANDOMIZE_DOWNLOAD_DELAY")
@pytest.mark.parametrize(
    ("throttle", "factor"), [(0.5, 0.1), (0.01, 4)], ids=["AutoThrottle", "ours"]
)
@coroutine_test
async def test_of_ours_and_autothrottle_the_longer_one_holds(throttle, factor):
    with Site(every_page(Reply("page", after=0.1), 4)) as site:
        crawler = make_crawler(
            REP_LATENCY_FACTOR=factor,
            AUTOTHROTTLE_ENABLED=True,
            AUTOTHROTTLE_START_DELAY=throttle,
            AUTOTHROTTLE_TARGET_CONCURRENCY=0.25 if throttle > factor else 10,
            RANDOMIZE_DOWNLOAD_DELAY=False,
        )
        await crawl(crawler, urls=pages(site, 4))
        assert min(site.gaps()[1:]) >= 0.35
    assert len(crawler.spider.got) == 4
