"""When a request may start: by the server's clock, or in turns while it is away."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import Any

import pytest

from scrapy_rep.pacing import ParkedError
from scrapy_rep.redis import bookings as starts_module
from scrapy_rep.redis import fleet as link_module
from tests.redis.workers import Worker, until
from tests.utils import coroutine_test, timed

pytestmark = [pytest.mark.only_asyncio, timed]

HOST = "slow.example"
KEY = f"rep:{{{HOST}}}:start"
PARKED = f"rep:{{{HOST}}}:parked"


async def start_often(starts: Any, interval, times, until_at):
    """Start one request after the other, as a worker does; note when in *times*."""
    while time.monotonic() < until_at:
        await starts.book(HOST, interval)
        times.append(time.monotonic())


def gaps(times):
    return [later - earlier for earlier, later in pairwise(sorted(times))]


@coroutine_test
async def test_workers_share_a_pace(redis_server):
    interval = 0.1
    times: list[float] = []
    async with (
        Worker(redis_server) as one,
        Worker(redis_server) as two,
        Worker(redis_server) as three,
    ):
        end = time.monotonic() + 2
        await asyncio.gather(
            *(
                start_often(worker.starts, interval, times, end)
                for worker in (one, two, three)
            )
        )
    assert min(gaps(times)) >= 0.8 * interval
    assert len(times) >= 15


@coroutine_test
async def test_a_start_is_booked_exactly(redis_server):
    async with Worker(redis_server) as worker:
        before = redis_server.client.time()
        booking = await worker.starts.book(HOST, 1.5)
        after = redis_server.client.time()
        assert int(redis_server.client.get(KEY)) == booking
        assert booking > 1e15  # microseconds, which "%.14g" would round
        assert before <= divmod(booking, 10**6) <= after
        expiry = worker.link.settings.crawl_delay_max + starts_module.KEPT + 1.5
        assert redis_server.client.pttl(KEY) == pytest.approx(expiry * 1e3, abs=1000)


@coroutine_test
async def test_robots_txt_is_booked_and_does_not_wait(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        await one.starts.book(HOST, 0.0)
        began = time.monotonic()
        await two.starts.book(HOST, 0.0)
        assert time.monotonic() - began < 0.1
        await one.starts.book(HOST, 0.3)
        assert 0.29 < time.monotonic() - began < 0.45


@coroutine_test
async def test_hosts_are_apart(redis_server):
    async with Worker(redis_server) as worker:
        began = time.monotonic()
        for number in range(20):
            await worker.starts.book(f"{number}.example", 5.0)
        assert time.monotonic() - began < 1


@coroutine_test
async def test_a_request_that_came_late_puts_off_the_next(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        booking = await one.starts.book(HOST, 0.2)
        began = time.monotonic()
        await asyncio.sleep(0.15)
        assert await one.starts.late(HOST, booking, 0.1)
        assert int(redis_server.client.get(KEY)) == booking + 100_000
        await two.starts.book(HOST, 0.2)
        assert 0.29 < time.monotonic() - began < 0.45


@coroutine_test
async def test_late_says_nothing_of_a_later_start(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        booking = await one.starts.book(HOST, 0.05)
        later = await two.starts.book(HOST, 0.05)
        assert not await one.starts.late(HOST, booking, 9.0)
        assert int(redis_server.client.get(KEY)) == later


@coroutine_test
async def test_a_late_one_is_remembered_for_as_long_as_its_delay(redis_server):
    """The user's own delay may be longer than REP_CRAWL_DELAY_MAX."""
    async with Worker(redis_server, REP_CRAWL_DELAY_MAX=1) as worker:
        booking = await worker.starts.book(HOST, 500.0)
        await worker.starts.late(HOST, booking, 0.1)
        assert redis_server.client.pttl(KEY) > 500_000


@coroutine_test
async def test_who_hears_late_that_it_may_start_asks_again(redis_server):
    """As where its event loop was busy: others have started meanwhile."""
    interval = 0.2
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        confirmed = one.starts._start

        async def late(**kwargs):
            one.starts._start = confirmed
            answer = await confirmed(**kwargs)
            await asyncio.sleep(0.5)
            return answer

        one.starts._start = late
        times: list[float] = []
        end = time.monotonic() + 0.45
        once = time.monotonic() + 0.001
        book = asyncio.create_task(start_often(one.starts, interval, times, once))
        await asyncio.sleep(0.01)
        await start_often(two.starts, interval, times, end)
        await book
    assert min(gaps(times)) >= 0.8 * interval


