"""What an operator sees of a queue, and does with it, while workers are at it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
import scrapy
from scrapy.settings import Settings

from scrapy_rep.redis import orders
from scrapy_rep.redis.overview import Host, hosts, state
from scrapy_rep.redis.parts import connect
from tests.redis.workers import Crawl, short
from tests.utils import coroutine_test, until

if TYPE_CHECKING:
    from tests.redis_server import RedisServer

pytestmark = pytest.mark.only_asyncio

PREFIX = "{quiet:requests}:"
LEASE = 60.0


def queue_at(server: RedisServer) -> Any:
    return connect(Settings({"REDIS_URL": server.url}), "quiet")


def rows(server: RedisServer, *chosen: str) -> dict[str, Host]:
    """Return the rows by host, without its ending; of one with several by what it waits for."""
    queue = queue_at(server)
    found = hosts(queue, state(queue).workers, chosen)
    names = [row.name.removesuffix(".example") for row in found]
    return {
        name if names.count(name) == 1 else f"{name} {row.why}": row
        for name, row in zip(names, found, strict=True)
    }


def wrong(server: RedisServer, *, repair: bool = False) -> list[tuple[Any, ...]]:
    return sorted(orders.faults(queue_at(server), LEASE, repair=repair))


def lines(caplog: Any, level: int) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == level and "he queue quiet:" in record.getMessage()
    ]


@coroutine_test
async def test_why_each_host_waits(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        queue = queue_at(redis_server)
        for number in range(2):
            await one.push("delay", number)
            await one.push("held", number)
        await one.push("free")
        taken = {
            request.url[7:11]: request for request in [await one.pop() for _ in "123"]
        }
        await one.start(taken["dela"], 60.0)
        await one.start(taken["free"])
        for why in ("parked", "unreachable", "visit_time"):
            two.hold(60.0, why)
            await two.push(why.replace("_", "-"))
        two.hold(0)
        await two.push("due")
        await two.push("blocked")
        orders.block(queue, "blocked.example")
        found = rows(redis_server)
        assert {
            name: (row.why, row.waiting, row.in_hand) for name, row in found.items()
        } == {
            "delay": ("delay", 1, 1),
            "held": ("held", 1, 1),
            "free": ("in_hand", 0, 1),
            "parked": ("parked", 1, 0),
            "unreachable": ("unreachable", 1, 0),
            "visit-time": ("visit_time", 1, 0),
            "due": ("due", 1, 0),
            "blocked": ("blocked", 1, 0),
        }
        me = one.servers.me
        assert {name for name, row in found.items() if row.workers == (me,)} == {
            *("delay", "held", "free")
        }
        untimed = {name for name, row in found.items() if row.wait is None}
        assert untimed == {"free", "due", "blocked"}
        assert all(0 < (row.wait or 1) <= 60 for row in found.values())
        now = state(queue)
        assert (now.does, now.counted, now.in_hand, now.queued) == (
            "running",
            10,
            3,
            10,
        )
        at_work = {worker.name: worker for worker in now.workers}
        assert at_work.keys() == {me, two.servers.me}
        assert at_work[me].in_hand == {
            f"{host}.example": 1 for host in ("delay", "held", "free")
        }
        assert 0 < at_work[me].lease <= one.servers.settings.redis_lease
        assert rows(redis_server, "due.example", "none.example").keys() == {"due"}


@coroutine_test
async def test_what_waits_for_different_things_is_apart(redis_server):
    async with Crawl(redis_server) as worker:
        await worker.push("a", 1)
        for number, line in enumerate(("one", "two")):
            worker.file_under(f"a.example\n{line}")
            worker.hold(60.0 + number, "visit_time")
            await worker.push("a", 2 + number)
        found = rows(redis_server)
        assert {name: row.waiting for name, row in found.items()} == {
            "a due": 1,
            "a visit_time": 2,
        }
        assert 0 < (found["a visit_time"].wait or 0) <= 60
        assert rows(redis_server, "a.example").keys() == found.keys()


@coroutine_test
async def test_many_hosts_and_names_that_are_patterns(redis_server):
    async with Crawl(redis_server) as worker:
        for number in range(1200):
            worker.queue.push(scrapy.Request(f"http://h{number}.example/"))
        worker.file_under("*\n*")
        await worker.push("a")
        found = rows(redis_server)
        assert len(found) == 1201
        assert sum(row.waiting for row in found.values()) == 1201
        assert orders.purge(queue_at(redis_server), "*") == 1
        assert await worker.length() == 1200
        worker.queue.clear()


@coroutine_test
async def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(
    redis_server, caplog
):
    caplog.set_level(logging.INFO)
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        queue = queue_at(redis_server)
        for number in range(4):
            await one.push("abcd"[number], number)
        had = await one.pop()
        orders.give(queue, "pause")
        assert state(queue).does == "paused"
        for _ in range(3):
            for worker in (one, two):
                assert await worker.pop() is None
        await one.start(had)
        one.done(had)  # what it has goes on, and what comes of it is queued
        await one.push("e")
        assert await one.pop() is None
        assert await two.length() == 4
        paused = lines(caplog, logging.WARNING)
        assert len(paused) == 2
        assert "is paused: nothing more is taken from it" in paused[0]
        orders.give(queue, None)
        assert len(await two.take_all()) == 4
        assert await one.pop() is None
        assert len(lines(caplog, logging.WARNING)) == 2
        goes_on = [line for line in lines(caplog, logging.INFO) if "goes on" in line]
        assert len(goes_on) == 2


@coroutine_test
async def test_an_empty_queue_is_empty_though_it_is_paused(redis_server):
    async with Crawl(redis_server) as worker:
        orders.give(queue_at(redis_server), "pause")
        assert await worker.pop() is None
        assert await worker.is_empty()


@coroutine_test
async def test_who_would_delete_the_queue_does_not_end_when_it_is_drained(
    redis_server, caplog
):
    async with Crawl(redis_server) as worker:
        await worker.push("a")
        orders.give(queue_at(redis_server), "drain")
        assert await worker.pop() is None
        await asyncio.sleep(0.1)
        assert not worker.shared.engine.is_ending()
        assert "without SCHEDULER_PERSIST" in lines(caplog, logging.WARNING)[0]
        assert await worker.length() == 1


async def put_off(server: RedisServer, worker: Crawl, *names: str) -> bool:
    """Tell whether hosts are put off for good, after *worker* was handed nothing."""
    assert await worker.pop() is None
    times = server.client.zmscore(f"{PREFIX}later", list(names))
    return all(at is not None and at > 8e15 for at in times)


@coroutine_test
async def test_a_blocked_host_waits_whatever_is_told_of_it(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        queue = queue_at(redis_server)
        for number in range(3):
            await one.push("a", number)
        had = await one.pop()
        assert orders.block(queue, "a.example") == (True, 2)
        assert orders.block(queue, "a.example") == (False, 2)
        await two.push("b", 0)
        await one.start(had, 0.01)
        await two.push("a", 7)
        one.hold(0.01)
        await one.push("a", 8)
        one.done(had)
        await one.exchange.beat()
        await until(two.take)  # of b; a may have been before it
        await until(lambda: put_off(redis_server, two, "a.example"))
        row = rows(redis_server)["a"]
        assert (row.why, row.waiting, row.wait) == ("blocked", 4, None)
        assert await one.length() == 4
        assert state(queue).blocked == {"a.example"}
        assert orders.unblock(queue, "a.example") == (True, 4)
        assert orders.unblock(queue, "a.example") == (False, 4)
        assert not state(queue).blocked
        taken = [await two.take() for _ in range(4)]
        assert sorted(map(str, taken)) == ["a1", "a2", "a7", "a8"]


@coroutine_test
async def test_to_block_a_host_blocks_its_lines_and_no_other_host(redis_server):
    async with Crawl(redis_server) as worker:
        queue = queue_at(redis_server)
        names = ["a.example", "a.example\nx", "a.example\ny", "b.a.example"]
        for number, name in enumerate(names[:2] + names[3:]):
            worker.file_under(name)
            await worker.push("a", number)
        orders.block(queue, "a.example")
        worker.file_under(names[2])
        await worker.push("a", 3)  # of a line that was not there
        assert await worker.take() == "a2"
        await until(lambda: put_off(redis_server, worker, *names[:3]))
        assert orders.unblock(queue, "a.example") == (True, 3)
        taken = [await worker.take() for _ in range(3)]
        assert sorted(map(str, taken)) == ["a0", "a1", "a3"]


@coroutine_test
async def test_those_behind_many_blocked_hosts_are_served(redis_server):
    async with Crawl(redis_server) as worker:
        queue = queue_at(redis_server)
        for number in range(30):
            orders.block(queue, f"h{number}.example")
            await worker.push(f"h{number}")
        await worker.push("z")
        wait, *_ = await worker.backlog.call("pop", [worker.servers.me, 10**7, 1, 1, 0])
        assert wait == 0  # not only when the next host is due
        await until(worker.pop)
        assert await worker.length() == 31


@coroutine_test
async def test_who_begins_is_told_of_blocked_hosts(redis_server, caplog):
    async with Crawl(redis_server) as worker:
        assert lines(caplog, logging.WARNING) == []
        await worker.push("a")
        orders.block(queue_at(redis_server), "a.example")
    async with Crawl(redis_server):
        (line,) = lines(caplog, logging.WARNING)
        assert "An operator has blocked 1 host of the queue" in line


@coroutine_test
async def test_to_purge_a_host_is_no_loss(redis_server, caplog):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        queue = queue_at(redis_server)
        for number in range(3):
            await one.push("a", number)
            await one.push("b", number)
        had = await one.pop()
        assert short(had) == "a0"
        assert orders.purge(queue, "a.example") == 2
        assert orders.purge(queue, "a.example") == 0
        assert state(queue).purged == 2
        assert await two.length() == 4
        await one.start(had, 3600.0)  # what is in hand goes on
        one.done(had)
        assert await two.take_all() == ["b0", "b1", "b2"]
        assert await one.pop() is None
        assert await one.length() == await two.length() == 0
        assert not one.backlog.has_lost
        await one.push("a", 9)  # its delay is not forgotten
        assert await two.pop() is None
        assert wrong(redis_server) == []


@coroutine_test
async def test_a_sound_queue_has_no_faults_whatever_is_under_way(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        for number in range(6):
            await one.push("abc"[number % 3], number)
        for worker in (one, two):
            await worker.start(await worker.pop(), 60.0)
        await two.push("d")
        orders.block(queue_at(redis_server), "d.example")
        await one.pop()
        assert wrong(redis_server) == []
        assert wrong(redis_server, repair=True) == []
        assert state(queue_at(redis_server)).counted == 7


@coroutine_test
async def test_faults_are_found_and_repaired(redis_server):
    client: Any = redis_server.client
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        for host in "abcd":
            for number in range(2):
                await one.push(host, number)
        had = await one.pop()
        one.die()
        two.exchange.stop()  # else it takes that back itself
        dead = one.servers.me
        assert short(had) == "a0"
        client.zrem(f"{PREFIX}due", "b.example")
        client.zadd(f"{PREFIX}later", {"c.example": 8e15})
        client.delete(f"{PREFIX}host:d.example")
        client.zadd(f"{PREFIX}workers", {dead: 1})
        client.incrby(f"{PREFIX}count", 3)
        expected = [
            ("count", "", 6, 11),
            ("dead_worker", dead, 1, None),
            ("empty_host", "d.example", 0, None),
            ("host_twice", "c.example", 2, None),
            ("unknown_host", "b.example", 2, None),
        ]
        assert wrong(redis_server) == expected
        assert wrong(redis_server) == expected  # nothing was changed
        assert wrong(redis_server, repair=True) == expected
        assert wrong(redis_server) == []
        now = state(queue_at(redis_server))
        assert (now.counted, now.in_hand, now.lost) == (6, 0, 5)
        client.zadd(f"{PREFIX}later", {"a.example": 1, "c.example": 1})
        found = [await two.take() for _ in range(6)]
        assert sorted(map(str, found)) == ["a0", "a1", "b0", "b1", "c0", "c1"]


@coroutine_test
async def test_what_an_unknown_worker_has_is_not_lost(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        two.exchange.stop()
        await one.push("a")
        assert await one.pop()
        one.die()
        redis_server.client.zrem(f"{PREFIX}workers", one.servers.me)
        expected = [("unknown_worker", one.servers.me, 1, None)]
        assert wrong(redis_server) == expected
        assert wrong(redis_server, repair=True) == expected
        assert wrong(redis_server) == []
        (seen,) = [w for w in state(queue_at(redis_server)).workers if w.in_hand]
        assert (seen.name, seen.in_hand) == (one.servers.me, {"a.example": 1})
        assert 0 < seen.lease <= LEASE
        redis_server.client.zadd(f"{PREFIX}workers", {one.servers.me: 1})
        redis_server.client.zadd(f"{PREFIX}later", {"a.example": 1})
        await two.exchange.beat()
        assert await two.take() == "a0"
