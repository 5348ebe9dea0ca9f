"""What of a request is judged: its URL, and whose robots.txt decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.utils.httpobj import urlparse_cached

from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.origin import origin_from, origin_of

if TYPE_CHECKING:
    from scrapy import Request


def judged(request: Request) -> tuple[str, str] | None:
    """Return the URL to judge and its origin; ``None``: *request* is exempt.

    The URL is ``meta["robotstxt_url"]`` where that is given, else the request's own.
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
        return url, origin
    parts = urlparse_cached(request)
    origin = origin_from(parts.scheme, parts.netloc)
    return None if origin is None else (request.url, origin)


def leave_behind(request: Request) -> None:
    """Drop what a redirect to another origin must not inherit.

    The slot would have this host asked at another one's pace, and a leave to ignore one
    site's robots.txt is no leave to ignore another's.
    """
    passed = request.meta.get("redirect_urls")
    if passed and origin_of(passed[-1]) != origin_of(request.url):
        request.meta.pop("download_slot", None)
        request.meta.pop("dont_obey_robotstxt", None)
