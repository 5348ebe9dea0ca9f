"""Until when slots are parked, by themselves."""

from __future__ import annotations

import pickle

import pytest
from scrapy import Request

from scrapy_rep.exceptions import StillParked
from scrapy_rep.pacing import back_off as module
from scrapy_rep.pacing.back_off import BackOff
from tests.utils import coroutine_test


class Engine:
    """What a crawl tells of itself, set by hand."""

    ending = False
    woken = 0

    def is_ending(self):
        return self.ending

    def wake(self):
        self.woken += 1


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

    monkeypatch.setattr(module, "monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def back_off(engine):
    return BackOff(engine)


def test_a_slot_is_parked_until_it_is_not(back_off, clock):
    assert back_off.left("a") == 0
    assert back_off.park("a", 5) == 5
    clock.now += 2
    assert (back_off.left("a"), back_off.left("b")) == (3, 0)
    clock.now += 3
    assert back_off.left("a") == 0
    assert back_off.until == {}  # it is forgotten


def test_the_longest_pause_counts(back_off, clock):
    heard = []
    back_off.on_parked(lambda slot, seconds: heard.append((slot, seconds)))
    assert back_off.park("a", 5) == 5
    assert back_off.park("a", 2) == 0
    clock.now += 1
    assert back_off.park("a", 10) == 6
    assert back_off.left("a") == 10
    assert heard == [("a", 5), ("a", 10)]


def test_no_seconds_park_nothing(back_off):
    assert back_off.park("a", 0) == 0
    assert back_off.until == {}


def test_others_are_told_of_what_was_parked_here_only(back_off):
    told = []
    back_off.on_parked_here(lambda slot, seconds: told.append((slot, seconds)))
    back_off.park("a", 5)
    back_off.learn("b", 5)
    assert told == [("a", 5)]
    assert back_off.left("b") > 0


def test_what_nobody_looks_at_any_more_is_forgotten(back_off, clock):
    for number in range(10_000):
        back_off.park(f"slot{number}", 5)
        clock.now += 1
        assert len(back_off.until) <= 32


def test_those_that_are_parked_stay(back_off, clock):
    for number in range(100):
        back_off.park(f"slot{number}", 1000)
    assert len(back_off.until) == 100
    assert all(back_off.left(f"slot{number}") for number in range(100))


@coroutine_test
async def test_who_waits_wakes_the_engine_and_leaves_with_it(back_off, engine):
    request = Request("http://a.example/")
    await back_off.wait(request, "a")
    assert engine.woken == 0
    back_off.park("a", 0.05)
    await back_off.wait(request, "a")
    assert engine.woken == 1
    back_off.park("a", 3600)
    engine.ending = True
    with pytest.raises(StillParked, match=r"1 h more, .*: http://a\.example/$"):
        await back_off.wait(request, "a")


def test_the_refusal_can_be_pickled():
    error = pickle.loads(pickle.dumps(StillParked("http://a.example/", 5.0)))
    assert (error.url, error.seconds) == ("http://a.example/", 5.0)
