"""The language of robots.txt: its dialects, its fields, and what their values mean.

No standard has Crawl-delay, Request-rate and Visit-time (RFC 9309 2.2.4 lets crawlers read them). A
value that is not in the form given here counts as not written.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, fields, replace
from datetime import time
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.decoding import show_octets

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one specification of robots.txt says where the specifications differ."""

    name: str

    most_specific: bool = True
    """The matching rule with the most octets decides, allow among equals (RFC 9309 2.2.2).
    False: the first matching rule in file order decides."""

    wildcards: bool = True
    """`*` and a final `$` are special in paths (RFC 9309 2.2.3). False: literal."""

    agents_as_substrings: bool = False
    """A user-agent line matches any agent that contains it. False: product tokens are
    compared whole (RFC 9309 2.2.1). Letter case never matters."""

    merges_groups: bool = True
    """All groups of an agent are one (RFC 9309 2.2.1). False: only the first counts."""

    blank_line_ends_group: bool = False
    """What follows a blank line belongs to no group until the next user-agent line."""

    any_record_ends_agents: bool = False
    """Crawl-delay or Sitemap between two user-agent lines separates them, as a rule does.
    False: only rules do (RFC 9309 2.2.4)."""

    empty_groups: bool = True
    """A group without rules counts, and allows everything. False: as if not written."""

    blank_rules_count: bool = False
    """An empty Disallow allows everything, an empty Allow nothing. False: no effect."""

    absolute_rules: bool = True
    """A rule that is a whole URL counts for the URLs of its origin, by its path and query."""

    resolves_dots: bool = True
    """A path with dot segments is also judged as a server resolves it, and refused if either
    form is."""

    index_is_directory: bool = True
    """`Allow: /a/index.html` allows `/a/` as well."""

    kept_apart: str = "/?#"
    """Characters of a path that differ from their percent-escapes; all others that may stand
    in a URI equal theirs."""

    kept_apart_in_query: str = "&=#"
    """The same after the first question mark."""

    compares_octets: bool = True
    """A rule may end, or go on behind a wildcard, within an escape: `/*%` matches `/a:`,
    which is `/a%3A` (RFC 9309 2.2.2). False: an escape is one character."""

    default_lifetime: float | None = None
    """Seconds a robots.txt stays fresh when its response does not say; None: the caller's
    choice."""

    deny_statuses: frozenset[int] = frozenset()
    """Response codes of the 4xx class that forbid the whole site."""

    def __reduce__(self) -> tuple[type[Dialect], tuple[object, ...]]:
        # What dataclasses has for a frozen class with slots sets attributes, which compiled code may not.
        return Dialect, tuple(getattr(self, each.name) for each in fields(self))


RFC9309 = Dialect("rfc9309")
"""RFC 9309, with the leniencies that are marked `Beyond RFC 9309` in this package."""

GYM2008 = Dialect(
    "gym2008",
    most_specific=False,
    agents_as_substrings=True,
    merges_groups=False,
    blank_line_ends_group=True,
    any_record_ends_agents=True,
    empty_groups=False,
    blank_rules_count=True,
    absolute_rules=False,
    resolves_dots=False,
    index_is_directory=False,
    kept_apart="/",
    kept_apart_in_query="/",
    compares_octets=False,
)
"""What Google, Yahoo and Microsoft agreed on in 2008: the older protocol plus wildcards."""

MK1996 = replace(
    GYM2008,
    name="mk1996",
    wildcards=False,
    default_lifetime=7 * 24 * 3600.0,
    deny_statuses=frozenset({401, 403}),
)
"""Martijn Koster's Internet-Draft of 1996, "A Method for Web Robots Control"."""


USER_AGENT = "user-agent"
ALLOW = "allow"
DISALLOW = "disallow"
SITEMAP = "sitemap"
CRAWL_DELAY = "crawl-delay"
REQUEST_RATE = "request-rate"
VISIT_TIME = "visit-time"
CONTENT_USAGE = "content-usage"  # read by `preferences`, as is the next one
CONTENT_SIGNAL = "content-signal"

# Beyond RFC 9309: misspellings that sites are known for, those of google/robotstxt first.
MISSPELLINGS = {
    **dict.fromkeys(
        ("dissallow", "dissalow", "disalow", "diasllow", "disallaw"), DISALLOW
    ),
    **dict.fromkeys(("useragent", "user agent"), USER_AGENT),
    **dict.fromkeys(("site-map", "site map"), SITEMAP),
    **dict.fromkeys(("crawl delay", "crawldelay"), CRAWL_DELAY),
}
FIELDS = (USER_AGENT, ALLOW, DISALLOW, SITEMAP, CRAWL_DELAY, REQUEST_RATE, VISIT_TIME)
FIELD_NAMES = {name: name for name in FIELDS} | MISSPELLINGS
"""Every spelling that is understood, in lower case."""

# What means nothing at the ends of a field or value. RFC 9309 2.2: space and tab. Beyond RFC 9309:
# all white space, controls, and what cannot be seen, such as zero-width spaces and marks of
# direction; in octets that are not UTF-8, that of ISO-8859-1.
BLANK_RANGES = (
    (0x0, 0x9), (0xB, 0x20), (0x7F, 0xA0), (0xAD, 0xAD), (0x61C, 0x61C), (0x1680, 0x1680),
    (0x180E, 0x180E), (0x2000, 0x200F), (0x2028, 0x202F), (0x205F, 0x2064), (0x2066, 0x206F),
    (0x3000, 0x3000), (0xFEFF, 0xFEFF), (0xDCA0, 0xDCA0), (0xDCAD, 0xDCAD),
)  # fmt: skip
"""First and last, without the line end."""
BLANK_CLASS = "".join(rf"\u{first:04x}-\u{last:04x}" for first, last in BLANK_RANGES)
# Possessive, for what is followed by nothing that it can begin with: else every octet of a wide
# margin would be tried in vain.
ALL = "*+" if sys.version_info >= (3, 11) else "*"
LINE_MARGIN = rf"[{BLANK_CLASS}]{ALL}"  # at the beginning of a line
BLANKS = "\n" + "".join(
    chr(number) for first, last in BLANK_RANGES for number in range(first, last + 1)
)
BLANKS_OF_ASCII = "".join(filter(str.isascii, BLANKS))
SITEMAP_LINE = rf"(?ai)\n{LINE_MARGIN}site[- ]?map[^\n]*"
WORD_GAP = re.compile(r"[ \t]+")


