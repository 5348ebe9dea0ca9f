"""REP_HOST_BUDGET: so many requests a host, and no more."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scrapy_rep import HostRefused
from scrapy_rep.events.kinds import BudgetSpent, GoesOn, Judged, Refused
from tests.fleet import Fleet, seed
from tests.play import play
from tests.redis_server import RedisServer
from tests.site import Reply, Site, pages, some_sites
from tests.utils import both_schedulers, coroutine_test, crawl, with_files

if TYPE_CHECKING:
    from pathlib import Path


def sent(site: Site) -> int:
    return len(site.hits) - site.count("/robots.txt")


@both_schedulers
@coroutine_test
async def test_no_more_than_the_budget_is_sent(scheduler):
    budgets = {"127.0.0.2": {"budget": 3}, "127.0.0.3": {"budget": None}}
    settings = {"SCHEDULER": scheduler, "REP_HOST_BUDGET": 5, "REP_HOSTS": budgets}
    with some_sites(3, "", first=1) as sites:
        urls = [url for site in sites for url in pages(site, 20)]
        played = await play(sites[0], settings, urls)
        assert [sent(each) for each in sites] == [5, 3, 20]
    assert Counter(each.host for each in played.pages) == {
        "127.0.0.1": 5,
        "127.0.0.2": 3,
        "127.0.0.3": 20,
    }
    refused = played.of(Refused)
    assert [each.cause for each in refused] == ["budget"] * (15 + 17)
    assert [each.cause for each in played.of(Judged)].count("budget") == 32
    assert {each.refusal for each in refused} == set(played.spider.failures)
    assert all(isinstance(each.refusal, HostRefused) for each in refused)
    assert played.stats("rep/forbidden/") == {"budget": 32}


@coroutine_test
async def test_who_has_had_all_it_gets_waits_for_nothing():
    """A pause that its site asks for, least of all; and nothing says that it goes on."""
    busy = Reply("busy", 429, {"Retry-After": "1000"})
    settings = {
        "RETRY_TIMES": 2,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "REP_HOST_BUDGET": 1,
    }
    played = await play({"/0": busy}, settings, [f"/{n}" for n in range(5)], within=30)
    assert len(played.pages) == 1
    assert len(played.of(Refused)) == 5  # the retry among them
    (spent,) = played.of(BudgetSpent)
    assert (spent.host, spent.budget) == ("127.0.0.1", 1)
    assert not played.of(GoesOn)


@coroutine_test
async def test_retries_and_redirects_count_and_a_pace_is_not_waited_for():
    replies = {
        "/robots.txt": "User-agent: *\nCrawl-delay: 0.5",
        "/0": Reply(status=500),
        "/1": Reply(status=301, headers={"Location": "/moved"}),
    }
    settings = {"RETRY_TIMES": 1, "REP_HOST_BUDGET": 4}
    played = await play(replies, settings, [f"/{n}" for n in range(160)])
    assert len(played.pages) == 4
    assert len(played.spider.failures) + len(played.spider.got) == 160


@coroutine_test
async def test_hosts_that_share_a_pace_share_a_budget():
    settings = {"REP_PACE_BY": lambda request: "ours", "REP_HOST_BUDGET": 4}
    with Site() as site, Site(host="127.0.0.2") as other:
        played = await play(site, settings, pages(site, 5) + pages(other, 5))
    assert [each.host for each in played.pages] == ["ours"] * 4


@coroutine_test
async def test_media_count_too(tmp_path: Path):
    with Site() as site:
        crawler = with_files(tmp_path, REP_HOST_BUDGET=3)
        files = [site.url(f"/{n}.pdf") for n in range(5)]
        await crawl(crawler, urls=[site.url("/start")], item={"file_urls": files})
        assert sent(site) == 3


def test_a_fleet_has_one_budget():
    with Site() as site, RedisServer() as server:
        seed(server, pages(site, 40))
        with Fleet(server, 2, REP_HOST_BUDGET=10) as fleet:
            fleet.join(60)
        assert sent(site) == 10
    assert len(fleet.said("got")) == 10
    refused = [w.stats.get("rep/forbidden/budget", 0) for w in fleet.workers]
    assert sum(refused) == 30
