"""One worker of several: all that makes it one is in its settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import Request, Spider, signals
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self


class Fleet(Spider):
    """Started several times over by ``python -m example.fleet``."""

    name = "fleet"
    urls = ""
    """-a urls=URL,URL: where to begin; all workers are told the same."""
    worker = ""
    """-a worker=1: by what name the servers of the little web may count it."""

    robotstxt_user_agent = "ExampleBot"
    custom_settings = {
        # One queue, one robots.txt and one pace for all workers.
        "REP_FLEET": os.environ.get("REP_FLEET", "redis://localhost:6379"),
        # The little web is on this machine, where no proxy leads.
        "HTTPPROXY_ENABLED": False,
    }

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.sign, signals.request_reached_downloader)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        # The duplicates filter is in Redis, too: only the first of the workers queues
        # these, and whoever is free when their time comes sends them.
        for url in self.urls.split(","):
            yield self.ask_for(url)

    def ask_for(self, url: str) -> Request:
        request = Request(url)
        hosts = [urlsplit(start).hostname for start in self.urls.split(",")]
        if len(set(hosts)) < len(hosts):  # as in tour.py
            request.meta["download_slot"] = urlsplit(url).netloc
        return request

    def parse(self, response: Response) -> Iterator[Any]:
        if not isinstance(response, HtmlResponse):
            return
        for link in LinkExtractor().extract_links(response):
            if urlsplit(link.url).netloc == urlsplit(response.url).netloc:
                yield self.ask_for(link.url)

    def sign(self, request: Request) -> None:
        # Not when the request is made: it may be another worker that sends it.
        request.headers["X-Worker"] = self.worker
