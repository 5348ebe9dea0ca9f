"""What a user's own middlewares and signal handlers do to the requests for robots.txt files."""

from __future__ import annotations

import logging
import os
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest
import scrapy
from scrapy import signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http import HtmlResponse
from scrapy.http.request import NO_CALLBACK

from scrapy_rep import RobotsUnreachable
from scrapy_rep.engine import inner
from scrapy_rep.engine.inner import ROBOTS_HOP
from scrapy_rep.events.kinds import OnTheWay, Refused, Sent
from tests.play import harvest, play
from tests.site import Reply, Site, some_sites
from tests.utils import (
    SCRAPYS,
    SCRAPYS_DOWNLOADER,
    Pages,
    both_downloaders,
    both_schedulers,
    coroutine_test,
    crawl,
    make_crawler,
    sleep,
    until,
)
from tests.wire import SENT

try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

SMALL = "User-agent: *\nDisallow: /p\n"
LARGE = "User-agent: *\n" + 11_000 * "Allow: /some/path\n" + "Disallow: /p\n"
RETRIES: dict[str, Any] = {"REP_UNREACHABLE_RETRY_DELAYS": [10.0, 60.0]}
"""With which a test that waits for retries would not end in time."""
WITHIN = 8.0


def records(caplog, level):
    return [
        each
        for each in caplog.records
        if each.name == "scrapy_rep" and each.levelno == level
    ]


def chunked(body: str) -> Reply:
    """Return a reply whose headers do not tell its length."""
    chunk = f"{len(body):x}\r\n{body}\r\n0\r\n\r\n"
    head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return Reply(raw=(head + chunk).encode())


# StopDownload


class Stopping(Pages):
    """Stops downloads, as Scrapy's documentation shows, at *stop_at*."""

    stop_at: Any = signals.bytes_received
    fail = False

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.stop, signal=cls.stop_at)
        return spider

    def stop(self, request, spider, data=b""):
        raise StopDownload(fail=self.fail)


class Sparing(Stopping):
    """Does what the WARNING says."""

    def stop(self, request, spider, data=b""):
        if ROBOTS_HOP not in request.meta:
            raise StopDownload(fail=self.fail)


class AtTheEnd(Stopping):
    """Stops where we do ourselves."""

    custom_settings = {"REP_MAX_SIZE": 100_000}
    got_octets = 0

    def stop(self, request, spider, data=b""):
        self.got_octets += len(data)
        if self.got_octets > 100_000:
            super().stop(request, spider)


OCTETS, HEADERS = "bytes_received", "headers_received"
STOPS = pytest.mark.parametrize("fail", [False, True])


def stopping(base, signal, fail):
    return type("Stops", (base,), {"stop_at": getattr(signals, signal), "fail": fail})


@pytest.mark.invariant1
@STOPS
@pytest.mark.parametrize("signal", [OCTETS, HEADERS])
@coroutine_test
async def test_a_robots_txt_that_a_handler_stops_is_not_whole(signal, fail, caplog):
    site, spider = Site({"/robots.txt": LARGE}), stopping(Stopping, signal, fail)
    seen, _, crawler = await harvest(site, ["/p", "/q"], spider, **RETRIES)
    assert seen == ["/robots.txt"]
    for failure in crawler.spider.failures:
        assert isinstance(failure, RobotsUnreachable)
        assert "Stopping.stop stopped its download" in failure.reason
    assert len(crawler.spider.failures) == 2
    (warning,) = records(caplog, logging.WARNING)
    text = warning.getMessage()
    assert text.startswith(f"{__name__}.Stopping.stop, which handles the")
    assert (
        f"signal {signal}, stopped the download of robots.txt of {site.origin}" in text
    )
    assert f'"{ROBOTS_HOP}" in their meta' in text


TOLD_BY_STATUS = {
    "/robots.txt": Reply("x" * 9, 302, {"Location": "/rules"}),
    "/rules": Reply("gone", 404),
}


