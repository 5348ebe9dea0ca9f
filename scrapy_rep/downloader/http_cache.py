"""Pages that Scrapy's HTTP cache has (HTTPCACHE_ENABLED): they need nothing of their site."""

from __future__ import annotations

from functools import cached_property
from inspect import isawaitable
from typing import TYPE_CHECKING

from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.downloadermiddlewares.httpcache import HttpCacheMiddleware


class HttpCache:
    """Asks the crawl's ``HttpCacheMiddleware``, or what is derived from it."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @cached_property
    def _middleware(self) -> HttpCacheMiddleware | None:
        from scrapy.downloadermiddlewares.httpcache import HttpCacheMiddleware  # noqa: PLC0415 - few need it

        return self._crawler.get_downloader_middleware(HttpCacheMiddleware)

    async def page(self, request: Request) -> Response | None:
        """Return the page from the cache; ``None``: the site of *request* must be asked.

        The cache's storage must have the page, and its policy must call the page fresh.
        """
        if self._middleware is None:
            return None
        asked = request.copy()  # on which it may put what it wants to ask the site
        try:
            answer = self._middleware.process_request(asked)
            if isawaitable(answer):
                answer = await answer
        except IgnoreRequest:  # HTTPCACHE_IGNORE_MISSING
            return None
        if not isinstance(answer, Response):
            return None
        request.meta.update(asked.meta)
        return answer
