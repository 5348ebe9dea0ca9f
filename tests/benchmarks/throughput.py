"""Pages a second of whole crawls: with ours, with Scrapy's own, with none.

Run it with ``python -m tests.benchmarks.throughput``. 40 hosts of 75 pages that are
answered at once, by a server in a process of its own; a crawl is a process, too. All take
turns; pages a second between the first and the last tenth that arrived, and the crawl's
CPU time, start and end of the process included.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
from statistics import median
from typing import Any

from tests.benchmarks.crawl import BUILT_IN, OURS, SETTINGS
from tests.benchmarks.web import Web

HOSTS = [f"127.0.1.{n}" for n in range(1, 41)]
PAGES, ROUNDS = 75, 5
ROBOTS = "User-agent: *\nDisallow: /private/\nDisallow: /*?sort=\n"
KINDS: dict[str, dict[str, Any]] = {"ours": OURS, "Scrapy's own": BUILT_IN, "none": {}}


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def crawl(web: Web, settings: dict[str, Any]) -> tuple[float, float]:
    """Return pages a second, and milliseconds of CPU for each page."""
    urls = [web.url(host, f"/{n}") for host in HOSTS for n in range(PAGES)]
    random.Random(1).shuffle(urls)
    web.arrivals()
    before = cpu_of_children()
    subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.crawl", "--child"],
        input=json.dumps([urls, {**SETTINGS, **settings}]),
        text=True,
        check=True,
    )
    cpu = (cpu_of_children() - before) / len(urls) * 1e3
    times = sorted(
        at
        for hits in web.arrivals().values()
        for at, path in hits
        if path != "/robots.txt"
    )
    assert len(times) == len(urls)
    tenth = len(times) // 10
    middle = times[tenth:-tenth]
    return len(middle) / (middle[-1] - middle[0]), cpu


def main() -> None:
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    with Web(dict.fromkeys(HOSTS, ROBOTS), page=0.0) as web:
        for _ in range(ROUNDS):
            for kind, settings in KINDS.items():
                found[kind].append(crawl(web, settings))
    for kind, rounds in found.items():
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
