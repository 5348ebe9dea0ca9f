"""REP_HOST_BUDGET: so many requests a host, and no more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scrapy_rep import HostRefused
from tests.fleet import Fleet, seed
from tests.redis_server import RedisServer
from tests.site import Reply, Site, pages
from tests.utils import (
    both_schedulers,
    coroutine_test,
    crawl,
    make_crawler,
    with_files,
)

if TYPE_CHECKING:
    from pathlib import Path


def sent(site: Site) -> int:
    return len(site.hits) - site.count("/robots.txt")


@both_schedulers
@coroutine_test
async def test_no_more_than_the_budget_is_sent(scheduler, tmp_path: Path):
    audit = tmp_path / "audit.jsonl"
    with (
        Site() as site,
        Site(host="127.0.0.2") as other,
        Site(host="127.0.0.3") as free,
    ):
        crawler = make_crawler(
            SCHEDULER=scheduler,
            REP_HOST_BUDGET=5,
            REP_HOSTS={"127.0.0.2": {"budget": 3}, "127.0.0.3": {"budget": None}},
            REP_AUDIT_URI=audit,
        )
        urls = pages(site, 20) + pages(other, 20) + pages(free, 20)
        await crawl(crawler, urls=urls)
        assert [sent(each) for each in (site, other, free)] == [5, 3, 20]
    refused = crawler.spider.failures
    assert len(refused) == 15 + 17
    assert all(isinstance(each, HostRefused) for each in refused)
    assert crawler.stats.get_value("rep/forbidden/budget") == 32
    assert any("has had 3 requests of this crawl" in str(each) for each in refused)
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [line.get("cause") for line in lines].count("budget") == 32


@coroutine_test
async def test_who_has_had_all_it_gets_waits_for_nothing(caplog):
    """A pause that its site asks for, least of all; and the log does not say it goes on."""
    caplog.set_level("INFO", logger="scrapy_rep")
    busy = Reply("busy", 429, {"Retry-After": "1000"})
    with Site({"/0": busy}) as site:
        crawler = make_crawler(
            RETRY_TIMES=2, CONCURRENT_REQUESTS_PER_DOMAIN=1, REP_HOST_BUDGET=1
        )
        await crawl(crawler, within=30, urls=pages(site, 5))
        assert sent(site) == 1
    assert crawler.stats.get_value("rep/forbidden/budget") == 5  # the retry among them
    (line,) = [each for each in caplog.messages if "REP_HOST_BUDGET" in each]
    assert line.startswith(
        "127.0.0.1 has had the 1 request that this crawl may send it (REP_HOST_BUDGET): "
        "all others are refused, "
    )
    assert not [each for each in caplog.messages if "asked again" in each]


@coroutine_test
async def test_retries_and_redirects_count_and_a_pace_is_not_waited_for():
    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 0.5"}) as site:
        site.replies["/0"] = Reply(status=500)
        site.replies["/1"] = Reply(status=301, headers={"Location": "/moved"})
        crawler = make_crawler(RETRY_TIMES=1, REP_HOST_BUDGET=4)
        await crawl(crawler, urls=pages(site, 160))
        assert sent(site) == 4
    assert len(crawler.spider.failures) + len(crawler.spider.got) == 160


@coroutine_test
async def test_hosts_that_share_a_pace_share_a_budget():
    with Site() as site, Site(host="127.0.0.2") as other:
        crawler = make_crawler(REP_PACE_BY=lambda request: "ours", REP_HOST_BUDGET=4)
        await crawl(crawler, urls=pages(site, 5) + pages(other, 5))
        assert sent(site) + sent(other) == 4


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
