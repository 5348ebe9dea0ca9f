"""For how long an answer may be used, from its header fields (RFC 9309 2.4, RFC 9111)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.access.header_fields import all_values, first_value
from scrapy_rep.protocol.patterns import compiled

if TYPE_CHECKING:
    from scrapy.http.headers import Headers

    from scrapy_rep.access import HeaderFields
    from scrapy_rep.settings import Settings

# Directives after which an answer is not used past its lifetime, not even while it is
# being asked for again.
STRICT_DIRECTIVES = frozenset({"no-store", "no-cache", "must-revalidate"})
UNCACHED_DIRECTIVES = frozenset({"no-store", "no-cache"})
DIRECTIVE = r'([^\s,="]+)\s*(?:=\s*("(?:\\.|[^"\\])*"|[^,]*))?'
"""RFC 9111 5.2: a token, and for its argument another one or a quoted string."""
MAX_FIELD_LENGTH = 1000
"""Characters of a Cache-Control or an Expires that are read and kept."""
MAX_SECONDS = 2.0**31
"""Greater numbers count as this one, 68 years (RFC 9111 1.2.2)."""


class Terms(NamedTuple):
    """What an answer says about how long it may be used; empty: nothing."""

    cache_control: str = ""
    expires: str = ""

    @classmethod
    def of(cls, fields: HeaderFields) -> Terms:
        expires = ""
        if "expires" in fields:
            # RFC 9111 5.3: what is no date is in the past, "0" especially.
            expires = first_value(fields, "expires")[:MAX_FIELD_LENGTH].strip() or "0"
        return cls(
            all_values(fields, "cache-control")[:MAX_FIELD_LENGTH].strip(), expires
        )

    def after_304(self, newer: Terms) -> Terms:
        """Return these terms after a 304 with *newer* ones.

        Each field that was stored stays, unless the 304 has it (RFC 9111 3.2, 4.3.4).
        """
        return Terms(
            newer.cache_control or self.cache_control, newer.expires or self.expires
        )


def lifetime_and_grace(
    terms: Terms, fields: HeaderFields, now: float, settings: Settings
) -> tuple[float, float]:
    """Return for how many seconds an answer that came *now* is fresh, and may serve in all.

    *fields* are those of the answer. Its *terms* decide, between REP_MIN_AGE and REP_MAX_AGE;
    if they say nothing, it is REP_MAX_AGE. ``s-maxage`` is for shared caches, and ignored.
    The second number is for how long the answer may serve while a refresh runs: the lifetime
    if the site is strict, else REP_MAX_AGE, by default the 24 hours of RFC 9309 2.4.
    """
    directives = _directives(terms.cache_control)
    asked = _lifetime_asked_for(directives, terms.expires, fields, now)
    if asked is None:
        asked = settings.max_age
    lifetime = min(max(asked, settings.min_age), settings.max_age)
    return (
        lifetime,
        lifetime if directives.keys() & STRICT_DIRECTIVES else settings.max_age,
    )


def _directives(cache_control: str) -> dict[str, str]:
    """Return the directives with their arguments; if one comes twice, the first counts.

    RFC 9111 4.2.1 allows that. An argument may have both forms, token and string (5.2).
    """
    found: dict[str, str] = {}
    if cache_control:
        for name, argument in compiled(DIRECTIVE).findall(cache_control):
            found.setdefault(name.lower(), argument.strip(' \t"'))
    return found


def _lifetime_asked_for(
    directives: dict[str, str], expires: str, fields: HeaderFields, now: float
) -> float | None:
    if directives.keys() & UNCACHED_DIRECTIVES:
        return 0.0
    if "max-age" in directives:
        max_age = _seconds(directives["max-age"])
        # RFC 9111 4.2.1: what is no number of seconds makes the answer stale.
        return 0.0 if max_age is None else max_age - _age(fields)
    if not expires:
        return None
    expires_at = _epoch(expires)
    if expires_at is None:
        return 0.0
    return expires_at - _site_time(fields, now) - _age(fields)


def retry_after(fields: HeaderFields, now: float) -> float:
    """Return the seconds that Retry-After asks for; 0: it asks for none.

    RFC 9110 10.2.3: a whole number of seconds, or a date. A date is read by the clock of the
    site, if the answer has a Date. *now* is in seconds since 1970.
    """
    value = first_value(fields, "retry-after")
    seconds = _seconds(value)
    if seconds is None:
        at = _epoch(value)
        if at is None:
            return 0.0
        seconds = at - _site_time(fields, now) - _age(fields)
    return max(0.0, seconds)


def _age(fields: HeaderFields) -> float:
    # RFC 9111 5.1: of a list the first counts, and what is no number is ignored.
    return _seconds(first_value(fields, "age").partition(",")[0]) or 0.0


def _site_time(fields: HeaderFields, now: float) -> float:
    """Return the Date of an answer, in seconds since 1970; *now* if it has none."""
    dated = _epoch(first_value(fields, "date"))
    return now if dated is None else dated


def _epoch(date: str) -> float | None:
    if not date:
        return None
    from scrapy.extensions.httpcache import rfc1123_to_epoch  # noqa: PLC0415 - few need it

    at: float | None = rfc1123_to_epoch(date)
    return at


def _seconds(value: str) -> float | None:
    """Return *value* as delta-seconds (RFC 9111 1.2.2); ``None``: it is no such number."""
    digits = value.strip()
    if not (digits.isascii() and digits.isdigit()):
        return None
    return min(float(digits.lstrip("0")[:11] or "0"), MAX_SECONDS)


def fields_of(headers: Headers) -> dict[str, list[str]]:
    """Return the header fields of a response of Scrapy."""
    return {
        name.decode("latin-1").lower(): [value.decode("latin-1") for value in values]
        for name, values in dict.items(headers)
        if values
    }