@pytest.mark.invariant8
@STOPS
@pytest.mark.parametrize(
    ("base", "signal", "replies", "pages"),
    [
        pytest.param(Sparing, OCTETS, LARGE, ["/q"], id="spared"),
        pytest.param(Sparing, HEADERS, LARGE, ["/q"], id="spared at once"),
        pytest.param(Stopping, OCTETS, SMALL, ["/q"], id="after its last octet"),
        pytest.param(Stopping, OCTETS, chunked(SMALL), [], id="its length not told"),
        pytest.param(
            Stopping, HEADERS, Reply("x" * 9, 404), ["/p", "/q"], id="a 404"
        ),
        pytest.param(
            Stopping, HEADERS, TOLD_BY_STATUS, ["/p", "/q"], id="a redirect"
        ),
        pytest.param(
            AtTheEnd, OCTETS, f"User-agent: *\nDisallow: /p\n{LARGE}", ["/q"],
            id="beyond the limit",
        ),
    ],
)  # fmt: skip
@coroutine_test
async def test_what_is_whole_all_the_same(base, signal, replies, pages, fail):
    if not isinstance(replies, dict):
        replies = {"/robots.txt": replies}
    spider, settings = stopping(base, signal, fail), RETRIES if pages else {}
    seen, _, crawler = await harvest(dict(replies), ["/p", "/q"], spider, **settings)
    assert sorted({*seen} - TOLD_BY_STATUS.keys()) == pages
    count = crawler.stats.get_value
    assert count("rep/forbidden/rule", 0) == (pages == ["/q"])
    assert (count("rep/unreachable") is None) is bool(pages)


CHROMIUMS = (
    '<meta name="color-scheme" content="light dark"></head><body><pre '
    'style="word-wrap: break-word; white-space: pre-wrap;">'
)
FIREFOXS = (
    '<link rel="stylesheet" href="resource://content-accessible/plaintext.css"></head>'
    "<body><pre>"
)


@pytest.mark.parametrize("made", [CHROMIUMS, FIREFOXS], ids=["Chromium", "Firefox"])
@coroutine_test
async def test_a_page_that_a_browser_made_of_it_has_no_rules(made, caplog):
    body = f"<html><head>{made}{SMALL}</pre></body></html>"
    seen, _, crawler = await harvest({"/robots.txt": body}, ["/p", "/q"])
    assert seen == ["/robots.txt"]
    for failure in crawler.spider.failures:
        assert "a browser made HTML of it" in failure.reason
    assert len(crawler.spider.failures) == 2
    (warning,) = records(caplog, logging.WARNING)
    assert "came as a page of a browser" in warning.getMessage()
    assert "REP_ROBOTS_META" in warning.getMessage()
    # Where there is no robots.txt, its page is nothing.
    seen, _, _ = await harvest({"/robots.txt": Reply(body, 404)}, ["/p"])
    assert seen == ["/robots.txt", "/p"]


# The system's limit on open files


