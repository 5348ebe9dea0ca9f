"""How many robots.txt are asked for at once (REP_FETCH_CONCURRENCY)."""

from __future__ import annotations

from scrapy_rep.policies import concurrency
from tests.site import Reply, some_sites
from tests.utils import coroutine_test, crawl, make_crawler, timed

pytestmark = timed

WIRES = 0.05  # seconds that a busy machine may add to one arrival


async def asked(number: int, takes: float, concurrency: int) -> list[float]:
    """Crawl so many sites, whose robots.txt takes so long; return when they are asked."""
    with some_sites(number, Reply("# fine", after=takes)) as sites:
        crawler = make_crawler(REP_FETCH_CONCURRENCY=concurrency)
        await crawl(crawler, urls=[site.url("/") for site in sites])
        assert len(crawler.spider.got) == number
        times = sorted(site.hits[0].seconds for site in sites)
    return [time - times[0] for time in times]


def most_at_once(times: list[float], takes: float) -> int:
    return max(
        sum(earlier > time - takes for earlier in times[: place + 1])
        for place, time in enumerate(times)
    )


@coroutine_test
async def test_so_many_at_once():
    times = await asked(6, 0.3, 2)
    assert most_at_once(times, 0.3 - WIRES) == 2
    assert times[-1] < 3 * 0.3  # three times two, side by side


@coroutine_test
async def test_a_slow_one_makes_way(monkeypatch):
    monkeypatch.setattr(concurrency, "PATIENCE", 0.2)
    monkeypatch.setattr(concurrency, "SLOW_LANES", 3)
    times = await asked(5, 1.2, 1)
    assert times[1] >= 0.2 - WIRES
    assert times[2] < 1.2 - WIRES  # after 0.4 s
    assert most_at_once(times, 1.2 - WIRES) == 3  # however slow they are
