"""What hosts that never answer for their robots.txt cost the others.

Run it with ``python -m tests.benchmarks.hanging``. One page of each of 40 quick hosts, after
so many that take a connection and say nothing; REP_TIMEOUT is 6 s. All times are from the
start of the crawl: of the first and the last quick page, as it arrived at its site. Beside
them, how many of those that hang had been asked before the first, which no other process
changes; and the most sockets and memory that the crawl took until the last.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import scrapy
from scrapy.crawler import AsyncCrawlerProcess

from tests.benchmarks.crawl import SETTINGS
from tests.benchmarks.web import Web
from tests.utils import SCRAPYS

QUICK = [f"127.0.1.{n}" for n in range(1, 41)]
NUMBERS = (0, 60, 300, 600)
SOCKETS = Path("/proc/self/fd")


class Crawl(scrapy.Spider):
    """Ends its process when it has the pages of the quick hosts."""

    name = "crawl"

    def __init__(self, urls: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.urls = urls
        self.began = time.monotonic()
        self.got = self.sockets = 0

    async def start(self):
        for url in self.urls:
            yield scrapy.Request(url, dont_filter=True)

    def parse(self, response):
        self.sockets = max(self.sockets, len(list(SOCKETS.iterdir())))
        self.got += 1
        if self.got == len(QUICK):
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(json.dumps([self.began, self.sockets, memory]), flush=True)
            os._exit(0)  # else it would wait for those that hang


def child(urls: list[str], settings: dict[str, Any]) -> None:
    process = AsyncCrawlerProcess(settings)
    process.crawl(Crawl, urls=urls)
    process.start()


def run(number: int, settings: dict[str, Any]) -> None:
    hanging = [f"127.0.{2 + n // 200}.{1 + n % 200}" for n in range(number)]
    with Web(dict.fromkeys(QUICK, "# fine") | dict.fromkeys(hanging), page=0.0) as web:
        urls = [web.url(host, "/") for host in hanging + QUICK]
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.hanging", "--child"],
            input=json.dumps([urls, SETTINGS | {"REP_TIMEOUT": 6} | settings]),
            capture_output=True,
            text=True,
            check=True,
        )
        began, sockets, memory = json.loads(done.stdout)
        arrivals = [
            (at - began, host in QUICK, path)
            for host, hits in web.arrivals().items()
            for at, path in hits
        ]
    pages = sorted(at for at, _, path in arrivals if path == "/")
    first, last = pages[0], pages[-1]
    before = sum(at < first for at, is_quick, _ in arrivals if not is_quick)
    print(
        f"{number:8}{first:12.2f} s{last:12.2f} s{before:10}{sockets:10}"
        f"{memory:8.0f} MiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().child:
        child(*json.load(sys.stdin))
        return
    ours: dict[str, Any] = {"ADDONS": {"scrapy_rep.Addon": 500}}
    for scheduler in ("scrapy_rep.Scheduler", SCRAPYS):
        print(
            f"\n{scheduler}\n{'hanging':>8}{'first page':>14}{'last page':>14}", end=""
        )
        print(f"{'before':>10}{'sockets':>10}{'memory':>12}")
        for number in NUMBERS:
            run(number, ours | {"SCHEDULER": scheduler})


if __name__ == "__main__":
    main()
