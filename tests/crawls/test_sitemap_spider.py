"""RobotsSitemapSpider: one robots.txt fetch for rules and sitemaps."""

from __future__ import annotations

from typing import Any

import pytest
import scrapy
from scrapy.exceptions import CloseSpider
from scrapy.spiders import SitemapSpider

import scrapy_rep
from scrapy_rep import RobotsSitemapSpider
from tests.documents import page
from tests.site import Reply, Site
from tests.test_readme import items_of, spider
from tests.utils import SCRAPYS, coroutine_test, crawl, make_crawler, sleep

DISALLOW_P = "User-agent: *\nDisallow: /p\n"


class Pages(RobotsSitemapSpider):
    name = "pages"

    def __init__(self, urls: Any = (), **kwargs: Any) -> None:
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


def urlset(*urls: str) -> Reply:
    return xml("urlset", "url", urls)


def index(*urls: str) -> Reply:
    return xml("sitemapindex", "sitemap", urls)


@coroutine_test
async def test_one_fetch_serves_rules_and_sitemaps():
    with Site() as site:
        site.replies["/robots.txt"] = (
            f"{DISALLOW_P}Sitemap: /map.xml\nSitemap: {site.url('/private.xml')}\n"
        )
        site.replies["/map.xml"] = index(site.url("/more.xml"))
        site.replies["/more.xml"] = urlset(site.url("/a"), site.url("/p"))
        crawler = make_crawler(Pages)
        await crawl(crawler, urls=[site.url("/robots.txt")])
        assert site.paths[0] == "/robots.txt"
        assert sorted(site.paths[1:]) == ["/a", "/map.xml", "/more.xml"]
    assert crawler.spider.got == [site.url("/a")]
    stats = crawler.stats.get_stats()
    assert stats["rep/forbidden/rule"] == 2  # a sitemap, and a page of another
    assert stats["robotstxt/request_count"] == 1
    assert stats["downloader/request_count"] == len(site.hits)


@coroutine_test
async def test_scrapys_own_fetches_twice():
    class Plain(SitemapSpider):
        name = "plain"

    with Site({"/robots.txt": DISALLOW_P}) as site:
        Plain.sitemap_urls = [site.url("/robots.txt")]
        crawler = make_crawler(Plain, ADDONS={}, ROBOTSTXT_OBEY=True)
        await crawl(crawler)
        assert site.paths == ["/robots.txt", "/robots.txt"]


@pytest.mark.parametrize(
    "spell",
    [
        pytest.param(lambda url: url, id="as written"),
        pytest.param(lambda url: url.replace("http", "HTTP"), id="case"),
        pytest.param(lambda url: url.replace("://", "://user:pass@"), id="user"),
    ],
)
@coroutine_test
async def test_spellings_of_a_robots_txt(spell):
    with Site() as site:
        site.replies["/robots.txt"] = "Sitemap: /map.xml\n"
        site.replies["/map.xml"] = urlset(site.url("/a"))
        crawler = make_crawler(Pages)
        await crawl(crawler, urls=[spell(site.url("/robots.txt"))])
        assert site.paths == ["/robots.txt", "/map.xml", "/a"]


@coroutine_test
async def test_other_entries_are_scrapys():
    with Site() as site:
        site.replies["/robots.txt"] = DISALLOW_P
        site.replies["/below/robots.txt"] = f"Sitemap: {site.url('/below.xml')}\n"
        site.replies["/below.xml"] = urlset(site.url("/b"))
        site.replies["/map.xml"] = urlset(site.url("/a"))
        crawler = make_crawler(Pages)
        urls = [site.url("/map.xml"), site.url("/below/robots.txt")]
        await crawl(crawler, urls=urls)
        assert site.count("/below/robots.txt") == 1
    assert sorted(crawler.spider.got) == [site.url("/a"), site.url("/b")]


@coroutine_test
async def test_without_the_middleware_it_is_a_sitemap_spider():
    with Site() as site:
        site.replies["/robots.txt"] = f"{DISALLOW_P}Sitemap: {site.url('/map.xml')}\n"
        site.replies["/map.xml"] = urlset(site.url("/p"))
        crawler = make_crawler(Pages, ROBOTSTXT_OBEY=False)
        await crawl(crawler, urls=[site.url("/robots.txt")])
        assert site.paths == ["/robots.txt", "/map.xml", "/p"]


@coroutine_test
async def test_the_users_start_goes_on_working():
    """Its headers and meta stay with the sitemaps; its own robots.txt requests are sent."""

    class Own(Pages):
        seen: list[str] = []

        async def start(self):
            self.sitemap_urls = [site.url("/robots.txt")]
            async for request in super().start():
                yield request.replace(headers={"X-Key": "k"}, meta={"kept": 1})
            yield scrapy.Request(site.url("/robots.txt"), self.read, dont_filter=True)
            yield {"item": 1}

        def read(self, response):
            self.seen.append(response.text)

    with Site() as site:
        site.replies["/robots.txt"] = "Sitemap: /map.xml\n"
        site.replies["/map.xml"] = urlset(site.url("/a"))
        crawler = make_crawler(Own)
        await crawl(crawler)
        keys = {hit.path: hit.headers["X-Key"] for hit in site.hits}
    assert Own.seen == ["Sitemap: /map.xml\n"]
    assert keys["/map.xml"] == "k"
    assert crawler.spider.got == [site.url("/a")]
    assert crawler.stats.get_value("item_scraped_count") == 1


