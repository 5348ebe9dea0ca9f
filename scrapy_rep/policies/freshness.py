"""For how long an answer may be used, from its headers (RFC 9309 2.4, RFC 9111)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.extensions.httpcache import parse_cachecontrol, rfc1123_to_epoch

if TYPE_CHECKING:
    from scrapy.http.headers import Headers

    from scrapy_rep.settings import Settings

# Directives after which a copy is not used past its lifetime, not even while it is
# being asked for again.
STRICT = frozenset({b"no-store", b"no-cache", b"must-revalidate"})
UNCACHED = frozenset({b"no-store", b"no-cache"})


def lifetime_and_grace(
    headers: Headers, now: float, settings: Settings
) -> tuple[float, float]:
    """Return for how many seconds an answer that came *now* is fresh, and may serve.

    The headers decide between REP_MIN_AGE and REP_MAX_AGE; without a word of theirs it
    is REP_MAX_AGE. ``s-maxage`` is for shared caches, and ignored. The second number is
    for how long the answer may serve in all while a refresh runs: REP_MAX_AGE, which by
    default is the 24 hours of RFC 9309 2.4, or the lifetime where the site is strict.
    """
    directives = parse_cachecontrol(b", ".join(headers.getlist(b"Cache-Control")))
    asked = _asked(headers, directives, now)
    if asked is None:
        asked = settings.max_age
    lifetime = min(max(asked, settings.min_age), settings.max_age)
    return lifetime, lifetime if directives.keys() & STRICT else settings.max_age


def _asked(
    headers: Headers, directives: dict[bytes, bytes | None], now: float
) -> float | None:
    if directives.keys() & UNCACHED:
        return 0.0
    age = _seconds(headers.get(b"Age")) or 0.0
    max_age = _seconds(directives.get(b"max-age"))
    if max_age is not None:
        return max_age - age
    expires = headers.get(b"Expires")
    if expires is None:
        return None
    # RFC 9111 5.3: an Expires that is no date means "already expired".
    expires_at = rfc1123_to_epoch(expires)
    return 0.0 if expires_at is None else expires_at - _site_time(headers, now) - age


def depends_on_agent(headers: Headers) -> bool:
    """Tell whether an answer serves only requests with the same User-Agent.

    RFC 9111 4.1. Of what Vary may name, that alone differs between the requests for
    robots.txt of one crawl; with ``*`` it is taken to.
    """
    named = b",".join(headers.getlist(b"Vary")).lower().split(b",")
    return any(name.strip() in {b"user-agent", b"*"} for name in named)


def retry_after(headers: Headers, now: float) -> float:
    """Return the seconds that Retry-After asks for; 0 where it does not.

    RFC 9110 10.2.3: a whole number of seconds, or a date, which is taken by the clock of
    the site where that has dated its answer. *now* is in seconds since 1970.
    """
    value = headers.get(b"Retry-After") or b""
    seconds = _seconds(value)
    if seconds is None:
        at = rfc1123_to_epoch(value)
        if at is None:
            return 0.0
        age = _seconds(headers.get(b"Age")) or 0.0
        seconds = at - _site_time(headers, now) - age
    return max(0.0, seconds)


def _site_time(headers: Headers, now: float) -> float:
    """Return the Date of an answer, in seconds since 1970; *now* where it has none."""
    dated = rfc1123_to_epoch(headers.get(b"Date") or b"")
    return now if dated is None else dated


def _seconds(value: bytes | None) -> float | None:
    digits = (value or b"").strip().strip(b'"')
    # More digits than this is more than a century, and slow to read.
    return float(digits[:10]) if digits.isdigit() else None
