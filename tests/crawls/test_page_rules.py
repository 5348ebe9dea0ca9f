"""Page rules in crawls: what is put on responses, and what REP_PAGE_OBEY drops."""

from __future__ import annotations

import logging

import pytest
import scrapy
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from tests.site import Reply, Site
from tests.utils import Pages, coroutine_test, crawl, make_crawler

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
    with Site({"/robots.txt": Reply(status=404), path: reply}) as site:
        crawler = make_crawler(cls, USER_AGENT=AGENT, REP_PAGE_OBEY=obey, **settings)
        items = []

        def scraped(item):
            items.append(item["url"].removeprefix(site.origin))

        crawler.signals.connect(scraped, scrapy.signals.item_scraped)
        await crawl(crawler, urls=[site.url(path)], **kwargs)
        if isinstance(crawler.spider, Crawled):
            assert crawler.spider.got
        paths = [seen for seen in site.paths if seen != "/robots.txt"]
    return sorted(paths), sorted(items), crawler


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


@coroutine_test
async def test_each_rule_for_itself():
    page = TAG.format("none") + LINKS
    paths, items, _ = await outcome(Sync, page, obey=["nofollow"])
    assert paths == items == ["/"]
    paths, items, _ = await outcome(Sync, page, obey=["noindex"])
    assert paths == ["/", "/ad", "/next"]
    assert items == ["/ad", "/next"]


@coroutine_test
async def test_rules_for_others_do_not_hold():
    reply = Reply(
        '<meta name="otherbot" content="nofollow">' + LINKS,
        headers={"X-Robots-Tag": "otherbot: none"},
    )
    paths, items, _ = await outcome(Sync, reply)
    assert paths == items == ["/", "/next"]


@pytest.mark.parametrize(
    "header",
    [
        "noindex; nofollow",
        "noindex nofollow max-snippet:20",
        "max-snippet:50 noindex; nofollow",
        "ExampleBot/1.0: noindex nofollow",
        "otherbot: all; examplebot: none",
        "none\uff0cnoarchive",
    ],
)
@coroutine_test
async def test_rules_in_other_forms_are_obeyed(header):
    headers = {"X-Robots-Tag": header.encode().decode("latin-1")}
    paths, items, _ = await outcome(Sync, Reply(LINKS, headers=headers))
    assert (paths, items) == (["/"], [])
    tag = f'<meta charset="utf-8">{TAG.format(header)}{LINKS}'
    paths, items, _ = await outcome(Sync, tag)
    assert (paths, items) == (["/"], [])


@coroutine_test
async def test_the_agent_of_the_request_counts():
    reply = Reply(LINKS, headers={"X-Robots-Tag": "otherbot: none"})
    meta = {"robotstxt_user_agent": "OtherBot"}
    assert (await outcome(Sync, reply, meta=meta))[:2] == (["/"], [])


@coroutine_test
async def test_unavailable_after():
    for date, expected in [("2010-06-25", []), ("2999-01-01", ["/"])]:
        reply = Reply("", headers={"X-Robots-Tag": f"unavailable_after: {date}"})
        _, items, crawler = await outcome(Sync, reply)
        assert items == expected
        assert dropped(crawler) == ({} if expected else {"unavailable_after": 1})


@coroutine_test
async def test_links_with_rel_nofollow_in_a_crawl_spider():
    paths, items, crawler = await outcome(Crawled, LINKS)
    assert paths == items == ["/", "/next"]
    assert dropped(crawler) == {"rel_nofollow": 1}
    paths, items, _ = await outcome(Crawled, LINKS, obey=[])
    assert paths == items == ["/", "/ad", "/next"]


@coroutine_test
async def test_exempt_requests():
    page = TAG.format("none") + LINKS
    paths, items, _ = await outcome(Sync, page, meta={"dont_obey_robotstxt": True})
    assert paths == items == ["/", "/ad", "/next"]


class Again(Sync):
    """Asks for its page a second time, and for another one come what may."""

    def parse(self, response):
        if "again" not in response.meta:
            meta = {"again": True, **response.meta}
            yield response.request.replace(dont_filter=True, meta=meta)
        yield response.follow("/must", meta={"dont_obey_robotstxt": True, "again": 1})
        yield {"url": response.url}


@coroutine_test
async def test_the_page_itself_is_no_link():
    paths, items, _ = await outcome(Again, TAG.format("none"))
    assert paths == ["/", "/", "/must"]
    assert items == ["/must"]


class HandsItsMetaOn(Sync):
    def parse(self, response):
        self.got.append(response.meta["rep_page"])
        yield response.follow("/next", meta=response.meta)
        yield {"url": response.url}


@coroutine_test
async def test_rules_do_not_travel_with_meta():
    _, items, crawler = await outcome(HandsItsMetaOn, TAG.format("noindex"))
    assert items == ["/next"]
    assert [page["noindex"] for page in crawler.spider.got] == [True, False]


class ErrorPages(Sync):
    """Goes on from pages of an error status, in the errback."""

    def failed(self, failure):
        yield failure.value.response.follow("/next", self.parse)


@coroutine_test
async def test_error_pages_have_rules_too():
    for tag, expected in [("nofollow", ["/"]), ("all", ["/", "/next"])]:
        reply = Reply(TAG.format(tag), status=404)
        paths, _, _ = await outcome(ErrorPages, reply)
        assert paths == expected


class Asks(Pages):
    def parse(self, response):
        assert self.robots.page(response) == response.meta["rep_page"]
        self.got.append(self.robots.page(response.replace(body=b""))["noindex"])
        self.got.append(self.robots.page(response)["noindex"])


@coroutine_test
async def test_spider_robots_page():
    _, _, crawler = await outcome(Asks, TAG.format("noindex"))
    assert crawler.spider.got == [False, True]


@coroutine_test
async def test_off_without_robotstxt_obey():
    class Plain(Sync):
        def parse(self, response):
            assert "rep_page" not in response.meta
            yield {"url": response.url}

    _, items, _ = await outcome(Plain, TAG.format("none"), ROBOTSTXT_OBEY=False)
    assert items == ["/"]
