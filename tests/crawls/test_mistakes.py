"""Mistakes of a project are named in the log of its crawl, once, with what to do."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from scrapy_rep.gate import holding
from tests.play import harvest
from tests.utils import Pages, coroutine_test

CONTACT = "ExampleBot/1.0 (+https://example.com/bot)"


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


async def said(
    caplog: Any, spider: Any = Pages, meta: Any = None, level: int = 30, **settings: Any
) -> list[str]:
    caplog.set_level(logging.INFO)
    robots_txt = {"/robots.txt": "User-agent: *\nDisallow: /p\n"}
    settings = {"USER_AGENT": CONTACT, **settings}
    seen, _, crawler = await harvest(robots_txt, ["/a", "/b"], spider, meta, **settings)
    assert seen.count("/a") == 1
    assert (crawler.spider.robots == "mine") is (spider is HasRobots)
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == level and record.name.startswith("scrapy_rep")
    ]


@pytest.mark.invariant9
@pytest.mark.parametrize(
    ("spider", "meta", "settings", "expected"),
    [
        pytest.param(
            Pages, None,
            {"ROBOTSTXT_PARSER": "scrapy.robotstxt.PythonRobotParser"},
            ["ROBOTSTXT_PARSER is 'scrapy.robotstxt.PythonRobotParser'"],
            id="a parser that is not used",
        ),
        pytest.param(
            SaysMore, {"robotstxt_useragent": "x", "robots_url": "y"}, {},
            ["'robotstxt_useragent'", "'robots_url'"], id="two slips",
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
async def test_hints_at_start_and_end(caplog, monkeypatch):
    monkeypatch.setattr(holding, "MANY_REQUESTS", 2)
    monkeypatch.setattr(holding, "MANY_PER_ORIGIN", 2)
    found = await said(caplog, USER_AGENT="ExampleBot/1.0", level=logging.INFO)
    hints = [
        line for line in found if re.search("how to reach you|DOWNLOAD_DELAY", line)
    ]
    assert len(hints) == 2


@pytest.mark.invariant9
@coroutine_test
async def test_who_does_not_obey_is_told_unless_that_is_said(caplog):
    robots_txt = {"/robots.txt": "User-agent: *\nDisallow: /\n"}
    disobeys: dict[str, Any] = {"ROBOTSTXT_OBEY": False, "USER_AGENT": CONTACT}
    seen, _, _ = await harvest(robots_txt, ["/"], **disobeys)
    assert seen == ["/"]
    (warned,) = [r for r in caplog.records if "ROBOTSTXT_OBEY" in r.getMessage()]
    assert warned.levelno == logging.WARNING
    assert "no request is judged by a robots.txt" in warned.getMessage()
    disables = 'ADDONS = {"scrapy_rep.Addon": None}'
    assert disables in warned.getMessage()
    caplog.clear()
    disobeys["ADDONS"] = {"scrapy_rep.Addon": None}
    await harvest(robots_txt, ["/"], **disobeys)
    assert "robots" not in caplog.text
