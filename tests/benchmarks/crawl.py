"""Whole crawls side by side: what waiting hosts cost the others.

Run it with ``python -m tests.benchmarks.crawl``. In one run, 16 places:

- fast: 100 hosts of 20 pages that take 50 ms each, alone;
- mixed: the same with 40 hosts more, which ask for a delay, of 3 pages each;
- hanging: the fast ones with 32 hosts whose robots.txt never comes.

Each with our add-on, and mixed also with Scrapy's own middleware and queue, where a
handler sets the slots' delay by hand, as its documentation tells. All are judged by what
arrived at the sites.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

import scrapy
from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess

from tests.benchmarks.web import Web

FAST = [f"127.0.1.{n}" for n in range(1, 101)]
SLOW = [f"127.0.2.{n}" for n in range(1, 41)]
HANGING = [f"127.0.3.{n}" for n in range(1, 33)]
FAST_PAGES, SLOW_PAGES = 20, 3

SETTINGS: dict[str, Any] = {
    "LOG_LEVEL": "WARNING",
    "REMOTE_CONTROL_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "REP_UNREACHABLE_RETRY_DELAYS": [],
}
OURS: dict[str, Any] = {"ADDONS": {"scrapy_rep.Addon": 500}}
BUILT_IN: dict[str, Any] = {"ROBOTSTXT_OBEY": True}


class Crawl(scrapy.Spider):
    name = "crawl"
    urls: list[str] = []

    async def start(self):
        for url in self.urls:
            yield scrapy.Request(url, dont_filter=True)

    def parse(self, response):
        pass


class ByHand:
    """What one does about Crawl-delay with Scrapy alone."""

    def __init__(self, crawler):
        self.crawler = crawler
        crawler.signals.connect(self.parsed, signals.robots_parsed)

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    def parsed(self, robotparser, request):
        delay = robotparser.crawl_delay("*")
        if delay:
            downloader = self.crawler.engine.downloader
            _, slot = downloader._get_slot(request)
            slot.delay, slot.concurrency, slot.jitter = delay, 1, 0


def child(urls: list[str], settings: dict[str, Any]) -> None:
    process = AsyncCrawlerProcess(settings)
    Crawl.urls = urls
    process.crawl(Crawl)
    process.start()


def run(web: Web, hosts: dict[str, int], settings: dict[str, Any]) -> dict[str, Any]:
    """Crawl *hosts* in a process of its own; return what their sites saw."""
    urls = [
        web.url(host, f"/{n}") for host, pages in hosts.items() for n in range(pages)
    ]
    random.Random(1).shuffle(urls)
    task = json.dumps([urls, {**SETTINGS, **settings}])
    web.arrivals()
    subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.crawl", "--child"],
        input=task,
        text=True,
        check=True,
    )
    seen = {
        host: [(at, path) for at, path in hits] for host, hits in web.arrivals().items()
    }
    start = min(at for hits in seen.values() for at, _ in hits)
    pages = {
        h: [at for at, path in hits if path != "/robots.txt"]
        for h, hits in seen.items()
    }
    assert all(len(pages[h]) == n for h, n in hosts.items() if h not in HANGING)

    def done(group: list[str]) -> float:
        return (
            max((at for h in group for at in pages.get(h, [])), default=start) - start
        )

    gaps = [b - a for h in SLOW for a, b in pairwise(pages.get(h, []))]
    return {
        "fast": done(FAST),
        "slow": done(SLOW),
        "gap": min(gaps, default=0.0),
        "longest": max(gaps, default=0.0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--delay", type=float, default=10.0, help="Crawl-delay, in seconds"
    )
    args = parser.parse_args()
    if args.child:
        child(*json.load(sys.stdin))
        return
    robots: dict[str, str | None] = dict.fromkeys(FAST, "")
    robots |= dict.fromkeys(SLOW, f"User-agent: *\nCrawl-delay: {args.delay}\n")
    robots |= dict.fromkeys(HANGING, None)
    fast = dict.fromkeys(FAST, FAST_PAGES)
    mixed = fast | dict.fromkeys(SLOW, SLOW_PAGES)
    hanging = fast | dict.fromkeys(HANGING, 1)
    optimum = args.delay * SLOW_PAGES  # the robots.txt is a request, too
    by_hand: dict[str, Any] = {
        **BUILT_IN,
        "EXTENSIONS": {"tests.benchmarks.crawl.ByHand": 1},
    }
    print(f"Crawl-delay {args.delay:g} s; optimum of the slow hosts {optimum:g} s")
    print(
        f"{'':34}{'fast done':>10}{'x alone':>9}{'slow done':>11}{'x opt.':>8}{'gap':>9}"
    )
    with Web(robots) as web:
        alone = None
        for name, hosts, settings in [
            ("fast alone, ours", fast, OURS),
            ("fast alone, Scrapy's", fast, BUILT_IN),
            ("mixed, ours", mixed, OURS),
            ("hanging, ours", hanging, OURS),
            ("mixed, Scrapy's by hand", mixed, by_hand),
        ]:
            began = time.monotonic()
            seen = run(web, hosts, settings)
            alone = alone or seen["fast"]
            print(
                f"{name:34}{seen['fast']:9.2f}s{seen['fast'] / alone:9.2f}"
                f"{seen['slow']:10.2f}s{seen['slow'] / optimum:8.2f}{seen['gap']:8.3f}s"
                f"   ({time.monotonic() - began:.0f} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()
