"""When a request may start: by the server's clock, or in turns while it is away."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import Any

import pytest

from scrapy_rep.pacing import ParkedError
from scrapy_rep.redis import bookings as starts_module
from scrapy_rep.redis.clients import Script
from tests.redis.workers import Worker, promptly
from tests.redis_server import RedisServer
from tests.utils import coroutine_test, until

pytestmark = pytest.mark.only_asyncio

HOST = "slow.example"
KEY = f"rep:{{{HOST}}}:start"
PARKED = f"rep:{{{HOST}}}:parked"


async def start_often(starts: Any, interval, times, number):
    """Start so many requests, one after the other, as a worker does; note when."""
    for _ in range(number):
        booking = await starts.book(HOST, interval)
        times.append(time.monotonic())
        await starts.over(HOST, booking)


def booked(server: Any) -> int:
    """Return the last booking."""
    return int(server.client.get(KEY).split()[0])


def grants_of(*workers: Worker) -> list[int]:
    """Return a list of what the server grants them from now on, by its clock."""
    found: list[int] = []

    def noted(call: Any) -> Any:
        async def note(what, *args):
            answer = await call(what, *args)
            if what is Script.named("start") and not answer[0]:
                found.extend(answer[1:])
            return answer

        return note

    for worker in workers:
        servers: Any = worker.servers
        servers.call = noted(servers.call)
    return found


def server_time(server: Any) -> int:
    """Return the server's time in microseconds."""
    seconds, micros = server.client.time()
    return int(seconds) * 10**6 + int(micros)


def gaps(times):
    return [later - earlier for earlier, later in pairwise(sorted(times))]


async def ask(worker: Worker, interval: float, host: str = HOST) -> int:
    """Book a start, and have its request answered at once; return the booking."""
    booking = await promptly(worker.starts.book(host, interval))
    if booking is not None:
        await worker.starts.over(host, booking)
    return int(booking or 0)


async def started(worker: Worker, interval: float) -> float:
    """Do so, and return when it could start, by ``time.monotonic()``."""
    await ask(worker, interval)
    return time.monotonic()


@coroutine_test
async def test_workers_share_a_pace(redis_server):
    interval = 0.05
    times: list[float] = []
    async with (
        Worker(redis_server) as one,
        Worker(redis_server) as two,
        Worker(redis_server) as three,
    ):
        workers = one, two, three
        granted = grants_of(*workers)
        await asyncio.gather(
            *(start_often(worker.starts, interval, times, 5) for worker in workers)
        )
    assert len(times) == 15
    assert min(gaps(granted)) >= interval * 1e6
    assert min(gaps(times)) >= interval / 2  # they go when it is granted


@coroutine_test
async def test_a_start_is_booked_exactly(redis_server):
    async with Worker(redis_server) as worker:
        before = redis_server.client.time()
        began = time.monotonic()
        booking = await worker.starts.book(HOST, 1.5)
        took = time.monotonic() - began
        after = redis_server.client.time()
        assert booked(redis_server) == booking
        assert booking > 1e15  # microseconds, which "%.14g" would round
        assert before <= divmod(booking, 10**6)
        # An answer of the server that takes long puts off the start.
        assert booking / 1e6 <= after[0] + after[1] / 1e6 + took
        expiry = (
            worker.link.settings.crawl_delay_max
            + starts_module.START_KEPT_SECONDS
            + 1.5
        )
        assert redis_server.client.pttl(KEY) == pytest.approx(expiry * 1e3, abs=30_000)


