"""The pace as it is at the server: from an answer, or a failure, to the next start.

Each crawl is run twice: with our downloader, and with one of the user's, where the gate takes
the turn. Where it matters who keeps the requests, the latter has Scrapy's scheduler.
"""

from __future__ import annotations

import time
from itertools import cycle, pairwise
from typing import Any

import pytest
import scrapy
from scrapy.core import downloader as scrapys
from scrapy.exceptions import IgnoreRequest

from scrapy_rep.events.kinds import Answered, BackedOff, Sent
from tests.crawls.test_one_pace import assert_kept, by_handler, smallest_gap
from tests.play import play
from tests.site import Reply, Site, pages
from tests.utils import (
    SCRAPYS,
    Pages,
    coroutine_test,
    crawl,
    crawled,
    make_crawler,
    sleep,
    with_files,
)

DELAY = 0.25
DELAYED = f"User-agent: *\nCrawl-delay: {DELAY}\n"
CLOSED = {"Connection": "close"}


class Users(scrapys.Downloader):
    """A downloader that the user has chosen."""


both_ways = pytest.mark.parametrize(
    "way",
    [pytest.param({}, id="ours"), pytest.param({"DOWNLOADER": Users}, id="the user's")],
)


THEIRS = {"DOWNLOADER": Users, "SCHEDULER": SCRAPYS}
ours_and_theirs = pytest.mark.parametrize(
    "way", [pytest.param({}, id="ours"), pytest.param(THEIRS, id="theirs")]
)


@pytest.mark.invariant2
@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("Scrapy's", {}),
        ("Scrapy's", THEIRS),
        pytest.param("aiohttp", {"SCHEDULER": SCRAPYS}, marks=pytest.mark.only_asyncio),
        pytest.param("httpx", {"DOWNLOADER": Users}, marks=pytest.mark.only_asyncio),
    ],
)
@coroutine_test
async def test_a_site_that_thinks_and_accepts_late(name, way):
    """Every other connection; and it keeps none."""
    slow = {f"/{n}": Reply("page", after=0.1 * n, headers=CLOSED) for n in range(4)}
    replies = {"/robots.txt": Reply(DELAYED, headers=CLOSED), **slow}
    with Site(replies, accepts_after=cycle([0.0, 0.6 * DELAY])) as site:
        crawler = make_crawler(**way, **by_handler(name, "http"))
        await crawl(crawler, urls=pages(site, 4))
    assert_kept(crawler, 4, site, delay=DELAY)
    for hit, later in pairwise(sorted(site.hits)):
        thinks = slow[hit.path].after if hit.path in slow else 0.0
        assert later.seconds - hit.seconds >= DELAY + thinks


@pytest.mark.invariant3
@ours_and_theirs
@coroutine_test
async def test_a_slow_body_holds_up_nobody(way):
    with Site({"/robots.txt": DELAYED}) as site:
        site.replies["/0"] = Reply(b"x" * 40, drip=0.1)
        crawler = make_crawler(CONCURRENT_REQUESTS_PER_DOMAIN=2, **way)
        began = time.monotonic()
        await crawl(crawler, urls=pages(site, 6))
    assert_kept(crawler, 6, site, delay=DELAY)
    assert site.hits[-1].seconds - began < 4  # which the body alone takes


@ours_and_theirs
@coroutine_test
async def test_what_has_waited_for_an_answer_keeps_the_users_own_delay_too(way):
    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 0.1\n"}) as site:
        site.replies["/0"] = Reply("page", after=2.0)
        # Which jitter halves at the most.
        crawler = make_crawler(DOWNLOAD_DELAY=0.8, **way)
        await crawl(crawler, urls=pages(site, 4))
    assert len(crawler.spider.got) == 4
    assert min(site.gaps()) >= 0.4


@both_ways
@coroutine_test
async def test_what_retry_and_redirect_make_requests_of_is_heard(way):
    """Of a site's answers, and of its silence: none of these comes back to the gate."""
    replies = {
        "/robots.txt": DELAYED,
        "/again": [Reply(status=503, headers={"Retry-After": "1"}), Reply("page")],
        "/from": Reply(status=302, headers={"Location": "/to"}),
    }
    with Site(replies) as site:
        played = await play(site, {"RETRY_TIMES": 2, **way}, ["/again", "/from"])
    assert len(played.spider.got) == 2
    at = {hit.path: hit.seconds for hit in site.hits}
    asked = min(hit.seconds for hit in site.hits if hit.path == "/again")
    assert at["/again"] - asked >= 1  # it was left alone for so long
    assert len(played.of(BackedOff)) == 1
    assert len(played.of(Sent)) == len(site.hits) == 5
    heard = {(each.url, each.status) for each in played.of(Answered)}
    assert {(site.url("/again"), 503), (site.url("/from"), 302)} <= heard


