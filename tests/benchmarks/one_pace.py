"""Whether a host keeps one pace, by whatever way it is asked: the arrivals at its site.

Run it with ``python -m tests.benchmarks.one_pace [--delay SECONDS]``; it takes some three
minutes, and needs a Redis server's program for the fleet. For each way, the requests that
arrived, robots.txt included, the gaps between two of them that are shorter than 0.98 of what
was asked for, and the smallest gap, as a part of that. On a busy machine arrivals may be
noted late, and gaps look shorter than they were.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

import scrapy
from scrapy import crawler

from tests.benchmarks.web import Web
from tests.redis_server import RedisServer
from tests.utils import SCRAPYS

HOST = "127.0.1.1"
OTHERS = [f"127.0.2.{n}" for n in range(1, 41)]
PAGES = 10
KEPT = 0.98
SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_rep.Addon": 500},
    "LOG_LEVEL": "ERROR",
    "REMOTE_CONTROL_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
}
SPREADING = {
    "DOWNLOADER_MIDDLEWARES": {"tests.benchmarks.one_pace.Spreading": 610},
}
WITH_SCRAPYS = {"SCHEDULER": SCRAPYS}


class Crawl(scrapy.Spider):
    """Asks for *urls*, over so many *slots*; its callbacks *hold* the event loop."""

    name = "crawl"

    def __init__(
        self, urls: list[str], hold: float = 0.0, slots: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.urls, self.hold, self.slots = urls, hold, slots

    async def start(self):
        for number, url in enumerate(self.urls):
            meta = (
                {"download_slot": f"slot {number % self.slots}"} if self.slots else {}
            )
            yield scrapy.Request(url, meta=meta, dont_filter=True)

    def parse(self, response):
        time.sleep(self.hold)


class Spreading:
    """Sets the slot where the gate has judged already, as rotating proxies do."""

    number = 0

    def process_request(self, request):
        self.number += 1
        request.meta["download_slot"] = f"proxy {self.number % 5}"


def child(kind: str, settings: dict[str, Any], crawls: list[dict[str, Any]]) -> None:
    process = getattr(crawler, kind)(settings)
    for arguments in crawls:
        process.crawl(Crawl, **arguments)
    process.start()


def start(
    crawls: list[dict[str, Any]],
    settings: dict[str, Any] | None = None,
    kind: str = "AsyncCrawlerProcess",
) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.one_pace", "--child"],
        stdin=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    json.dump([kind, SETTINGS | (settings or {}), crawls], process.stdin)
    process.stdin.close()
    return process


class Ways:
    """A row of the table for each method's call."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        robots = f"User-agent: *\nCrawl-delay: {delay}\n"
        self.robots: dict[str, str | None] = {HOST: robots}
        self.held = True

    def web(self, **how: Any) -> Web:
        return Web(self.robots | dict.fromkeys(OTHERS, ""), page=0.0, **how)

    def urls(self, web: Web, first: int = 0) -> list[str]:
        return [web.url(HOST, f"/{n}") for n in range(first, first + PAGES)]

    def tell(self, way: str, web: Web, *processes: subprocess.Popen[str]) -> None:
        for process in processes:
            assert process.wait() == 0
        times = sorted(at for at, _ in web.arrivals()[HOST])
        gaps = [b - a for a, b in pairwise(times)]
        short = sum(gap < KEPT * self.delay for gap in gaps)
        self.held = self.held and not short
        print(
            f"{way:54}{len(times):9}{short:7}{min(gaps) / self.delay:10.3f}", flush=True
        )

    def in_one_process(self) -> None:
        with self.web() as web:
            for kind in ("CrawlerProcess", "AsyncCrawlerProcess"):
                crawls = [{"urls": self.urls(web, n)} for n in (0, PAGES)]
                self.tell(f"two spiders, {kind}", web, start(crawls, kind=kind))

    def over_slots(self) -> None:
        with self.web() as web:
            urls = self.urls(web)
            spread = start([{"urls": urls, "slots": 5}])
            self.tell("download_slot, by the spider", web, spread)
            spread = start([{"urls": urls}], SPREADING)
            self.tell("download_slot, by a middleware at 610", web, spread)
            spread = start([{"urls": urls}], SPREADING | WITH_SCRAPYS)
            self.tell("the same, without the polite queue", web, spread)

    def closed(self) -> None:
        with self.web(closes="kept") as web:
            self.tell(
                "kept connections are closed on the request",
                web,
                start([{"urls": self.urls(web)}]),
            )

    def moved(self) -> None:
        with self.web(moved=dict.fromkeys(OTHERS, HOST)) as web:
            urls = [web.url(host, "/") for host in OTHERS]
            crawls = [{"urls": urls + self.urls(web)[:2]}]
            self.tell("40 robots.txt that redirect to one", web, start(crawls))

    def fleet(self) -> None:
        with RedisServer() as server, self.web() as web:
            settings = {"REP_FLEET": server.url}
            busy = {"urls": self.urls(web), "hold": 1.1 * self.delay}
            other = {"urls": self.urls(web, PAGES)}
            self.tell(
                "a fleet of two, one of them busy",
                web,
                start([busy], settings),
                start([other], settings),
            )

    def holding(self) -> None:
        with self.web(closes="all") as web:
            urls = self.urls(web)
            urls += [web.url(host, f"/{n}") for host in OTHERS[:5] for n in range(20)]
            crawls = [{"urls": urls, "hold": 0.2}]
            self.tell("callbacks of 200 ms, new connections", web, start(crawls))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--delay", type=float, default=1.0, help="in seconds")
    args = parser.parse_args()
    if args.child:
        child(*json.load(sys.stdin))
        return 0
    load = os.getloadavg()[0]
    print(f"Crawl-delay {args.delay:g} s; load {load:.1f} on {os.cpu_count()} cores")
    print(f"{'way':54}{'requests':>9}{'short':>7}{'smallest':>10}")
    ways = Ways(args.delay)
    ways.in_one_process()
    ways.over_slots()
    ways.closed()
    ways.moved()
    ways.fleet()
    ways.holding()
    return 0 if ways.held else 1


if __name__ == "__main__":
    sys.exit(main())
