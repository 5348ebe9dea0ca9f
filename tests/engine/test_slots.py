"""What is known of Scrapy's download slots."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from scrapy import Request
from scrapy.http import Headers

from scrapy_rep import Downloader
from scrapy_rep.crawl import Crawl
from scrapy_rep.engine.inner import may_send_again, slot_clock
from tests.frontier.waiting import in_a_crawl
from tests.utils import make_crawler


@pytest.mark.parametrize(
    ("delay", "jitter", "ago", "seconds"),
    [(0.0, 0.0, 0.0, 0.0), (5.0, 0.0, 1.0, 4.0), (5.0, 0.5, 1.0, 1.5)],
)
def test_when_a_slot_is_due_by_the_users_own_delay(delay, jitter, ago, seconds):
    crawler = make_crawler()
    slot = SimpleNamespace(
        concurrency=8,
        delay=delay,
        jitter=jitter,
        lastseen=slot_clock() - ago,
        queue=(),
        active=(),
        transferring=set(),
        free_transfer_slots=int,
    )
    crawler.engine = SimpleNamespace(downloader=SimpleNamespace(slots={"a": slot}))
    downloader = Crawl.of(crawler).engine
    assert downloader.due_in("a") == pytest.approx(seconds, abs=0.1)
    assert downloader.due_in("not used yet") == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example",
        "http://a.example/",
        "http://A.Example./page",
        "http://a/b",
        "https://user:word@a.example:8443/x?y=http://b.example/",
        "http://a.example?x=/y",
        "http://a.example#/x",
        "http://[2001:db8::1]:80/x",
        "http://xn--bcher-kva.example/x",
        "http:///x",
        "data:,x/y",
        "file:///a/b",
    ],
)
@in_a_crawl()
async def test_a_slot_has_the_name_that_scrapy_gives_it(crawler, url):
    engine, downloader = Crawl.of(crawler).engine, crawler.engine.downloader
    plain, own = Request(url), Request(url, meta={"download_slot": "mine"})
    assert engine.slot_of(plain) == downloader.get_slot_key(plain)
    assert engine.slot_of(own) == downloader.get_slot_key(own) == "mine"


class ByPath(Downloader):
    """Has a slot for each page."""

    def get_slot_key(self, request: Request) -> str:
        return request.url.rpartition("/")[2]


@in_a_crawl(DOWNLOADER=ByPath)
async def test_the_users_downloader_names_slots(crawler):
    request = Request("http://a.example/page")
    assert Crawl.of(crawler).engine.slot_of(request) == "page"


@in_a_crawl()
async def test_what_the_engine_is_done_with(crawler):
    engine, scrapys = Crawl.of(crawler).engine, crawler.engine
    downloaded, scraped, cut, over = requests = [
        Request(f"http://a.example/{number}") for number in range(4)
    ]
    scrapys.downloader.active.add(downloaded)
    scrapys.scraper.slot.active.add(scraped)
    scrapys.downloader.cut_off.add(cut)
    assert engine.done_with(requests) == [over]
    scrapys.downloader.active.discard(downloaded)
    scrapys.scraper.slot.active.discard(scraped)


@pytest.mark.parametrize(
    ("request_", "before", "may"),
    [
        (Request("http://a/"), {}, True),
        (Request("http://a/"), {"Connection": "keep-alive"}, True),
        (Request("http://a/"), {"Connection": "Close"}, False),
        (Request("http://a/", method="POST"), {}, False),
        (Request("http://a/", body="x"), {}, False),
        (Request("http://a/", meta={"download_latency": 0.1}), {}, False),
    ],
)
def test_what_a_kept_connection_has_not_answered(request_, before, may):
    lost = type("ResponseNeverReceived", (Exception,), {})()
    assert may_send_again(request_, lost, Headers(before)) is may
    assert not may_send_again(request_, Exception(), Headers(before))