class OutOfFiles(scrapy.Spider):
    """Has no file left for a connection while it asks for all but the first of *urls*."""

    name = "out_of_files"
    custom_settings = {"REP_UNREACHABLE_RETRY_DELAYS": []}

    def __init__(self, urls, **kwargs):
        super().__init__(**kwargs)
        self.urls, self.failures = urls, []

    async def start(self):
        yield scrapy.Request(self.urls[0])

    async def parse(self, response):
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        os.close(next_file := os.dup(0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (next_file, limits[1]))
        try:
            for url in self.urls[1:]:
                yield scrapy.Request(url, errback=self.failures.append)
            await until(lambda: len(self.failures) == len(self.urls) - 1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.invariant1
@pytest.mark.skipif(resource is None, reason="the system has no such limits")
@coroutine_test
async def test_no_file_is_left_for_a_connection(caplog):
    with some_sites(3, SMALL) as sites:
        crawler = make_crawler(OutOfFiles)
        await crawl(crawler, WITHIN, urls=[each.url("/q") for each in sites])
        assert [len(site.paths) for site in sites] == [2, 0, 0]
    for failure in crawler.spider.failures:
        assert isinstance(failure.value, RobotsUnreachable)
        assert "too many open files" in failure.value.reason
    (warning,) = records(caplog, logging.WARNING)
    assert "raise that limit (ulimit -n)" in warning.getMessage()


# Exceptions of middlewares


class Passing:
    """A middleware that fails in one of its methods, at robots.txt files only."""

    error: Any = KeyError

    def fail_at(self, request):
        if request.url.endswith("/robots.txt"):
            self.raise_it()

    def raise_it(self):
        raise self.error("nope")


class AtRequests(Passing):
    def process_request(self, request):
        self.fail_at(request)


class AtRequestsLater(Passing):
    async def process_request(self, request):
        await sleep(0)
        self.fail_at(request)


class AtResponses(Passing):
    def process_response(self, request, response):
        self.fail_at(request)
        return response


class ProductsOnly:
    def process_request(self, request):
        if "/products/" not in request.url:
            raise IgnoreRequest("products only")


BUGGY = pytest.mark.parametrize("buggy", [AtRequests, AtRequestsLater, AtResponses])


@pytest.mark.invariant8
@BUGGY
@coroutine_test
async def test_a_bug_in_a_middleware_is_told_and_reaches_the_errback(buggy, caplog):
    with Site() as site, Site(host="127.0.0.2") as other:
        crawler = make_crawler(DOWNLOADER_MIDDLEWARES={buggy: 543}, **RETRIES)
        urls = [site.url("/a"), site.url("/b"), other.url("/a")]
        await crawl(crawler, WITHIN, urls=urls)
        assert {*site.paths, *other.paths} <= {"/robots.txt"}
    assert [repr(each) for each in crawler.spider.failures] == ["KeyError('nope')"] * 3
    (error,) = records(caplog, logging.ERROR)
    method = "process_response" if buggy is AtResponses else "process_request"
    name = f"tests.crawls.test_own_code.{buggy.__name__}.{method}"
    assert error.getMessage().startswith(f"{name} fails at the request for robots.txt")
    assert "raise_it" in error.exc_text or "raise_it" in str(
        logging.Formatter().formatException(error.exc_info)
    )
    # They are accounted for as all others are.
    assert crawler.stats.get_value("rep/forbidden/unreachable") == 3


@coroutine_test
async def test_each_kind_of_bug_is_told(caplog):
    class Many(Passing):
        def process_request(self, request):
            raise KeyError("one") if "127.0.0.2" in request.url else ValueError("two")

    urls = [f"http://127.0.0.{host}/a" for host in (1, 2)]
    many: Any = {"DOWNLOADER_MIDDLEWARES": {Many: 543}, **RETRIES}
    await harvest({}, urls, **many)
    kinds = {each.exc_info[0] for each in records(caplog, logging.ERROR)}
    assert kinds == {KeyError, ValueError}


@coroutine_test
async def test_a_bug_in_a_download_handler_is_told(caplog):
    class Handler:
        lazy = False

        def __init__(self, crawler):
            pass

        @classmethod
        def from_crawler(cls, crawler):
            return cls(crawler)

        async def download_request(self, request):
            return request.nothing

        async def close(self):
            pass

    crawler = make_crawler(DOWNLOAD_HANDLERS={"http": Handler}, **RETRIES)
    await crawl(crawler, WITHIN, urls=["http://127.0.0.1/"])
    (failure,) = crawler.spider.failures
    assert isinstance(failure, AttributeError)
    (error,) = records(caplog, logging.ERROR)
    assert error.getMessage().startswith("tests.crawls.test_own_code.")


@coroutine_test
async def test_a_middleware_that_refuses_robots_txt_is_named(caplog):
    site, paths = Site(), [f"/products/{n}" for n in range(3)]
    refusing: Any = {"DOWNLOADER_MIDDLEWARES": {ProductsOnly: 543}, **RETRIES}
    seen, _, crawler = await harvest(site, paths, **refusing)
    assert seen == []
    for failure in crawler.spider.failures:
        assert isinstance(failure, RobotsUnreachable)
        assert "products only" in failure.reason
    assert len(crawler.spider.failures) == 3
    assert records(caplog, logging.ERROR) == []
    (warning,) = records(caplog, logging.WARNING)
    assert warning.getMessage() == (
        "tests.crawls.test_own_code.ProductsOnly.process_request refuses the request for "
        f"robots.txt of {site.origin} (IgnoreRequest: products only), so nobody knows what "
        f'is allowed there: let requests through that have "{ROBOTS_HOP}" in their meta, '
        "or whose URL ends with /robots.txt"
    )


@coroutine_test
async def test_a_fault_that_passes_is_asked_about_again():
    class Once(AtRequests):
        failed = False

        def fail_at(self, request):
            if not self.failed:
                self.failed = True
                raise KeyError("nope")

    class Later(Pages):
        async def start(self):
            first, second = self.requests()
            yield first
            await until(lambda: self.failures)
            await sleep(0.15)  # REP_UNREACHABLE_RETRY_DELAYS, and its jitter
            yield second

    with Site({"/robots.txt": SMALL}) as site:
        crawler = make_crawler(
            Later,
            DOWNLOADER_MIDDLEWARES={Once: 543},
            REP_UNREACHABLE_RETRY_DELAYS=[0.1],
        )
        await crawl(crawler, urls=[site.url("/a"), site.url("/b")])
        assert site.paths == ["/robots.txt", "/b"]
    assert len(crawler.spider.failures) == 1


@coroutine_test
async def test_no_other_run_hears_of_a_fault_of_this_one(tmp_path):
    stored: dict[str, Any] = {"REP_STORE": "sqlite", **RETRIES}
    stored["REP_STORE_PATH"] = str(tmp_path / "robots.sqlite")
    with Site({"/robots.txt": SMALL}) as site:
        for faults, seen in ({AtRequests: 543}, []), ({}, ["/robots.txt", "/a"]):
            crawler = make_crawler(DOWNLOADER_MIDDLEWARES=faults, **stored)
            await crawl(crawler, WITHIN, urls=[site.url("/a")])
            assert site.paths == seen


# Requests that a middleware sends while it holds up a robots.txt


class Token:
    """Has a token of the site before it lets any request go."""

    def __init__(self, crawler):
        self.crawler = crawler
        self.token: Any = None

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    async def process_request(self, request):
        if self.token is None and not request.url.endswith("/token"):
            asked = scrapy.Request(f"{request.url.rpartition('/')[0]}/token")
            self.token = (await self.crawler.engine.download_async(asked)).body


@both_schedulers
@coroutine_test
async def test_a_token_that_a_robots_txt_waits_for_does_not_wait_for_it(scheduler):
    settings = {"DOWNLOADER_MIDDLEWARES": {Token: 543}, "SCHEDULER": scheduler}
    with Site({"/robots.txt": f"{SMALL}Disallow: /token\n"}) as site:
        played = await play(site, settings, ["/a", "/p", "/b"])
        assert site.paths[:2] == ["/token", "/robots.txt"]
        assert sorted(site.paths[2:]) == ["/a", "/b"]
    assert played.stats("rep/on_the_way") == {"": 1}
    assert [each.cause for each in played.of(Refused)] == ["rule"]
    (passed,) = played.of(OnTheWay)
    assert passed.url == site.url("/token")
    assert {each.url: each.exempt for each in played.of(Sent)} == {
        site.url("/token"): "on_the_way",
        **dict.fromkeys(map(site.url, ("/robots.txt", "/a", "/b"))),
    }


@coroutine_test
async def test_with_nothing_of_ours_it_is_refused_rather_than_wait_for_ever(caplog):
    with Site({"/robots.txt": SMALL}) as site:
        crawler = make_crawler(
            DOWNLOADER_MIDDLEWARES={Token: 543},
            DOWNLOADER=SCRAPYS_DOWNLOADER,
            SCHEDULER=SCRAPYS,
        )
        await crawl(crawler, WITHIN, urls=[site.url("/a")])
        assert site.paths == []
    warnings = [each.getMessage() for each in records(caplog, logging.WARNING)]
    (warning,) = [each for each in warnings if "refuses the request" in each]
    assert "Token.process_request refuses the request" in warning
    assert "give it dont_obey_robotstxt in its meta" in warning
    assert crawler.stats.get_value("rep/forbidden/on_the_way") == 1


@pytest.mark.invariant2
@pytest.mark.invariant6
@both_downloaders
@coroutine_test
async def test_a_page_that_has_its_turn_may_wait_for_others_of_its_host(downloader):
    class TwoBefore(Token):
        async def process_request(self, request):
            if request.url.endswith(("/a", "/b")):
                for _ in range(2):
                    self.token = None
                    await super().process_request(request)

    settings = {"DOWNLOADER_MIDDLEWARES": {TwoBefore: 543}, "DOWNLOADER": downloader}
    settings |= {"REP_HOST_BUDGET": 10, "RETRY_TIMES": 1}
    slow = dict.fromkeys(("/a", "/b"), Reply(after=0.3))
    moved = Reply(status=302, headers={"Location": "/token"})
    tokens = {"/token": [Reply(status=500), moved, "a token"]}
    delayed = {"/robots.txt": "User-agent: *\nCrawl-delay: 0.2\n"}
    with Site({**delayed, **slow, **tokens}) as site:
        played = await play(site, settings, ["/a", "/c", "/b", "/d"])
        assert site.count("/token") == 4 + 2
        assert {*site.paths} == {"/a", "/b", "/c", "/d", "/robots.txt", "/token"}
        # The delay counts from the answer, also to one whose turn was another's meanwhile.
        for gap, before in zip(site.gaps(robots=True), site.paths, strict=False):
            assert gap >= (0.5 if before in slow else 0.2)
    assert not played.of(Refused)


@pytest.mark.invariant6
@pytest.mark.parametrize("asks", [False, True], ids=["", "after a token"])
@both_schedulers
@coroutine_test
async def test_what_a_middleware_answers_and_another_one_refuses_holds_up_nobody(
    scheduler, asks
):
    class Answers(Token):
        async def process_request(self, request):
            if not request.url.endswith("/a"):
                return None
            if asks:
                await super().process_request(request)
            return HtmlResponse(request.url, request=request)

        def process_response(self, request, response):
            if request.url.endswith("/a"):
                raise IgnoreRequest
            return response

    delayed = {"/robots.txt": "User-agent: *\nCrawl-delay: 0.2\n"}
    settings = {"DOWNLOADER_MIDDLEWARES": {Answers: 800}, "SCHEDULER": scheduler}
    with Site(delayed) as site:
        settings["DOWNLOADER"] = SCRAPYS_DOWNLOADER
        urls = [site.url(path) for path in ("/a", "/b", "/c")]
        await crawl(make_crawler(**settings), WITHIN, urls=urls)
        token = ["/token"] * asks
        assert sorted(site.paths) == ["/b", "/c", "/robots.txt", *token]


@coroutine_test
async def test_a_page_keeps_its_turn_while_it_waits_for_another_host(monkeypatch):
    monkeypatch.setattr(inner, "TURN_UNUSED_SECONDS", 10 * WITHIN)

    class FromThere(Token):
        async def process_request(self, request):
            if request.url.startswith(site.origin) and ROBOTS_HOP not in request.meta:
                there = scrapy.Request(f"{other.origin}/token")
                await self.crawler.engine.download_async(there)

    delayed = {"/robots.txt": "User-agent: *\nCrawl-delay: 0.2\n"}
    with Site(delayed) as site, Site(delayed, host="127.0.0.2") as other:
        crawler = make_crawler(
            DOWNLOADER_MIDDLEWARES={FromThere: 543},
            DOWNLOADER=SCRAPYS_DOWNLOADER,
        )
        await crawl(crawler, WITHIN, urls=[site.url("/a"), site.url("/b")])
        assert sorted(site.paths) == ["/a", "/b", "/robots.txt"]
        assert other.count("/token") == 2
        assert min(site.gaps(), default=1) >= 0.2


@pytest.mark.parametrize(
    ("scheduler", "by_media"),
    [("scrapy_rep.Scheduler", True), (SCRAPYS, True), (SCRAPYS, False)],
)
@coroutine_test
async def test_what_only_comes_from_there_in_time_is_judged(scheduler, by_media):
    """A middleware's request ends, and the engine goes on in the context of that.

    It hands out a page, which Scrapy's scheduler does not keep until its robots.txt is known,
    or one of another site, whose callback asks for media.
    """
    came: list[str] = []

    class Arrivals:
        def process_request(self, request):
            came.append(request.url)

    class Waiting(Token):
        async def process_request(self, request):
            await super().process_request(request)
            if request.url == site.url("/robots.txt"):
                page = other.url("/page") if by_media else site.url("/p")
                self.crawler.engine.crawl(scrapy.Request(page))
                await until(lambda: site.url("/p") in came)

    class Asking(Pages):
        async def parse(self, response):
            super().parse(response)
            if response.url == other.url("/page"):
                media = scrapy.Request(site.url("/p"), callback=NO_CALLBACK)
                await self.crawler.engine.download_async(media)

    with Site({"/robots.txt": SMALL}) as site, Site(host="127.0.0.2") as other:
        settings = {"DOWNLOADER_MIDDLEWARES": {Arrivals: 50, Waiting: 543}}
        crawler = make_crawler(Asking, SCHEDULER=scheduler, **settings)
        await crawl(crawler, urls=[site.url("/a")])
        assert site.paths == ["/token", "/robots.txt", "/a"]
        assert other.paths == ["/robots.txt", "/page"] * by_media
    assert crawler.stats.get_value("rep/on_the_way") == 1
    assert crawler.stats.get_value("rep/forbidden/rule") == 1


# What a request for a robots.txt carries


class Service:
    """Fetches what has "service" in its meta, in the place of the site's server."""

    def __init__(self):
        self.seen: dict[str, scrapy.Request] = {}
        Service.latest = self

    latest: Service

    def process_request(self, request):
        self.seen[request.url.rpartition("/")[2]] = request
        if "service" not in request.meta:
            return None
        body = SMALL if request.url.endswith("/robots.txt") else "<html>page</html>"
        return HtmlResponse(request.url, body=body.encode())


def as_its_page(request, page):
    assert request.url.endswith("/robots.txt")
    return {"service": "text"} if "service" in page.meta else None


@pytest.mark.parametrize(
    "meta", [{"service": "text", "dont_retry": False}, as_its_page]
)
@coroutine_test
async def test_a_robots_txt_travels_like_its_pages(meta):
    settings = {"DOWNLOADER_MIDDLEWARES": {Service: 900}, "REP_ROBOTS_META": meta}
    site, of_page = Site(), {"service": "html"}
    seen, _, crawler = await harvest(site, ["/a", "/p"], meta=of_page, **settings)
    assert seen == []
    assert crawler.spider.got == [site.url("/a")]
    assert crawler.stats.get_value("rep/forbidden/rule") == 1
    asked = Service.latest.seen["robots.txt"]
    assert asked.meta["service"] == "text"
    assert asked.meta["dont_retry"] is True  # which is not for users to say


@coroutine_test
async def test_its_headers_are_those_of_a_page():
    through: Any = {"DOWNLOADER_MIDDLEWARES": {Service: 900}}
    seen, _, _ = await harvest({"/robots.txt": SMALL}, ["/a"], **through)
    assert seen == ["/robots.txt", "/a"]
    of_robots, of_page = (
        dict(Service.latest.seen[x].headers) for x in ("robots.txt", "a")
    )
    for headers in (of_robots, of_page):
        assert headers.pop(SENT.encode())  # which is the tests' own
    assert of_robots == of_page
    assert b"Accept-Encoding" in of_page


@coroutine_test
async def test_a_coding_that_scrapy_asks_for_is_read():
    headers = {"Content-Encoding": "br"}
    reply = Reply(brotli.compress(SMALL.encode()), headers=headers)
    seen, _, _ = await harvest({"/robots.txt": reply}, ["/p", "/q"], **RETRIES)
    assert seen == ["/robots.txt", "/q"]


def fails(request, page):
    raise KeyError("nope")


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (fails, "KeyError('nope')"),
        (
            lambda request, page: ["service"],
            "<lambda> (REP_ROBOTS_META) returns is ['service'], expected a dict, or None",
        ),
        (
            lambda request, page: {"playwright": True},
            "asks for no browser: it makes HTML of a robots.txt",
        ),
    ],
)
@coroutine_test
async def test_a_function_for_its_meta_that_fails_is_told(function, error, caplog):
    seen, _, crawler = await harvest({}, ["/a"], REP_ROBOTS_META=function, **RETRIES)
    assert seen == []
    (failure,) = crawler.spider.failures
    assert error in repr(failure)
    assert len(records(caplog, logging.ERROR)) == 1


