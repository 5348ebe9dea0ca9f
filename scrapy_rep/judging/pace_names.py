"""What keeps one pace (REP_PACE_BY): a name for each request."""

from __future__ import annotations

import logging
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from scrapy_rep.judging.target import host_of
from scrapy_rep.protocol.printable import without_user

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.settings import Settings

    Namer = Callable[[Request], str]

logger = logging.getLogger("scrapy_rep")


def make_namer(settings: Settings, crawler: Crawler) -> Namer:
    """Return what tells whose pace a request of *crawler* keeps; an empty name: nobody's."""
    if settings.pace_by == "host":
        return host_of
    if settings.pace_by == "domain":
        return lambda request: domain_of(host_of(request))
    assert callable(settings.pace_by)
    return _safe(settings.pace_by, crawler)


@cache
def _extractor() -> Callable[[str], Any]:
    from tldextract import TLDExtract  # noqa: PLC0415 - few crawls need it

    # With the Public Suffix List that it brings along: nothing is fetched for it.
    return TLDExtract(suffix_list_urls=(), cache_dir=None)


@lru_cache(maxsize=4096)
def domain_of(host: str) -> str:
    """Return the registrable domain of *host*; *host* itself where it has none."""
    found = _extractor()(host)
    return f"{found.domain}.{found.suffix}" if found.domain and found.suffix else host


def _safe(name_of: Namer, crawler: Crawler) -> Namer:
    """Return *name_of*, but the host where that fails: a slower pace is none too many."""
    told = False

    def name(request: Request) -> str:
        nonlocal told
        error: Exception | None = None
        try:
            found = name_of(request)
            if isinstance(found, str) and found:
                return found
        except Exception as raised:  # noqa: BLE001 - whatever a user's function may raise
            error = raised
        if not told:
            told = True
            logger.error(
                "The function in REP_PACE_BY gave no name for %s, so that its host keeps a "
                "pace of its own, as all later ones do for which there is none",
                without_user(request.url),
                exc_info=error,
                extra={"spider": crawler.spider},
            )
        return host_of(request)

    return name
