"""How many robots.txt are asked for at once (REP_FETCH_CONCURRENCY)."""

from __future__ import annotations

import time
from threading import Condition, Event, current_thread, main_thread
from typing import Any

import pytest
import scrapy
from scrapy.exceptions import CloseSpider

from scrapy_rep.crawl import Crawl
from scrapy_rep.policies import service, sharing
from scrapy_rep.policies.lifecycle import policy_of
from scrapy_rep.policies.service import Policies
from scrapy_rep.policies.sharing import LARGE_SIZE
from scrapy_rep.protocol import Policy
from tests.crawls.test_one_pace import by_handler
from tests.site import Reply, Silence, Site, hosts_of, some_sites
from tests.utils import (
    SCRAPYS,
    Frees,
    Pages,
    at_once,
    coroutine_test,
    crawl,
    make_crawler,
    until,
)


class Crowded:
    """A robots.txt that is answered when so many are asked for at once, and a moment later."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._changed = Condition()
        self._asked_for = 0
        self.most = 0

    def __call__(self, hit: Any) -> Reply:
        with self._changed:
            self._asked_for += 1
            self.most = max(self.most, self._asked_for)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most >= self._number, 20)
        time.sleep(0.2)  # in which one more than there may be would come
        with self._changed:
            self._asked_for -= 1
        return Reply("# fine")


@pytest.mark.parametrize(
    ("hosts", "bounds", "patience", "most"),
    [
        pytest.param(6, (2, 4), 60, 2, id="so many at once"),
        pytest.param(5, (1, 2), 0.05, 3, id="slow ones make way, and are limited"),
    ],
)
@coroutine_test
async def test_bounds(hosts, bounds, patience, most, monkeypatch):
    monkeypatch.setattr(sharing, "PATIENCE_SECONDS", patience)
    robots, (at_once, slow) = Crowded(most), bounds
    with some_sites(hosts, robots) as sites:
        crawler = make_crawler(REP_FETCH_CONCURRENCY=at_once, REP_SLOW_FETCHES=slow)
        await crawl(crawler, urls=[site.url("/") for site in sites])
    assert len(crawler.spider.got) == hosts
    assert robots.most == most


class UntilQuick(Pages):
    """Ends the crawl when the pages of the quick hosts have come."""

    hanging: Site
    quick: list[str]
    ended_before = -1

    def parse(self, response):
        super().parse(response)
        if len(self.got) == len(self.quick):
            self.ended_before = self.crawler.stats.get_value("rep/unreachable", 0)
            self.hanging.closing.set()


@pytest.mark.invariant3
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"SCHEDULER": SCRAPYS},
        # Clients whose pool has places for CONCURRENT_REQUESTS alone.
        pytest.param(by_handler("aiohttp", "http"), marks=pytest.mark.only_asyncio),
        pytest.param(by_handler("httpx", "http"), marks=pytest.mark.only_asyncio),
    ],
    ids=["polite", "Scrapy's", "aiohttp", "httpx"],
)
@coroutine_test
async def test_hosts_that_hang_hold_up_nobody_who_comes_after_them(settings):
    with Site(host="0.0.0.0") as site:
        hanging, quick = hosts_of(site, 120), hosts_of(site, 5, 210)

        def robots(hit):
            return Reply("# fine", hang=f"http://{hit.headers['Host']}" in hanging)

        site.replies["/robots.txt"] = robots
        crawler = make_crawler(UntilQuick, REP_TIMEOUT=50, **settings)
        urls = [f"{origin}/" for origin in hanging + quick]
        await crawl(crawler, urls=urls, hanging=site, quick=quick)
        assert len(site.hits) == len(urls) + len(quick)
    assert sorted(crawler.spider.got) == sorted(urls[len(hanging) :])
    assert len(crawler.spider.failures) == len(hanging)
    assert crawler.spider.ended_before == 0


class UntilOthers(Pages):
    """Ends the crawl when the pages of the hosts that share no pace have come."""

    others: list[str]

    def parse(self, response):
        super().parse(response)
        if set(self.others) <= set(self.got):
            raise CloseSpider("done")


@pytest.mark.invariant3
@pytest.mark.parametrize("first", ["", "User-agent: *\n"], ids=["all", "but the first"])
@coroutine_test
async def test_origins_that_share_a_pace_hold_up_nobody_who_comes_after_them(first):
    with Site(host="0.0.0.0") as site:
        shared, others = hosts_of(site, 40), hosts_of(site, 5, 210)

        def is_shared(url):
            return any(url.startswith(origin) for origin in shared)

        def robots(hit):
            origin = f"http://{hit.headers['Host']}"
            asks = is_shared(origin) and not (first and origin == shared[0])
            return Reply("User-agent: *\nCrawl-delay: 0.5\n" if asks else first)

        def pace_of(request):
            host = request.url.split("/")[2]
            return "shared" if is_shared(request.url) else host

        site.replies["/robots.txt"] = robots
        crawler = make_crawler(
            UntilOthers, REP_PACE_BY=pace_of, REP_SLOW_FETCHES=1, CONCURRENT_REQUESTS=2
        )
        wanted = [f"{origin}/" for origin in others]
        urls = [*(f"{origin}/" for origin in shared), *wanted]
        await crawl(crawler, urls=urls, others=wanted)
        sent = [hit for hit in site.hits if is_shared(f"http://{hit.headers['Host']}")]
    assert len(sent) < 10
    assert crawler.stats.get_value("finish_reason") == "done"


@pytest.mark.invariant3
@pytest.mark.parametrize("is_down", [True, False], ids=["down", "slow"])
@coroutine_test
async def test_origins_that_are_led_to_one_host_hold_up_nobody_who_comes_after_them(
    is_down,
):
    with Site(host="0.0.0.0") as site:
        led, others = hosts_of(site, 40), hosts_of(site, 5, 210)
        (target,) = hosts_of(site, 1, 250)
        moved = Reply(status=302, headers={"Location": f"{target}/robots.txt"})

        def robots(hit):
            origin = f"http://{hit.headers['Host']}"
            asks = "User-agent: *\nCrawl-delay: 0.5\n"
            at_target = Reply(asks, hang=is_down)
            return {target: at_target}.get(origin, moved if origin in led else Reply())

        site.replies["/robots.txt"] = robots
        wanted = [f"{origin}/" for origin in others]
        urls = [f"{origin}/" for origin in [target, *led, *others]]
        crawler = make_crawler(
            UntilOthers,
            REP_TIMEOUT=50,
            REP_SLOW_FETCHES=2,
            CONCURRENT_REQUESTS=2,
            CONCURRENT_REQUESTS_PER_DOMAIN=1,
        )
        await crawl(crawler, urls=urls, others=wanted)
        at_target = [hit for hit in site.hits if hit.headers["Host"] in target]
    assert len(at_target) < 10
    assert crawler.stats.get_value("finish_reason") == "done"


@coroutine_test
async def test_a_hop_that_waits_for_its_grant_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(sharing, "PATIENCE_SECONDS", 60)
    delayed = "User-agent: *\nCrawl-delay: 0.5\n"
    with Site({"/robots.txt": delayed}) as slow, Site(host="0.0.0.0") as site:
        moved = Reply(status=302, headers={"Location": slow.url("/robots.txt")})
        origins, (quick,) = hosts_of(site, 6), hosts_of(site, 1, 200)

        def robots(hit):
            return Reply() if f"http://{hit.headers['Host']}" == quick else moved

        site.replies["/robots.txt"] = robots

        class Following(Pages):
            """Asks for the quick page when all the others wait already."""

            async def start(self):
                for request in self.requests():
                    yield request
                await until(lambda: slow.count("/robots.txt") >= 2)
                self.before = len(slow.hits)
                yield scrapy.Request(f"{quick}/")

        crawler = make_crawler(Following, REP_FETCH_CONCURRENCY=1, REP_SLOW_FETCHES=6)
        urls = [slow.url("/"), *(f"{origin}/" for origin in origins)]
        await crawl(crawler, urls=urls)
        before = crawler.spider.before
        assert Crawl.of(crawler).policies.bound.slow == 0
        (page,) = (
            hit.seconds
            for hit in site.hits
            if hit.path == "/" and f"http://{hit.headers['Host']}" == quick
        )
        # Five of the others wait, each of which takes 0.5 s.
        assert sum(hit.seconds < page for hit in slow.hits[before:]) <= 2
        assert slow.count("/robots.txt") == 7
    assert len(crawler.spider.got) == len(urls) + 1


LARGE = "# filling\n" * (LARGE_SIZE // 10 + 1)
"""A robots.txt that a thread reads."""


async def quick_is_first(
    spider: type[Pages], urls: list[str], quick: Site, **arguments: Any
) -> None:
    """Crawl *urls* and then a page of *quick*, which comes before all the others.

    Eight robots.txt are asked for ahead of need, and more that take long.
    """
    crawler = make_crawler(spider, CONCURRENT_REQUESTS=4, REP_EVIDENCE=True)
    await crawl(crawler, urls=[*urls, quick.url("/")], **arguments)
    assert crawler.spider.got[0] == quick.url("/")
    assert len(crawler.spider.got) == len(urls) + 1


class Second(Frees):
    """Crawls when another crawl has asked its sites, but the last one."""

    site: Site

    async def start(self):
        await until(lambda: self.site.count("/robots.txt") >= len(self.urls) - 1)
        for request in self.requests():
            yield request


@coroutine_test
async def test_hosts_that_another_crawl_asks_hold_up_nobody():
    silence = Silence()
    with (
        Site({"/robots.txt": silence}, host="0.0.0.0") as site,
        some_sites(1, "# fine", 200) as [quick],
    ):
        urls = [f"{origin}/" for origin in hosts_of(site, 12)]
        second = quick_is_first(Second, urls, quick, site=site, free=silence.over)
        await at_once(crawl(make_crawler(), urls=urls), second)


@coroutine_test
async def test_large_files_hold_up_nobody(monkeypatch):
    free = Event()

    def read_slowly(snapshot, *args):
        if len(snapshot.answer.body) > LARGE_SIZE:
            free.wait(20)  # in the thread, which reads one at a time
        return policy_of(snapshot, *args)

    monkeypatch.setattr(service, "policy_of", read_slowly)
    with (
        Site({"/robots.txt": LARGE}, host="0.0.0.0") as site,
        some_sites(1, "# fine", 200) as [quick],
    ):
        urls = [f"{origin}/" for origin in hosts_of(site, 12)]
        await quick_is_first(Frees, urls, quick, free=free)


class Late(Frees):
    """Asks for its last page when the others wait for what a thread does."""

    begun: Event

    async def start(self):
        *first, last = self.requests()
        for request in first:
            yield request
        await until(self.begun.is_set)
        yield last


@coroutine_test
async def test_pages_that_wait_for_a_large_file_lend_their_places(monkeypatch):
    monkeypatch.setattr(sharing, "PATIENCE_SECONDS", 0.05)
    begun, free, matching = Event(), Event(), Policy.matching

    def match_slowly(policy, url, agent):
        if current_thread() is not main_thread():  # to be ready for evidence
            begun.set()
            free.wait(20)
        return matching(policy, url, agent)

    monkeypatch.setattr(Policy, "matching", match_slowly)
    with Site({"/robots.txt": LARGE}) as site, some_sites(1, "# fine", 200) as [quick]:
        urls = [site.url(f"/{number}") for number in range(4)]
        await quick_is_first(Late, urls, quick, begun=begun, free=free)


@coroutine_test
async def test_hops_to_a_parked_host_hold_up_nobody():
    with (
        Site() as busy,
        Site(host="0.0.0.0") as site,
        some_sites(1, "# fine", 200) as [quick],
    ):
        away = Reply(status=503, headers={"Retry-After": "3"})
        busy.replies |= {"/robots.txt": "# fine", "/": [away, "page"]}
        moved = Reply(status=302, headers={"Location": busy.url("/robots.txt")})
        site.replies["/robots.txt"] = moved
        urls = [f"{origin}/" for origin in hosts_of(site, 12)]

        class Following(Pages):
            async def start(self):
                yield scrapy.Request(busy.url("/"))
                await until(Crawl.of(self.crawler).keeper.is_any_parked)
                for request in self.requests():
                    yield request

        await quick_is_first(Following, urls, quick)


@coroutine_test
async def test_what_waits_asks_for_no_more_ahead_than_are_soon_fetched(monkeypatch):
    under_way, most, ask = 0, 0, Policies.ask

    def counted(self: Any, origin: str, page: Any, *, ahead: bool = False) -> Any:
        nonlocal under_way, most
        under_way += ahead
        most = max(most, under_way)

        def over(known: Any) -> Any:
            nonlocal under_way
            under_way -= ahead
            return known

        return ask(self, origin, page, ahead=ahead).addBoth(over)

    monkeypatch.setattr(Policies, "ask", counted)
    with some_sites(12, Reply("# fine", after=0.1)) as sites:
        crawler = make_crawler(REP_FETCH_CONCURRENCY=1, CONCURRENT_REQUESTS=2)
        await crawl(crawler, urls=[site.url("/") for site in sites])
    assert len(crawler.spider.got) == 12
    assert 1 < most < 12  # 4, and those that a busy machine makes slow
