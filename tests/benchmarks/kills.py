"""A job that is killed at random moments: ``python -m tests.benchmarks.kills [KILLS]``.

Crawls of a local web, each killed with ``kill -9`` after a random time, run again, and so
on to its end, until there were KILLS kills (100). Counts the URLs whose callback and items
were never through, which are none, and those that were asked for again. Exit status 1 if
any was lost, or if the host with a delay was asked too soon. It takes some four minutes;
with ``--scrapy`` it is Scrapy's disk queue and filter that keep the job.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.crawls.kills import DELAY, Killed, Web
from tests.utils import SCRAPYS

PAGES = 1200
"""More than Scrapy's filter holds back from its file."""
LONGEST = 1.2


def crawl(most: int, rnd: random.Random, settings: dict[str, Any]) -> tuple[int, ...]:
    """Return kills, lost URLs, requests beyond one for each, and gaps that are short."""
    with Web(PAGES) as web, tempfile.TemporaryDirectory() as folder:
        killed = Killed(web, Path(folder), settings)
        while killed.kills < most and killed.kill(rnd, LONGEST):
            pass
        killed.end()
        lost = set(web.urls) - set(killed.done())
        again = len(killed.done()) - len(set(killed.done()))
        return killed.kills, len(lost), again, int(web.shortest_gap() < DELAY)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kills", nargs="?", type=int, default=100)
    parser.add_argument("--scrapy", action="store_true")
    args = parser.parse_args()
    rnd = random.Random()
    settings = {"SCHEDULER": SCRAPYS} if args.scrapy else {}
    totals = [0, 0, 0, 0]
    crawls = 0
    while totals[0] < args.kills:
        found = crawl(args.kills - totals[0], rnd, settings)
        crawls += 1
        totals = [sum(pair) for pair in zip(totals, found, strict=True)]
        print("{} kills: {} URLs lost, {} through twice".format(*found), flush=True)
    kills, lost, again, short = totals
    print(
        f"{kills} kills in {crawls} crawls: {lost} of {crawls * PAGES:,} URLs lost,"
        f" {again} through twice ({again / kills:.1f} a kill); too soon: {short}"
    )
    return 1 if lost or short else 0


if __name__ == "__main__":
    sys.exit(main())
