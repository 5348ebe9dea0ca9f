"""``kill -9`` while delayed hosts wait: every page is fetched, and no gap is short."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

from scrapy.utils.reactor import is_asyncio_reactor_installed, is_reactor_installed

from tests.site import Reply, Site

REPOSITORY = Path(__file__).parents[2]
KILLS = 20
DELAY = 0.3
DELAYED_HOSTS, PAGES = 3, 32
WIRES = 0.03  # seconds that a busy machine may add to one arrival
TIMEOUT = 60.0


def run(folder: Path, urls: list[str], **settings: Any) -> subprocess.Popen[str]:
    """Start the crawl, with the kind of event loop that these tests run with."""
    reactor = "none"
    if is_reactor_installed():
        reactor = "asyncio" if is_asyncio_reactor_installed() else "default"
    plan = {
        "folder": str(folder / "job"),
        "done": str(folder / "done"),
        "urls": urls,
        "reactor": reactor,
        "settings": settings,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crawls.queue_restart_crawl", json.dumps(plan)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_hit(process: subprocess.Popen[str], sites: list[Site]) -> None:
    before = sum(len(site.hits) for site in sites)
    deadline = time.monotonic() + TIMEOUT
    while sum(len(site.hits) for site in sites) == before:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_killed_twenty_times(tmp_path):
    rnd = random.Random(9309)
    robots = f"User-agent: *\nCrawl-delay: {DELAY}\n"
    page = Reply("<html>page</html>", after=0.05)
    replies = {f"/{n}": page for n in range(PAGES)}
    with ExitStack() as stack:
        slow = [
            stack.enter_context(
                Site({"/robots.txt": robots, **replies}, host=f"127.0.0.{host}")
            )
            for host in range(2, 2 + DELAYED_HOSTS)
        ]
        quick = stack.enter_context(Site({**replies}))
        sites = [*slow, quick]
        urls = [site.url(f"/{n}") for n in range(PAGES) for site in sites]
        rnd.shuffle(urls)
        for _ in range(KILLS):
            process = run(tmp_path, urls)
            wait_for_hit(process, sites)
            time.sleep(rnd.uniform(0, 0.6))
            assert process.poll() is None, process.communicate()
            process.kill()
            process.communicate()
        process = run(tmp_path, urls)
        output, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, output
    assert "Traceback" not in output, output
    done = (tmp_path / "done").read_text().split()
    assert set(done) == set(urls)
    for site in sites:
        asked = Counter(site.paths)
        assert asked.pop("/robots.txt") <= 2  # it may be killed before it is kept
        # Again is asked for what was in flight when it was killed, and not more often.
        again = sum(asked.values()) - PAGES
        in_flight = 1 if site in slow else 8
        assert again <= KILLS * in_flight
        assert len(asked) == PAGES
    gaps = [
        later.seconds - earlier.seconds
        for site in slow
        for earlier, later in pairwise(site.hits)
    ]
    assert min(gaps) >= DELAY - WIRES
