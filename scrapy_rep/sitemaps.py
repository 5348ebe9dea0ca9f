"""Scrapy's SitemapSpider, fed from the robots.txt files that the crawl fetches anyway."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.spiders import SitemapSpider
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred, DeferredQueue

from scrapy_rep.protocol.printable import without_user
from scrapy_rep.robots import sitemap_urls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy_rep.robots import Robots

logger = logging.getLogger("scrapy_rep")

ORIGINS_AHEAD = 100
"""Robots.txt files that are waited for at a time; REP_FETCH_CONCURRENCY says how many of them are
fetched at a time."""


class RobotsSitemapSpider(SitemapSpider):
    """A ``SitemapSpider`` that takes the sitemaps from the robots.txt which the crawl has anyway.

    An entry of ``sitemap_urls`` that ends in ``/robots.txt`` is not requested: the sitemaps that
    this file names take its place, and are judged as all requests are. Everything else is as in
    Scrapy's SitemapSpider, and all of it is where the spider has no ``robots``.
    """

    robots: Robots | None = None

    async def start(self) -> AsyncIterator[Any]:
        # All are asked at once, so that a site that hangs does not hold up the others.
        answers: DeferredQueue[Any] = DeferredQueue()
        asking: set[Deferred[Any]] = set()
        awaited = 0

        def tell(result: Any, asked: Deferred[Any]) -> None:
            asking.discard(asked)
            answers.put(result)

        try:
            async for item in super().start():
                robots = self.robots
                if robots is None or not self._asks_for_sitemaps(item):
                    yield item
                    continue
                if awaited >= ORIGINS_AHEAD:
                    for request in await maybe_deferred_to_future(answers.get()):
                        yield request
                    awaited -= 1
                asked = deferred_from_coro(self._requests_for(item, robots))
                asking.add(asked)
                asked.addBoth(tell, asked)
                awaited += 1
            for _ in range(awaited):
                for request in await maybe_deferred_to_future(answers.get()):
                    yield request
        finally:
            for asked in list(asking):  # the crawl is broken off
                asked.cancel()

    def _asks_for_sitemaps(self, item: object) -> bool:
        return (
            isinstance(item, Request)
            and item.callback == self._parse_sitemap
            and item.url.startswith(("http://", "https://"))
            and urlsplit(item.url)[2:4] == ("/robots.txt", "")
        )

    async def _requests_for(self, item: Request, robots: Robots) -> list[Request]:
        urls = sitemap_urls(await robots.settle(item), item.url)
        if not urls:
            url = without_user(item.url)
            logger.info(
                "%(url)s names no sitemap", {"url": url}, extra={"spider": self}
            )
        return [item.replace(url=url) for url in urls]
