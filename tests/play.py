"""A crawl that is played to its end, and what happened in it, from the stream of its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from scrapy import signals

from scrapy_rep.events import Event
from scrapy_rep.events.kinds import EVENTS, Sent
from scrapy_rep.events.stream import Stream
from tests.site import Site
from tests.utils import Pages, crawl, make_crawler

if TYPE_CHECKING:
    from collections.abc import Iterable

    import scrapy

    Kind = TypeVar("Kind", bound=Event)


class Played(list[Event]):
    """All events of a crawl, in their order, and the crawl."""

    def __init__(self, crawler: Any) -> None:
        super().__init__()
        self.crawler = crawler
        self.stream = Stream.of(crawler)
        self.stream.listen(self.append, EVENTS)

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [each for each in self if isinstance(each, kind)]

    @property
    def spider(self) -> Any:
        return self.crawler.spider

    @property
    def pages(self) -> list[Sent]:
        """Requests that were sent, without those for robots.txt files."""
        return [each for each in self.of(Sent) if not each.robots]

    def stats(self, prefix: str) -> dict[str, Any]:
        """Return the stats that begin with *prefix*, without it."""
        return {
            name.removeprefix(prefix): value
            for name, value in self.crawler.stats.get_stats().items()
            if name.startswith(prefix)
        }


async def play(
    sites: Site | dict[str, Any],
    settings: dict[str, Any],
    urls: Iterable[str],
    spider: type[scrapy.Spider] = Pages,
    **arguments: Any,
) -> Played:
    """Crawl *urls* with *settings* to the end, and return what happened.

    *sites* is a site, or its replies by path; it may be one of several, where *urls* are not
    only paths. *arguments* are those of the *spider*.
    """
    played = Played(make_crawler(spider, **settings))
    if isinstance(sites, dict):
        with Site(sites) as site:
            return await _play(played, site, urls, arguments)
    return await _play(played, sites, urls, arguments)


async def _play(
    played: Played, site: Site, urls: Iterable[str], arguments: dict[str, Any]
) -> Played:
    whole = [site.url(url) if url.startswith("/") else url for url in urls]
    await crawl(played.crawler, urls=whole, **arguments)
    return played


async def harvest(
    replies: Site | dict[str, Any],
    urls: Iterable[str],
    spider: type[scrapy.Spider] = Pages,
    meta: Any = None,
    **settings: Any,
) -> tuple[list[str], list[str], Any]:
    """Crawl *urls*, most of them paths; return those that the site saw, those of the items, and
    the crawler. *replies* are a site's, or a site that is not open yet.
    """
    items: list[str] = []
    with replies if isinstance(replies, Site) else Site(replies) as site:
        crawler = make_crawler(spider, **settings)

        def scraped(item: Any) -> None:
            items.append(item["url"].removeprefix(site.origin))

        crawler.signals.connect(scraped, signals.item_scraped)
        whole = [site.url(url) if url.startswith("/") else url for url in urls]
        await crawl(crawler, urls=whole, meta=meta)
        return site.paths, sorted(items), crawler