@coroutine_test
async def test_a_server_clock_that_was_set_back_stalls_nobody(redis_server):
    async with Worker(redis_server) as worker:
        seconds, micros = redis_server.client.time()
        redis_server.client.set(KEY, (seconds + 3600) * 10**6 + micros)
        began = time.monotonic()
        await worker.starts.book(HOST, 0.3)
        # How long ago the last one was is not known, so once more its delay.
        assert 0.29 < time.monotonic() - began < 0.5


@coroutine_test
async def test_scripts_survive_a_flush(redis_server):
    async with Worker(redis_server) as worker:
        booking = await worker.starts.book(HOST, 0.05)
        redis_server.client.script_flush()
        await worker.starts.late(HOST, booking, 0.01)
        redis_server.client.script_flush()
        await worker.starts.book(HOST, 0.05)
        redis_server.client.script_flush()
        await worker.link._show_up()
        assert worker.link.up
        assert not worker.stat("rep/redis/errors")


@coroutine_test
async def test_all_keys_expire(redis_server):
    async with Worker(redis_server) as worker:
        booking = await worker.starts.book(HOST, 0.05)
        await worker.starts.late(HOST, booking, 0.01)
        await worker.starts.park(HOST, 5.0)
        keys = redis_server.client.keys()
        assert len(keys) == 3
        assert all(redis_server.client.pttl(key) > 0 for key in keys)


# Hosts that want to be left alone


