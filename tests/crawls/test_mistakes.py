"""Mistakes of a project are named in the log of its crawl, once, with what to do."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from scrapy_rep.judging import mistakes
from tests.site import Site
from tests.utils import Pages, coroutine_test, crawl, make_crawler

CONTACT = "ExampleBot/1.0 (+https://example.com/bot)"
BUILT_IN = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"


class Asks(Pages):
    """Asks ``spider.robots`` about what is no URL."""

    def parse(self, response):
        super().parse(response)
        wrong: Any
        for wrong in ("page", None, "/page"):
            assert self.robots.allowed(wrong) is None
            assert self.robots.verdict(wrong) is None
        assert self.robots.allowed("mailto:a@example.com") is None


class HasRobots(Pages):
    robots = "mine"  # type: ignore[assignment]


class SaysMore(Pages):
    """Has its requests say *meta*, twice."""

    def requests(self):
        for request in super().requests():
            yield request
            yield request.replace(url=request.url + "?again")


def lines(caplog: Any, level: int) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == level and record.name.startswith("scrapy_rep")
    ]


async def said(
    caplog: Any, spider: Any = Pages, meta: Any = None, level: int = 30, **settings: Any
) -> list[str]:
    caplog.set_level(logging.INFO)
    with Site({"/robots.txt": "User-agent: *\nDisallow: /p\n"}) as site:
        crawler = make_crawler(spider, **{"USER_AGENT": CONTACT, **settings})
        await crawl(crawler, urls=[site.url("/a"), site.url("/b")], meta=meta)
        assert site.count("/a") == 1
    return lines(caplog, level)


@pytest.mark.invariant9
@pytest.mark.parametrize(
    ("spider", "meta", "settings", "expected"),
    [
        pytest.param(
            Pages, None, {"DOWNLOADER_MIDDLEWARES": {BUILT_IN: 90}},
            ["RobotsTxtMiddleware is enabled as well"], id="Scrapy's own beside ours",
        ),
        pytest.param(
            Pages, None,
            {"ROBOTSTXT_PARSER": "scrapy.robotstxt.PythonRobotParser"},
            ["ROBOTSTXT_PARSER is 'scrapy.robotstxt.PythonRobotParser'"],
            id="a parser that is not used",
        ),
        pytest.param(
            SaysMore, {"dont_obey_robots_txt": True}, {},
            ["'dont_obey_robots_txt', which nobody reads; did you mean 'dont_obey_robotstxt'"],
            id="a slip in meta",
        ),
        pytest.param(
            SaysMore, {"robotstxt_useragent": "x", "robots_url": "y"}, {},
            ["'robotstxt_useragent'", "'robots_url'"], id="two slips",
        ),
        pytest.param(
            SaysMore, {"robotstxt_user_agent": "OtherBot"}, {},
            ["product token OtherBot"], id="an agent in meta that is not sent",
        ),
        pytest.param(HasRobots, None, {}, ["called robots"], id="spider.robots of its own"),
        pytest.param(Asks, None, {}, ["was asked about 'page'"], id="no URLs"),
        pytest.param(
            SaysMore, {"depth": 1, "playwright": True, "robotstxt_user_agent": "examplebot"},
            {"ROBOTSTXT_PARSER": "scrapy_rep.RepRobotParser"}, [], id="nothing wrong",
        ),
    ],
)  # fmt: skip
@coroutine_test
async def test_named_once(caplog, spider, meta, settings, expected):
    found = await said(caplog, spider, meta, **settings)
    assert len(found) == len(expected)
    for part in expected:
        assert any(part in line for line in found)


@coroutine_test
async def test_an_attribute_of_the_spider_is_left_alone(caplog):
    with Site() as site:
        crawler = make_crawler(HasRobots, USER_AGENT=CONTACT)
        await crawl(crawler, urls=[site.url("/")])
        assert crawler.spider.robots == "mine"
        assert crawler.spider.got == [site.url("/")]


@pytest.mark.parametrize(
    ("agent", "hints"),
    [(CONTACT, 0), ("ExampleBot (bot@example.com)", 0), ("ExampleBot/1.0", 1)],
)
@coroutine_test
async def test_nobody_to_write_to(caplog, agent, hints):
    found = await said(caplog, USER_AGENT=agent, level=logging.INFO)
    assert len([line for line in found if "how to reach you" in line]) == hints


@pytest.mark.parametrize(
    ("robots_txt", "settings", "hints"),
    [
        ("", {}, 1),
        ("", {"DOWNLOAD_DELAY": 0.001}, 0),
        ("", {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0.05}, 0),
        ("User-agent: *\nCrawl-delay: 0.01\n", {}, 0),
    ],
)
@coroutine_test
async def test_no_delay_at_all(caplog, monkeypatch, robots_txt, settings, hints):
    monkeypatch.setattr(mistakes, "MANY_REQUESTS", 5)
    monkeypatch.setattr(mistakes, "MANY_PER_ORIGIN", 5)
    caplog.set_level(logging.INFO)
    with Site({"/robots.txt": robots_txt}) as site:
        crawler = make_crawler(USER_AGENT=CONTACT, **settings)
        await crawl(crawler, urls=[site.url(f"/{number}") for number in range(5)])
    found = lines(caplog, logging.INFO)
    assert len([line for line in found if "DOWNLOAD_DELAY" in line]) == hints


@pytest.mark.invariant9
@coroutine_test
async def test_who_does_not_obey_is_told(caplog):
    with Site({"/robots.txt": "User-agent: *\nDisallow: /\n"}) as site:
        crawler = make_crawler(ROBOTSTXT_OBEY=False, USER_AGENT=CONTACT)
        await crawl(crawler, urls=[site.url("/")])
        assert crawler.spider.got == [site.url("/")]
    (warned,) = [r for r in caplog.records if "ROBOTSTXT_OBEY" in r.getMessage()]
    assert warned.levelno == logging.WARNING
    assert "no request is judged by a robots.txt" in warned.getMessage()
    assert 'ADDONS = {"scrapy_rep.Addon": None}' in warned.getMessage()


@coroutine_test
async def test_who_does_not_obey_and_says_so_is_told_nothing(caplog):
    with Site({"/robots.txt": "User-agent: *\nDisallow: /\n"}) as site:
        crawler = make_crawler(
            ROBOTSTXT_OBEY=False, USER_AGENT=CONTACT, ADDONS={"scrapy_rep.Addon": None}
        )
        await crawl(crawler, urls=[site.url("/")])
        assert crawler.spider.got == [site.url("/")]
    assert "robots" not in caplog.text
    assert lines(caplog, logging.WARNING) == []
