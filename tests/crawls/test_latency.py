"""REP_LATENCY_FACTOR: a host waits so many times its response time between two starts."""

from __future__ import annotations

from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from tests.site import Hit, Reply, Site
from tests.utils import SCRAPYS_QUEUE, coroutine_test, crawl, make_crawler

if TYPE_CHECKING:
    from collections.abc import Callable

both_queues = pytest.mark.parametrize(
    "queue", ["scrapy_rep.PoliteQueue", SCRAPYS_QUEUE]
)


def pages(site: Site, number: int) -> list[str]:
    return [site.url(f"/{n}") for n in range(number)]


class Loaded:
    """Takes longer for each request that has come within the last second."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.times: list[float] = []
        self.longest = 0.0

    def __call__(self, hit: Hit) -> Reply:
        with self.lock:
            now = monotonic()
            self.times = [at for at in self.times if at > now - 1] + [now]
            after = 0.02 * len(self.times)
            self.longest = max(self.longest, after)
        return Reply("page", after=after)


def every_page(
    answer: Callable[[Hit], Reply] | Reply, number: int
) -> dict[str, object]:
    return {f"/{n}": answer for n in range(number)}


@both_queues
@coroutine_test
async def test_a_site_that_suffers_from_load_settles(queue):
    longest = []
    for factor in (0, 4):
        loaded = Loaded()
        with Site(every_page(loaded, 25), host=f"127.0.0.{factor + 2}") as site:
            crawler = make_crawler(
                SCHEDULER_PRIORITY_QUEUE=queue, REP_LATENCY_FACTOR=factor
            )
            await crawl(crawler, urls=pages(site, 25))
            if factor:
                # Nothing is known before the first answer, so that one goes alone.
                assert site.hits[2].sent - site.hits[1].sent >= 0.02
        assert len(crawler.spider.got) == 25
        longest.append(loaded.longest)
    assert longest[1] < longest[0] / 1.5


@coroutine_test
async def test_a_slow_site_costs_the_fast_ones_nothing():
    slow = Reply("page", after=0.3)
    with Site(every_page(slow, 4)) as site, Site(host="127.0.0.2") as fast:
        crawler = make_crawler(REP_LATENCY_FACTOR=2, CONCURRENT_REQUESTS=2)
        await crawl(crawler, urls=pages(site, 4) + pages(fast, 30))
        done = max(hit.seconds for hit in fast.hits)
        still = [hit for hit in site.hits if hit.seconds > done]
        gaps = site.gaps()
    assert len(crawler.spider.got) == 34
    assert still
    assert min(gaps) >= 0.55


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
        await crawl(crawler, within=30, urls=pages(site, 4))
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
        crawler = make_crawler(
            CONCURRENT_REQUESTS=2, RANDOMIZE_DOWNLOAD_DELAY=False, **settings
        )
        await crawl(crawler, urls=pages(site, 4) + pages(other, 6))
        done = max(hit.seconds for hit in other.hits)
        assert [hit for hit in site.hits if hit.seconds > done]
        assert min(site.gaps()) >= 0.38
    assert len(crawler.spider.got) == 10


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
