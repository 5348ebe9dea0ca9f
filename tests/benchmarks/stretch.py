"""For how long a robots.txt of 512 KiB holds the event loop of a crawl.

Run it with ``python -m tests.benchmarks.stretch [FOLDER]``; FOLDER is as for ``protocol``. One
crawl asks for some pages of one site after the other, each with a hostile file. A stretch is
what the process works from one turn of its event loop to the next, in CPU time, of which other
processes take less. The unit is the time that Protego takes in the mean to parse a file of
FOLDER and to judge one URL, in the same process: of 190 µs the goal is 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
from time import process_time
from typing import Any

import scrapy
from protego import Protego
from scrapy.crawler import AsyncCrawlerProcess

from tests.benchmarks.corpus import AGENT, SEED, bodies_of, urls_for
from tests.benchmarks.crawl import OURS, SETTINGS
from tests.benchmarks.hostile import hostile_files
from tests.benchmarks.web import Web

GOAL = 526.0
FILES = 1400
HOSTS = [f"127.0.{n // 200 + 1}.{n % 200 + 1}" for n in range(400)]
PATH_LIMIT = 20_000  # characters of a path that the server takes
TICK_SECONDS = 0.001
KINDS: dict[str, dict[str, Any]] = {
    "judged": {},
    "explained": {"REP_EVIDENCE": True, "REP_PURPOSE": ["search"]},
}


def unit(folder: str | None) -> float:
    """Seconds of CPU that Protego takes for a file and a query, in the mean."""
    rng = random.Random(SEED)
    asked = [
        (body.decode("utf-8", "ignore"), urls_for(rng, body, 1)[0])
        for body in bodies_of(folder, FILES)
    ]
    times = []
    for _ in range(3):
        began = process_time()
        for text, url in asked:
            Protego.parse(text).can_fetch(url, AGENT)
        times.append(process_time() - began)
    return min(times) / len(asked)


class Stretches(scrapy.Spider):
    """Asks for the pages of one site after the other, and notes the longest stretch of each."""

    name = AGENT
    sites: list[list[str]] = []
    longest: list[float] = []

    async def start(self):
        self.at, self.worst = process_time(), 0.0
        self.tick()
        for urls in self.sites:
            self.worst = 0.0
            for url in urls:
                self.over = asyncio.Event()
                yield scrapy.Request(url, errback=self.fail, dont_filter=True)
                await self.over.wait()
            self.longest.append(self.worst)

    def tick(self) -> None:
        now = process_time()
        self.worst, self.at = max(self.worst, now - self.at), now
        asyncio.get_running_loop().call_later(TICK_SECONDS, self.tick)

    def parse(self, response):
        self.over.set()

    def fail(self, failure):
        self.over.set()


def child(folder: str | None, sites: list[list[str]], settings: dict[str, Any]) -> None:
    before = unit(folder)
    process = AsyncCrawlerProcess(settings)
    Stretches.sites = sites
    process.crawl(Stretches)
    process.start()
    print(json.dumps([min(before, unit(folder)), Stretches.longest]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", help="of real robots.txt files")
    parser.add_argument("--only", default="", help="files with this in their names")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.folder, *json.load(sys.stdin))
        return 0
    files = {name: file for name, file in hostile_files().items() if args.only in name}
    robots: dict[str, str | None] = {
        host: body.decode("utf-8", "surrogateescape")
        for host, (body, _) in zip(HOSTS, files.values(), strict=False)
    }
    settings = SETTINGS | OURS | {"USER_AGENT": AGENT, "REP_OBEY": ["disallow"]}
    settings["URLLENGTH_LIMIT"] = (
        0  # Scrapy would drop longer ones than 2,083 characters
    )
    worst = 0.0
    with Web(robots, page=0.0) as web:
        sites = [
            [web.url(host, path[:PATH_LIMIT]) for path in paths if path[0] == "/"]
            for host, (_, paths) in zip(HOSTS, files.values(), strict=False)
        ]
        for kind, more in KINDS.items():
            done = subprocess.run(
                [sys.executable, "-m", __spec__.name, "--child"]
                + ([args.folder] if args.folder else []),
                input=json.dumps([sites, settings | more]),
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            each, longest = json.loads(done.stdout)
            found = sorted(zip(longest, files, strict=True), reverse=True)
            for seconds, name in found[:5]:
                print(
                    f"{kind:10} {name[:48]:48}{1e3 * seconds:9.1f} ms{seconds / each:9.0f}"
                )
            worst = max(worst, found[0][0] / each)
    print(
        f"the longest stretch for {len(files)} files is {worst:.0f} times Protego's mean "
        f"parse + 1 (goal: {GOAL:.0f})"
    )
    return int(worst > GOAL)


if __name__ == "__main__":
    sys.exit(main())
