"""Pages a second of whole crawls: with ours, with Scrapy's own, with none.

Run it with ``python -m tests.benchmarks.throughput [ROUNDS]``. 40 hosts of 75 pages that are
answered at once, by a server in a process of its own; a crawl is a process, too, and its
modules are compiled as those of an installed package are. All take turns, in an order that
changes from round to round, after a round that does not count. Measured between the first
and the last tenth: pages a second, by what arrived, and the CPU time of the crawl's process
for each page. The latter is the figure to trust where other processes run.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from statistics import median
from time import process_time
from typing import Any

from scrapy.crawler import AsyncCrawlerProcess

from tests.benchmarks.crawl import BUILT_IN, OURS, SETTINGS, Crawl
from tests.benchmarks.start import as_installed
from tests.benchmarks.web import Web

HOSTS = [f"127.0.1.{n}" for n in range(1, 41)]
PAGES, ROUNDS = 75, 5
ROBOTS = "User-agent: *\nDisallow: /private/\nDisallow: /*?sort=\n"
KINDS: dict[str, dict[str, Any]] = {"ours": OURS, "Scrapy's own": BUILT_IN, "none": {}}


class Timed(Crawl):
    """Notes the CPU time that its process has used at each page."""

    cpu: list[float] = []

    def parse(self, response):
        self.cpu.append(process_time())


def child(urls: list[str], settings: dict[str, Any]) -> None:
    """Crawl in this process, and print the seconds of CPU between the outer tenths."""
    process = AsyncCrawlerProcess(settings)
    Timed.urls = urls
    process.crawl(Timed)
    process.start()
    print(Timed.cpu[-len(urls) // 10] - Timed.cpu[len(urls) // 10])


def crawl(
    web: Web, settings: dict[str, Any], environ: dict[str, str]
) -> tuple[float, float]:
    """Return pages a second, and milliseconds of CPU for each page."""
    urls = [web.url(host, f"/{n}") for host in HOSTS for n in range(PAGES)]
    random.Random(1).shuffle(urls)
    web.arrivals()
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.throughput", "--child"],
        input=json.dumps([urls, {**SETTINGS, **settings}]),
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    times = sorted(
        at
        for hits in web.arrivals().values()
        for at, path in hits
        if path != "/robots.txt"
    )
    assert len(times) == len(urls)
    tenth = len(times) // 10
    middle = times[tenth:-tenth]
    cpu = float(done.stdout) / len(middle) * 1e3
    return len(middle) / (middle[-1] - middle[0]), cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rounds", nargs="?", type=int, default=ROUNDS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(*json.load(sys.stdin))
        return
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    order = list(KINDS)
    environ = as_installed()
    with Web(dict.fromkeys(HOSTS, ROBOTS), page=0.0) as web:
        for _ in range(1 + args.rounds):
            for kind in order:
                found[kind].append(crawl(web, KINDS[kind], environ))
            order.append(order.pop(0))
    for kind, rounds in found.items():
        del rounds[0]  # in which all was compiled
        rates, cpu = zip(*rounds, strict=True)
        print(
            f"{kind:16}{median(rates):8.0f} pages a second, {median(cpu):6.2f} ms CPU a page"
        )
    for other in ("Scrapy's own", "none"):
        pairs = list(zip(found["ours"], found[other], strict=True))
        rate = median(mine[0] / theirs[0] for mine, theirs in pairs)
        cpu_ratio = median(mine[1] / theirs[1] for mine, theirs in pairs)
        print(f"ours / {other}: {rate:.2f} of the pages, {cpu_ratio:.2f} of the CPU")


if __name__ == "__main__":
    main()
