"""What a crawl keeps of each host: until when it is parked, and how fast it is asked."""

from __future__ import annotations

import asyncio
import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request

from scrapy_rep.crawl import Crawl
from scrapy_rep.engine.inner import ROBOTS_HOP, Departure
from scrapy_rep.exceptions import NotNow, StillParked
from scrapy_rep.pacing import hosts, keeper
from scrapy_rep.pacing.hosts import LONGEST_AT_PROMPT, Asking, Health
from tests.utils import coroutine_test, make_crawler


class Engine:
    """What a crawl tells of itself, set by hand."""

    ending = False
    woken = 0
    most_of_a_slot = 1

    def is_ending(self):
        return self.ending

    def wake(self):
        self.woken += 1

    def lend(self, places):
        pass

    def step_out(self, departure):
        return lambda: None


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

    for module in (hosts, keeper):
        monkeypatch.setattr(module, "monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def crawl():
    return Crawl.of(make_crawler())


@pytest.fixture
def kept(crawl, clock):
    crawl.keeper.hosts = hosts.Hosts()
    return crawl.keeper


def test_a_host_is_parked_until_the_longest_pause_is_over(kept, clock):
    assert (kept.parked_left("a"), kept.park("a", 0), kept.hosts.by_name) == (0, 0, {})
    assert (kept.park("a", 5, "429"), kept.park("a", 2, "503")) == (5, 0)
    clock.now += 2
    assert (kept.parked_left("a"), kept.parked_left("b")) == (3, 0)
    assert (kept.parked_by("a"), kept.parked_by("b")) == ("429", "")
    assert (kept.learn_parked("a", 10), kept.parked_left("a")) == (7, 10)
    assert kept.parked_by("a") == "429"
    assert kept.is_any_parked()
    clock.now += 11
    assert (kept.parked_left("a"), kept.parked_by("a")) == (0, "")
    assert not kept.is_any_parked()
    kept.learn_parked("a", 10)
    assert kept.parked_by("a") == ""


def test_others_are_told_of_what_was_parked_here_only(kept):
    told: list[Any] = []

    kept.bookings = SimpleNamespace(park=lambda *parked: parked, say=told.append)
    kept.park("a", 5)
    kept.learn_parked("b", 5)
    assert told == [("a", 5)]
    assert kept.parked_left("b") > 0


def test_a_crawl_that_heeds_no_pauses_knows_of_none(clock):
    deaf = Crawl.of(make_crawler(REP_OBEY=["disallow", "crawl-delay"])).keeper
    kept = Crawl.of(make_crawler()).keeper
    deaf.hosts = kept.hosts = hosts.Hosts()
    kept.park("a", 5)
    assert (kept.parked_left("a"), deaf.parked_left("a")) == (5, 0)
    assert not deaf.is_any_parked()


def test_what_nobody_looks_at_any_more_is_forgotten(kept, clock):
    for number in range(5_000):
        kept.park(f"host{number}", 5)
        clock.now += 1
        assert len(kept.hosts.by_name) <= 2 * hosts.FIRST_SWEEP_HOSTS
    for number in range(200):
        kept.park(f"stays{number}", 1000)
    assert all(kept.parked_left(f"stays{number}") for number in range(200))


@coroutine_test
async def test_who_waits_wakes_the_engine_and_leaves_with_it(crawl):
    kept, request = crawl.keeper, Request("http://a.example/")
    kept.hosts, kept._engine = hosts.Hosts(), Engine()
    await kept.until_not_parked(request, "a")
    assert kept._engine.woken == 0
    kept.park("a", 0.05)
    await kept.until_not_parked(request, "a")
    assert kept._engine.woken == 1
    kept.park("a", 3600)
    kept._engine.ending = True
    with pytest.raises(StillParked, match=r"1 h more, .*: http://a\.example/$"):
        await kept.until_not_parked(request, "a")


@coroutine_test
async def test_a_page_that_is_marked_as_a_robots_txt_waits_for_no_host_that_is_down(
    crawl,
):
    kept = crawl.keeper
    kept.hosts, kept._engine = hosts.Hosts(), Engine()
    kept.park("a", 0.2)
    kept.hosts.of("a").health = Health(level=1, at=1000.0, since=0.0)
    page = Request("http://a.example/", meta={ROBOTS_HOP: True})
    with pytest.raises(StillParked):
        await kept.until_not_parked(page, "a")


def test_the_slowest_wish_counts_until_it_is_taken_back(kept, clock):
    for origin, seconds, slowest in [
        ("http://a.example", 0.0, 0),
        ("http://a.example", 5.0, 5),
        ("http://a.example:8080", 2.0, 5),
        ("http://a.example", 0.0, 2),
        ("http://a.example:8080", 0.0, 0),
    ]:
        kept.keep("a", origin, seconds)
        assert kept.interval("a") == slowest
        assert kept.keeps_intervals is bool(kept.hosts.by_name)
    kept.hosts.of("a").health = Health(level=1, at=1000.0, resumes=1000.0, gap=60.0)
    kept.keep("a", "http://a.example", 100.0)
    assert kept.interval("a") == 100
    kept.keep("a", "http://a.example", 0.0)
    assert kept.interval("a") == 60  # a host in trouble is asked slowly all the same


def test_who_waits_in_the_downloader_comes_first(kept, clock):
    kept.keep("a", "http://a.example", 5.0)
    clock.now += 60
    assert kept.pace_left("a") == 0
    waits = Departure(Request("http://a.example/"))
    kept.hosts.of("a").join_line(waits)
    assert (kept.pace_left("a"), kept.pace_left("a", behind=False)) == (5, 0)


def test_the_refusal_can_be_pickled():
    error = pickle.loads(pickle.dumps(StillParked("http://a.example/", 5.0)))
    assert (error.url, error.seconds) == ("http://a.example/", 5.0)


def test_a_start_that_does_not_come_costs_no_budget():
    kept = Crawl.of(make_crawler(REP_HOST_BUDGET=2)).keeper
    for _ in range(2):
        assert not kept.is_used_up("a")
        kept._spend("a")
    assert kept.is_used_up("a")
    with pytest.raises(keeper.OverBudgetError):
        kept._spend("a")
    kept._spend("a", -1)
    assert not kept.is_used_up("a")


def test_who_may_not_wait_for_long_is_told_so():
    kept = Crawl.of(make_crawler(REP_WAIT=False)).keeper
    request = Request("http://a.example/")
    kept.check_wait(request, LONGEST_AT_PROMPT)
    with pytest.raises(NotNow):
        kept.check_wait(request, LONGEST_AT_PROMPT + 1)


def test_who_waits_leaves_its_place_to_others_once_there_is_one():
    asking = Asking()
    hop = SimpleNamespace(asking=asking)
    departure = Departure(Request("http://a.example/", meta={ROBOTS_HOP: hop}))
    departure.step_aside()
    left: list[int] = []
    asking.make_way = lambda: left.append(1)
    departure.step_aside()
    assert left == [1]


@coroutine_test
async def test_a_wait_that_is_broken_off_costs_no_budget(clock):
    crawler = make_crawler(REP_HOST_BUDGET=2)
    kept = Crawl.of(crawler).keeper
    engine: Any = Engine()
    engine.ending = True
    kept.hosts, kept._engine = hosts.Hosts(), engine
    kept.park("a.example", 60)
    for _ in range(3):
        granted: Any = kept._grant(Departure(Request("http://a.example/")))
        with pytest.raises(StillParked):
            await granted
    assert not kept.is_used_up("a.example")
    assert not kept._spent["a.example"]


@pytest.mark.invariant2
@coroutine_test
async def test_a_fleet_counts_a_budget_before_a_turn_is_taken(clock):
    """Redis may be away for longer than a turn is held."""
    kept = Crawl.of(make_crawler(REP_HOST_BUDGET=2)).keeper
    done: list[str] = []

    async def spend(host: str, most: int) -> bool:
        done.append("spend")
        return True

    async def book(*args: object, **more: object) -> int:
        done.append("book")
        raise asyncio.CancelledError

    kept.bookings = SimpleNamespace(
        spend=spend,
        book=book,
        give_back=lambda host: f"give back {host}",
        say=done.append,
    )
    engine: Any = Engine()
    engine.least_delay = lambda slot: 0.1
    engine.has_room = lambda slot: True
    kept.hosts, kept._engine = hosts.Hosts(), engine
    granted: Any = kept._grant(Departure(Request("http://a.example/")))
    with pytest.raises(asyncio.CancelledError):
        await granted
    assert done == ["spend", "book", "give back a.example"]
