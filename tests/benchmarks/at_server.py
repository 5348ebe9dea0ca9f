"""The pace as a server sees it: gaps and rates at sites that are late, slow, or close.

Run it with ``python -m tests.benchmarks.at_server``; it takes some three minutes. For each case, the
smallest gap between two requests at the server, and the rate, as parts of the delay and of its
inverse. ``--tree FOLDER`` measures the code of another checkout; ``--only WORD`` some of the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import cycle
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import ssl

    from tests.site import Hit, Reply, Site

PAGES = 12
LEAST = 0.98
CHILD = f"import runpy; runpy.run_path({__file__!r}, run_name='__main__')"
"""Not by its path, whose folder has modules that are called like those of Python."""
SLOWEST = 10.0


class Case(NamedTuple):
    """What is special about a site, or about the crawl."""

    delay: float
    accepts: tuple[float, ...] = (0.0,)
    """For how many seconds each connection, or handshake, waits; or at random up to."""
    thinks: tuple[float, ...] = (0.0,)
    tls: bool = False
    body: float = 0.0
    """Seconds that each body takes."""
    closes: str = ""
    """"kept": a second request over a connection is not answered; "all": one request each."""
    stalls: float = 0.0
    """Seconds for which each callback holds the event loop."""
    random: bool = False


CASES = {
    "quick, 1 s": Case(1.0),
    "accepts late by 0 or 0.6 s, 1 s": Case(1.0, accepts=(0.0, 0.6), closes="all"),
    "accepts late by 0 or 0.3 s, 0.5 s": Case(0.5, accepts=(0.0, 0.3), closes="all"),
    "thinks and accepts late at random, 0.5 s": Case(
        0.5, accepts=(0.0, 0.5), thinks=(0.0, 0.5), closes="all", random=True
    ),
    "TLS handshake late by 0 or 0.6 s, 1 s": Case(
        1.0, accepts=(0.0, 0.6), tls=True, closes="all"
    ),
    "thinks 0.5 s, 1 s": Case(1.0, thinks=(0.5,)),
    "thinks 0.5 s, 0.2 s": Case(0.2, thinks=(0.5,)),
    "body of 10 s, 1 s": Case(1.0, body=SLOWEST),
    "closes kept connections, 0.5 s": Case(0.5, closes="kept"),
    "closes kept connections, 0.2 s": Case(0.2, closes="kept"),
    "client stalls 0.2 s, 0.5 s": Case(0.5, stalls=0.2),
}


def site_of(case: Case, tls: ssl.SSLContext) -> Site:
    from tests.site import Reply, Site

    chosen = Random(1)

    def times(given: tuple[float, ...]) -> Any:
        at_random = iter(lambda: chosen.uniform(*given), None)
        return at_random if case.random else cycle(given)

    thinks, is_kept = times(case.thinks), cycle([False, True])
    headers = {"Connection": "close"} if case.closes == "all" else {}

    def robots(hit: Hit) -> Reply:
        return answer(f"User-agent: *\nCrawl-delay: {case.delay}\n")

    def page(hit: Hit) -> Reply:
        return answer("x" * 20, drip=case.body / 20)

    def answer(body: str, **more: float) -> Reply:
        if case.closes == "kept" and next(is_kept):
            return Reply(reset=True)
        return Reply(body, headers=headers, after=next(thinks), **more)  # type: ignore[arg-type]

    replies = {"/robots.txt": robots} | {f"/{n}": page for n in range(PAGES)}
    accepts = times(case.accepts)
    return Site(replies, tls=tls if case.tls else None, accepts_after=accepts)


def child(settings: dict[str, Any], urls: list[str], stalls: float) -> None:
    import scrapy
    from scrapy.crawler import AsyncCrawlerProcess

    class Crawl(scrapy.Spider):
        name = "crawl"

        async def start(self):
            for url in urls:
                yield scrapy.Request(url, dont_filter=True)

        def parse(self, response):
            time.sleep(stalls)

    process = AsyncCrawlerProcess(settings)
    process.crawl(Crawl)
    process.start()


def measure(case: Case, tls: ssl.SSLContext, tree: Path) -> tuple[int, float, float]:
    """Return the requests that arrived, the smallest gap and the rate."""
    settings = {
        "ADDONS": {"scrapy_rep.Addon": 500},
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
    }
    if case.body:
        settings["CONCURRENT_REQUESTS_PER_DOMAIN"] = 16
    with site_of(case, tls) as site:
        urls = [site.url(f"/{n}") for n in range(PAGES)]
        process = subprocess.run(
            [sys.executable, "-c", CHILD, "--child"],
            input=json.dumps([settings, urls, case.stalls]),
            text=True,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            check=False,
            timeout=300,
            capture_output=True,
        )
    if process.returncode:
        print(process.stderr[-2000:], file=sys.stderr)
    gaps = site.gaps(robots=True)
    if len(gaps) < 2:
        return len(site.hits), 0.0, 0.0
    rate = len(gaps) / sum(gaps)
    return len(site.hits), min(gaps) / case.delay, rate * case.delay


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[2])
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    if args.child:
        child(*json.load(sys.stdin))
        return 0
    from tests.tls import server_context

    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'case':44}{'requests':>9}{'smallest':>10}{'rate':>7}")
    short = 0
    with TemporaryDirectory() as folder:
        tls = server_context(Path(folder))
        for name, case in CASES.items():
            if args.only not in name:
                continue
            number, gap, rate = measure(case, tls, args.tree.resolve())
            short += gap < LEAST
            print(f"{name:44}{number:9}{gap:10.3f}{rate:7.2f}", flush=True)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
