"""The lines on what waits: few, however many hosts there are."""

from __future__ import annotations

import json
from time import monotonic

import pytest
from scrapy import signals

from scrapy_rep.crawl import Crawl
from scrapy_rep.events import audit
from scrapy_rep.events.audit import AT_A_TIME, MOST_HOSTS, WaitingLines
from scrapy_rep.events.kinds import Waited
from scrapy_rep.events.waits import Held
from tests.utils import Pages, coroutine_test, make_crawler, until


class Queue:
    """Holds what it is told to."""

    def __init__(self) -> None:
        self.has: list[Held] = []

    def held(self):
        return iter(self.has)

    def requests_of(self, host: str, origin: str) -> int:
        return 0

    def next_due(self) -> float:
        return 0.0


@pytest.fixture
def queue():
    return Queue()


@pytest.fixture
def crawl(queue):
    crawler = make_crawler()
    crawler.spider = Pages()
    crawl = Crawl.of(crawler)
    crawl.waits.queue = queue
    crawl.events.wall_at_zero = 0.0
    return crawl


@pytest.fixture
def look(crawl):
    """Return a function that has it look once more, and returns what was written."""
    told: list[Waited] = []
    crawl.events.listen(told.append, [Waited])
    found = WaitingLines(crawl.crawler, crawl.events, crawl.waits)

    async def once():
        await found._look()
        found._alarm.cancel()  # the next look is the test's
        lines = [json.loads(each.as_json()) for each in told]
        told.clear()
        for line in lines:
            del line["type"], line["time"]
        return lines

    return once


@coroutine_test
async def test_sums_by_cause_and_the_hosts_that_are_new(queue, look):
    later = monotonic() + 100
    queue.has = [
        Held("a.example", "parked", later, 3),
        Held("a.example", "parked", later - 50, 1),  # another line of that host
        Held("b.example", "parked", None, 1),
        Held("c.example", "pace", later, 7),
        Held("d.example", "turn", None, 9),  # which waits for nothing
    ]
    when = {"until": round(later - 50, 4)}
    assert await look() == [
        {"cause": "parked", "hosts": 2, "requests": 5, **when, "last": when["until"]},
        {
            "cause": "pace",
            "hosts": 1,
            "requests": 7,
            "until": round(later, 4),
            "last": round(later, 4),
        },
        {"cause": "parked", "host": "a.example", "requests": 4, **when},
        {"cause": "parked", "host": "b.example", "requests": 1},
    ]
    assert await look() == []  # nothing has changed


@coroutine_test
async def test_what_waits_for_longer_is_told_again_and_what_is_over_first(queue, look):
    later = monotonic() + 100
    queue.has = [Held("a.example", "parked", later, 3)]
    await look()
    queue.has = [
        Held("a.example", "unreachable", later, 4),
        Held("b.example", "visit_time", later, 1),
    ]
    sums = [each for each in await look() if "hosts" in each]
    assert [(each["cause"], each["requests"]) for each in sums] == [
        ("parked", 0),
        ("visit_time", 1),
        ("unreachable", 4),
    ]
    queue.has = [
        Held("a.example", "unreachable", later + 0.5, 4),
        Held("b.example", "visit_time", later + 60, 1),
    ]
    (line,) = await look()
    assert (line["host"], line["until"]) == ("b.example", round(later + 60, 4))


@coroutine_test
async def test_many_hosts_have_few_lines(queue, look):
    number = 5 * AT_A_TIME
    queue.has = [
        Held(f"{n}.example", "parked" if n % 2 else "unreachable", None, n)
        for n in range(number)
    ]
    first = await look()
    assert len(first) == 2 + MOST_HOSTS
    assert sum(each["hosts"] for each in first if "hosts" in each) == number
    assert first[2]["requests"] == number - 1  # those with most requests first
    second = await look()
    assert len(second) == MOST_HOSTS
    assert not {each["host"] for each in second} & {each.get("host") for each in first}


@coroutine_test
async def test_it_looks_again_and_again(crawl, queue, monkeypatch):
    monkeypatch.setattr(audit, "LEAST_LOOK_SECONDS", 0.01)
    told: list[Waited] = []
    crawl.events.listen(told.append, [Waited])
    found = WaitingLines(crawl.crawler, crawl.events, crawl.waits)
    crawl.crawler.signals.send_catch_log(signals.spider_opened)
    for number in (1, 2, 3):
        queue.has = [Held("a.example", "pace", None, number)]
        await until(lambda: told and told[-1].requests == number)  # noqa: B023
    found.close()
