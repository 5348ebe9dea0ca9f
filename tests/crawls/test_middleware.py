"""The middleware at work, in real crawls of local sites."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import scrapy
from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK

from scrapy_rep import RobotsForbidden, RobotsUnreachable, SettingError
from scrapy_rep.crawl import Crawl
from scrapy_rep.signals import request_forbidden
from tests.play import harvest
from tests.site import Reply, Site
from tests.utils import SCRAPYS, Pages, coroutine_test, crawl, crawled, make_crawler

DISALLOW_P = "User-agent: *\nDisallow: /p\n"
RULES = {"/robots.txt": DISALLOW_P}
TO_P = {**RULES, "/a": Reply(status=302, headers={"Location": "/p"})}


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
    assert (failure.url, failure.origin) == (site.url("/page"), site.origin)
    assert failure.verdict.rule == (False, "/p", 3)
    assert failure.reason == "Disallow: /p (line 3, user-agent *)"
    assert str(failure) == f"Forbidden by robots.txt: {failure.reason}: {failure.url}"
    assert seen == [(site.url("/page"), 3, "pages")]
    _, line, *_ = [r for r in caplog.records if r.name == "scrapy_rep"]
    assert (line.levelno, line.getMessage()) == (logging.DEBUG, str(failure))
    expected = {
        "robotstxt/forbidden": 1,
        "rep/forbidden/rule": 1,
        "robotstxt/request_count": 1,
        "robotstxt/response_count": 1,
        "robotstxt/response_status_count/200": 1,
        "rep/origins": 1,
    }
    assert expected.items() <= crawler.stats.get_stats().items()


class Named(Pages):
    robotstxt_user_agent = "spider"

    def requests(self):
        for request in super().requests():
            request.headers["User-Agent"] = "header/1"
            yield request


@pytest.mark.parametrize(
    ("spider", "settings", "meta", "refused"),
    [
        (Named, {"ROBOTSTXT_USER_AGENT": "setting"}, None, "/spider"),
        (Named, {}, {"robotstxt_user_agent": "meta"}, "/meta"),
    ],
)
@coroutine_test
async def test_agents(spider, settings, meta, refused):
    names = ["meta", "spider", "setting", "header"]
    groups = "".join(f"User-agent: {name}\nDisallow: /{name}\n\n" for name in names)
    with Site({"/robots.txt": f"{groups}User-agent: *\nDisallow: /other\n"}) as site:
        crawler = make_crawler(spider, **settings)
        urls = [site.url(f"/{name}") for name in [*names, "other"]]
        await crawl(crawler, urls=urls, meta=meta)
        assert [site.url(refused)] == [f.url for f in crawler.spider.failures]
        sent = {hit.headers["User-Agent"] for hit in site.hits}
    assert len(sent) == 1  # robots.txt is asked for by the name that the pages use


@coroutine_test
async def test_only_http_and_https_are_judged(tmp_path):
    (tmp_path / "file").write_text("text")
    urls = ["data:text/plain,x", (tmp_path / "file").as_uri()]
    _, _, crawler = await harvest({}, urls)
    assert sorted(crawler.spider.got) == sorted(urls)
    assert crawler.stats.get_value("robotstxt/request_count") is None


@pytest.mark.parametrize(
    ("settings", "meta", "seen"),
    [
        pytest.param({}, {"dont_obey_robotstxt": True}, ["/a", "/p"], id="exempt"),
        pytest.param({"ROBOTSTXT_OBEY": False}, {}, ["/a", "/p"], id="obeys nothing"),
        pytest.param({}, {}, ["/robots.txt", "/a"], id="judged"),
        pytest.param({"REP_OBEY": []}, {}, ["/robots.txt", "/a", "/p"], id="a dry run"),
    ],
)
@coroutine_test
async def test_a_page_and_where_it_redirects_to(settings, meta, seen):
    paths, _, crawler = await harvest(dict(TO_P), ["/a"], meta=meta, **settings)
    assert paths == seen
    refused = [each.url.rpartition("/")[2] for each in crawler.spider.failures]
    assert refused == ["p"] * ("/p" not in seen)
    would = "REP_OBEY" in settings or None
    assert crawler.stats.get_value("rep/would_forbid") == would


@coroutine_test
async def test_robotstxt_url_is_judged_in_place_of_the_requests():
    target = Site(RULES)
    with target, Site({"/robots.txt": "User-agent: *\nDisallow: /"}) as service:

        class Proxied(Pages):
            def requests(self):
                for request in super().requests():
                    path = request.url[-2:]
                    yield request.replace(meta={"robotstxt_url": target.url(path)})

        crawler = await crawled([service.url("/?u=/p"), service.url("/?u=/q")], Proxied)
        assert [each.url for each in crawler.spider.failures] == [target.url("/p")]
        assert (service.paths, target.paths) == (["/?u=/q"], ["/robots.txt"])


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


# Without a reactor, Scrapy does not close its download handler in this case.
LEAKS_OF_SCRAPY = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)


@LEAKS_OF_SCRAPY
@pytest.mark.parametrize(
    ("settings", "agent", "error"),
    [
        ({"REP_MAX_AGE": "a day"}, None, "REP_MAX_AGE is 'a day', expected a number"),
        ({}, 5, "spider.robotstxt_user_agent is 5, expected"),
        (
            {"REP_STORE": "no.such.Store"},
            None,
            "REP_STORE is 'no.such.Store', expected",
        ),
    ],
)
@coroutine_test
async def test_what_is_wrong_stops_the_crawl(settings, agent, error):
    spider = type("Wrong", (Pages,), {"robotstxt_user_agent": agent})
    with pytest.raises(SettingError, match=error):
        await crawl(make_crawler(spider, **settings))


class Downloads(Pages):
    """Has each of its pages downloaded as a media pipeline has it."""

    async def start(self):
        for request in self.requests():
            asked = request.replace(callback=NO_CALLBACK, errback=None)
            with pytest.raises((RobotsForbidden, RobotsUnreachable)) as caught:
                await self.crawler.engine.download_async(asked)
            self.failures.append(caught.value)
        return
        yield


@coroutine_test
async def test_at_most_so_many_requests_wait_in_the_middleware(monkeypatch):
    """The others go back to the scheduler, where they are not lost."""
    monkeypatch.setattr("scrapy_rep.gate.middleware.MAX_WAITING", 5)
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
        settings = {"CONCURRENT_REQUESTS": 50, "SCHEDULER": SCRAPYS}
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
    monkeypatch.setattr("scrapy_rep.gate.middleware.MAX_WAITING", 0)
    seen, _, crawler = await harvest({}, ["/q"], Downloads)
    assert seen == []
    assert "requests wait for theirs" in crawler.spider.failures[0].reason
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
