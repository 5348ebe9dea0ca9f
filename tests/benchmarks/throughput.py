"""Pages a second of whole crawls: with ours, with Scrapy's own, with none.

Run it with ``python -m tests.benchmarks.throughput``. 40 hosts of 75 pages that are
answered at once, by a server in a process of its own; a crawl is a process, too. All take
turns; pages a second between the first and the last tenth that arrived.
"""

from __future__ import annotations

import json
import random
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


def pages_a_second(web: Web, settings: dict[str, Any]) -> float:
    urls = [web.url(host, f"/{n}") for host in HOSTS for n in range(PAGES)]
    random.Random(1).shuffle(urls)
    web.arrivals()
    subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.crawl", "--child"],
        input=json.dumps([urls, {**SETTINGS, **settings}]),
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
    return len(middle) / (middle[-1] - middle[0])


def main() -> None:
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with Web(dict.fromkeys(HOSTS, ROBOTS), page=0.0) as web:
        for _ in range(ROUNDS):
            for kind, settings in KINDS.items():
                found[kind].append(pages_a_second(web, settings))
    for kind, rates in found.items():
        print(f"{kind:16}{median(rates):8.0f} pages a second")
    for other in ("Scrapy's own", "none"):
        ratios = [a / b for a, b in zip(found["ours"], found[other], strict=True)]
        print(f"ours / {other}: {median(ratios):.2f}")


if __name__ == "__main__":
    main()