@coroutine_test
async def test_robots_txt_is_booked(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        began = await ask(two, 0.0)
        assert await ask(one, 0.2) >= began + 200_000


@coroutine_test
async def test_who_does_not_know_the_delay_keeps_the_one_that_others_keep(redis_server):
    """As a worker that cannot read the robots.txt, and fetches it."""
    waited: list[None] = []
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        before = await ask(one, 0.4)
        for _ in range(2):  # what it does not know it does not overwrite
            booking = await two.starts.book(HOST, 0.0, lambda: waited.append(None))
            await two.starts.over(HOST, booking)
            assert booking - before >= 400_000
            before = booking
        assert waited
        expiry = (
            two.link.settings.crawl_delay_max + starts_module.START_KEPT_SECONDS + 0.4
        )
        assert redis_server.client.pttl(KEY) == pytest.approx(expiry * 1e3, abs=30_000)


@coroutine_test
async def test_hosts_are_apart(redis_server):
    async with Worker(redis_server) as worker:
        for number in range(20):
            await promptly(worker.starts.book(f"{number}.example", 300.0))


@coroutine_test
async def test_a_start_is_held_until_its_request_is_over(redis_server, monkeypatch):
    """However long that takes; and only then does the delay begin."""
    monkeypatch.setattr(starts_module, "LEASE_SECONDS", 0.3)
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        booking = await one.starts.book(HOST, 0.2)
        others = [
            asyncio.create_task(two.starts.book(HOST, interval))
            for interval in (0.2, 0.0)
        ]
        await asyncio.sleep(1.0)
        assert not any(book.done() for book in others)
        over = server_time(redis_server)
        await one.starts.over(HOST, booking)
        done, _ = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        (first,) = done
        assert over + 200_000 <= first.result() <= over + 500_000
        await two.starts.over(HOST, first.result())
        second = await promptly(next(book for book in others if book is not first))
        assert second >= first.result() + 200_000


@coroutine_test
async def test_a_worker_that_dies_holds_a_host_no_longer_than_its_lease(
    redis_server, monkeypatch
):
    monkeypatch.setattr(starts_module, "LEASE_SECONDS", 0.5)
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        booking = await one.starts.book(HOST, 0.1)
        one.starts.holding.popitem()[1].cancel()
        assert 450_000 <= await ask(two, 0.1) - booking <= 900_000
        await one.starts.over(HOST, booking)  # which it was not told of
        before = booked(redis_server)
        assert await ask(two, 0.1) >= before + 100_000


@coroutine_test
async def test_the_end_of_one_says_nothing_of_a_later_one(redis_server, monkeypatch):
    monkeypatch.setattr(starts_module, "LEASE_SECONDS", 0.1)
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        booking = await one.starts.book(HOST, 0.05)
        one.starts.holding.popitem()[1].cancel()
        later = await two.starts.book(HOST, 0.05)
        await one.starts.over(HOST, booking)
        assert booked(redis_server) == later
        third = asyncio.create_task(one.starts.book(HOST, 0.05))
        await asyncio.sleep(0.2)
        assert not third.done()
        await two.starts.over(HOST, later)
        assert await third >= later + 200_000


@coroutine_test
async def test_a_start_is_remembered_for_as_long_as_its_delay(redis_server):
    """The user's own delay may be longer than REP_CRAWL_DELAY_MAX."""
    async with Worker(redis_server, REP_CRAWL_DELAY_MAX=1) as worker:
        booking = await worker.starts.book(HOST, 500.0)
        assert redis_server.client.pttl(KEY) > 500_000
        await worker.starts.over(HOST, booking)
        assert redis_server.client.pttl(KEY) > 500_000


@coroutine_test
async def test_a_server_clock_that_was_set_back_stalls_nobody(redis_server):
    async with Worker(redis_server) as worker:
        seconds, micros = redis_server.client.time()
        redis_server.client.set(KEY, (seconds + 3600) * 10**6 + micros)
        began = time.monotonic()
        # How long ago the last one was is not known, so once more its delay.
        assert await started(worker, 0.3) - began >= 0.3


@coroutine_test
async def test_scripts_survive_a_flush(redis_server):
    async with Worker(redis_server) as worker:
        booking = await worker.starts.book(HOST, 0.05)
        redis_server.client.script_flush()
        await worker.starts.over(HOST, booking)
        redis_server.client.script_flush()
        await ask(worker, 0.05)
        redis_server.client.script_flush()
        await worker.show_up()
        assert worker.link.up
        assert not worker.stat("rep/redis/errors")


@coroutine_test
async def test_all_keys_expire(redis_server):
    async with Worker(redis_server) as worker:
        await ask(worker, 0.05)
        await worker.starts.park(HOST, 5.0)
        keys = redis_server.client.keys()
        assert len(keys) == 4
        assert all(redis_server.client.pttl(key) > 0 for key in keys)


# Hosts that want to be left alone


@coroutine_test
async def test_a_host_that_one_has_parked_is_parked_for_all(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        await one.starts.park(HOST, 500.0)
        await one.starts.park(HOST, 100.0)  # the longest pause counts
        for worker, interval in ((two, 0.1), (one, 0.1), (two, 0.0)):
            with pytest.raises(ParkedError) as caught:
                await worker.starts.book(HOST, interval)
            assert 400 < caught.value.seconds <= 500
        assert not redis_server.client.exists(KEY)
        await two.starts.book("other.example", 0.1)
        await one.starts.park("third.example", 0.1)
        await asyncio.sleep(0.15)
        assert await two.starts.book("third.example", 0.1)


@coroutine_test
async def test_who_waits_for_a_delay_learns_that_the_host_is_parked(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        await ask(one, 0.5)
        book = asyncio.create_task(two.starts.book(HOST, 0.5))
        await asyncio.sleep(0.05)
        await one.starts.park(HOST, 500.0)
        with pytest.raises(ParkedError) as caught:
            await book
        assert 400 < caught.value.seconds < 500


@coroutine_test
async def test_a_pause_outlasts_no_clock_that_was_set_back(redis_server):
    async with Worker(redis_server) as worker:
        redis_server.client.set(PARKED, 300, px=3_600_000)
        with pytest.raises(ParkedError) as caught:
            await worker.starts.book(HOST, 0.1)
        assert caught.value.seconds == 0.3
        await asyncio.sleep(0.35)
        assert await worker.starts.book(HOST, 0.1)


# While Redis is away


@coroutine_test
async def test_a_pause_that_nobody_can_be_told_of_is_no_failure(redis_server):
    async with Worker(redis_server) as worker:
        redis_server.kill()
        await worker.starts.park(HOST, 5.0)
        assert not worker.link.up


@coroutine_test
async def test_all_workers_see_the_fleet_in_the_same_order(redis_server):
    async with (
        Worker(redis_server) as one,
        Worker(redis_server) as two,
        Worker(redis_server) as three,
    ):
        fleet = [one, two, three]
        for worker in fleet:  # each has been seen last, once
            await worker.show_up()
        for worker in fleet[:2]:
            await worker.show_up()
        assert [w.link.workers for w in (one, two, three)] == [3] * 3
        assert {w.link.rank for w in (one, two, three)} == {0, 1, 2}


@coroutine_test
async def test_workers_take_turns_without_redis(redis_server, monkeypatch):
    monkeypatch.setattr(starts_module, "LONG_AWAY_SECONDS", 0.2)
    interval = 0.1
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        for worker in (one, two):
            await worker.show_up()
        await one.show_up()
        redis_server.kill()
        for worker in (one, two):
            await worker.show_up()
            assert not worker.link.up
        # How well each knows the server's time is another matter.
        two.link.offset = one.link.offset
        times: list[float] = []
        await asyncio.gather(
            *(start_often(worker.starts, interval, times, 5) for worker in (one, two))
        )
    assert len(times) == 10
    # Turns are longer by a part of that and 0.02 s.
    assert min(gaps(times)) >= interval


@coroutine_test
async def test_nobody_starts_before_all_have_noticed(redis_server, monkeypatch):
    monkeypatch.setattr(starts_module, "LONG_AWAY_SECONDS", 0.5)
    async with Worker(redis_server) as worker:
        await worker.starts.book(HOST, 0.1)
        redis_server.kill()
        lost_at = time.monotonic()
        assert await started(worker, 0.1) - lost_at >= 0.5


@coroutine_test
async def test_a_robots_txt_waits_for_redis_and_not_for_ever(redis_server, monkeypatch):
    # Others may know of a delay, and ask that host in their turn.
    monkeypatch.setattr(starts_module, "SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(starts_module, "UNKNOWN_AWAY_SECONDS", 1.0)
    async with Worker(redis_server) as worker:
        await worker.show_up()
        redis_server.kill()
        await worker.show_up()
        assert await started(worker, 0.0) - worker.link.changed_at >= 1.0
        monkeypatch.setattr(starts_module, "UNKNOWN_AWAY_SECONDS", 3600.0)
        worker.link.changed_at -= 3600.0
        await promptly(worker.starts.book(HOST, 0.0))  # it has been away for so long
        redis_server.start()
        await until(lambda: worker.link.up)
        redis_server.client.flushall()
        redis_server.kill()
        await worker.show_up()
        book = asyncio.create_task(worker.starts.book(HOST, 0.0))
        await asyncio.sleep(0.2)
        redis_server.start()
        assert await promptly(book) is not None
        assert redis_server.client.exists(KEY)


@coroutine_test
async def test_who_never_saw_the_server_does_not_know_how_many_share_the_pace(
    redis_server, monkeypatch
):
    monkeypatch.setattr(starts_module, "LONG_AWAY_SECONDS", 0.1)
    monkeypatch.setattr(starts_module, "UNKNOWN_AWAY_SECONDS", 0.1)
    monkeypatch.setattr(starts_module, "SETTLE_SECONDS", 0.1)
    redis_server.kill()
    async with Worker(redis_server) as worker:
        assert not worker.link.up
        book = asyncio.create_task(worker.starts.book(HOST, 0.1))
        await worker.starts.book(HOST, 0.0)
        await asyncio.sleep(0.3)
        assert not book.done()
        redis_server.start()
        await promptly(book)
        assert redis_server.client.exists(KEY)


@coroutine_test
async def test_pause_waits_for_redis(redis_server, monkeypatch):
    async with Worker(redis_server, REP_REDIS_DOWN="pause") as worker:
        await ask(worker, 0.1)
        redis_server.kill()
        booked = [
            asyncio.create_task(start_often(worker.starts, interval, [], 1))
            for interval in (0.1, 0.0)
        ]
        await asyncio.sleep(0.5)
        assert not any(book.done() for book in booked)
        redis_server.start()
        await promptly(asyncio.gather(*booked))


@pytest.mark.parametrize("known", [0.2, 0.0])
@coroutine_test
async def test_who_finds_redis_again_waits_until_all_have(tmp_path, monkeypatch, known):
    monkeypatch.setattr(starts_module, "LONG_AWAY_SECONDS", 0.1)
    monkeypatch.setattr(starts_module, "SETTLE_SECONDS", 0.5)
    with RedisServer(tmp_path) as server:
        async with Worker(server) as worker:
            await ask(worker, 0.2)
            server.kill()
            await ask(worker, 0.2)
            server.start()
            await until(lambda: worker.link.up)
            # By then the others have, and Redis knows of what they have started since.
            assert await started(worker, known) - worker.link.changed_at >= 0.7


@coroutine_test
async def test_a_request_at_the_end_of_the_crawl_blocks_nothing(redis_server):
    async with Worker(redis_server) as worker:
        await worker.starts.book(HOST, 0.3)
        book = asyncio.create_task(worker.starts.book(HOST, 0.3))
        await asyncio.sleep(0.01)
        await worker.servers.close()
        await asyncio.sleep(0.2)  # the event loop goes on
        book.cancel()
        with pytest.raises(asyncio.CancelledError):
            await book


NO_TIMES = [
    *(b"soon", b"", b"nan", b"inf", b"1e300", b"\xff", ["a list"], {"a": "hash"}),
]


def plant(server: Any, key: str, what: Any, seconds: float) -> None:
    if isinstance(what, list):
        server.client.rpush(key, *what)
    elif isinstance(what, dict):
        server.client.hset(key, mapping=what)
    else:
        server.client.set(key, what)
    server.client.pexpire(key, round(seconds * 1e3))


@pytest.mark.parametrize("what", NO_TIMES, ids=repr)
@coroutine_test
async def test_what_is_no_time_of_a_start_is_taken_for_now(redis_server, what):
    """Whoever has written that, no request may follow at once."""
    async with Worker(redis_server) as worker:
        plant(redis_server, KEY, what, 60)
        await worker.starts.over(HOST, 1)
        began = time.monotonic()
        booking = await worker.starts.book(HOST, 0.3)
        assert time.monotonic() - began >= 0.29
        assert booked(redis_server) == booking
        assert worker.stat("rep/redis/errors") is None


@pytest.mark.parametrize("what", [*NO_TIMES, b"0", b"-5", b"1.5"], ids=repr)
@coroutine_test
async def test_what_is_no_time_of_a_pause_is_one(redis_server, what):
    async with Worker(redis_server) as worker:
        plant(redis_server, PARKED, what, 0.3)
        with pytest.raises(ParkedError) as it:
            await worker.starts.book(HOST, 0.0)
        assert 0 < it.value.seconds <= 0.3
        assert worker.stat("rep/redis/errors") is None
