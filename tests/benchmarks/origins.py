"""What a crawl with ours costs beside Scrapy's own, where it meets many origins, and one page.

Run it with ``python -m tests.benchmarks.origins [ROUNDS]``. Each crawl is a process, whose whole
CPU time counts, from its start to its end; the sites answer at once. All take turns in pairs,
ours and Scrapy's own; a figure is the median of the pairs' ratios, Scrapy's own over ours.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from statistics import median
from typing import Any

from tests.benchmarks.crawl import BUILT_IN, OURS, SETTINGS, child
from tests.benchmarks.start import as_installed
from tests.benchmarks.web import Web

ROUNDS = 7
ROBOTS = "User-agent: *\nDisallow: /private/\nDisallow: /*?sort=\n"
CASES = {
    "800 hosts of 1 page": (800, 1, {}, 1.0),
    "40 hosts of 30 pages": (40, 30, {}, 1.0),
    "1,500 hosts in the queue": (1500, 1, {"CONCURRENT_REQUESTS": 100}, 1.05),
    "1 page": (1, 1, {}, 1 / 1.02),
}
"""Hosts, pages of each, settings, and the goal."""
HOSTS = [f"127.0.{1 + n // 200}.{1 + n % 200}" for n in range(1500)]


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rounds", nargs="?", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(*json.load(sys.stdin))
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
