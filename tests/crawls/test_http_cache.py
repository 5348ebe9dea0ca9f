"""Crawls whose pages Scrapy's HTTP cache has (HTTPCACHE_ENABLED), and whose site is away."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import scrapy
from scrapy.exceptions import CloseSpider
from scrapy.http.request import NO_CALLBACK

from scrapy_rep import RobotsForbidden, RobotsUnreachable, SettingError
from tests.site import Reply, Site
from tests.utils import (
    SCRAPYS,
    Pages,
    coroutine_test,
    crawl,
    make_crawler,
    sleep,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

NO_P = "User-agent: *\nDisallow: /p\n"
AWAY = Reply(status=503)
PAGES = [f"/{number}" for number in range(8)]
RETRIES = {"REP_UNREACHABLE_RETRY_DELAYS": None}
"""The default: an hour would do as well, as nobody waits for them here."""
RFC2616: dict[str, Any] = {
    "HTTPCACHE_POLICY": "scrapy.extensions.httpcache.RFC2616Policy"
}
FRESH = {"Cache-Control": "max-age=3600"}
STALE = {"Cache-Control": "max-age=0", "ETag": '"x"'}
JOB = {"JOBDIR": "job"}
SCRAPYS_QUEUE = {"SCHEDULER": SCRAPYS}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


async def run(
    urls: Iterable[str], spider: Any = Pages, meta: Any = None, **settings: Any
) -> Any:
    crawler = make_crawler(spider, **{"HTTPCACHE_ENABLED": True, **settings})
    return await crawl(crawler, urls=list(urls), meta=meta)


def forget(folder: str) -> None:
    """Delete what was learned of robots.txt files."""
    Path(folder, "robots.sqlite").unlink()


def stat(crawler: Any, name: str) -> Any:
    return crawler.stats.get_value(f"rep/{name}", 0)


def page_of(headers: dict[str, str]) -> Any:
    return {path: Reply("page", headers=headers) for path in PAGES}


DBM = {"HTTPCACHE_STORAGE": "scrapy.extensions.httpcache.DbmCacheStorage"}


@pytest.mark.parametrize(
    ("cache", "scheduler"),
    [
        pytest.param({}, {}, id="files"),
        pytest.param({}, SCRAPYS_QUEUE, id="files, Scrapy's queue"),
        pytest.param(DBM, SCRAPYS_QUEUE, id="dbm, Scrapy's queue"),
        pytest.param(RFC2616, JOB, id="RFC 2616, a job"),
    ],
)
@coroutine_test
async def test_a_page_in_the_cache_waits_for_no_retry(cache, scheduler):
    """Nothing is known of the site any more, and its robots.txt cannot be fetched."""
    with Site({"/robots.txt": NO_P, **page_of(FRESH)}) as site:
        urls = [site.url(path) for path in PAGES]
        await run(urls, REP_STORE="memory", **cache, **scheduler)
    crawler = await run(urls, REP_STORE="memory", **cache, **scheduler, **RETRIES)
    assert sorted(crawler.spider.got) == urls
    assert stat(crawler, "from_http_cache") == 8
    assert stat(crawler, "unreachable") == 1
    assert stat(crawler, "put_off") == 0
    assert crawler.stats.get_value("httpcache/hit") == 8


# Without a reactor, Scrapy does not close its download handler in this case.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@coroutine_test
async def test_a_folder_for_the_store_that_cannot_be_made(tmp_path):
    (tmp_path / ".scrapy").write_text("a file")
    with pytest.raises(SettingError, match=r"REP_STORE is 'sqlite', .*\.scrapy"):
        await run([], HTTPCACHE_DIR=str(tmp_path / "cache"))


class OnOtherRoads(Pages):
    """Goes by a media pipeline and by ``download_async``."""

    async def start(self):
        for request in self.requests():
            alone = request.replace(callback=NO_CALLBACK)
            response = await self.crawler.engine.download_async(alone)
            self.got.append(response.url)
        yield scrapy.Request("data:,x", self.parse_start)

    def parse_start(self, response):
        yield {"file_urls": self.urls}


@coroutine_test
async def test_other_roads(tmp_path):
    files = {
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
        "FILES_STORE": str(tmp_path),
    }
    with Site() as site:
        urls = [site.url(path) for path in PAGES]
        await run(urls)
    forget(".scrapy")
    crawler = await run(urls, OnOtherRoads, **files, **RETRIES)
    assert crawler.spider.got == urls
    assert crawler.stats.get_value("file_status_count/cached") == 8
    assert stat(crawler, "from_http_cache") == 16


class Exempt(Pages):
    """Asks for what robots.txt forbids, too, so that the cache has it."""

    def requests(self):
        for request in super().requests():
            yield request.replace(meta={"dont_obey_robotstxt": "/p" in request.url})


@pytest.mark.parametrize(
    ("first", "is_away", "scheduler"),
    [
        pytest.param({}, True, {}, id="a fresh copy"),
        pytest.param(
            {"REP_MAX_AGE": 0.01, "REP_MIN_AGE": 0}, True, JOB, id="an old copy"
        ),
        pytest.param({}, False, SCRAPYS_QUEUE, id="none, but it can be had"),
    ],
)
@coroutine_test
async def test_what_is_disallowed_stays_refused(first, is_away, scheduler):
    """What was learned outlives the crawl, as pages do."""
    with Site({"/robots.txt": NO_P}) as site:
        urls = [site.url("/a"), site.url("/p")]
        crawler = await run(urls, Exempt, **first, **scheduler)
        assert len(crawler.spider.got) == 2
        again = None if is_away else await run(urls, **scheduler, **RETRIES)
    again = again or await run(urls, **scheduler, **RETRIES)
    assert again.spider.got == urls[:1]
    (failure,) = again.spider.failures
    assert isinstance(failure, RobotsForbidden)
    assert failure.verdict.rule == (False, "/p", 2)
    assert stat(again, "from_http_cache") == 0
    assert stat(again, "unreachable") == bool(first)  # a fresh copy is not asked for


class Noting(Pages):
    """Keeps the names of what the meta of refused requests has."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.keys = set()

    def failed(self, failure):
        super().failed(failure)
        self.keys |= failure.request.meta.keys()


