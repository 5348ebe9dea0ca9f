"""One pace for each host, by whatever way its requests come: from wire to wire."""

from __future__ import annotations

import asyncio
import gc
import logging
import ssl
import time
from itertools import cycle, pairwise
from typing import Any
from urllib.parse import urlsplit
from weakref import ref

import pytest
import scrapy
from scrapy import signals
from scrapy.core import downloader as scrapys
from scrapy.core.downloader.handlers.base import BaseDownloadHandler

from scrapy_rep.engine.inner import Departure
from scrapy_rep.pacing import hosts
from scrapy_rep.pacing.hosts import HOSTS
from scrapy_rep.report.audit import Audit
from tests.site import Reply, Site, gaps_between, pages, some_sites
from tests.tls import server_context
from tests.utils import (
    Pages,
    at_once,
    both_schedulers,
    coroutine_test,
    crawl,
    crawled,
    make_crawler,
)

DELAY = 0.3
KEPT = 0.98 * DELAY
DELAYED = f"User-agent: *\nCrawl-delay: {DELAY}\n"


def smallest_gap(*sites: Site) -> float:
    """Return the smallest gap at *sites*, which have one pace."""
    return min(gaps_between(hit for site in sites for hit in site.hits))


def assert_kept(crawler: Any, got: int, *sites: Site, delay: float = KEPT) -> None:
    """So many pages were got, and no gap at *sites* was shorter than *delay*."""
    assert len(crawler.spider.got) == got
    assert smallest_gap(*sites) >= delay


class SlowHandshakes(ssl.SSLSocket):
    """Of a server that is slow to take every other connection, from the second on."""

    slow = cycle([0.0, 0.6])

    def do_handshake(self, block=False):
        time.sleep(next(self.slow))
        super().do_handshake(block)


class Unwatched(BaseDownloadHandler):
    """A download handler that nobody knows of, which is slow to send what it is given."""

    lazy = True

    def __init__(self, crawler):
        super().__init__(crawler)
        self.ssl = ssl.create_default_context()
        self.ssl.check_hostname = False
        self.ssl.verify_mode = ssl.CERT_NONE

    async def download_request(self, request):
        url = urlsplit(request.url)
        reader, writer = await asyncio.open_connection(
            url.hostname, url.port, ssl=self.ssl
        )
        writer.write(f"GET {url.path} HTTP/1.0\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return scrapy.http.HtmlResponse(
            request.url, status=int(head.split()[1]), body=body, request=request
        )

    async def close(self):
        pass


HANDLERS = {
    "Scrapy's": None,
    "aiohttp": "_aiohttp.AiohttpDownloadHandler",
    "httpx": "_httpx.HttpxDownloadHandler",
    "unwatched": Unwatched,
}


def by_handler(name: str, scheme: str) -> dict[str, Any]:
    """Return the settings for one of HANDLERS; skips where this Scrapy does not have it."""
    handler = HANDLERS[name]
    if isinstance(handler, str):
        module, _, attribute = handler.partition(".")
        path = f"scrapy.core.downloader.handlers.{module}"
        handler = getattr(pytest.importorskip(path), attribute)
    return {} if handler is None else {"DOWNLOAD_HANDLERS": {scheme: handler}}


@pytest.mark.only_asyncio
@pytest.mark.parametrize("name", HANDLERS)
@coroutine_test
async def test_a_connection_that_is_slow_to_be_made(name, tmp_path):
    """Its request leaves as late, and the next one that much later."""
    own = by_handler(name, "https")
    tls = server_context(tmp_path)
    tls.sslsocket_class = SlowHandshakes
    closed = {"Connection": "close"}
    replies = {path: Reply("page", headers=closed) for path in ("/0", "/1", "/2")}
    robots = Reply("User-agent: *\nCrawl-delay: 0.8\n", headers=closed)
    with Site({"/robots.txt": robots, **replies}, tls=tls) as site:
        await crawled(pages(site, 3), DOWNLOAD_VERIFY_CERTIFICATES=False, **own)
    assert len(site.hits) == 4
    assert smallest_gap(site) >= 0.98 * 0.8


@pytest.mark.invariant2
@both_schedulers
@coroutine_test
async def test_two_spiders_of_a_process(scheduler):
    with Site({"/robots.txt": DELAYED}) as site:
        one, other = (
            make_crawler(SCHEDULER=scheduler, USER_AGENT=agent)
            for agent in ("one/1.0", "other/1.0")
        )
        urls = pages(site, 3)
        await at_once(crawl(one, urls=urls), crawl(other, urls=urls))
    assert len(one.spider.got) == len(other.spider.got) == 3
    assert smallest_gap(site) >= KEPT


