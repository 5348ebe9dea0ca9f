"""A crawl of very many hosts in one process: ``python -m tests.benchmarks.scale [HOSTS]``.

Hosts of a local web, 100,000 of them, with robots.txt and one page each, crawled in
memory and as a job. For each tenth of the crawl: the processor time of a page, pages a second, and the memory of the
process. All of it should be flat from the second tenth on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess

from tests.benchmarks.leaks import everywhere, host

HOSTS = 100_000
TENTHS = 10
ROBOTS = [
    (200, b"", b"User-agent: *\nDisallow: /private/\nDisallow: /*?sort=\n"),
    (200, b"", b"User-agent: *\nDisallow: /private/\nCrawl-delay: 1\n"),
    (404, b"", b"none"),
]
KINDS: dict[str, dict[str, Any]] = {"in memory": {}, "as a job": {"JOBDIR": "job"}}
SETTINGS = {
    "ADDONS": {"scrapy_rep.Addon": 500},
    "CONCURRENT_REQUESTS": 64,
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
}


def memory() -> int:
    """Return the octets of memory that this process has now."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


class Pages(scrapy.Spider):
    """Asks each host for a page, and prints a line of JSON for each tenth of them."""

    name = "pages"

    def __init__(self, hosts: int, port: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hosts, self.port, self.came = hosts, port, 0
        self.wall, self.cpu = time.monotonic(), time.process_time()

    async def start(self):
        for number in range(self.hosts):
            yield scrapy.Request(
                f"http://{host(number)}:{self.port}/", errback=self.count
            )

    def parse(self, response):
        self.count()

    def count(self, failure=None):
        self.came += 1
        if self.came % (self.hosts // TENTHS):
            return
        wall, cpu = time.monotonic(), time.process_time()
        print(json.dumps([wall - self.wall, cpu - self.cpu, memory()]), flush=True)
        self.wall, self.cpu = wall, cpu


def crawl(hosts: int, port: int, settings: dict[str, Any]) -> None:
    process = CrawlerProcess(SETTINGS | settings)
    process.crawl(Pages, hosts=hosts, port=port)
    process.start()


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--child"]:
        crawl(int(arguments[1]), int(arguments[2]), json.loads(arguments[3]))
        return 0
    hosts = int(arguments[0]) if arguments else HOSTS
    for name, settings in KINDS.items():
        print(f"{hosts:,} hosts of one page, {name}", flush=True)
        with everywhere(ROBOTS) as port, TemporaryDirectory() as folder:
            own = {key: str(Path(folder, value)) for key, value in settings.items()}
            command = [sys.executable, "-m", __spec__.name, "--child"]
            command += [str(hosts), str(port), json.dumps(own)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
                assert child.stdout is not None
                for tenth, line in enumerate(child.stdout, 1):
                    wall, cpu, octets = json.loads(line)
                    part = hosts // TENTHS
                    print(
                        f"  {tenth * part:>9,}  {cpu / part * 1e3:6.2f} ms a page"
                        f"  {part / wall:6.0f} pages/s  {octets / 2**20:6.0f} MiB"
                        f"  {'#' * round(octets / 2**20 / 10)}",
                        flush=True,
                    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