@pytest.mark.parametrize(
    ("settings", "meta", "headers"),
    [
        pytest.param({}, {"dont_cache": True}, {}, id="dont_cache"),
        pytest.param({"HTTPCACHE_IGNORE_SCHEMES": ["http"]}, {}, {}, id="its scheme"),
        pytest.param({"HTTPCACHE_EXPIRATION_SECS": 1}, {}, {}, id="expired"),
        pytest.param(RFC2616, {}, STALE, id="stale"),
        pytest.param({"HTTPCACHE_ENABLED": False}, {}, {}, id="no cache"),
        pytest.param(
            {"REP_PURPOSE": ["search"], "REP_PURPOSE_UNSTATED": "refuse"},
            {},
            {},
            id="it is not known whether the purpose is allowed",
        ),
    ],
)
@coroutine_test
async def test_what_the_cache_does_not_answer_is_refused(settings, meta, headers):
    with Site({"/robots.txt": NO_P, **page_of(headers)}) as site:
        urls = [site.url(path) for path in PAGES]
        await run(urls, REP_STORE="memory")
        site.hits.clear()
        site.replies["/robots.txt"] = AWAY
        if "HTTPCACHE_EXPIRATION_SECS" in settings:
            await sleep(1.1)
        settings = {"REP_STORE": "memory", **settings}
        crawler = await run(urls, Noting, meta=meta, **settings)
        assert site.paths == ["/robots.txt"]
    assert crawler.spider.got == []
    assert not crawler.spider.keys & {"cached_response", "_dont_cache"}
    assert {type(failure) for failure in crawler.spider.failures} == {RobotsUnreachable}
    assert len(crawler.spider.failures) == 8


class Until(Pages):
    """Stops when it has so many pages."""

    enough = len(PAGES)

    def parse(self, response):
        super().parse(response)
        if len(self.got) == self.enough:
            raise CloseSpider


class Late(Until):
    """Asks for the pages that the cache has when the others wait already."""

    async def start(self):
        for request in self.requests():
            if request.url[-2:] == PAGES[0]:
                await until(lambda: stat(self.crawler, "put_off"))
            yield request


@pytest.mark.parametrize(("spider", "kept"), [(Until, JOB), (Late, {})])
@coroutine_test
async def test_what_the_cache_does_not_have_holds_up_nothing_else(spider, kept):
    """In the same slot, while it waits for the robots.txt to be asked for again."""
    with Site({"/robots.txt": NO_P}) as site:
        urls = [site.url(path) for path in PAGES]
        await run(urls, REP_STORE="memory")
        site.replies["/robots.txt"] = AWAY
        others = [site.url(path) for path in ("/x", "/y", "/p")]
        crawler = await run(
            [*others, *urls],
            spider,
            REP_STORE="memory",
            REP_UNREACHABLE_RETRY_DELAYS=[300],
            **kept,
        )
    assert sorted(crawler.spider.got) == urls
    assert not {"/x", "/y", "/p"} & set(site.paths)