@coroutine_test
async def test_a_spider_that_begins_when_another_one_has_ended():
    with Site({"/robots.txt": DELAYED}) as site:
        for start in (0, 2):
            crawler = await crawled(pages(site, 2, start))
            assert_kept(crawler, 2, site)


class Spread(Pages):
    """Spreads one host over three download slots."""

    def requests(self):
        for number, request in enumerate(super().requests()):
            request.meta["download_slot"] = f"slot {number % 3}"
            yield request


class Spreading:
    """Does so where the gate has judged already, as rotating proxies do."""

    number = 0

    def process_request(self, request):
        self.number += 1
        request.meta["download_slot"] = f"proxy {self.number % 3}"


@pytest.mark.invariant2
@both_schedulers
@pytest.mark.parametrize(
    ("spider", "middlewares"),
    [
        pytest.param(Spread, {}, id="by the spider"),
        pytest.param(Pages, {Spreading: 610}, id="by a middleware"),
    ],
)
@coroutine_test
async def test_a_host_that_is_spread_over_slots(
    scheduler, spider, middlewares, tmp_path
):
    audit = tmp_path / "audit.jsonl"
    with Site({"/robots.txt": DELAYED}) as site:
        crawler = make_crawler(
            spider,
            SCHEDULER=scheduler,
            DOWNLOADER_MIDDLEWARES=middlewares,
            REP_AUDIT_URI=str(audit),
        )
        slots = set()

        def downloaded(request):
            slots.add(request.meta["download_slot"])

        crawler.signals.connect(downloaded, signals.response_downloaded)
        await crawl(crawler, urls=pages(site, 5))
    assert len(crawler.spider.got) == 5
    assert smallest_gap(site) >= KEPT
    assert len(slots) >= 3
    with Audit([str(audit)]) as read:
        (host,) = read.hosts()
        assert read.conclusion[0].text == (
            "No URL that a rule disallows was requested; every delay was kept (5 gaps, none "
            "short)."
        )
    assert (host["name"], host["requests"], host["robots"]) == (site.host, 5, 1)
    assert host["short"] == 0


@coroutine_test
async def test_many_hosts_whose_robots_txt_is_that_of_one():
    with Site({"/robots.txt": DELAYED}) as site:
        moved = Reply(status=302, headers={"Location": site.url("/robots.txt")})
        with some_sites(5, moved) as others:
            crawler = make_crawler()
            urls = [other.url("/") for other in others]
            await crawl(crawler, urls=urls + pages(site, 2))
        assert len(crawler.spider.got) == 7
        assert smallest_gap(site) >= KEPT


class Holding(Pages):
    """Has the event loop stand still in each callback."""

    def parse(self, response):
        super().parse(response)
        time.sleep(0.6 * DELAY)


@both_schedulers
@coroutine_test
async def test_callbacks_that_hold_the_event_loop_and_new_connections(scheduler):
    closed = Reply("page", headers={"Connection": "close"})
    with some_sites(3, Reply(DELAYED, headers=closed.headers)) as sites:
        for site in sites:
            site.replies |= {f"/{number}": closed for number in range(3)}
        crawler = make_crawler(Holding, SCHEDULER=scheduler)
        urls = [url for site in sites for url in pages(site, 3)]
        await crawl(crawler, urls=urls)
    assert len(crawler.spider.got) == 9
    assert min(map(smallest_gap, sites)) >= KEPT


@coroutine_test
async def test_a_host_behind_a_rendering_service_keeps_its_own():
    with Site({"/robots.txt": DELAYED}) as slow, Site(host="127.0.0.2") as service:

        class Rendered(Pages):
            def requests(self):
                for number in range(3):
                    yield scrapy.Request(
                        service.url(f"/slow/{number}"),
                        meta={"robotstxt_url": slow.url(f"/{number}")},
                    )
                for number in range(8):
                    yield scrapy.Request(service.url(f"/quick/{number}"))

        crawler = await crawled(spider=Rendered)
        times = {hit.path: hit.seconds for hit in service.hits}
    assert len(crawler.spider.got) == 11
    of_slow = sorted(at for path, at in times.items() if "/slow/" in path)
    assert min(b - a for a, b in pairwise(of_slow)) >= KEPT
    # Nor do those wait that share its download slot only.
    assert max(at for path, at in times.items() if "/quick/" in path) < of_slow[-1]


def test_one_after_another_without_a_common_event_loop():
    """What an event loop has left behind when it stopped holds up nobody."""
    host, page = HOSTS.of("a.example"), scrapy.Request("http://a.example")
    waiting, gone = Departure(page), Departure(page)
    host.under_way = ref(gone)
    host.join_line(waiting)
    assert host.is_busy
    assert host.place_of(Departure(page)) == 1
    del gone, waiting
    assert not host.is_busy
    assert host.place_of(Departure(page)) == 0


