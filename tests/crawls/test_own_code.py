"""What a user's own middlewares and signal handlers do to the requests for robots.txt files."""

from __future__ import annotations

import gzip
import logging
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest
import scrapy
from scrapy import signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http import HtmlResponse
from scrapy.http.request import NO_CALLBACK

from scrapy_rep import RobotsUnreachable
from scrapy_rep.downloader.starts import ROBOTS_HOP
from scrapy_rep.events.of_requests import OnTheWay, Refused, Sent
from tests.play import play
from tests.site import Reply, Site
from tests.utils import (
    SCRAPYS,
    Pages,
    both_schedulers,
    coroutine_test,
    crawl,
    make_crawler,
    sleep,
    until,
)
from tests.wire import SENT

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


STOPS = pytest.mark.parametrize("fail", [False, True])
SIGNALS = pytest.mark.parametrize("signal", ["bytes_received", "headers_received"])


def stopping(base, signal, fail):
    return type("Stops", (base,), {"stop_at": getattr(signals, signal), "fail": fail})


@pytest.mark.invariant1
@STOPS
@SIGNALS
@coroutine_test
async def test_a_robots_txt_that_a_handler_stops_is_not_whole(signal, fail, caplog):
    with Site({"/robots.txt": LARGE}) as site:
        crawler = make_crawler(stopping(Stopping, signal, fail), **RETRIES)
        await crawl(crawler, WITHIN, urls=[site.url("/p"), site.url("/q")])
        assert site.paths == ["/robots.txt"]
    for failure in crawler.spider.failures:
        assert isinstance(failure, RobotsUnreachable)
        assert "Stopping.stop stopped its download" in failure.reason
    assert len(crawler.spider.failures) == 2
    (warning,) = records(caplog, logging.WARNING)
    text = warning.getMessage()
    assert text.startswith(
        "tests.crawls.test_own_code.Stopping.stop, which handles the"
    )
    assert (
        f"signal {signal}, stopped the download of robots.txt of {site.origin}" in text
    )
    assert f'"{ROBOTS_HOP}" in their meta' in text


PAGES_OF_BROWSERS = {
    "Chromium": (
        '<html><head><meta name="color-scheme" content="light dark"></head><body><pre '
        f'style="word-wrap: break-word; white-space: pre-wrap;">{SMALL}</pre></body></html>'
    ),
    "Firefox": (
        '<html><head><link rel="stylesheet" '
        'href="resource://content-accessible/plaintext.css"></head>'
        f"<body><pre>{SMALL}</pre></body></html>"
    ),
}


@pytest.mark.parametrize("browser", PAGES_OF_BROWSERS)
@coroutine_test
async def test_a_page_that_a_browser_made_of_it_has_no_rules(browser, caplog):
    with Site({"/robots.txt": PAGES_OF_BROWSERS[browser]}) as site:
        crawler = make_crawler()
        await crawl(crawler, WITHIN, urls=[site.url("/p"), site.url("/q")])
        assert site.paths == ["/robots.txt"]
    for failure in crawler.spider.failures:
        assert "a browser made HTML of it" in failure.reason
    assert len(crawler.spider.failures) == 2
    (warning,) = records(caplog, logging.WARNING)
    assert "came as a page of a browser" in warning.getMessage()
    assert "REP_ROBOTS_META" in warning.getMessage()


@coroutine_test
async def test_where_there_is_no_robots_txt_its_page_is_nothing():
    body = PAGES_OF_BROWSERS["Chromium"]
    with Site({"/robots.txt": Reply(body, 404)}) as site:
        crawler = make_crawler()
        await crawl(crawler, urls=[site.url("/p")])
        assert site.paths == ["/robots.txt", "/p"]


@STOPS
@SIGNALS
@coroutine_test
async def test_a_handler_that_spares_it_as_the_warning_says(signal, fail):
    with Site({"/robots.txt": LARGE}) as site:
        crawler = make_crawler(stopping(Sparing, signal, fail), **RETRIES)
        await crawl(crawler, WITHIN, urls=[site.url("/p"), site.url("/q")])
        assert site.paths == ["/robots.txt", "/q"]
    assert crawler.stats.get_value("rep/forbidden/rule") == 1