@pytest.mark.parametrize(
    "sitemap", ["http://[", "file:///etc/hosts", "ftp://example.invalid/x", "data:,x"]
)
@coroutine_test
async def test_a_sitemap_that_is_no_page_breaks_nothing(sitemap):
    with Site() as site:
        site.replies["/robots.txt"] = f"Sitemap: {sitemap}\nSitemap: /map.xml\n"
        site.replies["/map.xml"] = urlset(site.url("/a"))
        crawler = make_crawler(Pages)
        await crawl(crawler, urls=[site.url("/robots.txt")])
        assert crawler.spider.robots.sitemaps(site.url("/")) == (site.url("/map.xml"),)
    assert crawler.spider.got == [site.url("/a")]
    assert crawler.stats.get_value("rep/forbidden") is None


@pytest.mark.parametrize("scheduler", ["scrapy_rep.Scheduler", SCRAPYS])
@coroutine_test
async def test_a_robots_txt_that_heals_is_waited_for(scheduler):
    with Site() as site:
        site.replies["/robots.txt"] = [
            Reply(status=503),
            Reply(reset=True),
            Reply("Sitemap: /map.xml\n"),
        ]
        site.replies["/map.xml"] = urlset(site.url("/a"))
        crawler = make_crawler(
            Pages,
            REP_UNREACHABLE_RETRY_DELAYS=[0.2, 0.2],
            SCHEDULER=scheduler,
        )
        await crawl(crawler, urls=[site.url("/robots.txt")])
        assert site.paths == ["/robots.txt"] * 3 + ["/map.xml", "/a"]


@coroutine_test
async def test_a_robots_txt_that_does_not_heal_names_none():
    with Site({"/robots.txt": Reply("Sitemap: /map.xml", status=503)}) as site:
        crawler = make_crawler(Pages, REP_UNREACHABLE_RETRY_DELAYS=[0.1])
        await crawl(crawler, urls=[site.url("/robots.txt")])
        assert site.paths == ["/robots.txt"] * 2
    assert crawler.stats.get_value("finish_reason") == "finished"


@coroutine_test
async def test_a_site_that_hangs_keeps_nobody_back():
    slow = Site({"/robots.txt": Reply(hang=True)}, host="127.0.0.2")
    with slow, Site() as site:
        site.replies["/robots.txt"] = "Sitemap: /map.xml\n"
        site.replies["/map.xml"] = urlset(site.url("/a"))
        crawler = make_crawler(Pages, REP_TIMEOUT=2.0)
        urls = [slow.url("/robots.txt"), site.url("/robots.txt")]
        await crawl(crawler, urls=urls)
        assert site.paths == ["/robots.txt", "/map.xml", "/a"]
        assert site.hits[-1].seconds - slow.hits[0].seconds < 1.5


@coroutine_test
async def test_more_sites_than_are_waited_for_at_a_time(monkeypatch):
    monkeypatch.setattr("scrapy_rep.robots.ORIGINS_AHEAD", 2)
    sites = [Site(host=f"127.0.0.{n}") for n in range(2, 9)]
    for site in sites:
        site.replies["/robots.txt"] = "Sitemap: /map.xml\n"
        site.replies["/map.xml"] = urlset(site.url("/a"))
        site.__enter__()
    try:
        crawler = make_crawler(Pages)
        await crawl(crawler, urls=[site.url("/robots.txt") for site in sites])
    finally:
        for site in sites:
            site.__exit__(None, None, None)
    assert sorted(crawler.spider.got) == sorted(site.url("/a") for site in sites)


@coroutine_test
async def test_a_crawl_that_is_closed_waits_for_nothing():
    class Closing(Pages):
        def parse(self, response):
            raise CloseSpider("enough")

    down = Site({"/robots.txt": Reply(status=503)}, host="127.0.0.2")
    with down, Site() as site:
        site.replies["/map.xml"] = urlset(site.url("/a"))
        crawler = make_crawler(Closing, REP_UNREACHABLE_RETRY_DELAYS=[600])
        await crawl(crawler, urls=[down.url("/robots.txt"), site.url("/map.xml")])
        await sleep(0.1)
        assert down.paths == ["/robots.txt"]
    assert crawler.stats.get_value("finish_reason") == "enough"


@coroutine_test
async def test_crawl_delay_holds_from_the_robots_txt_on():
    with Site() as site:
        site.replies["/robots.txt"] = (
            "User-agent: *\nCrawl-delay: 0.5\nSitemap: /map.xml\n"
        )
        site.replies["/map.xml"] = urlset(site.url("/a"), site.url("/b"))
        crawler = make_crawler(Pages)
        await crawl(crawler, urls=[site.url("/robots.txt")])
        assert len(site.hits) == 4
        assert min(site.gaps(robots=True)) > 0.45


@coroutine_test
async def test_readme_snippet(tmp_path):
    with Site() as site:
        site.replies["/robots.txt"] = (
            "User-agent: *\nDisallow: /product/secret\nSitemap: /map.xml\n"
        )
        paths = ["/product/1", "/product/secret", "/other"]
        site.replies["/map.xml"] = urlset(*map(site.url, paths))
        shop = spider("RobotsSitemapSpider", page("spider"), site, tmp_path)
        _, items = await items_of(shop)
        assert items == [{"url": site.url("/product/1")}]
        assert site.paths == ["/robots.txt", "/map.xml", "/product/1"]


def test_is_exported():
    assert scrapy_rep.RobotsSitemapSpider is RobotsSitemapSpider
