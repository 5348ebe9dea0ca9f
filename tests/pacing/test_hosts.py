"""What each host is asked for, and by whom."""

from __future__ import annotations

from time import monotonic

import pytest

from scrapy_rep.crawl import Crawl
from scrapy_rep.pacing import HOSTS
from scrapy_rep.pacing.health import WELL, Health
from tests.utils import make_crawler

HOST, ONE, OTHER = "a.example", "http://a.example", "http://a.example:8080"


@pytest.fixture(autouse=True)
def _forget():
    HOSTS.forget_all()
    yield
    HOSTS.forget_all()


def test_the_slowest_origin_counts_until_it_asks_for_no_delay_any_more():
    HOSTS.note_wish(HOST, 0, ONE, 5.0)
    HOSTS.note_wish(HOST, 0, OTHER, 2.0)
    assert HOSTS.interval(HOST, 0) == 5
    HOSTS.note_wish(HOST, 0, ONE, 0.0)
    assert HOSTS.interval(HOST, 0) == 2
    HOSTS.note_wish(HOST, 0, OTHER, 0.0)
    assert HOSTS.interval(HOST, 0) == 0


def test_a_host_in_trouble_is_asked_slowly_whatever_its_origins_ask_for():
    now = monotonic()
    HOSTS.of(HOST).health = Health(level=1, at=now, resumes=now, gap=60.0)
    slow = HOSTS.interval(HOST, 0)
    assert slow > 0
    HOSTS.note_wish(HOST, 0, ONE, 100.0)
    HOSTS.note_wish(HOST, 0, ONE, 0.0)
    assert HOSTS.interval(HOST, 0) == pytest.approx(slow, abs=0.1)
    HOSTS.of(HOST).health = WELL
    assert HOSTS.interval(HOST, 0) == 0


def test_a_crawl_takes_back_what_it_had_kept():
    keeper = Crawl.of(make_crawler()).keeper
    keeper.keep(HOST, ONE, 0.0)
    assert not keeper.keeps_intervals
    keeper.keep(HOST, ONE, 5.0)
    assert (keeper.interval(HOST), keeper.keeps_intervals) == (5, True)
    keeper.keep(HOST, ONE, 0.0)
    assert keeper.interval(HOST) == 0
