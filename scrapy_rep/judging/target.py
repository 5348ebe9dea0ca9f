"""What of a request is judged: its URL, and whose robots.txt decides."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy.utils.httpobj import urlparse_cached

from scrapy_rep.access.origins import normal_origin, origin_from, origin_of
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.printable import without_user

if TYPE_CHECKING:
    from scrapy import Request

USUAL = ("https://", "http://")
LEAST = len("https://")
"""No slash before this one ends a host."""


def judged(request: Request) -> tuple[str, str] | None:
    """Return the URL to judge and its origin; ``None``: *request* is exempt.

    The URL is ``meta["robotstxt_url"]`` where that is given, else the request's own,
    without user and password, which no rule is about and nobody is to be told.
    Raises ``SettingError`` where it is given and has no origin.
    """
    meta = request.meta
    if meta.get("dont_obey_robotstxt"):
        return None
    if "robotstxt_url" in meta:
        url = meta["robotstxt_url"]
        origin = origin_of(url) if isinstance(url, str) else None
        if origin is None:
            raise SettingError(
                'meta["robotstxt_url"]', url, "an absolute http or https URL"
            )
        return without_user(url), origin
    url = request.url
    if url.startswith(USUAL):
        # A crawl has far fewer origins than pages. What is before the first slash that can
        # end a host parses to the same origin as the whole, and is looked up instead.
        end = url.find("/", LEAST)
        origin = _origin_of_start(url[:end] if end > 0 else url)
    else:
        origin = _origin_as_parsed(request)
    return None if origin is None else (without_user(url), origin)


@lru_cache(maxsize=4096)
def _origin_of_start(url: str) -> str | None:
    parts = urlsplit(url)
    origin = normal_origin(parts.scheme, parts.netloc)
    return url if url == origin else origin  # one str to keep rather than two


def _origin_as_parsed(request: Request) -> str | None:
    parts = urlparse_cached(request)
    return origin_from(parts.scheme, parts.netloc)


def leave_behind(request: Request) -> None:
    """Drop what a redirect to another origin must not inherit.

    The slot would have this host asked at another one's pace, and a leave to ignore one
    site's robots.txt is no leave to ignore another's.
    """
    passed = request.meta.get("redirect_urls")
    if passed and origin_of(passed[-1]) != origin_of(request.url):
        request.meta.pop("download_slot", None)
        request.meta.pop("dont_obey_robotstxt", None)