def test_hosts_are_forgotten_when_their_delay_is_over(monkeypatch):
    now = 1e6
    monkeypatch.setattr(hosts, "monotonic", lambda: now)
    for number in range(10_000):
        host = HOSTS.of(f"{number}.example")
        host.last, host.wishes[0, "o"] = now, (5.0, now)
        now += 1
        assert (
            len(HOSTS.by_name)
            <= 2 * hosts.IDLE_HOST_SECONDS + hosts.FIRST_SWEEP_HOSTS + 2
        )


def test_what_another_crawl_is_asked_for_counts_until_it_is_idle():
    host = HOSTS.of("a.example")
    host.wishes[0, "o"] = 5.0, 100.0
    assert host.interval(0, 101.0) == host.interval(1, 101.0) == 5
    assert (host.interval(0, 106.0), host.interval(1, 106.0)) == (5, 0)


@pytest.mark.invariant5
@coroutine_test
async def test_crawls_that_are_over_leave_no_wishes_behind():
    """As in a service that begins a crawl for each question."""
    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 0.01\n"}) as site:
        for _ in range(5):
            await crawled(pages(site, 1))
            gc.collect()
    (host,) = HOSTS.by_name.values()
    assert 0 < len(host.wishes) < 4


# A Scrapy whose slots are others


def strange(*, has_slots: bool) -> type:
    class Slot:
        """What is known of the slots that are to come: requests that are active."""

        lastseen = property(lambda self: 0.0)

        def __init__(self) -> None:
            self.active: set[Any] = set()

        def close(self) -> None:
            pass

    class Downloader(scrapys.Downloader):
        """Hands over what it is given, at once; waits for nobody's delay."""

        def __init__(self, crawler: Any) -> None:
            super().__init__(crawler)
            del self.total_concurrency
            if not has_slots:
                del self.slots

        def _slot_gc(self, age: float = 60) -> None:
            pass

        def close(self) -> None:
            self.slots = {}
            super().close()

        def needs_backout(self) -> bool:
            return len(self.active) >= 16

        async def _enqueue_request(self, request: Any) -> Any:
            if has_slots:
                key = scrapys.Downloader.get_slot_key(self, request)
                request.meta["download_slot"] = key
                slots: Any = self.slots
                slots.setdefault(key, Slot()).active.add(request)
            self.signals.send_catch_log(
                signal=scrapy.signals.request_reached_downloader,
                request=request,
                spider=self.crawler.spider,
            )
            return await self.handlers.download_request_async(request)

    return Downloader


@pytest.mark.parametrize("has_slots", [True, False])
@coroutine_test
async def test_a_scrapy_whose_slots_are_others(has_slots, caplog):
    """They lack what we use, or are not where they were."""
    downloader = strange(has_slots=has_slots)
    with Site({"/robots.txt": DELAYED}) as site, Site(host="127.0.0.2") as free:
        crawler = make_crawler(DOWNLOADER=downloader)
        with caplog.at_level(logging.WARNING):
            await crawl(crawler, urls=pages(site, 4) + pages(free, 4))
    assert_kept(crawler, 8, site)
    warnings = [
        each.getMessage()
        for each in caplog.records
        if each.name.startswith("scrapy_rep") and each.levelno >= logging.WARNING
    ]
    assert len(warnings) == 1
    assert "slots of this Scrapy are not known" in warnings[0]


# What belongs together (REP_PACE_BY)


def by_network(request: scrapy.Request) -> str:
    return urlsplit(request.url).netloc.rpartition(".")[0]


@both_schedulers
@coroutine_test
async def test_hosts_that_belong_together(scheduler):
    with some_sites(2, DELAYED) as sites:
        crawler = make_crawler(
            SCHEDULER=scheduler, REP_PACE_BY=f"{__name__}.by_network"
        )
        await crawl(crawler, urls=[url for site in sites for url in pages(site, 2)])
    assert_kept(crawler, 4, *sites)


@pytest.mark.parametrize("found", [None, "", 5, ZeroDivisionError])
@coroutine_test
async def test_a_function_that_gives_no_name(found, caplog):
    def name_of(request: scrapy.Request) -> Any:
        if isinstance(found, type):
            raise found
        return found

    with Site({"/robots.txt": DELAYED}) as site:
        crawler = await crawled(pages(site, 2), REP_PACE_BY=name_of)
    assert_kept(crawler, 2, site)
    told = [each for each in caplog.records if "REP_PACE_BY" in each.getMessage()]
    assert len(told) == 1