@pytest.mark.invariant8
@STOPS
@coroutine_test
async def test_what_was_stopped_after_its_last_octet_is_whole(fail):
    with Site({"/robots.txt": SMALL}) as site:
        crawler = make_crawler(stopping(Stopping, "bytes_received", fail), **RETRIES)
        await crawl(crawler, WITHIN, urls=[site.url("/p"), site.url("/q")])
        assert site.paths == ["/robots.txt", "/q"]
    assert crawler.stats.get_value("rep/forbidden/rule") == 1


@coroutine_test
async def test_nobody_knows_where_a_stopped_body_without_a_length_would_have_ended():
    with Site({"/robots.txt": chunked(SMALL)}) as site:
        crawler = make_crawler(Stopping)
        await crawl(crawler, urls=[site.url("/p"), site.url("/q")])
        assert site.paths == ["/robots.txt"]


@STOPS
@pytest.mark.parametrize("status", [404, 302])
@coroutine_test
async def test_what_tells_by_its_status_needs_no_body(fail, status):
    replies = {
        "/robots.txt": Reply("x" * 9, status, {"Location": "/rules"}),
        "/rules": Reply("gone", 404),
    }
    with Site(replies) as site:
        spider = stopping(Stopping, "headers_received", fail)
        crawler = make_crawler(spider, **RETRIES)
        await crawl(crawler, WITHIN, urls=[site.url("/p")])
        assert site.paths[-1] == "/p"
    assert crawler.stats.get_value("rep/unreachable") is None


@STOPS
@coroutine_test
async def test_a_stop_beyond_the_limit_is_what_we_do_ourselves(fail):
    class AtTheEnd(Stopping):
        got_octets = 0

        def stop(self, request, spider, data=b""):
            self.got_octets += len(data)
            if self.got_octets > 100_000:
                raise StopDownload(fail=fail)

    with Site({"/robots.txt": f"User-agent: *\nDisallow: /p\n{LARGE}"}) as site:
        crawler = make_crawler(AtTheEnd, REP_MAX_SIZE=100_000, **RETRIES)
        await crawl(crawler, WITHIN, urls=[site.url("/p"), site.url("/q")])
        assert site.paths == ["/robots.txt", "/q"]


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
    class Many(AtRequests):
        def fail_at(self, request):
            if "127.0.0.2" in request.url:
                raise ValueError("two")
            super().fail_at(request)

    with Site() as site, Site(host="127.0.0.2") as other:
        crawler = make_crawler(DOWNLOADER_MIDDLEWARES={Many: 543}, **RETRIES)
        await crawl(crawler, WITHIN, urls=[site.url("/a"), other.url("/a")])
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
    with Site() as site:
        crawler = make_crawler(DOWNLOADER_MIDDLEWARES={ProductsOnly: 543}, **RETRIES)
        urls = [site.url(f"/products/{n}") for n in range(3)]
        await crawl(crawler, WITHIN, urls=urls)
        assert site.paths == []
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
            while not self.failures:
                await sleep(0.01)
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
        crawler = make_crawler(DOWNLOADER_MIDDLEWARES={AtRequests: 543}, **stored)
        await crawl(crawler, WITHIN, urls=[site.url("/a")])
        assert site.paths == []
        await crawl(make_crawler(**stored), WITHIN, urls=[site.url("/a")])
        assert site.paths == ["/robots.txt", "/a"]


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
            DOWNLOADER="scrapy.core.downloader.Downloader",
            SCHEDULER=SCRAPYS,
        )
        await crawl(crawler, WITHIN, urls=[site.url("/a")])
        assert site.paths == []
    warnings = [each.getMessage() for each in records(caplog, logging.WARNING)]
    (warning,) = [each for each in warnings if "refuses the request" in each]
    assert "Token.process_request refuses the request" in warning
    assert "give it dont_obey_robotstxt in its meta" in warning
    assert crawler.stats.get_value("rep/forbidden/on_the_way") == 1


