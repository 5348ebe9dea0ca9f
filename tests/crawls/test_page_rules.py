"""Page rules and purposes in crawls: what is put on responses, what is dropped, or refused."""

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
NONE = TAG.format("none")
ALL_PATHS = ["/", "/ad", "/next"]


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


async def outcome(cls, page, obey=OBEY, robots="", meta=None, **settings):
    """Crawl from "/", which is *page*; return the pages that the site saw, the items, the crawler."""
    settings |= {"USER_AGENT": AGENT, "REP_PAGE_OBEY": obey}
    replies = {"/": page, "/robots.txt": robots}
    seen, items, crawler = await harvest(replies, ["/"], cls, meta, **settings)
    if isinstance(crawler.spider, Crawled):
        assert crawler.spider.got
    return sorted(path for path in seen if path != "/robots.txt"), items, crawler


NOINDEX = {"X-Robots-Tag": "examplebot: noindex"}
USAGE = "User-agent: *\nContent-Usage: train-ai=n\n"
NO_USE = {"Content-Usage": "train-ai=n, search=y"}
TRAINS: dict[str, Any] = {"REP_PURPOSE": ["train-ai"]}
LINK, ITEM = "the request for http", "an item, found on http"


@pytest.mark.parametrize("cls", [Sync, Async])
@pytest.mark.parametrize(
    ("page", "settings", "told"),
    [
        (TAG.format("nofollow") + LINKS, {}, (["/"], {"nofollow": 2}, LINK, '<meta name="robots">: nofollow')),
        (Reply(LINKS, headers=NOINDEX), {}, (
            ["/next"], {"noindex": 1, "rel_nofollow": 1}, ITEM, "X-Robots-Tag: examplebot: noindex"
        )),
        (Reply("", headers=NO_USE), TRAINS, (
            [], {"purpose": 1}, ITEM, "Content-Usage: train-ai=n, search=y"
        )),
    ],
)  # fmt: skip
@coroutine_test
async def test_what_is_dropped_is_told(cls, page, settings, told, caplog):
    kept, dropped, line, said = told
    caplog.set_level(logging.DEBUG, "scrapy_rep")
    _, items, crawler = await outcome(cls, page, **settings)
    assert items == kept
    prefix = "rep/page/dropped/"
    stats = crawler.stats.get_stats().items()
    found = {key[len(prefix) :]: n for key, n in stats if key.startswith(prefix)}
    assert found == dropped
    lines = [text for text in caplog.messages if text.startswith(f"Dropped {line}")]
    assert any(text.endswith(f"which says {said}") for text in lines)


@coroutine_test
async def test_nothing_is_obeyed_unless_told():
    page = Reply(NONE + LINKS, headers=NO_USE)
    paths, items, crawler = await outcome(Sync, page, obey=[], robots=USAGE)
    assert paths == items == ALL_PATHS
    assert not [name for name in crawler.stats.get_stats() if "dropped" in name]
    assert crawler.stats.get_value("rep/page/noindex") == 1
    assert crawler.stats.get_value("rep/page/nofollow") == 1
    first = next(page for page in crawler.spider.got if page["rules"])
    assert first["noindex"]
    assert first["nofollow"]
    assert first["preferences"] == {"train-ai": "no", "search": "yes"}
    assert type(first) is dict


@pytest.mark.invariant1
@coroutine_test
async def test_a_no_of_the_robots_txt_refuses_whatever_a_page_says():
    page = Reply("", headers={"Content-Usage": "train-ai=y"})
    paths, items, crawler = await outcome(Sync, page, robots=USAGE, **TRAINS)
    assert paths == items == []
    assert crawler.stats.get_value("rep/forbidden/purpose") == 1
    assert crawler.stats.get_value("robotstxt/forbidden") == 1


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
    "exempt from what it says of use": (
        Sync, Reply("", headers=NO_USE),
        {"robots": USAGE, "meta": {"dont_obey_robotstxt": True}, **TRAINS}, ["/"], ["/"],
    ),
    "for another purpose": (
        Sync, Reply("", headers=NO_USE), {"REP_PURPOSE": ["ai-input"]}, ["/"], ["/"],
    ),
    "ROBOTSTXT_OBEY is off": (Plain, NONE, {"ROBOTSTXT_OBEY": False}, ["/"], ["/"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES_AND_RULES)
@coroutine_test
async def test_links_and_items(name):
    spider, page, settings, paths, items = PAGES_AND_RULES[name]
    assert (await outcome(spider, page, **settings))[:2] == (paths, items)


@coroutine_test
async def test_what_is_too_old_is_counted_as_such():
    *_, crawler = await outcome(*PAGES_AND_RULES["until then"][:2])
    assert crawler.stats.get_value("rep/page/dropped/unavailable_after") == 1


class Asks(Pages):
    def parse(self, response):
        assert self.robots.page(response) == response.meta["rep_page"]
        self.got.append(self.robots.page(response.replace(body=b""))["noindex"])
        self.got.append(self.robots.page(response)["noindex"])


@coroutine_test
async def test_spider_robots_page():
    _, _, crawler = await outcome(Asks, TAG.format("noindex"))
    assert crawler.spider.got == [False, True]
