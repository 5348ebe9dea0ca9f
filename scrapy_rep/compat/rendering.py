"""Converts between rules and lines, as other parsers take and return them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.protocol import pace_values
from scrapy_rep.protocol.decoding import show_octets
from scrapy_rep.protocol.fields import CRAWL_DELAY, REQUEST_RATE
from scrapy_rep.protocol.groups import groups_of, lines_of, paces_among, rules_among

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.protocol import Policy
    from scrapy_rep.protocol.groups import Section

PACE_FIELDS = {
    CRAWL_DELAY: ("Crawl-delay", pace_values.crawl_delay),
    REQUEST_RATE: ("Request-rate", pace_values.request_rate),
}


def join_lines(lines: str | Iterable[str]) -> str:
    """Return one text of *lines*, which are a text already, or lines with or without ends."""
    if isinstance(lines, str):
        return lines
    return "\n".join(line.rstrip("\r\n") for line in lines)


def write_policy(policy: Policy) -> str:
    """Return what *policy* understood, as a robots.txt: default groups last, no comments."""
    text = f"\n{policy}"
    groups = groups_of(text, policy.dialect)
    groups.sort(key=lambda group: any(section.agent == "*" for section in group))
    blocks = ["\n".join(_lines(text, group)) for group in groups]
    sitemaps = "\n".join(f"Sitemap: {url}" for url in policy.sitemaps)
    return "\n\n".join([*blocks, sitemaps] if sitemaps else blocks)


def _lines(text: str, group: list[Section]) -> Iterable[str]:
    for section in group:
        yield f"User-agent: {section.agent}"
        for field, value in paces_among(text, lines_of([section])):
            name, read = PACE_FIELDS.get(field, ("", None))
            if read is not None and read(value) is not None:
                yield f"{name}: {value}"
    rules = [
        rule
        for section in group
        for rule in rules_among(text[section.start : section.end])
    ]
    for allow, path in rules:
        yield f"{'Allow' if allow else 'Disallow'}: {show_octets(path)}"
    if not rules:
        yield "Disallow:"  # or the user-agent lines would belong to the next group
