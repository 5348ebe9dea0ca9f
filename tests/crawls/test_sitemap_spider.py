"""RobotsSitemapSpider: one robots.txt fetch for rules and sitemaps."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import scrapy
from scrapy.exceptions import CloseSpider

from scrapy_rep import RobotsSitemapSpider
from tests.documents import page
from tests.play import harvest
from tests.site import Reply, Site
from tests.test_readme import items_of, spider
from tests.utils import both_schedulers, coroutine_test, crawled, sleep

DISALLOW_P = "User-agent: *\nDisallow: /p\n"
NAMES_ONE = "Sitemap: /map.xml\n"


class Pages(RobotsSitemapSpider):
    name = "pages"

    def __init__(self, urls: Any = (), meta: Any = None, **kwargs: Any) -> None:
        self.sitemap_urls = urls
        self.got: list[str] = []
        super().__init__(**kwargs)

    def parse(self, response):
        self.got.append(response.url)


def xml(kind: str, entry: str, urls: Any) -> Reply:
    entries = "".join(f"<{entry}><loc>{url}</loc></{entry}>" for url in urls)
    schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return Reply(
        f'<?xml version="1.0"?><{kind} xmlns="{schema}">{entries}</{kind}>',
        headers={"Content-Type": "text/xml"},
    )


def mapped(robots: Any = NAMES_ONE, *paths: str, **where: Any) -> Site:
    """Return a site with a sitemap that has *paths*, or "/a"."""
    site = Site({"/robots.txt": robots}, **where)
    site.replies["/map.xml"] = xml("urlset", "url", map(site.url, paths or ["/a"]))
    return site


async def followed(
    site: Site, *urls: str, spider: Any = Pages, **settings: Any
) -> tuple[list[str], Any]:
    """Return the paths that *site* saw, and the crawler, which began with its robots.txt."""
    seen, _, crawler = await harvest(
        site, urls or ["/robots.txt"], spider, None, **settings
    )
    return seen, crawler


@coroutine_test
async def test_one_fetch_serves_rules_and_sitemaps():
    site = mapped("", "/a", "/p")
    site.replies["/index.xml"] = xml("sitemapindex", "sitemap", [site.url("/map.xml")])
    site.replies["/robots.txt"] = (
        f"{DISALLOW_P}Sitemap: /index.xml\nSitemap: {site.url('/private.xml')}\n"
    )
    seen, crawler = await followed(site)
    assert seen[0] == "/robots.txt"
    assert sorted(seen[1:]) == ["/a", "/index.xml", "/map.xml"]
    assert crawler.spider.got == [site.url("/a")]
    stats = crawler.stats.get_stats()
    assert stats["rep/forbidden/rule"] == 2  # a sitemap, and a page of another
    assert stats["robotstxt/request_count"] == 1
    assert stats["downloader/request_count"] == len(seen)


@pytest.mark.parametrize(
    ("written", "spelt"), [("", ""), ("http", "HTTP"), ("://", "://user:pass@")]
)
@coroutine_test
async def test_spellings_of_a_robots_txt(written, spelt):
    site = mapped()
    seen, _ = await followed(site, site.url("/robots.txt").replace(written, spelt, 1))
    assert seen == ["/robots.txt", "/map.xml", "/a"]


@pytest.mark.parametrize("names", ["", NAMES_ONE])
@coroutine_test
async def test_who_names_no_sitemap_is_told_of(names, caplog):
    site = mapped(names)
    with caplog.at_level("INFO"):
        await followed(site)
    told = f"{site.url('/robots.txt')} names no sitemap" in caplog.text
    assert told is not bool(names)


@coroutine_test
async def test_other_entries_are_scrapys():
    site = mapped(DISALLOW_P)
    site.replies["/below/robots.txt"] = f"Sitemap: {site.url('/below.xml')}\n"
    site.replies["/below.xml"] = xml("urlset", "url", [site.url("/b")])
    seen, crawler = await followed(site, "/map.xml", "/below/robots.txt")
    assert seen.count("/below/robots.txt") == 1
    assert sorted(crawler.spider.got) == [site.url("/a"), site.url("/b")]


@coroutine_test
async def test_without_the_middleware_it_is_a_sitemap_spider():
    site = mapped("", "/p")
    site.replies["/robots.txt"] = f"{DISALLOW_P}Sitemap: {site.url('/map.xml')}\n"
    seen, _ = await followed(site, ROBOTSTXT_OBEY=False)
    assert seen == ["/robots.txt", "/map.xml", "/p"]


@coroutine_test
async def test_the_users_start_goes_on_working():
    """Its headers and meta stay with the sitemaps; its own robots.txt requests are sent."""

    class Own(Pages):
        seen: list[str] = []

        async def start(self):
            async for request in super().start():
                yield request.replace(headers={"X-Key": "k"}, meta={"kept": 1})
            yield scrapy.Request(site.url("/robots.txt"), self.read, dont_filter=True)
            yield {"url": "an item"}

        def read(self, response):
            self.seen.append(response.text)

    site = mapped()
    _, crawler = await followed(site, spider=Own)
    keys = {hit.path: hit.headers["X-Key"] for hit in site.hits}
    assert Own.seen == [NAMES_ONE]
    assert keys["/map.xml"] == "k"
    assert crawler.spider.got == [site.url("/a")]
    assert crawler.stats.get_value("item_scraped_count") == 1


@coroutine_test
async def test_sitemaps_that_are_no_pages_break_nothing():
    wrong = ["http://[", "file:///etc/hosts", "ftp://example.invalid/x", "data:,x"]
    site = mapped("".join(f"Sitemap: {url}\n" for url in [*wrong, "/map.xml"]))
    _, crawler = await followed(site)
    assert crawler.spider.robots.sitemaps(site.url("/")) == (site.url("/map.xml"),)
    assert crawler.spider.got == [site.url("/a")]
    assert crawler.stats.get_value("rep/forbidden") is None


@both_schedulers
@coroutine_test
async def test_a_robots_txt_that_heals_is_waited_for(scheduler):
    site = mapped([Reply(status=503), Reply(reset=True), Reply(NAMES_ONE)])
    delays = {"REP_UNREACHABLE_RETRY_DELAYS": [0.2, 0.2], "SCHEDULER": scheduler}
    seen, _ = await followed(site, **delays)
    assert seen == ["/robots.txt"] * 3 + ["/map.xml", "/a"]


@coroutine_test
async def test_a_robots_txt_that_does_not_heal_names_none():
    site = mapped(Reply(NAMES_ONE, status=503))
    seen, crawler = await followed(site, REP_UNREACHABLE_RETRY_DELAYS=[0.1])
    assert seen == ["/robots.txt"] * 2
    assert crawler.stats.get_value("finish_reason") == "finished"


@coroutine_test
async def test_a_site_that_hangs_keeps_nobody_back():
    with Site({"/robots.txt": Reply(hang=True)}, host="127.0.0.2") as slow:
        site = mapped()
        urls = [slow.url("/robots.txt"), "/robots.txt"]
        seen, _ = await followed(site, *urls, REP_TIMEOUT=2.0)
        assert seen == ["/robots.txt", "/map.xml", "/a"]
        assert site.hits[-1].seconds - slow.hits[0].seconds < 1.5


@coroutine_test
async def test_more_sites_than_are_waited_for_at_a_time(monkeypatch):
    monkeypatch.setattr("scrapy_rep.gate.robots.ORIGINS_AHEAD", 2)
    with ExitStack() as stack:
        sites = [stack.enter_context(mapped(host=f"127.0.0.{n}")) for n in range(2, 9)]
        crawler = await crawled([site.url("/robots.txt") for site in sites], Pages)
    assert sorted(crawler.spider.got) == sorted(site.url("/a") for site in sites)


@coroutine_test
async def test_a_crawl_that_is_closed_waits_for_nothing():
    class Closing(Pages):
        def parse(self, response):
            raise CloseSpider("enough")

    with Site({"/robots.txt": Reply(status=503)}, host="127.0.0.2") as down:
        urls = [down.url("/robots.txt"), "/map.xml"]
        delays = {"REP_UNREACHABLE_RETRY_DELAYS": [600]}
        _, crawler = await followed(mapped(), *urls, spider=Closing, **delays)
        await sleep(0.1)
        assert down.paths == ["/robots.txt"]
    assert crawler.stats.get_value("finish_reason") == "enough"


@coroutine_test
async def test_readme_snippet(tmp_path):
    paths = ["/product/1", "/product/secret", "/other"]
    rules = "User-agent: *\nDisallow: /product/secret\n"
    with mapped(rules + NAMES_ONE, *paths) as site:
        shop = spider("RobotsSitemapSpider", page("spider"), site, tmp_path)
        _, items = await items_of(shop)
        assert items == [{"url": site.url("/product/1")}]
        assert site.paths == ["/robots.txt", "/map.xml", "/product/1"]
