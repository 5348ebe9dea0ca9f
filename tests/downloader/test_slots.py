"""What is known of Scrapy's download slots."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from scrapy_rep.crawl import Crawl
from scrapy_rep.engine import slot_clock
from tests.utils import make_crawler


@pytest.mark.parametrize(
    ("delay", "jitter", "ago", "seconds"),
    [(0.0, 0.0, 0.0, 0.0), (5.0, 0.0, 1.0, 4.0), (5.0, 0.5, 1.0, 1.5)],
)
def test_when_a_slot_is_due_by_the_users_own_delay(delay, jitter, ago, seconds):
    crawler = make_crawler()
    slot = SimpleNamespace(
        concurrency=8,
        delay=delay,
        jitter=jitter,
        lastseen=slot_clock() - ago,
        queue=(),
        active=(),
        transferring=set(),
        free_transfer_slots=int,
    )
    crawler.engine = SimpleNamespace(downloader=SimpleNamespace(slots={"a": slot}))
    downloader = Crawl.of(crawler).engine
    assert downloader.due_in("a") == pytest.approx(seconds, abs=0.1)
    assert downloader.due_in("not used yet") == 0
