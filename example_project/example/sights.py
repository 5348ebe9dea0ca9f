"""What came of the requests for pages, host by host, and the table that shows it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy import signals

from scrapy_rep.signals import request_forbidden

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep import Verdict

WIDTH = 100
"""Columns of the table, at most."""

TITLES = [
    "host",
    "robots.txt",
    "asked",
    "sent",
    "refused",
    "delay",
    "gap",
    "why refused",
]
NUMBERS = {"asked", "sent", "fetched", "pages", "refused", "delay", "gap"}
"""Titles over columns that are aligned on the right."""


@dataclass
class Sight:
    """One host."""

    about: str = ""
    """What its robots.txt is like, where the example knows."""
    asked: int = 0
    """Requests that the spider made, redirects included, duplicates not."""
    sent: int = 0
    refused: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    delay: float | None = None
    """Seconds between two requests that the host asks for."""
    starts: list[float] = field(default_factory=list)
    """When requests were sent, in seconds of a steady clock."""

    @property
    def smallest_gap(self) -> float | None:
        return smallest_gap(self.starts)


class Sights:
    """Counts from the signals of Scrapy and scrapy_rep; a robots.txt is not counted."""

    def __init__(self, crawler: Crawler) -> None:
        self.by_origin: dict[str, Sight] = {}
        connect = crawler.signals.connect
        connect(self._scheduled, signals.request_scheduled)
        connect(self._dropped, signals.request_dropped)
        connect(self._reached_downloader, signals.request_reached_downloader)
        connect(self._headers_received, signals.headers_received)
        connect(self._forbidden, request_forbidden)

    def of(self, url: str) -> Sight:
        parts = urlsplit(url)
        return self.by_origin.setdefault(f"{parts.scheme}://{parts.netloc}", Sight())

    def _scheduled(self, request: Request) -> None:
        self.of(request.url).asked += 1

    def _dropped(self, request: Request) -> None:
        self.of(request.url).asked -= 1  # it was asked for before

    def _reached_downloader(self, request: Request) -> None:
        if _is_page(request):
            self.of(request.url).sent += 1

    def _headers_received(self, request: Request) -> None:
        # Requests that reach the downloader may wait there for their turn; this is the
        # first signal after that, and the latency tells when the turn came.
        if _is_page(request):
            started = time.monotonic() - request.meta.get("download_latency", 0.0)
            self.of(request.url).starts.append(started)

    def _forbidden(self, request: Request, verdict: Verdict) -> None:
        sight = self.of(request.url)
        sight.refused += 1
        rule = verdict.rule
        if rule is None:
            sight.reasons[verdict.reason] += 1
        else:
            sight.reasons[f"line {rule.line}: Disallow: {rule.path}"] += 1

    def table(self) -> str:
        """Return a line for each host, under a line of titles."""
        sights = self.by_origin.values()
        rows = [TITLES, *map(_row, names_of(list(self.by_origin)), sights)]
        if not any(sight.about for sight in sights):
            rows = [[name, *rest] for name, _, *rest in rows]
        return lay_out(rows)


def smallest_gap(times: list[float]) -> float | None:
    gaps = (later - earlier for earlier, later in pairwise(sorted(times)))
    return min(gaps, default=None)


def lay_out(rows: list[list[str]]) -> str:
    """Return *rows*, the first of them the titles, as a table of WIDTH at most."""
    aligned = []
    for title, *cells in zip(*rows, strict=True):
        width = max(map(len, [title, *cells]))
        adjust = str.rjust if title in NUMBERS else str.ljust
        aligned.append([adjust(cell, width) for cell in (title, *cells)])
    lines = ("  ".join(row).rstrip() for row in zip(*aligned, strict=True))
    return "\n".join(
        line if len(line) <= WIDTH else line[: WIDTH - 3] + "..." for line in lines
    )


def _is_page(request: Request) -> bool:
    return urlsplit(request.url).path != "/robots.txt"


def names_of(origins: list[str]) -> list[str]:
    """Return the shortest names that tell *origins* apart."""
    hosts = [urlsplit(origin).hostname or "" for origin in origins]
    netlocs = [urlsplit(origin).netloc for origin in origins]
    for names in (hosts, netlocs):
        if len(set(names)) == len(origins):
            return names
    return origins


def _row(name: str, sight: Sight) -> list[str]:
    return [
        name,
        sight.about,
        str(sight.asked),
        str(sight.sent),
        str(sight.refused),
        seconds(sight.delay, "g"),
        seconds(sight.smallest_gap, ".3f"),
        _why(sight.reasons),
    ]


def seconds(number: float | None, form: str) -> str:
    return "-" if number is None else f"{number:{form}} s"


def _why(reasons: Counter[str]) -> str:
    """Return the reason given most often, and how many others there are."""
    if not reasons:
        return ""
    reason, _ = reasons.most_common(1)[0]
    return reason if len(reasons) == 1 else f"{reason} (+{len(reasons) - 1})"
