"""``kill -9`` at any moment: every URL is fetched, and what came of it is processed."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import pytest

from tests.crawls.kills import DELAY, Killed, Web
from tests.crawls.processes import TIMEOUT, start, wait_for_hit
from tests.site import Reply, Site, gaps_between, pages
from tests.utils import calls_back_at_once


@pytest.mark.invariant6
def test_nothing_is_lost(tmp_path):
    rnd, kills = random.Random(9309), 6
    with Web(pages=30 * kills) as web:
        killed = Killed(web, tmp_path)
        while killed.kills < kills and killed.kill(rnd, longest=0.8):
            pass
        log = killed.end(anew=True)
        assert "ERROR" not in log
        assert set(killed.done()) == set(web.urls)
        assert killed.kills >= kills // 2
        assert not [path for path in web.asked if "private" in path]
        assert web.shortest_gap() >= DELAY
    assert "nothing is lost" in log


@calls_back_at_once
def test_again_is_asked_for_what_was_in_flight_and_no_more(tmp_path):
    """And for what was done in the last 80 ms, which is not written yet: as much again."""
    rnd, kills = random.Random(9309), 3
    robots = f"User-agent: *\nCrawl-delay: {DELAY}\n"
    replies = {f"/{n}": Reply("page", after=0.05) for n in range(60)}
    slow = Site({"/robots.txt": robots, **replies}, host="127.0.0.2")
    with slow, Site({**replies}) as quick:
        sites = [slow, quick]
        urls = pages(slow, 10) + pages(quick, 60)
        plan: dict[str, Any] = {
            "seeds": urls,
            "done": str(tmp_path / "done"),
            "settings": {},
        }
        for nth in range(kills + 1):
            process = start("tests.crawls.killed_crawl", tmp_path / "job", **plan)
            if nth == kills:
                break
            wait_for_hit(process, sites)
            while not all(len(site.hits) > 1 for site in sites):
                assert process.poll() is None, process.communicate()
                time.sleep(0.005)  # until each robots.txt is known
            time.sleep(rnd.uniform(0, 0.3))
            process.kill()
            process.communicate()
        _, log = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, log
    assert set((tmp_path / "done").read_text().split()) == set(urls)
    for site, number, in_flight in ((slow, 10, 1), (quick, 60, 8)):
        asked = Counter(site.paths)
        assert asked.pop("/robots.txt") <= 2  # it may be killed before it is kept
        assert len(asked) == number
        assert sum(asked.values()) - number <= kills * 2 * in_flight
    assert min(slow.gaps(robots=True)) >= DELAY


@pytest.mark.invariant2
def test_the_next_process_keeps_the_delay(tmp_path):
    # Both are forked from one that had imported all of this long before.
    with Site() as site:
        robots = "User-agent: *\nCrawl-delay: 1.5\n"
        # It is under way when the process is killed.
        site.replies |= {"/robots.txt": robots, "/": [Reply(after=2.0), ""]}
        plan: dict[str, Any] = {
            "seeds": [site.url("/")],
            "done": str(tmp_path / "done"),
            "settings": {},
        }
        process = start("tests.crawls.killed_crawl", tmp_path / "job", **plan)
        while "/" not in site.paths:
            wait_for_hit(process, [site])
        process.kill()
        process.communicate()
        process = start("tests.crawls.killed_crawl", tmp_path / "job", **plan)
        _, log = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, log
    assert site.paths == ["/robots.txt", "/", "/"]
    assert min(gaps_between(site.hits)) >= 1.5