@coroutine_test
async def test_what_the_cache_does_not_have_waits_and_is_judged():
    with Site({"/robots.txt": NO_P}) as site:
        urls = [site.url(path) for path in PAGES]
        await run(urls, REP_STORE="memory")
        site.hits.clear()
        site.replies["/robots.txt"] = [AWAY, Reply(NO_P)]
        others = [site.url(path) for path in ("/x", "/y", "/p")]
        crawler = await run(
            [*others, *urls],
            REP_STORE="memory",
            REP_UNREACHABLE_RETRY_DELAYS=[0.5],
            **JOB,
        )
        assert sorted(site.paths) == ["/robots.txt", "/robots.txt", "/x", "/y"]
    assert sorted(crawler.spider.got) == sorted([*urls, *others[:2]])
    (failure,) = crawler.spider.failures
    assert isinstance(failure, RobotsForbidden)
    # Each of the others was handed out once to be looked up, and once to be judged.
    assert crawler.stats.get_value("scheduler/enqueued") == 11 + 3


class Held:
    """A robots.txt that is away at first, and then does not come until it is let go."""

    def __init__(self) -> None:
        self.asked = 0
        self.let_go = threading.Event()

    def __call__(self, hit: Any) -> Reply:
        self.asked += 1
        if self.asked == 2:
            self.let_go.wait(20)
        return Reply(status=503, after=0.3)


@pytest.mark.parametrize("delay", [0.0001, 0.3])
@coroutine_test
async def test_while_it_is_asked_again(delay):
    """Pages of the cache do not wait, and what waits takes no place of other sites."""

    class Going(Pages):
        async def start(self):
            for request in self.requests():
                yield request
            await until(lambda: held.asked >= 2)
            for url in [*missing[3:], *urls, *others]:
                yield scrapy.Request(url, errback=self.failed)

        def parse(self, response):
            super().parse(response)
            if len(self.got) == len(urls) + len(others):
                held.let_go.set()
                self.unreachable = stat(self.crawler, "unreachable")

    held = Held()
    with Site() as site, Site(host="127.0.0.2") as other:
        urls = [site.url(path) for path in PAGES]
        others = [other.url(path) for path in PAGES]
        missing = [site.url(f"/missing/{number}") for number in range(6)]
        await run(urls, REP_STORE="memory")
        site.hits.clear()
        site.replies["/robots.txt"] = held
        crawler = await run(
            missing[:3],
            Going,
            REP_STORE="memory",
            REP_UNREACHABLE_RETRY_DELAYS=[delay],
            CONCURRENT_REQUESTS=2,
        )
        assert set(site.paths) == {"/robots.txt"}
    assert sorted(crawler.spider.got) == sorted(urls + others)
    assert crawler.spider.unreachable == 1  # the second time was not over
    assert len(crawler.spider.failures) == 6
    assert stat(crawler, "unreachable") == 2
    assert crawler.stats.get_value("log_count/ERROR") is None
    assert crawler.stats.get_value("scheduler/enqueued") <= 22 + 4 * 6  # no busy loop


def of_kind(headers: dict[str, str]) -> Any:
    """Return what answers for a page of 20 kB: 304 if the client has it."""

    def reply(hit: Any) -> Reply:
        if headers.get("ETag", "none") == hit.headers["If-None-Match"]:
            return Reply(status=304, headers=headers)
        return Reply(b"x" * 20_000, headers=headers)

    return reply


@pytest.mark.parametrize(
    ("headers", "asked_again", "octets", "stat_of_it"),
    [
        pytest.param({"ETag": '"1"'}, 8, 0, "httpcache/revalidate", id="ETag"),
        pytest.param(FRESH, 0, 0, "httpcache/hit", id="fresh"),
        pytest.param({}, 8, 160_000, "httpcache/uncacheable", id="neither"),
    ],
)
@coroutine_test
async def test_a_conditional_refetch_saves_what_the_page_says(
    headers, asked_again, octets, stat_of_it
):
    with Site({path: of_kind(headers) for path in PAGES}) as site:
        urls = [site.url(path) for path in PAGES]
        await run(urls, **RFC2616)
        sent: list[int] = []

        def note_octets(data: bytes, request: Any) -> None:
            sent.append(0 if request.url.endswith("/robots.txt") else len(data))

        crawler = make_crawler(HTTPCACHE_ENABLED=True, **RFC2616)
        crawler.signals.connect(note_octets, scrapy.signals.bytes_received)
        before = len(site.hits)
        await crawl(crawler, urls=urls)
        pages = [path for path in site.paths[before:] if path != "/robots.txt"]
    assert sorted(crawler.spider.got) == sorted(urls)
    assert (len(pages), sum(sent)) == (asked_again, octets)
    assert crawler.stats.get_value(stat_of_it) == 8