def trim(text: str) -> str:
    text = text.strip(BLANKS_OF_ASCII)
    return text if text.isascii() else text.strip(BLANKS)


def split_record(line: str) -> tuple[str, str] | None:
    """Name as written and value; None: no record."""
    record = trim(line.partition("#")[0])
    name, colon, value = record.partition(":")
    name, value = trim(name), trim(value)
    if colon and (name.lower() in FIELD_NAMES or not WORD_GAP.search(name)):
        return name, value
    # Beyond RFC 9309: exactly two words are a record that lost its colon. With a colon further on,
    # the first word has to be a field; more words do no harm if that colon is the only one and
    # looks like none behind a field.
    words = WORD_GAP.split(record, maxsplit=1)
    lost = len(words) == 2 and not WORD_GAP.search(words[1])
    if colon:
        within = ":" not in value and record.endswith(":" + value)
        lost = words[0].lower() in FIELD_NAMES and (lost or (within and value != ""))
    if lost:
        return trim(words[0]), trim(words[1])
    return (name, value) if colon else None


def field_and_value(line: str) -> tuple[str, str]:
    """The field is "" when it is none of ours."""
    record = split_record(line)
    if record is None:
        return "", ""
    return FIELD_NAMES.get(record[0].lower(), ""), record[1]


def sitemaps_in(text: str) -> Iterator[str]:
    """RFC 9309 2.2.4: they belong to no group."""
    for line in re.findall(SITEMAP_LINE, text):
        field, value = field_and_value(line)
        if field == SITEMAP and value:
            yield show_octets(value)


class RequestRate(NamedTuple):
    """At most `requests` requests in `seconds` seconds."""

    requests: int
    seconds: float
    start: time | None = None
    """UTC time of day from which the rate holds; None: the whole day."""
    end: time | None = None
    """UTC time of day until which it holds; before `start` when it spans midnight."""


class VisitTime(NamedTuple):
    """The part of the day in which visits are welcome, in UTC."""

    start: time
    end: time
    """Before `start` when the time spans midnight."""


NUMBER = r"(?a)\d+(?:\.\d*)?|\.\d+"
RATE = r"(?ai)(\d{1,18})[ \t]*/[ \t]*(\d{1,18})[ \t]*([smhd]?)(?:[ \t]+(\S.*))?"
# White space alone, as in "0200 0630", can only mean the hyphen.
TIME_SPAN = r"(?a)(\d\d):?(\d\d)(?:[ \t]*-[ \t]*|[ \t]+)(\d\d):?(\d\d)"
DAY = 86400.0
UNIT_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY}


def crawl_delay(value: str) -> float | None:
    """Seconds, "10" or "0.5"; None: anything else."""
    if re.fullmatch(NUMBER, value) is None:
        return None
    seconds = float(value)
    return seconds if isfinite(seconds) else None


def request_rate(value: str) -> RequestRate | None:
    """Such as "1/10s", "30/60m 0900-1700"; the unit is s, m, h, d or seconds."""
    found = re.fullmatch(RATE, value)
    if found is None:
        return None
    requests, seconds = int(found[1]), int(found[2]) * UNIT_SECONDS[found[3].lower()]
    if not requests or not seconds:
        return None
    if found[4] is None:
        return RequestRate(requests, seconds)
    window = visit_time(found[4])
    return None if window is None else RequestRate(requests, seconds, *window)


def visit_time(value: str) -> VisitTime | None:
    """Such as "0600-0845", or "2200-0300" past midnight."""
    found = re.fullmatch(TIME_SPAN, value)
    if found is None:
        return None
    hours, minutes, end_hours, end_minutes = found.groups()
    try:
        start = time_of_day(hours, minutes)
        return VisitTime(start, time_of_day(end_hours, end_minutes))
    except ValueError:  # there is no such time
        return None


class Paces(NamedTuple):
    delay: float | None
    rate: RequestRate | None
    visit: VisitTime | None


NO_PACES = Paces(None, None, None)


def paces_from(records: list[tuple[str, str]]) -> Paces:
    """The slowest of each, but the first time of day."""
    if not records:  # as in most files
        return NO_PACES
    delays = [crawl_delay(value) for field, value in records if field == CRAWL_DELAY]
    rates = [request_rate(value) for field, value in records if field == REQUEST_RATE]
    visits = [visit_time(value) for field, value in records if field == VISIT_TIME]
    return Paces(
        max((delay for delay in delays if delay is not None), default=None),
        max(
            filter(None, rates),
            key=lambda rate: rate.seconds / rate.requests,
            default=None,
        ),
        next(filter(None, visits), None),
    )


def time_of_day(hours: str, minutes: str) -> time:
    if hours + minutes == "2400":  # how people write the end of a day
        return time(0)
    return time(int(hours), int(minutes))


PACE_VALUES = {
    CRAWL_DELAY: crawl_delay,
    REQUEST_RATE: request_rate,
    VISIT_TIME: visit_time,
}
