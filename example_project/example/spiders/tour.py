"""Follows the links of a few hosts, and tells what their robots.txt made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import Request, Spider, signals
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor

from example.sights import Sights
from example.web import Web
from scrapy_rep import RobotsForbidden, RobotsUnreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure
    from typing_extensions import Self

    from scrapy_rep import Robots

# A real site is looked at, not copied. From the command line these can be changed:
# scrapy crawl tour -a url=https://example.com -s CLOSESPIDER_PAGECOUNT=5
ON_A_REAL_SITE = {
    "CLOSESPIDER_PAGECOUNT": 20,  # and those in the downloader by then, so:
    "CONCURRENT_REQUESTS": 1,
    "DOWNLOAD_DELAY": 1.0,
}
# The little web is on this machine, where no proxy leads.
ON_THE_LITTLE_WEB = {"HTTPPROXY_ENABLED": False}


class Tour(Spider):
    name = "tour"
    url: str | None = None
    """-a url=https://...: crawl this site instead of the little web."""

    # Whose rules this spider obeys. Left out, it would be the product tokens of
    # USER_AGENT, which come to the same here; see guest.py for where they do not.
    robotstxt_user_agent = "ExampleBot"

    robots: Robots  # set by scrapy_rep
    sights: Sights
    web: Web | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.sights = Sights(crawler)
        if spider.url is None:
            spider.web = Web()
        settings = ON_A_REAL_SITE if spider.web is None else ON_THE_LITTLE_WEB
        for name, value in settings.items():
            crawler.settings.set(name, value, priority="spider")
        # Not closed(): this way the table comes last, after Scrapy's own figures.
        crawler.signals.connect(spider.show_table, signals.engine_stopped)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        if self.url is not None:
            yield self.ask_for(self.url if "://" in self.url else f"https://{self.url}")
            return
        assert self.web is not None
        self.web.start()
        for url in self.web.start_urls():
            yield self.ask_for(url)

    def ask_for(self, url: str) -> Request:
        request = Request(url, errback=self.not_fetched)
        if self.web is not None and self.web.shares_addresses:
            # Scrapy's download slots tell hosts apart by name, not by port. Without
            # this, all of them would be crawled at the pace of the slowest.
            request.meta["download_slot"] = urlsplit(url).netloc
        return request

    def parse(self, response: Response) -> Iterator[Any]:
        if not isinstance(response, HtmlResponse):
            return
        here = urlsplit(response.url)
        if here.path == "/":
            # By now the robots.txt of this host is known, so asking costs nothing.
            for sitemap in self.robots.sitemaps(response.url):
                self.logger.info("%s has a sitemap: %s", here.netloc, sitemap)
        # Every link of the same host, allowed or not: scrapy_rep stops what is not.
        for link in LinkExtractor().extract_links(response):
            if urlsplit(link.url).netloc == here.netloc:
                yield self.ask_for(link.url)

    def not_fetched(self, failure: Failure) -> None:
        request: Request = failure.request  # type: ignore[attr-defined]
        error = failure.value
        if isinstance(error, RobotsForbidden):
            rule = error.verdict.rule
            if rule is None:
                self.logger.info("Refused: %s, %s", error.url, error.reason)
            else:
                self.logger.info(
                    "Refused: %s, for line %d of its robots.txt: Disallow: %s",
                    error.url,
                    rule.line,
                    rule.path,
                )
        elif isinstance(error, RobotsUnreachable):
            # Only where it stayed so: until then its requests wait in the queue.
            self.logger.info("Refused: %s, %s", error.url, error.reason)
        else:
            self.logger.info("Not fetched: %s, %r", request.url, error)

    def show_table(self) -> None:
        for origin, sight in self.sights.by_origin.items():
            policy = self.robots.policy(origin + "/")
            if policy is not None:
                sight.delay = policy.crawl_delay(self.robotstxt_user_agent)
        witness = "crawler"
        if self.web is not None:
            # A server is the better witness of what was sent to it, and when.
            self.web.stop()
            for origin, seen in self.web.seen().items():
                sight = self.sights.of(origin)
                sight.about = seen.host.about
                sight.starts = [hit.seconds for hit in seen.pages]
                sight.sent = len(sight.starts)
            witness = "servers"
        self.logger.info(
            "Pages, by host (gap: the smallest that the %s saw)\n%s",
            witness,
            self.sights.table(),
        )
