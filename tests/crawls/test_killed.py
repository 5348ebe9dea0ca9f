"""``kill -9`` at any moment: every URL is fetched, and what came of it is processed."""

from __future__ import annotations

import random

import pytest

from tests.crawls.kills import DELAY, Killed, Web
from tests.utils import SCRAPYS_QUEUE

FIFO = {
    "SCHEDULER_DISK_QUEUE": "scrapy_rep.job.FifoQueue",
    "SCHEDULER_START_DISK_QUEUE": None,
}


@pytest.mark.parametrize(
    ("kills", "settings"),
    [
        pytest.param(6, {}, id="as the add-on has it"),
        pytest.param(3, FIFO, id="FIFO, without a queue of start requests"),
        pytest.param(
            3, {"SCHEDULER_PRIORITY_QUEUE": SCRAPYS_QUEUE}, id="Scrapy's slots"
        ),
        pytest.param(
            3,
            {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"},
            id="Scrapy's priorities",
        ),
    ],
)
def test_nothing_is_lost(kills, settings, tmp_path):
    rnd = random.Random(9309)
    with Web(pages=60 * kills) as web:
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
