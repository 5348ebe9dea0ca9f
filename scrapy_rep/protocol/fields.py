"""One line of robots.txt: its field and its value."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from scrapy_rep.protocol.decoding import show_octets
from scrapy_rep.protocol.patterns import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

USER_AGENT = "user-agent"
ALLOW = "allow"
DISALLOW = "disallow"
SITEMAP = "sitemap"
CRAWL_DELAY = "crawl-delay"
REQUEST_RATE = "request-rate"
VISIT_TIME = "visit-time"
CONTENT_USAGE = (
    "content-usage"  # not among those that are understood: see `preferences`
)
CONTENT_SIGNAL = "content-signal"

FIELD_NAMES = {
    name: name
    for name in (
        USER_AGENT,
        ALLOW,
        DISALLOW,
        SITEMAP,
        CRAWL_DELAY,
        REQUEST_RATE,
        VISIT_TIME,
    )
}
"""Every spelling that is understood, in lower case, and the field that it means."""

# Beyond RFC 9309: misspellings that sites are known for, those of google/robotstxt first.
MISSPELLINGS = {
    "dissallow": DISALLOW,
    "dissalow": DISALLOW,
    "disalow": DISALLOW,
    "diasllow": DISALLOW,
    "disallaw": DISALLOW,
    "useragent": USER_AGENT,
    "user agent": USER_AGENT,
    "site-map": SITEMAP,
    "site map": SITEMAP,
    "crawl delay": CRAWL_DELAY,
    "crawldelay": CRAWL_DELAY,
}
FIELD_NAMES |= MISSPELLINGS

# What means nothing at either end of a field or a value. RFC 9309 2.2 names space and tab.
# Beyond RFC 9309: so do all white space, controls and characters that cannot be seen, such
# as zero-width spaces, marks of direction and of byte order; in octets that are not UTF-8,
# the no-break space and the soft hyphen of ISO-8859-1.
BLANK_RANGES = (
    (0x0, 0x9), (0xB, 0x20), (0x7F, 0xA0), (0xAD, 0xAD), (0x61C, 0x61C), (0x1680, 0x1680),
    (0x180E, 0x180E), (0x2000, 0x200F), (0x2028, 0x202F), (0x205F, 0x2064), (0x2066, 0x206F),
    (0x3000, 0x3000), (0xFEFF, 0xFEFF), (0xDCA0, 0xDCA0), (0xDCAD, 0xDCAD),
)  # fmt: skip
"""The first and the last; without the line end."""
BLANK_CLASS = "".join(rf"\u{first:04x}-\u{last:04x}" for first, last in BLANK_RANGES)
# How often, in a pattern whose repeated part nothing that follows can begin with: to try fewer
# would be in vain. Without this it is, for every octet of a wide margin.
ALL = "*+" if sys.version_info >= (3, 11) else "*"
LINE_MARGIN = rf"[{BLANK_CLASS}]{ALL}"  # at the beginning of a line
BLANKS = "\n" + "".join(
    chr(number) for first, last in BLANK_RANGES for number in range(first, last + 1)
)
BLANKS_OF_ASCII = "".join(filter(str.isascii, BLANKS))
SITEMAP_LINE = rf"(?ai)\n{LINE_MARGIN}site[- ]?map[^\n]*"
WORD_GAP = re.compile(r"[ \t]+")


def trim(text: str) -> str:
    """`text` without what means nothing at its ends."""
    text = text.strip(BLANKS_OF_ASCII)
    return text if text.isascii() else text.strip(BLANKS)


def split_record(line: str) -> tuple[str, str] | None:
    """Field name as written and value of a line, or None: no record, blank or a comment."""
    record = trim(line.partition("#")[0])
    name, colon, value = record.partition(":")
    name, value = trim(name), trim(value)
    if colon and (name.lower() in FIELD_NAMES or not WORD_GAP.search(name)):
        return name, value
    # Beyond RFC 9309: exactly two words are a record that lost its colon. If there is a colon
    # further on, the first word has to be a field, and more words are no matter as long as
    # that colon is the only one and looks like none behind a field.
    words = WORD_GAP.split(record, maxsplit=1)
    lost = len(words) == 2 and not WORD_GAP.search(words[1])
    if colon:
        within = ":" not in value and record.endswith(":" + value)
        lost = words[0].lower() in FIELD_NAMES and (lost or (within and value != ""))
    if lost:
        return trim(words[0]), trim(words[1])
    return (name, value) if colon else None


def field_and_value(line: str) -> tuple[str, str]:
    """Field, "" when it is none of ours, and value of a line."""
    record = split_record(line)
    if record is None:
        return "", ""
    return FIELD_NAMES.get(record[0].lower(), ""), record[1]


def sitemaps_in(text: str) -> Iterator[str]:
    """Value of every sitemap record; RFC 9309 2.2.4: they belong to no group."""
    for line in compiled(SITEMAP_LINE).findall(text):
        field, value = field_and_value(line)
        if field == SITEMAP and value:
            yield show_octets(value)
