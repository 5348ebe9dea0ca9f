"""``kill -9`` at any moment: every URL is fetched, and what came of it is processed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.crawls.kills import DELAY, Killed, Web
from tests.crawls.processes import TIMEOUT, start, wait_for_hit
from tests.site import Site, gaps_between

FIFO = {
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_START_DISK_QUEUE": None,
}


@pytest.mark.invariant6
@pytest.mark.parametrize(
    ("kills", "settings"),
    [
        pytest.param(6, {}, id="as the add-on has it"),
        pytest.param(3, FIFO, id="FIFO, without a queue of start requests"),
    ],
)
def test_nothing_is_lost(kills, settings, tmp_path):
    rnd = random.Random(9309)
    with Web(pages=30 * kills) as web:
        killed = Killed(web, tmp_path, settings)
        while killed.kills < kills and killed.kill(rnd, longest=0.8):
            pass
        log = killed.end()
        assert "ERROR" not in log
        assert set(killed.done()) == set(web.urls)
        assert killed.kills >= kills // 2
        # Again is asked for what was in hand when it was killed, and not more often.
        assert web.shortest_gap() >= DELAY
    assert "nothing is lost" in log


@pytest.mark.invariant2
def test_the_next_process_keeps_the_delay(tmp_path):
    # Both are forked from one that had imported all of this long before.
    with Site() as site:
        site.replies |= {"/robots.txt": "User-agent: *\nCrawl-delay: 1.5\n", "/": ""}
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