@coroutine_test
async def test_a_host_that_one_has_parked_is_parked_for_all(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        await one.starts.park(HOST, 0.5)
        await one.starts.park(HOST, 0.1)  # the longest pause counts
        for worker, interval in ((two, 0.1), (one, 0.1), (two, 0.0)):
            with pytest.raises(ParkedError) as caught:
                await worker.starts.book(HOST, interval)
            assert 0.4 < caught.value.seconds <= 0.5
        assert not redis_server.client.exists(KEY)
        await two.starts.book("other.example", 0.1)
        await asyncio.sleep(0.5)
        assert await two.starts.book(HOST, 0.1)


@coroutine_test
async def test_who_waits_for_a_delay_learns_that_the_host_is_parked(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        await one.starts.book(HOST, 0.3)
        book = asyncio.create_task(two.starts.book(HOST, 0.3))
        await asyncio.sleep(0.05)
        await one.starts.park(HOST, 5.0)
        with pytest.raises(ParkedError) as caught:
            await book
        assert 4.5 < caught.value.seconds < 5


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
            await worker.link._show_up()
        for worker in fleet[:2]:
            await worker.link._show_up()
        assert len(one.link.workers) == 3
        assert one.link.workers == two.link.workers == three.link.workers


@coroutine_test
async def test_workers_take_turns_without_redis(redis_server, monkeypatch):
    monkeypatch.setattr(starts_module, "LONG_AWAY", 0.5)
    interval = 0.15
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        for worker in (one, two):
            await worker.link._show_up()
        await one.link._show_up()
        redis_server.kill()
        for worker in (one, two):
            await worker.link._show_up()
            assert not worker.link.up
        end = time.monotonic() + 3.5
        each: tuple[list[float], list[float]] = [], []
        await asyncio.gather(
            *(
                start_often(worker.starts, interval, mine, end)
                for worker, mine in zip((one, two), each, strict=True)
            )
        )
    times = each[0] + each[1]
    assert min(gaps(times)) >= 0.98 * interval
    assert min(len(mine) for mine in each) >= 6
    assert len(times) <= 3.5 / interval


@coroutine_test
async def test_nobody_starts_before_all_have_noticed(redis_server, monkeypatch):
    monkeypatch.setattr(starts_module, "LONG_AWAY", 1.0)
    async with Worker(redis_server) as worker:
        await worker.starts.book(HOST, 0.1)
        redis_server.kill()
        lost_at = time.monotonic()
        await worker.starts.book(HOST, 0.1)
        assert time.monotonic() - lost_at >= 1.0


@coroutine_test
async def test_a_robots_txt_waits_for_redis_and_not_for_ever(redis_server, monkeypatch):
    # Others may know of a delay, and ask that host in their turn.
    monkeypatch.setattr(starts_module, "SETTLE", 0.1)
    monkeypatch.setattr(starts_module, "UNKNOWN_AWAY", 1.5)
    monkeypatch.setattr(link_module, "PROBE", 0.05)
    async with Worker(redis_server) as worker:
        await worker.link._show_up()
        redis_server.kill()
        await worker.link._show_up()
        lost_at = worker.link.changed_at
        await worker.starts.book(HOST, 0.0)
        assert 1.5 <= time.monotonic() - lost_at < 2.5
        again_at = time.monotonic()
        await worker.starts.book(HOST, 0.0)
        assert time.monotonic() - again_at < 0.1
        redis_server.start()
        await until(lambda: worker.link.up)
        redis_server.client.flushall()
        redis_server.kill()
        monkeypatch.setattr(starts_module, "UNKNOWN_AWAY", 30.0)
        await worker.link._show_up()
        book = asyncio.create_task(worker.starts.book(HOST, 0.0))
        await asyncio.sleep(0.2)
        redis_server.start()
        assert await asyncio.wait_for(book, 5) is not None
        assert redis_server.client.exists(KEY)


@coroutine_test
async def test_workers_are_restless_when_they_have_just_met(redis_server, monkeypatch):
    monkeypatch.setattr(starts_module, "SETTLE", 0.2)
    monkeypatch.setattr(starts_module, "BUSY", 0.5)
    monkeypatch.setattr(link_module, "PROBE", 0.05)
    async with Worker(redis_server) as worker:
        await worker.link._show_up()
        assert worker.starts.restless
        await asyncio.sleep(0.6)
        assert not worker.starts.restless
        redis_server.kill()
        await worker.link._show_up()
        redis_server.start()
        await until(lambda: worker.link.up)
        await asyncio.sleep(0.6)
        assert worker.starts.restless
        await asyncio.sleep(0.2)
        assert not worker.starts.restless


@coroutine_test
async def test_who_never_saw_the_server_does_not_know_how_many_share_the_pace(
    redis_server, monkeypatch
):
    monkeypatch.setattr(starts_module, "LONG_AWAY", 0.1)
    monkeypatch.setattr(starts_module, "UNKNOWN_AWAY", 0.1)
    monkeypatch.setattr(starts_module, "SETTLE", 0.1)
    monkeypatch.setattr(link_module, "PROBE", 0.05)
    redis_server.kill()
    async with Worker(redis_server) as worker:
        assert not worker.link.up
        book = asyncio.create_task(worker.starts.book(HOST, 0.1))
        await worker.starts.book(HOST, 0.0)
        await asyncio.sleep(0.6)
        assert not book.done()
        redis_server.start()
        await asyncio.wait_for(book, 5)
        assert redis_server.client.exists(KEY)


@coroutine_test
async def test_pause_waits_for_redis(redis_server, monkeypatch):
    monkeypatch.setattr(link_module, "PROBE", 0.05)
    async with Worker(redis_server, REP_REDIS_DOWN="pause") as worker:
        await worker.starts.book(HOST, 0.1)
        redis_server.kill()
        booked = [
            asyncio.create_task(worker.starts.book(HOST, interval))
            for interval in (0.1, 0.0)
        ]
        await asyncio.sleep(1)
        assert not any(book.done() for book in booked)
        redis_server.start()
        await asyncio.wait_for(asyncio.gather(*booked), 5)


@coroutine_test
async def test_who_finds_redis_again_waits_until_all_have(redis_server, monkeypatch):
    monkeypatch.setattr(starts_module, "LONG_AWAY", 0.1)
    monkeypatch.setattr(starts_module, "SETTLE", 1.0)
    monkeypatch.setattr(link_module, "PROBE", 0.05)
    async with Worker(redis_server) as worker:
        await worker.starts.book(HOST, 0.1)
        redis_server.kill()
        await worker.starts.book(HOST, 0.1)
        redis_server.start()
        await until(lambda: worker.link.up)
        began = time.monotonic()
        await worker.starts.book(HOST, 0.2)
        assert 1.15 < time.monotonic() - began < 1.5


@coroutine_test
async def test_a_request_at_the_end_of_the_crawl_blocks_nothing(redis_server):
    async with Worker(redis_server) as worker:
        await worker.starts.book(HOST, 0.3)
        book = asyncio.create_task(worker.starts.book(HOST, 0.3))
        await asyncio.sleep(0.01)
        await worker.link.close()
        await asyncio.sleep(0.5)  # the event loop goes on
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
        assert not await worker.starts.late(HOST, 1, 1.0)
        began = time.monotonic()
        booking = await worker.starts.book(HOST, 0.3)
        assert time.monotonic() - began >= 0.29
        assert int(redis_server.client.get(KEY)) == booking
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
