"""The frontier by itself, on the real engine and downloader of a crawl."""

from __future__ import annotations

from collections import Counter
from random import Random
from time import monotonic, time
from typing import Any

import pytest
from scrapy import Request
from twisted.internet.defer import Deferred

from scrapy_rep.engine.inner import slot_clock
from scrapy_rep.frontier import frontier as frontier_module
from scrapy_rep.frontier import places, sqlite
from scrapy_rep.frontier.places import Permits
from scrapy_rep.judging.ruling import SEND, Action, Judge, Ruling, because
from scrapy_rep.policies import Policies
from tests.frontier.waiting import (
    assert_each_in_one_place,
    assert_empty,
    in_a_file,
    numbers,
    request,
    waits,
)
from tests.utils import sleep


@waits()
async def test_hosts_take_turns(waiting):
    for number in range(4):
        for host in "abc":
            waiting.push(request(host, number))
    assert [url[7] for url in await waiting.all_of()] == list("abc") * 4


@waits(CONCURRENT_REQUESTS_PER_DOMAIN=1)
async def test_a_fault_holds_a_host_up_and_loses_nothing(waiting, monkeypatch):
    monkeypatch.setattr(frontier_module, "AFTER_FAULT_SECONDS", 0.0)
    for number in range(3):
        waiting.push(request("a", number))

    async def fails(name):
        with monkeypatch.context() as broken:
            broken.setattr(Permits, name, lambda *args: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await waiting.pop()

    await fails("hold_of")
    await fails("slot_left")
    assert await waiting.pop() is not None
    assert await waiting.pop() is None  # its slot is full
    await fails("is_full")
    waiting.end_all()
    assert len(await waiting.all_of()) == 2


@waits(CONCURRENT_REQUESTS_PER_DOMAIN=2)
async def test_a_host_is_handed_out_as_often_as_it_has_places(waiting):
    for number in range(5):
        waiting.push(request("a", number))
        waiting.push(request("b", number))
    hosts = []
    while (popped := await waiting.pop()) is not None:
        hosts.append(popped.url[7])
    assert Counter(hosts) == {"a": 2, "b": 2}
    waiting.end(0)
    popped = await waiting.pop()
    assert popped is not None
    assert popped.url[7] == hosts[0]
    assert await waiting.pop() is None
    assert_each_in_one_place(waiting.frontier)


@waits(CONCURRENT_REQUESTS_PER_DOMAIN=3)
async def test_many_hosts_of_one_slot_take_turns_and_are_not_all_asked(waiting):
    mine = {"download_slot": "mine"}
    for number in range(40):
        waiting.push(request(f"h{number}", number, meta=dict(mine)))
    assert len([p for _ in range(5) if (p := await waiting.pop())]) == 3
    asked = []
    slot_left = waiting.frontier._permits.slot_left

    def counting(queue):
        asked.append(queue.host)
        return slot_left(queue)

    waiting.frontier._permits.slot_left = counting
    waiting.end(0)
    assert await waiting.pop() is not None
    assert await waiting.pop() is None
    assert len(asked) < 100
    waiting.end_all()
    assert len(await waiting.all_of()) == 36
    assert_empty(waiting.frontier)


@waits()
async def test_the_most_urgent_request_of_a_host_goes_first_whatever_its_place(waiting):
    for number, (scheme, priority) in enumerate(
        [("http", 0), ("https", 5), ("http", 9), ("https", 0), ("http", 5)]
    ):
        waiting.push(Request(f"{scheme}://a.example/{number}", priority=priority))
    assert len(waiting.frontier.places) == 2
    assert len(waiting.frontier.places.queues()) == 1
    assert numbers(await waiting.all_of()) == [2, 4, 1, 3, 0]
    assert_empty(waiting.frontier)


@waits()
async def test_a_download_slot_of_the_users(waiting):
    waiting.push(request("a", 1, meta={"download_slot": "mine"}))
    waiting.push(request("b", 2, meta={"download_slot": "mine"}))
    waiting.push(request("a", 3))
    queues = waiting.frontier.places.queues()
    assert [(queue.host, queue.slot) for queue in queues] == [
        ("a.example", "mine"),
        ("b.example", "mine"),
        ("a.example", "a.example"),
    ]
    assert sorted(numbers(await waiting.all_of())) == [1, 2, 3]


@waits(DOWNLOAD_SLOTS={"a.example": {"delay": 9.0}}, DOWNLOAD_DELAY=0)
async def test_the_delay_of_a_slot_holds_its_host_alone(waiting):
    for number, host in enumerate("aab"):
        waiting.push(request(host, number))
    assert numbers([(await waiting.pop()).url]) == [1]
    waiting.crawler.engine.downloader.slots["a.example"].lastseen = slot_clock()
    waiting.end()
    assert numbers(await waiting.all_of()) == [2]
    (held,) = waiting.frontier.held()
    assert (held.host, held.cause, held.requests) == ("a.example", "pace", 1)
    assert held.until is not None
    assert 0 < held.until - monotonic() <= 9


@waits(CONCURRENT_REQUESTS_PER_DOMAIN=2)
async def test_no_host_starves(waiting):
    """However its neighbours fare, a host that can be asked is, before long."""
    hosts = [f"h{number}" for number in range(20)]
    for busy in (1, 2, 3):
        rnd = Random(busy)
        await waiting.reopen()
        left, number, pops = Counter[str](), 0, 0
        ready_since: dict[str, int] = {}
        shares = Counter[str]()
        while pops < 400:
            for host in hosts:
                if left[host] < 3:
                    number += 1
                    waiting.push(request(host, number))
                    left[host] += 1
            popped = await waiting.pop()
            if popped is None:
                waiting.end(rnd.randrange(99))
                continue
            pops += 1
            host = popped.url[7:].partition(".")[0]
            left[host] -= 1
            shares[host] += 1
            assert pops - ready_since.pop(host, pops) <= 2 * len(hosts)
            while len(waiting.flying) > 8 * busy:
                waiting.end(rnd.randrange(99))
            flying = Counter(each.url[7:].partition(".")[0] for each in waiting.flying)
            for host in hosts:
                if flying[host] < 2:
                    ready_since.setdefault(host, pops)
                else:
                    ready_since.pop(host, None)
        fair = pops / len(hosts)
        assert fair / 2 <= min(shares.values()) <= max(shares.values()) <= fair * 2


def hold_at_night(monkeypatch: pytest.MonkeyPatch, seconds: float = 7200.0) -> set[str]:
    """Have agents called night wait; return the set of those that do."""
    closed = {"night"}

    def rule_line(self: Any, known: Any, agent: Any, now: Any) -> Ruling:
        if agent in closed:
            objection = because("visit_time", "not now")
            return Ruling(Action.WAIT, objection, seconds=seconds)
        return SEND

    monkeypatch.setattr(Judge, "rule_line", rule_line)
    monkeypatch.setattr(Policies, "peek", lambda *_: True)
    return closed


NIGHT = {"robotstxt_user_agent": "night"}


@pytest.mark.invariant3
@pytest.mark.parametrize("make", [None, in_a_file], ids=["memory", "a file"])
@waits(ROBOTSTXT_OBEY=True)
async def test_a_place_that_must_wait_holds_no_other(
    waiting, make, tmp_path, monkeypatch
):
    closed = hold_at_night(monkeypatch)
    waiting.push(request("a", 0, meta=dict(NIGHT)))
    assert await waiting.pop() is None  # its host waits
    waiting.push(request("a", 1))
    waiting.push(request("a", 2, meta=dict(NIGHT)))
    waiting.push(request("a", 3))
    assert_each_in_one_place(waiting.frontier)
    assert numbers(await waiting.all_of()) == [3, 1]
    (held,) = waiting.frontier.held()
    assert (held.host, held.cause, held.requests) == ("a.example", "visit_time", 2)
    assert held.until is not None
    assert 7100 < held.until - monotonic() <= 7200
    await sleep(0.1)  # which is when it is looked what is done, and that is written
    assert not waiting.frontier.taken
    if make:
        rows = waiting.ledger._file.rows("SELECT why, waiting FROM places")
        assert rows == [("visit_time", 2)]
    await waiting.close()
    if make:
        await waiting.reopen()
        assert len(waiting) == 2
        assert await waiting.pop() is None
        closed.clear()
        waiting.push(request("a", 4))
        assert numbers(await waiting.all_of()) == [4, 2, 0]
        assert_empty(waiting.frontier)
        await waiting.close()


@waits(ROBOTSTXT_OBEY=True)
async def test_policies_that_are_not_known_are_asked_for_ahead(
    waiting, monkeypatch, caplog
):
    asked: dict[str, Deferred[None]] = {}

    def ask(self: Any, origin: str, page: Request, *, ahead: bool) -> Deferred[None]:
        assert ahead
        asked[origin] = Deferred()
        return asked[origin]

    monkeypatch.setattr(Policies, "ask", ask)
    for number, host in enumerate("abc"):
        waiting.push(request(host, number))
    assert await waiting.pop() is None
    assert sorted(asked) == [f"http://{host}.example" for host in "abc"]
    assert {held.cause for held in waiting.frontier.held()} == {"asked"}
    assert_each_in_one_place(waiting.frontier)
    asked["http://b.example"].callback(None)
    assert numbers(await waiting.all_of()) == [1]  # the gate will ask, if need be
    asked["http://c.example"].errback(ZeroDivisionError())
    assert "Asking for the robots.txt of c.example failed" in caplog.text
    assert numbers(await waiting.all_of()) == [2]
    await waiting.close()


@waits(ROBOTSTXT_OBEY=True)
async def test_hosts_that_stop_waiting_before_their_time_leave_little_behind(
    waiting, monkeypatch
):
    hold_at_night(monkeypatch)
    waiting.push(request("a", 0, meta=dict(NIGHT)))
    for number in range(200):
        assert await waiting.pop() is None
        waiting.push(request("a", number))
        assert await waiting.pop() is not None
        waiting.end_all()
        assert len(waiting.frontier.later) <= 20
    await waiting.close()


@waits()
async def test_what_was_seen_before_leaves_no_place_behind(waiting):
    scheduler = waiting.crawler.engine._slot.scheduler
    for _ in range(2):
        scheduler.enqueue_request(request("b", 1))
    assert len(scheduler.frontier.places) == 1
    assert scheduler.next_request() is not None
    scheduler.enqueue_request(request("b", 1))
    assert_empty(scheduler.frontier)
    assert waiting.crawler.stats.get_value("dupefilter/filtered") == 2


# What is bounded, with a ledger that has all requests, too


@waits(in_a_file)
async def test_of_a_host_with_many_requests_few_are_at_hand(waiting, monkeypatch):
    monkeypatch.setattr(places, "MOST_OCTETS_AT_HAND", 50_000)
    for number in range(1000):
        waiting.push(request("a", number, priority=number % 3))
    (place,) = waiting.frontier.places
    assert place.count == 1000
    assert len(place.hand) < 200
    expected = sorted(range(1000), key=lambda number: (-(number % 3), -number))
    assert numbers(await waiting.all_of()) == expected


@pytest.mark.invariant5
@waits(in_a_file)
async def test_what_is_at_hand_of_all_hosts_is_bounded(waiting, monkeypatch):
    most = 100_000
    monkeypatch.setattr(places, "MOST_OCTETS_AT_HAND", most)
    page = b"x" * 1000

    def octets() -> int:
        hands = [entry[3] for p in waiting.frontier.places for entry in p.hand]
        return sum(len(each) for each in hands if isinstance(each, bytes))

    for number in range(300):
        waiting.push(request(f"h{number % 40}", number, body=page))
        assert octets() <= most
        assert octets() == waiting.frontier.places.octets
    found = []
    while (popped := await waiting.pop()) is not None:
        found.append(popped.url)
        waiting.end_all()
        assert octets() <= most + 2000
    assert sorted(numbers(found)) == list(range(300))
    assert waiting.frontier.places.octets == 0


@waits(in_a_file)
async def test_hosts_beyond_the_window_come_in_when_others_have_gone(
    waiting, monkeypatch
):
    for module in (frontier_module, places):
        monkeypatch.setattr(module, "WINDOW", 10)
    monkeypatch.setattr(sqlite, "WINDOW_LOOK_SECONDS", 0.0)
    for number in range(300):
        waiting.push(request(f"h{number % 100}", number))
        assert len(waiting.frontier.places) <= 11
        assert len(waiting) == number + 1
    await waiting.reopen()
    assert len(waiting.frontier.places) <= 11
    found: list[int] = []
    while len(waiting):
        if (popped := await waiting.pop()) is None:
            await sleep(0)  # others come in
            continue
        found += numbers([popped.url])
        waiting.end_all()
        waiting.frontier.sweep()
        assert len(waiting) == 300 - len(found)
        assert len(waiting.frontier.places) <= 11
    assert sorted(found) == list(range(300))
    assert len(waiting) == 0


@waits(in_a_file, ROBOTSTXT_OBEY=True)
async def test_hosts_that_wait_for_long_make_way_in_the_window(
    waiting, tmp_path, monkeypatch
):
    for module in (frontier_module, places):
        monkeypatch.setattr(module, "WINDOW", 10)
    monkeypatch.setattr(sqlite, "WINDOW_LOOK_SECONDS", 0.0)

    closed = hold_at_night(monkeypatch, seconds=sqlite.LONG_WAIT + 600)
    for number in range(40):
        waiting.push(request(f"h{number}", number, meta=dict(NIGHT)))
    for number in range(40, 60):
        waiting.push(request(f"h{number}", number))
    found: list[int] = []
    for _ in range(200):
        await sleep(0)  # others come in
        if (popped := await waiting.pop()) is not None:
            found += numbers([popped.url])
            waiting.end_all()
    assert sorted(found) == list(range(40, 60))
    assert len(waiting) == 40
    assert len(waiting.frontier.places) <= 11
    rows = waiting.ledger._file.rows(
        "SELECT until FROM places WHERE why = 'visit_time'"
    )
    assert len(rows) >= 2
    longest = time() + sqlite.LONG_WAIT + 600
    assert all(longest - 60 < until <= longest for (until,) in rows)
    await waiting.close()
    closed.clear()
    await waiting.reopen()
    for _ in range(200):
        await sleep(0)
        if (popped := await waiting.pop()) is not None:
            found += numbers([popped.url])
            waiting.end_all()
    # Those that were noted as waiting until later are not looked at before.
    assert set(found) >= set(range(40, 60))
    assert len(waiting) == 60 - len(found)
    await waiting.close()


@waits()
async def test_what_comes_when_its_place_was_dropped_is_handed_out(waiting):
    """As where an operator deletes the rest of a host while the ledger brings its first ones."""
    frontier = waiting.frontier
    place = frontier.places.named("a.example\nhttp://a.example")
    frontier.found(place, 3)
    place.filling = True
    frontier.drop(place)
    frontier.came(place, [(0, 1, None, request("a", 7)), (0, 2, None, request("a", 8))])
    assert_each_in_one_place(frontier)
    assert numbers(await waiting.all_of()) == [7, 8]
    frontier.came(place, [])
    assert_empty(frontier)


@waits()
async def test_a_closed_frontier_hands_out_nothing(waiting):
    waiting.push(request("a", 1))
    await waiting.close()
    assert {queue.where for queue in waiting.frontier.places.queues()} == {"gone"}
    assert waiting.frontier.pop() is None
