"""When a request leaves the crawl, told to the site with the request itself.

A site of the tests notes arrivals as late as the machine lets it, so two of them may look
closer than they were sent. What a crawl promises is told by the times of sending.
"""

from __future__ import annotations

from functools import wraps
from time import monotonic
from typing import Any

from scrapy.utils.misc import build_from_crawler, load_object

SENT = "X-Sent"
"""The header that has ``time.monotonic()``, which the processes of a machine share."""


class Stamping:
    """For DOWNLOAD_HANDLERS: makes Scrapy's own handler, which stamps what it is given."""

    lazy = True
    path: str | None = None
    """Of the handler that it makes; None: of Scrapy's default."""

    @classmethod
    def from_crawler(cls, crawler: Any) -> Any:
        default = crawler.settings["DOWNLOAD_HANDLERS_BASE"]["http"]
        own = load_object(cls.path or default)
        handler: Any = build_from_crawler(own, crawler)
        download = handler.download_request

        @wraps(download)
        async def download_request(request: Any) -> Any:
            request.headers[SENT] = repr(monotonic())
            return await download(request)

        handler.download_request = download_request
        return handler


STAMPED = {"DOWNLOAD_HANDLERS": dict.fromkeys(("http", "https"), "tests.wire.Stamping")}
"""Settings of a crawl whose sites are to know when each request was sent."""
