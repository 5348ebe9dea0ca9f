"""What of a request is judged: its URL, and whose robots.txt decides."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.utils.httpobj import urlparse_cached

from scrapy_rep.access.origins import normal_origin, origin_from, origin_of
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.printable import without_user

if TYPE_CHECKING:
    from scrapy_rep.engine import Engine

HTTP_PREFIXES = ("https://", "http://")
HOST_START = len("https://")
"""No slash before this one ends a host."""
UNKNOWN = ""
"""In the place of an origin that the start of a URL does not tell."""
INSTEAD_KEY, EXEMPT_KEY, SLOT_KEY = (
    "robotstxt_url",
    "dont_obey_robotstxt",
    "download_slot",
)
"""The meta keys that are said of a request's own origin."""
NOTE_KEY = "rep_said_of"
"""The meta key of the URL of which that was said, with what INSTEAD and EXEMPT were, if
one of them was there; where the gate has let it go unjudged for another reason, that reason stands
in the place of EXEMPT."""
NO_ORIGIN, PASSED_BY = "no_origin", "passed_by"
"""Why a request was not judged, beside EXEMPT_KEY and what the gate gives."""


def judged(url: str, meta: dict[str, Any]) -> tuple[str, str] | None:
    """Return the URL to judge and its origin; ``None``: the request is exempt.

    *url* and *meta* are those of the request. The URL to judge is
    ``meta["robotstxt_url"]`` where that is given, else *url*, without user and password,
    which no rule is about and nobody is to be told. Raises ``SettingError`` where it is
    given and has no origin.
    """
    if meta:
        if meta.get(EXEMPT_KEY):
            return None
        if INSTEAD_KEY in meta:
            return _judged_instead(meta[INSTEAD_KEY])
    # A crawl has far fewer origins than pages. What is before the first slash that can end
    # a host parses to the same origin as the whole, and is looked up instead.
    end = url.find("/", HOST_START)
    origin = _origin_of_start(url[:end]) if end > 0 else UNKNOWN
    if origin is UNKNOWN:
        parts = urlsplit(url)
        origin = origin_from(parts.scheme, parts.netloc)
    if origin is None:
        return None
    return without_user(url) if "@" in url else url, origin


@lru_cache(maxsize=4096)
def _origin_of_start(url: str) -> str | None:
    """Return the origin of all URLs that begin with *url*; ``UNKNOWN``: they may differ."""
    if not url.startswith(HTTP_PREFIXES):
        return UNKNOWN
    parts = urlsplit(url)
    origin = normal_origin(parts.scheme, parts.netloc)
    return url if url == origin else origin  # one str to keep rather than two


def _judged_instead(url: Any) -> tuple[str, str]:
    origin = origin_of(url) if isinstance(url, str) else None
    if origin is None:
        raise SettingError(
            'meta["robotstxt_url"]', url, "an absolute http or https URL"
        )
    return without_user(url), origin


def host_of(request: Request) -> str:
    """Return the host of which a request asks something; empty: of none.

    Behind a rendering service that is the target's: that of ``meta["robotstxt_url"]``.
    """
    url = request.url
    instead = request.meta.get(INSTEAD_KEY)
    if instead is not None and isinstance(instead, str):
        url = instead
    if url.startswith(HTTP_PREFIXES):
        end = url.find("/", HOST_START)
        return _host_of_start(url[:end] if end > 0 else url)
    return _host_in(url) if url is instead else urlparse_cached(request).hostname or ""


@lru_cache(maxsize=4096)
def _host_of_start(url: str) -> str:
    return _host_in(origin_of(url) or url)


def _host_in(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def note_origin(url: str, meta: dict[str, Any], unjudged: str | None = None) -> None:
    """Note on *meta*, that of a request for *url*, whose it is, as others may copy it.

    *unjudged* tells why it is not judged, where that does not stand in its meta.
    """
    noted: Any = url
    if unjudged or (meta and (INSTEAD_KEY in meta or EXEMPT_KEY in meta)):
        noted = noted, meta.get(INSTEAD_KEY), unjudged or meta.get(EXEMPT_KEY)
    meta[NOTE_KEY] = noted


def how_judged(url: str, meta: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return why a request that is sent was not judged, and by which URL it was.

    Both are ``None`` for most: judged by their own. *url* and *meta* are those of the request.
    """
    noted = meta.get(NOTE_KEY)
    if noted is not None and not isinstance(noted, str):
        noted, instead, exempt = noted
    else:
        instead = exempt = None
    if noted != url:  # or it is another's, whose meta was copied
        return PASSED_BY, None
    if exempt:
        return exempt if isinstance(exempt, str) else EXEMPT_KEY, None
    if instead is not None:
        return None, without_user(instead)
    if url.startswith(HTTP_PREFIXES) or origin_of(url) is not None:
        return None, None
    return NO_ORIGIN, None


def leave_behind(request: Request, meta: dict[str, Any], engine: Engine) -> None:
    """Drop what was said of the origin from which *meta*, that of *request*, was copied.

    That is for a request to another origin: by a redirect, or where a callback passes
    ``meta=response.meta``. A leave to ignore one site's robots.txt, or to judge another
    URL, is no leave to do so elsewhere, and in the slot of one host another one would be
    asked at the wrong pace. What the spider has set since is meant for this request.
    """
    noted = meta.get(NOTE_KEY)
    if noted is None:
        return
    url, instead, exempt = (noted, None, None) if isinstance(noted, str) else noted
    if url == request.url or origin_of(url) == origin_of(request.url):
        return
    for key, value in ((INSTEAD_KEY, instead), (EXEMPT_KEY, exempt)):
        if meta.get(key) == value:
            meta.pop(key, None)
    # Scrapy writes the name of the host where nothing is set; under
    # CONCURRENT_REQUESTS_PER_IP that is its address, once it is known. A slot that the
    # user has chosen stays, but for a redirect, of which the user did not know.
    scrapys = urlsplit(url).hostname, engine.slot_of(Request(url))
    redirected = meta.get("redirect_urls", [])[-1:] == [url]
    if redirected or meta.get(SLOT_KEY) in scrapys:
        meta.pop(SLOT_KEY, None)
