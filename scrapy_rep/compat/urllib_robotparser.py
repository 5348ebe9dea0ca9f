"""The interface of ``urllib.robotparser``, with the decisions of RFC 9309, and what all drop-ins share."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.robotparser import RequestRate

from scrapy_rep.compat.urllib_fetch import fetch
from scrapy_rep.protocol import RFC9309, Policy, parse
from scrapy_rep.protocol.answers import Access
from scrapy_rep.protocol.decoding import show_octets
from scrapy_rep.protocol.groups import statements
from scrapy_rep.protocol.language import PACE_VALUES, VISIT_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_rep.protocol import Dialect
    from scrapy_rep.protocol.groups import Asked


class Face:
    """Its answers are those of one policy."""

    __slots__ = ()

    policy: Policy

    @property
    def sitemaps(self) -> list[str]:
        """As written."""
        return list(self.policy.sitemaps)

    def __str__(self) -> str:
        """A robots.txt of what was understood: default groups last, no comments."""
        groups, sitemaps = statements(f"\n{self.policy}", self.policy.dialect)
        default_last = sorted(groups, key=lambda group: "*" in dict(group[0]))
        blocks = ["\n".join(_lines(*group)) for group in default_last]
        blocks.append("\n".join(f"Sitemap: {url}" for url in sitemaps))
        return "\n\n".join(filter(None, blocks))


class DatedFace(Face):
    """With a URL and a date, as ``urllib.robotparser`` has them."""

    def __init__(self, url: str = "") -> None:
        self.last_checked = 0.0
        self.set_url(url)

    def set_url(self, url: str) -> None:
        """It is an absolute http or https URL."""
        self.url = url

    def mtime(self) -> float:
        """When ``modified`` was called last, in seconds since 1970; 0: never."""
        return self.last_checked

    def modified(self) -> None:
        self.last_checked = time.time()


def unread(dialect: Dialect) -> Policy:
    """Before anything was read nothing is allowed (RFC 9309 2.3.1.4)."""
    return Policy.disallow_all("robots.txt was not read yet", dialect=dialect)


def join_lines(lines: str | Iterable[str]) -> str:
    """Lines may have ends."""
    if isinstance(lines, str):
        return lines
    return "\n".join(line.rstrip("\r\n") for line in lines)


def _lines(agents: Iterable[Asked], rules: Iterable[tuple[bool, str]]) -> Iterator[str]:
    for agent, paces in agents:
        yield f"User-agent: {agent}"
        for field, value in paces:
            if field != VISIT_TIME and PACE_VALUES[field](value) is not None:
                yield f"{field.capitalize()}: {value}"
    # Without a rule the user-agent lines would belong to the next group.
    for allow, path in rules or [(False, "")]:
        yield f"{'Allow' if allow else 'Disallow'}: {show_octets(path)}".rstrip()


class RobotFileParser(DatedFace):
    """Answers questions about the robots.txt at one URL.

    A useragent is a product token or a whole User-Agent header. ``disallow_all`` and ``allow_all``
    may be set by hand: they win over the rules until the next ``read`` or ``parse``.
    """

    def __init__(self, url: str = "") -> None:
        self.disallow_all = False
        self.allow_all = False
        self.policy = unread(RFC9309)
        self._copy_of: str | None = None
        super().__init__(url)

    def set_url(self, url: str) -> None:
        super().set_url(url)
        parts = urlsplit(url)
        self.host, self.path = parts.netloc, parts.path

    def read(self) -> None:
        """Fetch the robots.txt and take its rules.

        Nothing that the site does is raised. If the file cannot be fetched, nothing is allowed
        (RFC 9309 2.3.1.4), unless an earlier ``read`` of the same URL brought rules: they stay, and so
        does ``mtime``. Raises ``ValueError`` if the URL is not an absolute http or https URL.
        """
        answer = fetch(self.url)
        if answer.access is Access.UNREACHABLE and self._copy_of == self.url:
            return
        self.policy = answer.policy()
        self._copy_of = None
        self.allow_all = answer.access is Access.UNAVAILABLE
        self.disallow_all = answer.access in {Access.DENIED, Access.UNREACHABLE}
        if answer.access is Access.SUCCESSFUL:
            self._copy_of = self.url
            self.modified()

    def parse(self, lines: Iterable[str]) -> None:
        """With or without line ends."""
        self.policy = parse(join_lines(lines))
        self._copy_of = None
        self.allow_all = self.disallow_all = False
        self.modified()

    def can_fetch(self, useragent: str, url: str) -> bool:
        """Nothing is allowed before there are rules."""
        if self.disallow_all:
            return False
        return self.allow_all or self.policy.allowed(url, useragent)

    def crawl_delay(self, useragent: str) -> float | None:
        """In seconds, an ``int`` where it is whole; ``None``: there is none."""
        delay = self.policy.crawl_delay(useragent)
        return int(delay) if delay is not None and delay.is_integer() else delay

    def request_rate(self, useragent: str) -> RequestRate | None:
        rate = self.policy.request_rate(useragent)
        return None if rate is None else RequestRate(rate.requests, int(rate.seconds))

    def site_maps(self) -> list[str] | None:
        """Or ``None``: there are none."""
        return self.sitemaps or None
