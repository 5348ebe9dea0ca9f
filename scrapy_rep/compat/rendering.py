"""What the drop-ins have in common: a policy, questions to it, and rules as lines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scrapy_rep.protocol import Policy
from scrapy_rep.protocol.decoding import show_octets
from scrapy_rep.protocol.fields import CRAWL_DELAY, PACE_VALUES, REQUEST_RATE
from scrapy_rep.protocol.groups import groups_of, paces_among, rules_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.protocol import Dialect
    from scrapy_rep.protocol.groups import Section


class Face:
    """A parser with the interface of another one: its answers are those of one policy."""

    __slots__ = ()

    policy: Policy

    @property
    def sitemaps(self) -> list[str]:
        """Return the values of the Sitemap lines, as written."""
        return list(self.policy.sitemaps)

    def __str__(self) -> str:
        """Return what was understood, as a robots.txt."""
        return write_policy(self.policy)


class DatedFace(Face):
    """The same, with a URL and a date, as ``urllib.robotparser`` has them."""

    def __init__(self, url: str = "") -> None:
        self.last_checked = 0.0
        self.set_url(url)

    def set_url(self, url: str) -> None:
        """Set where the robots.txt is: an absolute http or https URL."""
        self.url = url

    def mtime(self) -> float:
        """Return when ``modified`` was called last, in seconds since 1970; 0: never."""
        return self.last_checked

    def modified(self) -> None:
        """Set ``mtime`` to now."""
        self.last_checked = time.time()


def unread(dialect: Dialect) -> Policy:
    """Return what holds before anything was read: nothing is allowed (RFC 9309 2.3.1.4)."""
    return Policy.disallow_all("robots.txt was not read yet", dialect=dialect)


def join_lines(lines: str | Iterable[str]) -> str:
    """Return one text of *lines*, which are a text already, or lines with or without ends."""
    if isinstance(lines, str):
        return lines
    return "\n".join(line.rstrip("\r\n") for line in lines)


def write_policy(policy: Policy) -> str:
    """Return what *policy* understood, as a robots.txt: default groups last, no comments."""
    text = f"\n{policy}"
    groups = groups_of(text, policy.dialect)
    groups.sort(key=lambda group: any(agent == "*" for agent, *_ in group))
    blocks = ["\n".join(_lines(text, group)) for group in groups]
    sitemaps = "\n".join(f"Sitemap: {url}" for url in policy.sitemaps)
    return "\n\n".join([*blocks, sitemaps] if sitemaps else blocks)


def _lines(text: str, group: list[Section]) -> Iterable[str]:
    for section in group:
        yield f"User-agent: {section[0]}"
        for field, value in paces_among(text, [section]):
            if (
                field in (CRAWL_DELAY, REQUEST_RATE)
                and PACE_VALUES[field](value) is not None
            ):
                yield f"{field.capitalize()}: {value}"
    rules = list(rules_of(text, group))
    for allow, path, _ in rules:
        yield f"{'Allow' if allow else 'Disallow'}: {show_octets(path)}"
    if not rules:
        yield "Disallow:"  # or the user-agent lines would belong to the next group
