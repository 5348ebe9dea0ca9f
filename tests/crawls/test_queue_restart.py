"""``kill -9`` while delayed hosts wait: every page is fetched, and no gap is short."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.crawls.processes import TIMEOUT, start, wait_for_hit
from tests.site import Reply, Site
from tests.utils import timed

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = timed

KILLS = 20
DELAY = 0.3
DELAYED_HOSTS, PAGES = 3, 32
WIRES = 0.03  # seconds that a busy machine may add to one arrival


def run(folder: Path, urls: list[str]) -> subprocess.Popen[str]:
    return start(
        "tests.crawls.queue_restart_crawl",
        folder / "job",
        done=str(folder / "done"),
        urls=urls,
        settings={},
    )


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
        _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors, errors
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