@both_ways
@coroutine_test
async def test_a_failure_that_retry_makes_a_request_of_is_heard(way):
    with Site({"/robots.txt": DELAYED}) as site:
        site.replies["/hangs"] = [Reply("late", after=2.0), Reply("page")]
        crawler = make_crawler(
            RETRY_TIMES=2, DOWNLOAD_TIMEOUT=0.5, REP_BACK_OFF_FIRST=1.0, **way
        )
        await crawl(crawler, urls=[site.url("/hangs")])
    assert len(crawler.spider.got) == 1
    assert crawler.stats.get_value("rep/backoff/count") == 1
    first, second = (hit.seconds for hit in site.hits if hit.path == "/hangs")
    assert second - first >= 0.5 + 0.9


@both_ways
@coroutine_test
async def test_media_and_a_kept_connection_that_is_closed(way, tmp_path):
    with Site({"/robots.txt": DELAYED}) as site:
        site.replies["/1.pdf"] = [Reply(reset=True), Reply("file")]
        files = [site.url(f"/{n}.pdf") for n in range(3)]
        crawler = with_files(tmp_path, RETRY_TIMES=1, **way)
        await crawl(crawler, urls=[site.url("/0")], item={"file_urls": files})
    assert sorted(site.paths) == sorted(
        ["/robots.txt", "/0", "/0.pdf", "/1.pdf", "/1.pdf", "/2.pdf"]
    )
    assert smallest_gap(site) >= DELAY


@both_ways
@coroutine_test
async def test_a_new_connection_that_is_closed_is_tried_as_often_as_the_user_wants(way):
    with Site({"/0": Reply(reset=True)}) as site:
        crawler = make_crawler(RETRY_TIMES=3, **way)
        await crawl(crawler, urls=pages(site, 1), meta={"dont_obey_robotstxt": True})
    assert site.paths == ["/0"] * 4


class Replacing:
    """Sends another request in the place of each, after the gate has let it pass."""

    def process_request(self, request):
        if request.url.endswith("/old"):
            return request.replace(url=request.url[:-3] + "new", dont_filter=True)
        if request.url.endswith("/never"):
            raise IgnoreRequest
        return None


class Keeping(Pages):
    """Keeps what it asks for, as a spider with a list of its own does."""

    def requests(self):
        self.kept = list(super().requests())
        return self.kept


@both_ways
@coroutine_test
async def test_what_a_middleware_does_not_send_holds_up_nobody(way):
    with Site({"/robots.txt": DELAYED}) as site:
        crawler = make_crawler(Keeping, DOWNLOADER_MIDDLEWARES={Replacing: 610}, **way)
        urls = [site.url(path) for path in ("/never", "/old", "/0")]
        await crawl(crawler, within=20, urls=urls)
    assert sorted(site.paths) == ["/0", "/new", "/robots.txt"]
    assert smallest_gap(site) >= DELAY


class Silent(scrapys.Downloader):
    """Tells nobody what it does, and downloads on a way of its own."""

    async def _enqueue_request(self, request: Any) -> Any:
        return await self.handlers.download_request_async(request)


@coroutine_test
async def test_a_downloader_that_sends_no_signals():
    with Site({"/robots.txt": DELAYED}) as site:
        site.replies["/1"] = Reply(status=503, headers={"Retry-After": "1"})
        crawler = await crawled(pages(site, 3), DOWNLOADER=Silent)
    assert_kept(crawler, 2, site, delay=DELAY)
    assert crawler.stats.get_value("rep/backoff/count") == 1


class Queueing(Silent):
    """Has each request wait for longer than it may take."""

    async def _enqueue_request(self, request: Any) -> Any:
        await sleep(1.4)
        return await super()._enqueue_request(request)


@coroutine_test
async def test_time_in_its_queue_is_no_time_of_a_fetch():
    with Site({"/robots.txt": "# fine"}) as site:
        await crawled(pages(site, 1), DOWNLOADER=Queueing, REP_TIMEOUT=1.2)
        assert site.paths == ["/robots.txt", "/0"]


class Opening(Pages):
    """Asks for a page before the crawl has begun."""

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.opened, scrapy.signals.spider_opened)
        return spider

    async def opened(self):
        engine = self.crawler.engine
        for url in self.urls[:2]:
            await engine.download_async(scrapy.Request(url))


@both_ways
@coroutine_test
async def test_what_is_asked_for_before_the_crawl_begins(way):
    with Site({"/robots.txt": DELAYED}) as site:
        await crawled(pages(site, 2), Opening, **way)
    assert len(site.hits) == 5
    assert smallest_gap(site) >= DELAY