@pytest.mark.parametrize("number", [1, 3])
@coroutine_test
async def test_a_robots_txt_that_a_middleware_holds_up_is_told(number, caplog):
    caplog.set_level(logging.INFO)

    def told():
        lines = [each.getMessage() for each in records(caplog, logging.INFO)]
        return [line for line in lines if line.startswith("Nothing was sent for")]

    class Holding:
        async def process_request(self, request):
            if ROBOTS_HOP in request.meta:
                await until(told)

    held: Any = {"DOWNLOADER_MIDDLEWARES": {Holding: 543}, "LOGSTATS_INTERVAL": 0.1}
    _, _, crawler = await harvest({}, [f"/{n}" for n in range(number)], **held)
    assert "127.0.0.1 (its robots.txt is being asked for)" in told()[0]
    assert len(crawler.spider.got) == number


class SendsMore(Token):
    """Sends another request with what the one for the robots.txt carries, and keeps its answer."""

    async def process_request(self, request):
        pass

    async def process_response(self, request, response):
        if request.url.endswith("/robots.txt"):
            more = request.replace(url=request.url.replace("robots.txt", "more"))
            await self.crawler.engine.download_async(more)
        return response


@pytest.mark.invariant1
@coroutine_test
async def test_what_a_middleware_sends_beside_it_changes_no_coding():
    headers = {"Content-Encoding": "br"}
    site = {"/robots.txt": Reply(brotli.compress(SMALL.encode()), headers=headers)}
    more: Any = {"DOWNLOADER_MIDDLEWARES": {SendsMore: 543}, **RETRIES}
    seen, _, _ = await harvest(site, ["/p", "/q"], **more)
    assert seen == ["/robots.txt", "/more", "/q"]


# What a spider has and marks


class AgentIsLost(Pages):
    """Raises for a property from its first page on."""

    @property
    def robotstxt_user_agent(self) -> str | None:
        if self.got:
            raise KeyError("agent")
        return None

    def parse(self, response):
        super().parse(response)
        yield response.request.replace(url=response.url + "/next")


@pytest.mark.invariant6
@both_schedulers
@coroutine_test
async def test_a_property_of_the_spider_that_raises_reaches_the_errback(scheduler):
    lost, site = {"SCHEDULER": scheduler}, {"/robots.txt": SMALL}
    seen, _, crawler = await harvest(site, ["/a"], AgentIsLost, **lost)
    assert seen == ["/robots.txt", "/a"]
    assert [repr(each) for each in crawler.spider.failures] == ["KeyError('agent')"]


@coroutine_test
async def test_the_mark_of_a_robots_txt_on_a_page_means_nothing():
    marked = {ROBOTS_HOP: True}
    seen, _, crawler = await harvest({"/robots.txt": SMALL}, ["/p", "/a"], meta=marked)
    assert seen == ["/robots.txt", "/a"]
    assert crawler.spider.got
    assert crawler.stats.get_value("rep/forbidden/rule") == 1
