"""The middleware at work, in real crawls of local sites."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
import scrapy
from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.asyncio import is_asyncio_available

from scrapy_rep import RobotsForbidden, RobotsUnreachable, SettingError
from scrapy_rep.crawl import Crawl
from scrapy_rep.signals import request_forbidden
from tests.site import Reply, Site
from tests.utils import (
    SCRAPYS,
    Pages,
    coroutine_test,
    crawl,
    make_crawler,
    sleep,
    with_files,
)

DISALLOW_P = "User-agent: *\nDisallow: /p\n"
AGENTS = (
    "User-agent: meta\nDisallow: /meta\n\n"
    "User-agent: spider\nDisallow: /spider\n\n"
    "User-agent: setting\nDisallow: /setting\n\n"
    "User-agent: header\nDisallow: /header\n\n"
    "User-agent: default-header\nDisallow: /default-header\n\n"
    "User-agent: bot\nDisallow: /bot\n\n"
    "User-agent: *\nDisallow: /other\n"
)
PATHS = ["/meta", "/spider", "/setting", "/header", "/default-header", "/bot", "/other"]


def warnings_of_ours(caplog):
    return [
        record
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.name.startswith("scrapy_rep")
    ]


@coroutine_test
async def test_refusal_reaches_the_errback_with_rule_and_line(caplog):
    seen: list[Any] = []

    def on_forbidden(request, verdict, spider):
        seen.append((request.url, verdict.rule.line, spider.name))

    caplog.set_level(logging.DEBUG)
    with Site({"/robots.txt": "User-agent: *\n\nDisallow: /p # private\n"}) as site:
        crawler = make_crawler()
        crawler.signals.connect(on_forbidden, request_forbidden)
        await crawl(crawler, urls=[site.url("/page"), site.url("/ok")])
        (failure,) = crawler.spider.failures
    assert isinstance(failure, RobotsForbidden)
    assert isinstance(failure, IgnoreRequest)
    assert failure.url == site.url("/page")
    assert failure.origin == site.origin
    assert failure.verdict.rule == (False, "/p", 3)
    assert failure.reason == "Disallow: /p (line 3, user-agent *)"
    assert str(failure) == f"Forbidden by robots.txt: {failure.reason}: {failure.url}"
    assert seen == [(site.url("/page"), 3, "pages")]
    _, line, *_ = [r for r in caplog.records if r.name == "scrapy_rep"]
    assert line.levelno == logging.DEBUG
    assert line.getMessage() == str(failure)
    stats = crawler.stats.get_stats()
    assert stats["robotstxt/forbidden"] == 1
    assert stats["rep/forbidden/rule"] == 1
    assert stats["robotstxt/request_count"] == 1
    assert stats["robotstxt/response_count"] == 1
    assert stats["robotstxt/response_status_count/200"] == 1
    assert stats["rep/origins"] == 1


@pytest.mark.parametrize(
    ("settings", "attributes", "meta", "headers", "refused"),
    [
        pytest.param({}, {}, {}, {}, "/other", id="nobody: the default group"),
        pytest.param(
            {"USER_AGENT": "bot/1.0 (+https://spider.example/meta)"}, {}, {}, {}, "/bot",
            id="USER_AGENT: the token, no word of the URL",
        ),
        pytest.param(
            {"USER_AGENT": "x", "DEFAULT_REQUEST_HEADERS": {"user-agent": "default-header/2"}},
            {}, {}, {}, "/default-header", id="DEFAULT_REQUEST_HEADERS",
        ),
        pytest.param(
            {"USER_AGENT": "bot"}, {}, {}, {"User-Agent": "header/1"}, "/header",
            id="the request's header",
        ),
        pytest.param(
            {"USER_AGENT": "bot setting", "ROBOTSTXT_USER_AGENT": "setting"}, {}, {},
            {"User-Agent": "header setting"}, "/setting", id="ROBOTSTXT_USER_AGENT",
        ),
        pytest.param(
            {"USER_AGENT": "setting", "ROBOTSTXT_USER_AGENT": ["nobody", "setting", "bot"]},
            {}, {}, {}, "/setting", id="ROBOTSTXT_USER_AGENT, a list",
        ),
        pytest.param(
            {"USER_AGENT": "spider", "ROBOTSTXT_USER_AGENT": "setting"},
            {"robotstxt_user_agent": "spider"}, {}, {}, "/spider", id="the spider",
        ),
        pytest.param(
            {"USER_AGENT": "spider"}, {"robotstxt_user_agent": "spider"},
            {"robotstxt_user_agent": "meta"}, {}, "/meta", id="the request's meta",
        ),
    ],
)  # fmt: skip
@coroutine_test
async def test_agents(settings, attributes, meta, headers, refused):
    class Asking(Pages):
        def requests(self):
            for request in super().requests():
                request.headers.update(headers)
                yield request

    for name, value in attributes.items():
        setattr(Asking, name, value)
    with Site({"/robots.txt": AGENTS}) as site:
        crawler = make_crawler(Asking, **settings)
        await crawl(crawler, urls=[site.url(path) for path in PATHS], meta=meta)
        assert [site.url(refused)] == [f.url for f in crawler.spider.failures]
        sent = {hit.headers["User-Agent"] for hit in site.hits}
    assert len(sent) == 1  # robots.txt is asked for by the name that the pages use


@coroutine_test
async def test_2_token_that_no_site_sees_is_warned_about_once(caplog):
    with Site() as site:
        crawler = make_crawler(USER_AGENT="Bot/1.0", ROBOTSTXT_USER_AGENT="other")
        await crawl(crawler, urls=[site.url("/a"), site.url("/b")])
    (warning,) = warnings_of_ours(caplog)
    assert "product token other" in warning.getMessage()
    assert "'Bot/1.0'" in warning.getMessage()


@coroutine_test
async def test_58_fifty_requests_to_a_new_origin_are_one_fetch():
    with Site({"/robots.txt": Reply(DISALLOW_P, after=0.2)}) as site:
        crawler = make_crawler(
            CONCURRENT_REQUESTS=50, CONCURRENT_REQUESTS_PER_DOMAIN=50
        )
        await crawl(crawler, urls=[site.url(f"/{n}") for n in range(50)])
    assert len(crawler.spider.got) == 50
    assert site.count("/robots.txt") == 1


@coroutine_test
async def test_only_http_and_https_are_judged(tmp_path):
    (tmp_path / "file").write_text("text")
    urls = ["data:text/plain,x", (tmp_path / "file").as_uri()]
    crawler = make_crawler()
    await crawl(crawler, urls=urls)
    assert sorted(crawler.spider.got) == sorted(urls)
    assert crawler.stats.get_value("robotstxt/request_count") is None


@pytest.mark.parametrize(
    ("settings", "meta"),
    [({}, {"dont_obey_robotstxt": True}), ({"ROBOTSTXT_OBEY": False}, {})],
)
@coroutine_test
async def test_who_need_not_obey(settings, meta):
    """Neither a page nor where it redirects to."""
    with Site({"/robots.txt": DISALLOW_P}) as site:
        site.replies["/a"] = Reply(status=302, headers={"Location": "/p"})
        crawler = make_crawler(**settings)
        await crawl(crawler, urls=[site.url("/a")], meta=meta)
        assert site.paths == ["/a", "/p"]


@coroutine_test
async def test_robotstxt_url_is_judged_in_place_of_the_requests():
    target = Site({"/robots.txt": DISALLOW_P})
    with target, Site({"/robots.txt": "User-agent: *\nDisallow: /"}) as service:

        class Proxied(Pages):
            def requests(self):
                for path in ("/p", "/q"):
                    yield scrapy.Request(
                        service.url(f"/render?url={path}"),
                        meta={"robotstxt_url": target.url(path)},
                        errback=self.failed,
                    )

        crawler = make_crawler(Proxied)
        await crawl(crawler)
        (failure,) = crawler.spider.failures
        assert failure.url == target.url("/p")
        assert service.paths == ["/render?url=/q"]
        assert target.paths == ["/robots.txt"]


@coroutine_test
async def test_robotstxt_url_that_is_none():
    with Site() as site:
        crawler = make_crawler()
        meta = {"robotstxt_url": "example.com/page"}
        await crawl(crawler, urls=[site.url("/p")], meta=meta)
        assert site.hits == []
    (failure,) = crawler.spider.failures
    assert isinstance(failure, SettingError)
    assert "meta[\"robotstxt_url\"] is 'example.com/page', expected" in str(failure)


@coroutine_test
async def test_a_page_redirect_into_a_disallowed_path():
    with Site({"/robots.txt": DISALLOW_P}) as site:
        site.replies["/a"] = Reply(status=302, headers={"Location": "/p"})
        crawler = make_crawler()
        await crawl(crawler, urls=[site.url("/a")])
        assert site.count("/p") == 0
    (failure,) = crawler.spider.failures
    assert failure.url == site.url("/p")


@coroutine_test
async def test_a_page_redirect_to_another_origin_leaves_exemption_and_slot_behind():
    slots: list[str] = []

    def reached(request):
        if request.url == other.url("/q"):
            slots.append(request.meta["download_slot"])

    other = Site({"/robots.txt": DISALLOW_P}, host="127.0.0.2")
    with other, Site({"/robots.txt": "User-agent: *\nDisallow: /"}) as site:
        for path in ("/p", "/q"):
            site.replies[path] = Reply(
                status=302, headers={"Location": other.url(path)}
            )
        crawler = make_crawler()
        crawler.signals.connect(reached, signals.request_reached_downloader)
        meta = {"dont_obey_robotstxt": True, "download_slot": "mine"}
        await crawl(crawler, urls=[site.url("/p"), site.url("/q")], meta=meta)
        assert sorted(other.paths) == ["/q", "/robots.txt"]
    (failure,) = crawler.spider.failures
    assert failure.url == other.url("/p")
    assert slots == ["127.0.0.2"]


@coroutine_test
async def test_robots_txt_travels_light():
    """It goes the way of its page, without what is private between page and user."""

    class Private(Pages):
        def requests(self):
            yield scrapy.Request(
                site.url("/p"),
                headers={"Authorization": "Basic x", "Referer": "http://secret/"},
                cookies={"session": "s"},
                meta={"download_slot": "mine"},
            )

    slots: list[tuple[str, str]] = []

    def reached(request):
        slots.append((request.url, request.meta["download_slot"]))

    other = Site({"/r": DISALLOW_P}, host="127.0.0.2")
    with other, Site() as site:
        site.replies["/robots.txt"] = Reply(
            status=302, headers={"Location": other.url("/r"), "Set-Cookie": "a=b"}
        )
        crawler = make_crawler(
            Private,
            DEFAULT_REQUEST_HEADERS={
                "Authorization": "Basic y",
                "Cookie": "c=d",
                "Referer": "http://secret/",
            },
        )
        crawler.signals.connect(reached, signals.request_reached_downloader)
        await crawl(crawler)
        first, second = site.hits[0].headers, other.hits[0].headers
    assert "Referer" not in first
    assert "session" not in first.get("Cookie", "")
    assert first["Authorization"] == "Basic y"  # what every page of the site gets
    for name in ("Authorization", "Cookie", "Referer"):
        assert name not in second
    assert slots[:2] == [
        (site.url("/robots.txt"), "mine"),
        (other.url("/r"), "127.0.0.2"),
    ]


@coroutine_test
async def test_robots_txt_goes_through_the_pages_proxy():
    def through(hit):
        proxied.append((hit.path, hit.headers.get("Proxy-Authorization")))
        return Reply(DISALLOW_P if hit.path.endswith("/robots.txt") else "page")

    proxied: list[tuple[str, str]] = []
    proxy = Site()
    proxy.reply_to = through  # type: ignore[method-assign]
    with proxy:
        crawler = make_crawler()
        meta = {"proxy": proxy.origin.replace("://", "://user:pass@")}
        urls = ["http://example.invalid/q", "http://example.invalid/p"]
        await crawl(crawler, urls=urls, meta=meta)
    credentials = "Basic dXNlcjpwYXNz"
    assert sorted(proxied) == [
        ("http://example.invalid/q", credentials),
        ("http://example.invalid/robots.txt", credentials),
    ]
    assert len(crawler.spider.failures) == 1


@coroutine_test
async def test_a_middleware_that_refuses_robots_txt_makes_it_unreachable():
    class NoText:
        def process_request(self, request):
            if request.url.endswith(".txt"):
                raise IgnoreRequest("no text files")

    with Site({"/robots.txt": DISALLOW_P}) as site:
        crawler = make_crawler(DOWNLOADER_MIDDLEWARES={NoText: 950})
        await crawl(crawler, urls=[site.url("/p")])
        assert site.hits == []
    (failure,) = crawler.spider.failures
    assert isinstance(failure, RobotsUnreachable)
    assert "no text files" in failure.reason


@coroutine_test
async def test_a_hanging_robots_txt_holds_up_its_own_site_only():
    slow = Site({"/robots.txt": Reply(hang=True)}, host="127.0.0.2")
    with slow, Site() as site:
        crawler = make_crawler(REP_TIMEOUT=1.0)
        urls = [slow.url("/s"), *(site.url(f"/{n}") for n in range(20))]
        await crawl(crawler, urls=urls)
        assert slow.paths == ["/robots.txt"]
        assert site.hits[-1].seconds - slow.hits[0].seconds < 1.0
    assert len(crawler.spider.got) == 20
    (failure,) = crawler.spider.failures
    assert "unreachable" in failure.reason


@coroutine_test
async def test_cancelled_waiter_takes_nobody_down():
    class Cancelling(Pages):
        async def start(self):
            tasks = [
                asyncio.ensure_future(self.robots.fetch(site.url("/")))
                for _ in range(3)
            ]
            await asyncio.sleep(0.1)
            tasks[0].cancel()  # the one that began it
            policies = await asyncio.gather(*tasks[1:])
            self.verdicts = [policy.allowed("/p", "x") for policy in policies]
            assert tasks[0].cancelled()
            return
            yield

    if not is_asyncio_available():
        pytest.skip("cancels asyncio tasks")
    with Site({"/robots.txt": Reply(DISALLOW_P, after=0.3)}) as site:
        crawler = make_crawler(Cancelling)
        await crawl(crawler)
        assert site.count("/robots.txt") == 1
    assert crawler.spider.verdicts == [False, False]


@coroutine_test
async def test_cancelled_fetch_leaves_nobody_waiting():
    class Cancelling(Pages):
        async def start(self):
            for request in self.requests():
                yield request
            await sleep(0.2)
            Crawl.of(self.crawler).policies.errands.close()

    with Site({"/robots.txt": Reply(DISALLOW_P, after=1.0)}) as site:
        # The polite queue would ask again, rather than have them refused.
        crawler = make_crawler(Cancelling, SCHEDULER=SCRAPYS)
        await crawl(crawler, urls=[site.url("/q"), site.url("/p")])
    assert len(crawler.spider.failures) == 2
    for failure in crawler.spider.failures:
        assert isinstance(failure, RobotsUnreachable)
        assert "broken off" in failure.reason


@coroutine_test
async def test_what_the_store_holds_can_be_asked_for():
    class Asking(Pages):
        async def start(self):
            shared = Crawl.of(self.crawler)
            (url,) = self.urls
            origin = url.removesuffix("/")
            assert await shared.policies.snapshot(origin) is None
            await self.robots.fetch(url)
            self.snapshot = await shared.policies.snapshot(origin)
            for request in self.requests():
                yield request

    with Site({"/robots.txt": DISALLOW_P}) as site:
        crawler = make_crawler(Asking)
        await crawl(crawler, urls=[site.url("/")])
        assert crawler.spider.got == [site.url("/")]
        assert crawler.spider.snapshot.answer.url == site.url("/robots.txt")
        assert crawler.spider.snapshot.answer.body == DISALLOW_P.encode()


@coroutine_test
async def test_spider_robots():
    class Asking(Pages):
        robotstxt_user_agent = "me"

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.seen = {}

        async def start(self):
            robots, seen = self.robots, self.seen
            seen["before"] = robots.allowed(site.url("/p"))
            assert robots.verdict(site.url("/p")) is None
            assert robots.policy(site.url("/p")) is None
            assert robots.sitemaps(site.url("/")) == ()
            seen["policy"] = await robots.fetch(site.url("/x"))
            assert robots.policy(site.url("/y")) is seen["policy"]
            seen["after"] = robots.allowed(site.url("/p"))
            seen["verdict"] = robots.verdict(site.url("/p"))
            seen["sitemaps"] = robots.sitemaps(site.url("/"))
            seen["data"] = robots.allowed("data:,x")
            with pytest.raises(ValueError, match="url is 'x', expected an absolute"):
                await robots.fetch("x")
            return
            yield

    body = "User-agent: me\nDisallow: /p\nSitemap: /s.xml\nSitemap: http://b.com/s\n"
    with Site({"/robots.txt": body}) as site:
        crawler = make_crawler(Asking, USER_AGENT="me/1")
        await crawl(crawler)
        seen = crawler.spider.seen
    assert seen["before"] is None
    assert seen["after"] is False
    assert seen["data"] is None
    assert seen["verdict"].rule.line == 2
    assert seen["sitemaps"] == (site.url("/s.xml"), "http://b.com/s")


@coroutine_test
async def test_dry_run_sends_and_counts():
    with Site({"/robots.txt": DISALLOW_P}) as site:
        crawler = make_crawler(REP_OBEY=["crawl-delay"])
        await crawl(crawler, urls=[site.url("/p")])
        assert site.paths == ["/robots.txt", "/p"]
    assert crawler.stats.get_value("rep/would_forbid") == 1
    assert crawler.stats.get_value("robotstxt/forbidden") is None


@coroutine_test
async def test_robots_parsed_is_sent_as_scrapy_sends_it():
    if not hasattr(signals, "robots_parsed"):
        pytest.skip("Scrapy before 2.18 has no such signal")
    seen = []

    def parsed(robotparser, request):
        seen.append((robotparser.crawl_delay("x"), request.url))

    with Site({"/robots.txt": "User-agent: *\nCrawl-delay: 0.1\n"}) as site:
        crawler = make_crawler()
        crawler.signals.connect(parsed, signals.robots_parsed)
        await crawl(crawler, urls=[site.url("/p")])
    assert seen == [(0.1, site.url("/p"))]


@coroutine_test
async def test_log_once_per_origin_and_no_traceback(caplog):
    caplog.set_level(logging.INFO)
    sites = {
        "denies": Site({"/robots.txt": "User-agent: *\nDisallow: /"}),
        "away": Site({"/robots.txt": Reply(status=503)}),
        "asks": Site({"/robots.txt": "User-agent: *\nCrawl-delay: 0.1"}),
        "plain": Site(),
    }
    try:
        for site in sites.values():
            site.__enter__()
        urls = [site.url(f"/{n}") for site in sites.values() for n in range(3)]
        await crawl(make_crawler(), urls=urls)
    finally:
        for site in sites.values():
            site.__exit__(None, None, None)
    ours = [r for r in caplog.records if r.name.startswith("scrapy_rep")]
    assert {record.levelno for record in ours} == {logging.INFO}
    assert not any(record.exc_info for record in caplog.records)
    said = {
        name: [r.getMessage() for r in ours if site.origin in r.getMessage()]
        for name, site in sites.items()
    }
    assert [len(lines) for lines in said.values()] == [1, 1, 1, 0]
    assert "allows us nothing: Disallow: / (line 2" in said["denies"][0]
    assert "is unreachable (503)" in said["away"][0]
    assert "asks for 0.1 s between requests: kept" in said["asks"][0]


# Without a reactor, Scrapy does not close its download handler in this case.
LEAKS_OF_SCRAPY = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)


@LEAKS_OF_SCRAPY
@coroutine_test
async def test_a_wrong_setting_stops_the_crawl():
    with pytest.raises(SettingError, match="REP_MAX_AGE is 'a day', expected a number"):
        await crawl(make_crawler(REP_MAX_AGE="a day"))


@LEAKS_OF_SCRAPY
@coroutine_test
async def test_a_wrong_attribute_stops_the_crawl():
    class Wrong(Pages):
        robotstxt_user_agent = 5

    with pytest.raises(
        SettingError, match=r"spider.robotstxt_user_agent is 5, expected"
    ):
        await crawl(make_crawler(Wrong))


@LEAKS_OF_SCRAPY
@coroutine_test
async def test_a_store_that_cannot_be_imported():
    crawler = make_crawler(REP_STORE="no.such.Store")
    with pytest.raises(SettingError, match=r"REP_STORE is 'no\.such\.Store', expected"):
        await crawl(crawler)


@coroutine_test
async def test_a_broken_store_never_allows(caplog):
    with Site({"/robots.txt": DISALLOW_P}) as site:
        crawler = make_crawler(REP_STORE="tests.utils.BrokenStore")
        await crawl(crawler, urls=[site.url("/p"), site.url("/q")])
        assert site.paths == ["/robots.txt", "/q"]
    (warning,) = warnings_of_ours(caplog)
    assert "The store (REP_STORE) could not read" in warning.getMessage()
    assert crawler.stats.get_value("rep/store/errors") == 3


@coroutine_test
async def test_download_async_is_judged_too():
    class Downloading(Pages):
        async def start(self):
            request = scrapy.Request(site.url("/p"), callback=NO_CALLBACK)
            with pytest.raises(RobotsForbidden):
                await self.crawler.engine.download_async(request)
            return
            yield

    with Site({"/robots.txt": DISALLOW_P}) as site:
        await crawl(make_crawler(Downloading))
        assert site.paths == ["/robots.txt"]


@coroutine_test
async def test_media_pipeline_requests_are_judged_too(tmp_path):
    with Site({"/robots.txt": DISALLOW_P}) as site:
        crawler = with_files(tmp_path)
        files = [site.url("/p.pdf"), site.url("/q.pdf")]
        await crawl(crawler, urls=[site.url("/start")], item={"file_urls": files})
        assert sorted(site.paths) == ["/q.pdf", "/robots.txt", "/start"]
    assert crawler.stats.get_value("rep/forbidden/rule") == 1


@coroutine_test
async def test_at_most_so_many_requests_wait_in_the_middleware(monkeypatch):
    """The others go back to the scheduler, where they are not lost."""
    monkeypatch.setattr("scrapy_rep.middleware.MAX_WAITING", 5)
    waiting = most = 0

    async def watched(*args):
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        try:
            return await get(*args)
        finally:
            waiting -= 1

    with Site({"/robots.txt": Reply(DISALLOW_P, after=0.3)}) as site:
        settings = {
            "CONCURRENT_REQUESTS": 50,
            "SCHEDULER": SCRAPYS,
        }
        crawler = make_crawler(None, **settings)
        policies: Any = Crawl.of(crawler).policies
        get, policies.get = policies.get, watched
        urls = [site.url(f"/{n}") for n in range(20)] + [site.url("/p")]
        await crawl(crawler, urls=urls)
        assert site.count("/robots.txt") == 1
    assert most == 5
    assert crawler.stats.get_value("scheduler/enqueued") < 21 + 16 * 10  # no busy loop
    assert len(crawler.spider.got) == 20
    assert len(crawler.spider.failures) == 1


@coroutine_test
async def test_what_cannot_go_back_is_refused(monkeypatch):
    monkeypatch.setattr("scrapy_rep.middleware.MAX_WAITING", 0)

    class Downloading(Pages):
        async def start(self):
            request = scrapy.Request(site.url("/q"), callback=NO_CALLBACK)
            with pytest.raises(RobotsUnreachable, match="requests wait for theirs"):
                await self.crawler.engine.download_async(request)
            return
            yield

    with Site() as site:
        crawler = make_crawler(Downloading)
        await crawl(crawler)
        assert site.hits == []
    assert crawler.stats.get_value("rep/forbidden/waiting") == 1


@coroutine_test
async def test_who_has_waited_for_a_robots_txt_is_judged_by_the_time_after_that():
    with Site({"/robots.txt": Reply("", after=0.5)}) as site:
        crawler = make_crawler(SCHEDULER=SCRAPYS)
        shared: Any = Crawl.of(crawler)
        late: list[float] = []
        rule = shared.judge.rule

        def timed(url, known, agent, now, allowed):
            late.append(shared.policies.now() - now)
            return rule(url, known, agent, now, allowed)

        shared.judge.rule = timed
        await crawl(crawler, urls=[site.url("/0")])
    assert len(late) == 1
    assert late[0] < 0.3
