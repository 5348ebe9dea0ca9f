"""``kill -9`` while delayed hosts wait: every page is fetched, and no gap is short."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.crawls.processes import TIMEOUT, start, wait_for_hit
from tests.site import Reply, Site, gaps_between

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

KILLS = 6
DELAY = 0.3
DELAYED_HOSTS, PAGES = 3, 14


def run(folder: Path, urls: list[str], *, anew: bool = False) -> subprocess.Popen[str]:
    return start(
        "tests.crawls.queue_restart_crawl",
        folder / "job",
        anew=anew,
        done=str(folder / "done"),
        urls=urls,
        settings={},
    )


def done(folder: Path) -> list[str]:
    """Return the URLs that were got so far."""
    file = folder / "done"
    return file.read_text().split() if file.exists() else []


@pytest.mark.invariant6
def test_killed_again_and_again(tmp_path):
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
        killed = 0
        while killed < KILLS and set(done(tmp_path)) != set(urls):
            process = run(tmp_path, urls)
            wait_for_hit(process, sites)
            while not killed and not all(len(site.hits) > 1 for site in sites):
                assert process.poll() is None, process.communicate()
                time.sleep(0.005)  # until each robots.txt is known
            time.sleep(rnd.uniform(0, 0.6))
            process.kill()
            process.communicate()
            killed += 1
        assert killed >= KILLS // 3
        process = run(tmp_path, urls, anew=True)
        _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors, errors
    assert set(done(tmp_path)) == set(urls)
    for site in sites:
        asked = Counter(site.paths)
        assert asked.pop("/robots.txt") <= 2  # it may be killed before it is kept
        # Again is asked for what was in flight when it was killed, and not more often.
        again = sum(asked.values()) - PAGES
        in_flight = 1 if site in slow else 8
        assert again <= killed * in_flight
        assert len(asked) == PAGES
    assert min(gap for site in slow for gap in gaps_between(site.hits)) >= DELAY