@both_schedulers
@coroutine_test
async def test_what_only_comes_from_there_in_time_is_judged(scheduler):
    """A middleware's request ends, and the engine goes on in the context of that."""
    came: list[str] = []

    class Arrivals:  # comes before the gate
        def process_request(self, request):
            came.append(request.url)

    class Waiting(Token):
        async def process_request(self, request):
            await super().process_request(request)
            if request.url == site.url("/robots.txt"):
                self.crawler.engine.crawl(scrapy.Request(other.url("/page")))
                await until(lambda: site.url("/p") in came)

    class Asking(Pages):
        async def parse(self, response):
            super().parse(response)
            if response.url == other.url("/page"):
                media = scrapy.Request(site.url("/p"), callback=NO_CALLBACK)
                await self.crawler.engine.download_async(media)

    with Site({"/robots.txt": SMALL}) as site, Site(host="127.0.0.2") as other:
        crawler = make_crawler(
            Asking,
            DOWNLOADER_MIDDLEWARES={Arrivals: 50, Waiting: 543},
            SCHEDULER=scheduler,
        )
        await crawl(crawler, urls=[site.url("/a")])
        assert site.paths == ["/token", "/robots.txt", "/a"]
        assert other.paths == ["/robots.txt", "/page"]
    assert crawler.stats.get_value("rep/on_the_way") == 1
    assert crawler.stats.get_value("rep/forbidden/rule") == 1


@coroutine_test
async def test_pages_that_are_handed_out_on_the_way_are_judged():
    """A token's end has the engine ask for pages while the robots.txt still waits."""
    came: list[str] = []

    class Arrivals:
        def process_request(self, request):
            came.append(request.url)

    class Waiting(Token):
        async def process_request(self, request):
            await super().process_request(request)
            if request.url == site.url("/robots.txt"):
                # Handed out when the token's place is free, in the context of its end.
                self.crawler.engine.crawl(scrapy.Request(site.url("/p")))
                await until(lambda: site.url("/p") in came)

    with Site({"/robots.txt": SMALL}) as site:
        crawler = make_crawler(
            DOWNLOADER_MIDDLEWARES={Arrivals: 50, Waiting: 543},
            SCHEDULER=SCRAPYS,  # the frontier keeps them until their robots.txt is known
        )
        await crawl(crawler, urls=[site.url("/a")])
        assert site.paths == ["/token", "/robots.txt", "/a"]
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
    with Site() as site:
        crawler = make_crawler(
            DOWNLOADER_MIDDLEWARES={Service: 900}, REP_ROBOTS_META=meta
        )
        urls = [site.url("/a"), site.url("/p")]
        await crawl(crawler, urls=urls, meta={"service": "html"})
        assert site.paths == []
    assert crawler.spider.got == urls[:1]
    assert crawler.stats.get_value("rep/forbidden/rule") == 1
    asked = Service.latest.seen["robots.txt"]
    assert asked.meta["service"] == "text"
    assert asked.meta["dont_retry"] is True  # which is not for users to say


@coroutine_test
async def test_its_headers_are_those_of_a_page():
    with Site({"/robots.txt": SMALL}) as site:
        crawler = make_crawler(DOWNLOADER_MIDDLEWARES={Service: 900})
        await crawl(crawler, urls=[site.url("/a")])
        assert site.paths == ["/robots.txt", "/a"]
    of_robots, of_page = (
        dict(Service.latest.seen[x].headers) for x in ("robots.txt", "a")
    )
    for headers in (of_robots, of_page):
        assert headers.pop(SENT.encode())  # which is the tests' own
    assert of_robots == of_page
    assert b"Accept-Encoding" in of_page


@pytest.mark.parametrize(
    ("coding", "encode"), [("br", brotli.compress), ("gzip", gzip.compress)]
)
@coroutine_test
async def test_codings_that_scrapy_asks_for_are_read(coding, encode):
    reply = Reply(encode(SMALL.encode()), headers={"Content-Encoding": coding})
    with Site({"/robots.txt": reply}) as site:
        crawler = make_crawler(**RETRIES)
        await crawl(crawler, WITHIN, urls=[site.url("/p"), site.url("/q")])
        assert site.paths == ["/robots.txt", "/q"]


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
    with Site() as site:
        crawler = make_crawler(REP_ROBOTS_META=function, **RETRIES)
        await crawl(crawler, WITHIN, urls=[site.url("/a")])
        assert site.paths == []
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

    with Site() as site:
        crawler = make_crawler(
            DOWNLOADER_MIDDLEWARES={Holding: 543}, LOGSTATS_INTERVAL=0.1
        )
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(number)])
    assert "127.0.0.1 (its robots.txt is being asked for)" in told()[0]
    assert len(crawler.spider.got) == number
