"""Page rules in crawls: what is put on responses, and what REP_PAGE_OBEY drops."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from tests.play import harvest
from tests.site import Reply
from tests.utils import Pages, coroutine_test

TAG = '<head><meta name="robots" content="{}"></head>'
LINKS = '<a href="/next">next</a> <a href="/ad" rel="nofollow">ad</a>'
OBEY = ["nofollow", "noindex"]
AGENT = "ExampleBot/1.0"


class Sync(Pages):
    """Follows every link and yields an item for each page."""

    def parse(self, response):
        self.got.append(response.meta["rep_page"])
        yield from response.follow_all(css="a", errback=self.failed)
        yield {"url": response.url}


class Async(Sync):
    async def parse(self, response):
        for output in super().parse(response):
            yield output


class Crawled(CrawlSpider, Sync):
    rules = [Rule(LinkExtractor(), "parse_page", follow=True)]

    def _parse(self, response, **kwargs):
        return CrawlSpider._parse(self, response, **kwargs)

    parse = CrawlSpider.parse

    def parse_start_url(self, response, **kwargs):
        return self.parse_page(response)

    def parse_page(self, response):
        self.got.append(response.meta["rep_page"])
        yield {"url": response.url}


async def outcome(cls, reply, obey=OBEY, path="/", **kwargs):
    """Crawl from *path*; return the pages that the site saw, the items and the stats."""
    settings = {name: kwargs.pop(name) for name in list(kwargs) if name.isupper()}
    settings |= {"USER_AGENT": AGENT, "REP_PAGE_OBEY": obey}
    seen, items, crawler = await harvest(
        {path: reply}, [path], cls, **kwargs, **settings
    )
    if isinstance(crawler.spider, Crawled):
        assert crawler.spider.got
    return sorted(path for path in seen if path != "/robots.txt"), items, crawler


def dropped(crawler):
    prefix = "rep/page/dropped/"
    return {
        name.removeprefix(prefix): number
        for name, number in crawler.stats.get_stats().items()
        if name.startswith(prefix)
    }


BOTH = pytest.mark.parametrize("cls", [Sync, Async])


@BOTH
@coroutine_test
async def test_nothing_is_obeyed_unless_told(cls):
    paths, items, crawler = await outcome(cls, TAG.format("none") + LINKS, obey=[])
    assert paths == items == ["/", "/ad", "/next"]
    assert dropped(crawler) == {}
    assert crawler.stats.get_value("rep/page/noindex") == 1
    assert crawler.stats.get_value("rep/page/nofollow") == 1
    first = next(page for page in crawler.spider.got if page["rules"])
    assert first["noindex"]
    assert first["nofollow"]
    assert type(first) is dict


@BOTH
@coroutine_test
async def test_nofollow(cls, caplog):
    caplog.set_level(logging.DEBUG, "scrapy_rep")
    paths, items, crawler = await outcome(cls, TAG.format("nofollow") + LINKS)
    assert paths == items == ["/"]
    assert dropped(crawler) == {"nofollow": 2}
    (line, _) = [text for text in caplog.messages if text.startswith("Dropped")]
    assert "/next, found on http" in line
    assert line.endswith('which says <meta name="robots">: nofollow')


@BOTH
@coroutine_test
async def test_noindex(cls, caplog):
    caplog.set_level(logging.DEBUG, "scrapy_rep")
    reply = Reply(LINKS, headers={"X-Robots-Tag": "examplebot: noindex"})
    paths, items, crawler = await outcome(cls, reply)
    assert paths == ["/", "/next"]
    assert items == ["/next"]
    assert dropped(crawler) == {"noindex": 1, "rel_nofollow": 1}
    assert any(
        text.startswith("Dropped an item, found on")
        and text.endswith("which says X-Robots-Tag: examplebot: noindex")
        for text in caplog.messages
    )


class Again(Sync):
    """Asks for its page a second time, and for another one come what may."""

    def parse(self, response):
        if "again" not in response.meta:
            meta = {"again": True, **response.meta}
            yield response.request.replace(dont_filter=True, meta=meta)
        yield response.follow("/must", meta={"dont_obey_robotstxt": True, "again": 1})
        yield {"url": response.url}


class HandsItsMetaOn(Sync):
    def parse(self, response):
        assert response.meta["rep_page"]["noindex"] is (response.url[-1] == "/")
        yield response.follow("/next", meta=response.meta)
        yield {"url": response.url}


class Plain(Sync):
    def parse(self, response):
        assert "rep_page" not in response.meta
        yield {"url": response.url}


class ErrorPages(Sync):
    """Goes on from pages of an error status, in the errback."""

    def failed(self, failure):
        yield failure.value.response.follow("/next", self.parse)


def tagged(said: str, body: str = LINKS, status: int = 200) -> Reply:
    return Reply(body, status, {"X-Robots-Tag": said})


NONE = TAG.format("none")
ALL_PATHS = ["/", "/ad", "/next"]
PAGES_AND_RULES: dict[str, tuple[Any, Any, dict[str, Any], list[str], list[str]]] = {
    "nofollow alone": (Sync, NONE + LINKS, {"obey": ["nofollow"]}, ["/"], ["/"]),
    "noindex alone": (
        Sync, NONE + LINKS, {"obey": ["noindex"]}, ALL_PATHS, ["/ad", "/next"],
    ),
    "rules for others": (
        Sync, tagged("otherbot: none", '<meta name="otherbot" content="nofollow">' + LINKS),
        {}, ["/", "/next"], ["/", "/next"],
    ),
    "in another form": (Sync, tagged("otherbot: all; examplebot: none"), {}, ["/"], []),
    "the agent of the request": (
        Sync, tagged("otherbot: none"), {"meta": {"robotstxt_user_agent": "OtherBot"}}, ["/"], [],
    ),
    "exempt": (Sync, NONE + LINKS, {"meta": {"dont_obey_robotstxt": True}}, ALL_PATHS, ALL_PATHS),
    "the page itself is no link": (Again, NONE, {}, ["/", "/", "/must"], ["/must"]),
    "an error's": (ErrorPages, tagged("nofollow", "", 404), {}, ["/"], []),
    "an error's that allows": (
        ErrorPages, tagged("all", "", 404), {}, ["/", "/next"], ["/next"],
    ),
    "until then": (Sync, tagged("unavailable_after: 2010-06-25", ""), {}, ["/"], []),
    "not yet": (Sync, tagged("unavailable_after: 2999-01-01", ""), {}, ["/"], ["/"]),
    "rel=nofollow in a CrawlSpider": (Crawled, LINKS, {}, ["/", "/next"], ["/", "/next"]),
    "the same, not obeyed": (Crawled, LINKS, {"obey": []}, ALL_PATHS, ALL_PATHS),
    "with meta handed on": (HandsItsMetaOn, TAG.format("noindex"), {}, ["/", "/next"], ["/next"]),
    "ROBOTSTXT_OBEY is off": (Plain, NONE, {"ROBOTSTXT_OBEY": False}, ["/"], ["/"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES_AND_RULES)
@coroutine_test
async def test_links_and_items(name):
    spider, page, settings, paths, items = PAGES_AND_RULES[name]
    assert (await outcome(spider, page, **settings))[:2] == (paths, items)


class Asks(Pages):
    def parse(self, response):
        assert self.robots.page(response) == response.meta["rep_page"]
        self.got.append(self.robots.page(response.replace(body=b""))["noindex"])
        self.got.append(self.robots.page(response)["noindex"])


@coroutine_test
async def test_spider_robots_page():
    _, _, crawler = await outcome(Asks, TAG.format("noindex"))
    assert crawler.spider.got == [False, True]
