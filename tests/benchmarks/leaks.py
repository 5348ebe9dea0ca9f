"""What a crawl of many hosts leaves behind, for ``tests/crawls/test_leaks.py``.

One process crawls a local web of hosts, whose robots.txt are of every kind. Twice in the crawl, and
once it is over and dropped, all objects are counted that the garbage collector knows, after all
garbage is collected.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import scrapy
from twisted.internet.base import DelayedCall, ReactorBase

from scrapy_rep.crawl import Crawl
from scrapy_rep.frontier import places
from scrapy_rep.pacing import hosts
from scrapy_rep.policies import lifecycle
from scrapy_rep.protocol import ruleset
from tests.benchmarks.web import serving
from tests.utils import crawl, make_crawler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONCURRENCY = 32
WARM_UP = 400
"""Hosts that are crawled before the first count: imports, caches, thread pools."""
PAGES = 2
TOLERATED = 0.02
"""So many objects of one type for each host, and SOME, are none for each host."""
SOME = 30
BOUNDED = {
    "functools._lru_list_elem": 4096 + 256,  # origins and agents, see the lru_caches
    "builtins.tuple": 100,  # also in what the interpreter keeps of code
    "ipaddress.IPv4Address": 2 * 128,  # whose properties have caches of their own
    # Of a hundred policies or so that the cache holds, some more or less.
    "scrapy_rep.protocol.groups.Section": 30,
    "scrapy_rep.protocol.policy.Verdict": 60,
    # Swept when there are more.
    "len(scrapy_rep.engine.inner.HandedOut._by_slot)": 2 * CONCURRENCY + 16,
}
"""What may grow up to a number, by design."""

KINDS: list[tuple[int, bytes, bytes]] = [
    (200, b"", b"User-agent: *\nDisallow: /0\n"),
    (200, b"", b"User-agent: *\nCrawl-delay: 0.1\n"),
    (200, b"Cache-Control: no-store\r\n", b"User-agent: *\nAllow: /*1$\n"),
    (404, b"", b"none"),
    (503, b"Retry-After: 1\r\n", b""),
    (301, b"Location: /elsewhere\r\n", b""),
    (200, b"Content-Encoding: gzip\r\n", b"not gzip"),
    (200, b"", b"User-agent: *\nDisallow: /\n# " + b"x" * 2000),
]
"""What the robots.txt of a host is answered with, in turn."""


def host(number: int) -> str:
    return f"127.{1 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}"


def number_of(address: str) -> int:
    _, a, b, c = map(int, address.split("."))
    return (a - 1) * 62_500 + b * 250 + c - 1


def everywhere(kinds: list[tuple[int, bytes, bytes]] = KINDS) -> Any:
    """Return a context: a web server at all addresses of 127.0.0.0/8, in a process of its own."""
    return serving(_serve, kinds)


async def _serve(
    told: Callable[[int], None], kinds: list[tuple[int, bytes, bytes]]
) -> None:
    server = await asyncio.start_server(partial(_talk, kinds), "0.0.0.0", 0)
    told(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _talk(
    kinds: list[tuple[int, bytes, bytes]],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        number = number_of(writer.get_extra_info("sockname")[0])
        status, headers, body = 200, b"", b"<html>page</html>"
        if head.startswith(b"GET /robots.txt "):
            status, headers, body = kinds[number % len(kinds)]
        elif head.startswith(b"GET /elsewhere "):
            body = b"User-agent: *\nDisallow: /1\n"
        writer.write(
            b"HTTP/1.1 %d X\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s"
            % (status, headers, len(body), body)
        )
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


@dataclass
class Count:
    """What there is at one moment."""

    types: Counter[str] = field(default_factory=Counter)
    """Objects that the garbage collector knows, by type."""
    ours: Counter[str] = field(default_factory=Counter)
    """The same, of this package; of its containers, the length of the longest."""

    @classmethod
    def now(cls) -> Count:
        gc.collect()
        count = cls()
        for thing in gc.get_objects():
            kind = type(thing)
            if kind is DelayedCall and not thing.active():
                continue  # event loops keep some of those that are cancelled
            if kind is MethodType and isinstance(thing.__self__, ReactorBase):
                continue  # and these are what such a call has of its reactor
            name = f"{kind.__module__}.{kind.__qualname__}"
            count.types[name] += 1
            if not name.startswith("scrapy_rep."):
                continue
            count.ours[name] += 1
            for attribute, value in _attributes(thing):
                if isinstance(value, (list, dict, set, tuple)):
                    name_of_it = f"len({name}.{attribute})"
                    count.ours[name_of_it] = max(count.ours[name_of_it], len(value))
        return count


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(thing, "__dict__", {}).items()
    for cls in type(thing).__mro__:
        for name in getattr(cls, "__slots__", ()):
            if hasattr(thing, name):
                yield name, getattr(thing, name)


class Hosts(scrapy.Spider):
    """Visits each host, and counts when half of them were, and at the end."""

    name = "hosts"

    def __init__(self, hosts: int, port: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hosts, self.port = hosts, port
        self.answered: set[str] = set()
        self.counts: list[Count] = []

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.idle, scrapy.signals.spider_idle)
        return spider

    def requests(self, numbers):
        for number in numbers:
            for page in range(PAGES):
                yield scrapy.Request(
                    f"http://{host(number)}:{self.port}/{page}",
                    errback=self.refused,
                    dont_filter=True,
                )

    async def start(self):
        for request in self.requests(range(self.hosts // 2)):
            yield request

    def idle(self):
        # As Scrapy does every minute with slots that were idle for as long.
        self.crawler.engine.downloader._slot_gc(age=0)
        shared: Any = Crawl.of(self.crawler)
        # As it does now and then, of those that were idle long enough.
        kept, hosts.IDLE_HOST_SECONDS = hosts.IDLE_HOST_SECONDS, 0.0
        hosts.HOSTS.sweep()
        hosts.IDLE_HOST_SECONDS = kept
        # What waits to be swept differs from run to run.
        shared.waits.queue.sweep()
        self.counts.append(Count.now())
        if len(self.counts) == 1:
            for request in self.requests(range(self.hosts // 2, self.hosts)):
                self.crawler.engine.crawl(request)
            raise scrapy.exceptions.DontCloseSpider

    def parse(self, response):
        self.answered.add(response.url)

    def refused(self, failure):
        pass


SETTINGS: dict[str, Any] = {
    "CONCURRENT_REQUESTS": CONCURRENCY,
    "REP_UNREACHABLE_RETRY_DELAYS": [0.1],
    "REP_MIN_AGE": 0.5,
    "REP_CACHE_BYTES": 200_000,  # so that it is full soon
}


def growth(before: Counter[str], after: Counter[str], hosts: int) -> dict[str, int]:
    """Return what grew with *hosts*, by name."""
    grown = {}
    for name, number in after.items():
        more = number - before[name]
        if more > SOME + TOLERATED * hosts + BOUNDED.get(name, 0):
            grown[name] = more
    return grown


@dataclass
class Found:
    stats: dict[str, Any]
    pages: int
    counts: list[Count]
    """Before the crawl, when half was done, at its end, and when it was over."""
    grown: dict[str, int]


async def look(hosts: int) -> Found:
    """Crawl so many hosts, and tell what grew with them."""
    # Of many hosts, more than are remembered before half is done.
    most = max(30, hosts // 10)
    with (
        everywhere() as port,
        patch.object(lifecycle, "LEAST_FALLEN", 400 * most),
        patch.object(places, "MOST_STARTS", most // 2),
        patch.object(ruleset, "MAX_RECENT", most // 2),
    ):
        await crawl(make_crawler(Hosts, **SETTINGS), hosts=WARM_UP, port=port)
        before = Count.now()
        crawler = make_crawler(Hosts, **SETTINGS)
        await crawl(crawler, 3600.0, hosts=hosts, port=port)
        half, end = crawler.spider.counts
        stats = dict(crawler.stats.get_stats())
        pages = len(crawler.spider.answered)
        del crawler
        after = Count.now()
    grown = growth(half.ours, end.ours, hosts // 2)
    grown |= growth(before.types, after.types, hosts)
    return Found(stats, pages, [before, half, end, after], grown)
