"""Crawls that are processes of their own, to be stopped, killed and started again."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess
from scrapy.utils.reactor import is_asyncio_reactor_installed, is_reactor_installed

from scrapy_rep.settings import DEFAULTS
from tests.forking import Forked
from tests.wire import STAMPED

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

    from tests.site import Site

REPOSITORY = Path(__file__).parents[2]
TIMEOUT = 180.0
"""Seconds that a crawl may take."""


def start(
    module: str, folder: Path, *, anew: bool = False, **plan: Any
) -> subprocess.Popen[str]:
    """Start a crawl, with the kind of event loop that these tests run with.

    *module* calls ``crawl`` with what it is given as its argument. A crawl that begins *anew*
    has a Python of its own, with its own seed of hashes.
    """
    plan = {"folder": str(folder), "reactor": reactor(), **plan}
    return (subprocess.Popen if anew else Forked)(
        [sys.executable, "-m", module, json.dumps(plan)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def reactor() -> str:
    """Tell which event loop these tests run with, as the option --reactor has it."""
    if not is_reactor_installed():
        return "none"
    return "asyncio" if is_asyncio_reactor_installed() else "default"


def wait_for_hit(process: subprocess.Popen[str], sites: list[Site]) -> None:
    """Wait until the crawl reaches a site."""
    before = sum(len(site.hits) for site in sites)
    deadline = time.monotonic() + TIMEOUT
    while sum(len(site.hits) for site in sites) == before:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def crawl(
    spider: type[Spider], plan: dict[str, Any], *others: type[Spider], **arguments: Any
) -> Crawler:
    """Run *spider*, and *others* with it, with the job directory, event loop and settings of *plan*."""
    settings = {
        "ADDONS": {"scrapy_rep.Addon": 500},
        "JOBDIR": plan["folder"],
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "LOG_LEVEL": "WARNING",
        # Their sites fail now and then, and are not what is looked at.
        "REP_OBEY": [each for each in DEFAULTS["REP_OBEY"] if each != "back-off"],
        **STAMPED,
        **plan["settings"],
    }
    process: Any = CrawlerProcess
    if plan["reactor"] == "none":
        process = AsyncCrawlerProcess
        settings["TWISTED_REACTOR_ENABLED"] = False
    elif plan["reactor"] == "default":
        settings["TWISTED_REACTOR"] = None
    running = process(settings)
    crawler: Crawler = running.create_crawler(spider)
    running.crawl(crawler, **arguments)
    for other in others:
        running.crawl(other)
    running.start()
    return crawler
