"""The road of one page through our modules: ``python -m tests.benchmarks.road [KIND]``.

From the callback that yields its request to the callback that gets its answer, in a crawl of one
site: how many functions of ours are called, how many modules they are of, and how often the
road goes from one module to another (stays). KIND is ``plain``, ``delay``, ``job``, ``refused`` or
``audit``; without it, all of them. With ``--list`` each stay is printed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import scrapy
from scrapy.crawler import AsyncCrawlerProcess

import scrapy_rep
from scrapy_rep.frontier import frontier
from scrapy_rep.gate import scheduler
from tests.site import Reply, Site

PACKAGE = str(Path(scrapy_rep.__file__).parent) + "/"
KINDS = ("plain", "delay", "job", "refused", "audit")
MOST_MODULES, MOST_STAYS = 15, 70
"""Of a plain page."""
PAGE = 4
"""The page whose road is traced; what is learned of its site is known by then."""


class Walk:
    """The calls that are made while it is on."""

    def __init__(self) -> None:
        self.is_on = False
        self.calls: list[tuple[str, str]] = []

    def __call__(self, frame: Any, event: str, _: object) -> None:
        if self.is_on and event == "call":
            code = frame.f_code
            if code.co_filename.startswith(PACKAGE) and code.co_name[0] != "<":
                self.calls.append((code.co_filename[len(PACKAGE) :], code.co_name))

    def stays(self) -> list[tuple[str, list[str]]]:
        found: list[tuple[str, list[str]]] = []
        for module, name in self.calls:
            if not found or found[-1][0] != module:
                found.append((module, []))
            found[-1][1].append(name)
        return found


def traced(kind: str, folder: str) -> Walk:
    walk = Walk()

    class Walking(scrapy.Spider):
        name = "walking"

        async def start(self):
            yield scrapy.Request(site.url("/0"))

        def parse(self, response):
            number = int(response.url.rpartition("/")[2])
            if number == PAGE:
                walk.is_on = False
                return
            walk.is_on = number == PAGE - 1
            is_refused = walk.is_on and kind == "refused"
            path = "/x" if is_refused else f"/{number + 1}"
            yield scrapy.Request(site.url(path), errback=self.refused)

        def refused(self, failure):
            walk.is_on = False

    # Else it hangs on the machine how often an alarm rings meanwhile.
    frontier.SWEEP_SECONDS = scheduler.TELL_STATS_SECONDS = 60.0
    settings: dict[str, Any] = {
        "ADDONS": {"scrapy_rep.Addon": 500},
        "USER_AGENT": "ExampleBot/1.0",
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
    }
    if kind == "job":
        settings["JOBDIR"] = f"{folder}/job"
    elif kind == "audit":
        settings["REP_AUDIT_URI"] = f"{folder}/audit.jsonl"
    delay = "Crawl-delay: 0.2\n" if kind == "delay" else ""
    pages = {f"/{number}": Reply("<html>a page</html>") for number in range(PAGE + 1)}
    robots = f"User-agent: *\n{delay}Disallow: /x\n"
    with Site({"/robots.txt": robots, **pages}) as site:
        process = AsyncCrawlerProcess(settings)
        process.crawl(Walking)
        sys.setprofile(walk)
        process.start()
        sys.setprofile(None)
    return walk


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kind", nargs="?", choices=KINDS)
    parser.add_argument("--list", action="store_true", help="print each stay")
    args = parser.parse_args()
    if args.kind is None:  # a process has one reactor, and runs it once
        more = ["--list"] * args.list
        command = [sys.executable, "-m", "tests.benchmarks.road"]
        codes = [subprocess.call([*command, kind, *more]) for kind in KINDS]
        return max(codes)
    with tempfile.TemporaryDirectory() as folder:
        walk = traced(args.kind, folder)
    stays = walk.stays()
    modules = {module for module, _ in stays}
    print(
        f"{args.kind:8}{len(walk.calls):5} calls, {len(stays):4} stays, {len(modules):3} modules"
    )
    if args.list:
        for module, names in stays:
            print(f"    {module}: {' '.join(names)}")
    fits = len(modules) <= MOST_MODULES and len(stays) <= MOST_STAYS
    return 0 if fits or args.kind != "plain" else 1


if __name__ == "__main__":
    sys.exit(main())
