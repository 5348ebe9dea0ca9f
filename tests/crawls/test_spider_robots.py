"""``spider.robots`` is there in every crawl that has the add-on, whatever is judged."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import scrapy
from scrapy import signals

from scrapy_rep import Robots
from scrapy_rep.gate.middleware import RepMiddleware
from tests.play import harvest
from tests.site import Site
from tests.utils import SCRAPYS, Pages, coroutine_test

TEXT = "User-agent: *\nDisallow: /p\nSitemap: /map.xml\n"


class Asks(Pages):
    """Asks before its first request, fetches the robots.txt, and asks again."""

    async def start(self):
        site = self.urls[0]
        self.said = [self.answers(site)]
        for url in self.urls:
            yield scrapy.Request(url)

    def answers(self, url):
        asked = ["allowed", "verdict", "policy", "ruling", "preferences", "sitemaps"]
        answers = [getattr(self.robots, name)(url) for name in asked]
        return [*answers, self.robots.waiting()]

    async def parse(self, response):
        self.got.append(response.url)
        self.said.append(self.answers(response.url))
        policy = await self.robots.fetch(response.url)
        self.said.append(policy.sitemaps)
        ask = self.robots.allowed, self.robots.ruling
        self.said += [each(response.url) for each in ask]


NOT_JUDGED = [
    pytest.param({"ROBOTSTXT_OBEY": False}, id="not obeyed"),
    pytest.param(
        {"ROBOTSTXT_OBEY": False, "SCHEDULER": SCRAPYS},
        id="not obeyed, and no queue of ours",
    ),
    pytest.param({"DOWNLOADER_MIDDLEWARES": {RepMiddleware: None}}, id="taken out"),
]
NOTHING: list[Any] = [None, None, None, None, None, (), []]


@pytest.mark.parametrize("settings", NOT_JUDGED)
@coroutine_test
async def test_where_nothing_is_judged_it_knows_nothing(settings):
    seen, _, crawler = await harvest({"/robots.txt": TEXT}, ["/p"], Asks, **settings)
    assert isinstance(crawler.spider.robots, Robots)
    before, then, sitemaps, allowed, ruling = crawler.spider.said
    assert (before, then) == (NOTHING, NOTHING)
    # It may be asked to fetch all the same; the crawl would send the page.
    assert (sitemaps, allowed, ruling) == (("/map.xml",), False, None)
    assert seen == ["/p", "/robots.txt"]


@coroutine_test
async def test_a_robots_txt_is_known_from_its_first_page_on():
    site = Site({"/robots.txt": TEXT})
    _, _, crawler = await harvest(site, ["/q"], Asks)
    before, then, *_ = crawler.spider.said
    assert before == NOTHING
    assert None not in then
    assert (then[0], then[5]) == (True, (site.url("/map.xml"),))


@pytest.mark.parametrize("settings", NOT_JUDGED)
@coroutine_test
async def test_where_it_is_not_asked_nothing_is_fetched(settings, tmp_path):
    path = tmp_path / "robots.sqlite"
    stored: dict[str, Any] = {"REP_STORE": "sqlite", "REP_STORE_PATH": str(path)}
    seen, _, _ = await harvest({"/robots.txt": TEXT}, ["/p"], **stored, **settings)
    assert seen == ["/p"]
    assert not path.exists()


BY_HAND: dict[str, Any] = {"ADDONS": {}, "ROBOTSTXT_OBEY": False}
SCHEDULER = {"SCHEDULER": "scrapy_rep.Scheduler"}
DOWNLOADER = {"DOWNLOADER": "scrapy_rep.Downloader"}
BOTH = SCHEDULER | DOWNLOADER


@pytest.mark.invariant9
@pytest.mark.parametrize(
    ("settings", "judge"),
    [
        ({"DOWNLOADER_MIDDLEWARES": {RepMiddleware: None}}, "a robots.txt"),
        (BY_HAND | SCHEDULER, "a robots.txt"),
        (BY_HAND | DOWNLOADER, "a robots.txt"),
        (BY_HAND | BOTH | {"ROBOTSTXT_OBEY": True}, "scrapy_rep"),
    ],
    ids=["taken out", "scheduler alone", "downloader alone", "beside the built-in"],
)
@coroutine_test
async def test_where_there_is_no_gate_it_is_told(settings, judge, caplog):
    await harvest({}, ["/"], **settings)
    (warned,) = [r for r in caplog.records if "RepMiddleware" in r.message]
    assert warned.levelno == logging.WARNING
    assert warned.message == (
        f"No request is judged by {judge}, as RepMiddleware is not enabled in "
        "DOWNLOADER_MIDDLEWARES"
    )


@pytest.mark.parametrize("obeys", [True, False])
@coroutine_test
async def test_it_is_there_when_others_hear_that_the_spider_opens(obeys):
    seen = []

    class Early(Pages):
        @classmethod
        def from_crawler(cls, crawler, *args, **kwargs):
            spider = super().from_crawler(crawler, *args, **kwargs)
            crawler.signals.connect(spider.engine_started, signals.engine_started)
            return spider

        def engine_started(self):
            seen.append(self.robots)

    _, _, crawler = await harvest({}, ["/"], Early, ROBOTSTXT_OBEY=obeys)
    assert seen == [crawler.spider.robots]
