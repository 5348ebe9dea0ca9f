"""What a crawl with ours costs beside Scrapy's own, where it meets many origins, and one page.

Run it with ``python -m tests.benchmarks.origins [ROUNDS]``. Each crawl is a process, whose whole
CPU time counts, from its start to its end; the sites answer at once. All take turns in pairs,
ours and Scrapy's own; a figure is the median of the pairs' ratios, Scrapy's own over ours.

With ``--instructions`` crawls of two sizes run once in valgrind each, without the garbage collector:
what one origin more takes, and one page more, in instructions. That takes ten minutes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import scrapy
from scrapy.crawler import AsyncCrawlerProcess

from tests.benchmarks.web import Web

SETTINGS: dict[str, Any] = {
    "LOG_LEVEL": "WARNING",
    "REMOTE_CONTROL_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "REP_UNREACHABLE_RETRY_DELAYS": [],
}
OURS: dict[str, Any] = {"ADDONS": {"scrapy_rep.Addon": 500}}
BUILT_IN: dict[str, Any] = {"ROBOTSTXT_OBEY": True}
ROUNDS = 7
ROBOTS = "User-agent: *\nDisallow: /private/\nDisallow: /*?sort=\n"
CASES = {
    "800 hosts of 1 page": (800, 1, {}, 1.0),
    "40 hosts of 30 pages": (40, 30, {}, 1.0),
    "1,500 hosts in the queue": (1500, 1, {"CONCURRENT_REQUESTS": 100}, 1.05),
    "1 page": (1, 1, {}, 1 / 1.02),
}
"""Hosts, pages of each, settings, and the goal."""
PATIENT = {"DOWNLOAD_TIMEOUT": 3600, "REP_TIMEOUT": 3600}
"""Settings: in valgrind an answer may take long."""
SLOWER = 50
"""By this factor valgrind is: so are times after which we do something, or it would be done more
often than it is."""
TIMES = {
    "policies.sharing": "PATIENCE_SECONDS",
    "frontier.frontier": "SWEEP_SECONDS",
    "gate.scheduler": "TELL_STATS_SECONDS",
}
SIZES = {"an origin": ((100, 1), (400, 1)), "a page": ((40, 5), (40, 20))}
"""Hosts, and pages of each, of the smaller crawl and of the larger one."""
HOSTS = [f"127.0.{1 + n // 200}.{1 + n % 200}" for n in range(1500)]


class Crawl(scrapy.Spider):
    name = "crawl"
    urls: list[str] = []

    async def start(self):
        for url in self.urls:
            yield scrapy.Request(url, dont_filter=True)

    def parse(self, response):
        pass


def child(urls: list[str], settings: dict[str, Any]) -> None:
    process = AsyncCrawlerProcess(settings)
    Crawl.urls = urls
    process.crawl(Crawl)
    process.start()


def as_installed() -> dict[str, str]:
    """Return an environment in which a module's bytecode is kept beside it, as pip leaves it.

    Else ours would be compiled at each start, while Scrapy's is not. The first process of each
    kind compiles, so it is not to be measured.
    """
    left_out = {"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"}
    return {name: value for name, value in os.environ.items() if name not in left_out}


def seconds(
    urls: list[str], settings: dict[str, Any], environ: dict[str, str]
) -> float:
    """CPU seconds of a process that crawls *urls*."""
    with subprocess.Popen(
        [sys.executable, "-m", __spec__.name, "--child"],
        stdin=subprocess.PIPE,
        env=environ,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps([urls, SETTINGS | settings]).encode())
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def instructions(
    urls: list[str], settings: dict[str, Any], environ: dict[str, str]
) -> int:
    """Instructions of a process that crawls *urls*."""
    with TemporaryDirectory() as folder:
        out = Path(folder, "out")
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        subprocess.run(
            [*tool, sys.executable, "-m", __spec__.name, "--child", "--instructions"],
            input=json.dumps([urls, SETTINGS | PATIENT | settings]).encode(),
            env={**environ, "PYTHONHASHSEED": "0"},
            check=True,
            capture_output=True,
        )
        (totals,) = [
            line for line in out.read_text().splitlines() if line.startswith("totals:")
        ]
    return int(totals.split()[1])


def compare_instructions(environ: dict[str, str]) -> None:
    with Web(dict.fromkeys(HOSTS, ROBOTS), page=0.0) as web:
        for kind in (OURS, BUILT_IN):
            seconds([web.url(HOSTS[0], "/")], kind, environ)  # all is compiled by then
        web.arrivals()
        for name, sizes in SIZES.items():
            each: list[float] = []
            for kind in (OURS, BUILT_IN):
                counts = []
                for hosts, pages in sizes:
                    paths = [f"/{n}" for n in range(pages)]
                    urls = [web.url(host, p) for p in paths for host in HOSTS[:hosts]]
                    counts.append(instructions(urls, kind, environ))
                    hits = [hit for hits in web.arrivals().values() for hit in hits]
                    assert len(hits) == len(urls) + hosts, "not all pages came"
                (few, fewer), (many, more) = sizes
                each.append((counts[1] - counts[0]) / (many * more - few * fewer))
            ours, theirs = each
            print(
                f"{name}: {ours:,.0f} instructions, Scrapy's own {theirs:,.0f}: "
                f"{ours / theirs:.3f} (goal: 1.00)",
                flush=True,
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rounds", nargs="?", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--instructions", action="store_true", help="see above")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        if args.instructions:
            gc.disable()
            for path, name in TIMES.items():
                module = import_module(f"scrapy_rep.{path}")
                setattr(module, name, SLOWER * getattr(module, name))
        child(*json.load(sys.stdin))
        return 0
    if args.instructions:
        compare_instructions(as_installed())
        return 0
    cases = {name: case for name, case in CASES.items() if args.only in name}
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    environ = as_installed()
    with Web(dict.fromkeys(HOSTS, ROBOTS), page=0.0) as web:
        for number in range(1 + args.rounds):
            for name, (hosts, pages, more, _) in cases.items():
                urls = [
                    web.url(h, f"/{n}") for h in HOSTS[:hosts] for n in range(pages)
                ]
                random.Random(number).shuffle(urls)
                found = {}
                for kind in (OURS, BUILT_IN) if number % 2 else (BUILT_IN, OURS):
                    found[kind is OURS] = seconds(urls, kind | more, environ)
                pairs[name].append((found[True], found[False]))
    for name, (*_, goal) in cases.items():
        ours, theirs = zip(
            *pairs[name][1:], strict=True
        )  # one in which all was compiled
        ratio = median(b / a for a, b in pairs[name][1:])
        print(
            f"{name:26}{median(ours):7.2f} s, Scrapy's own {median(theirs):7.2f} s: "
            f"{ratio:.3f} (goal: {goal:.2f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
