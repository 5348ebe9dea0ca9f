"""What is in Redis is not lost in silence: a server that forgets is found out."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import scrapy

from scrapy_rep.redis.dupefilter import DupeFilter
from tests.redis.workers import Crawl
from tests.utils import coroutine_test, until

if TYPE_CHECKING:
    from tests.redis_server import RedisServer

pytestmark = pytest.mark.only_asyncio

PREFIX = "{quiet:requests}:"
DAY = 24 * 3600


def that_expire(server: RedisServer) -> set[str]:
    """Return the keys of the queue and of its filter that expire."""
    client: Any = server.client
    keys = [*client.keys(f"{PREFIX}*"), *client.keys("quiet:*")]
    return {key.decode() for key in keys if client.pttl(key) >= 0}


def errors(caplog: Any) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.ERROR and record.name == "scrapy_rep"
    ]


async def take_all(*workers: Crawl) -> list[str]:
    """Take all that is there, until nothing is left."""
    found: list[str] = []
    while await workers[0].length():
        for worker in workers:
            found.extend(await worker.take_all())
        await asyncio.sleep(0.01)
    return found


@coroutine_test
async def test_no_key_expires_while_a_worker_is_there_or_anything_waits(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        filter_ = DupeFilter.from_spider(one.crawler.spider)
        for host in "abcdef":
            request = scrapy.Request(f"http://{host}.example/")
            assert not filter_.request_seen(request)
            one.queue.push(request)
            await one.exchange.send()
        await two.take(60.0)
        await two.take()
        one.keeper.park("c.example", 60.0)
        await one.exchange.send()
        await one.pop()
        names = {key.decode() for key in redis_server.client.keys("*")}
        wait = {f"{PREFIX}host:{host}.example" for host in "ef"}
        fixed = {"due", "later", "pace", "count", "workers", "clock", "epoch"}
        assert wait | {PREFIX + name for name in fixed} | {"quiet:dupefilter"} < names
        assert that_expire(redis_server) == set()
        for worker in (one, two):
            await worker.leave()
            assert that_expire(redis_server) == set()
        filter_.server.close()


@coroutine_test
async def test_what_is_left_of_an_empty_queue_expires_until_somebody_comes(
    redis_server,
):
    async with Crawl(redis_server) as worker:
        filter_ = DupeFilter.from_spider(worker.crawler.spider)
        request = scrapy.Request("http://a.example/")
        filter_.request_seen(request)
        worker.queue.push(request)
        await worker.exchange.send()
        await worker.take(60.0)
        filter_.server.close()
    names = {f"{PREFIX}{name}" for name in ("later", "pace", "count", "clock", "epoch")}
    assert that_expire(redis_server) == names | {"quiet:dupefilter"}
    assert redis_server.client.ttl(f"{PREFIX}epoch") > 89 * DAY
    async with Crawl(redis_server) as worker:
        assert that_expire(redis_server) == {"quiet:dupefilter"}
        filter_ = DupeFilter.from_spider(worker.crawler.spider)
        request = scrapy.Request("http://b.example/")
        filter_.request_seen(request)
        worker.queue.push(request)
        await worker.exchange.send()
        assert that_expire(redis_server) == set()
        filter_.server.close()


@pytest.mark.parametrize(
    "names",
    [
        ["count"],
        ["due"],
        ["due", "later"],
        ["due", "later", "count", "pace", "workers"],
    ],
    ids="-".join,
)
@coroutine_test
async def test_what_no_index_leads_to_is_found_again(redis_server, names, caplog):
    lease = {"REP_REDIS_LEASE": 1.5}
    async with Crawl(redis_server, **lease) as one, Crawl(redis_server, **lease) as two:
        for number in range(30):
            await one.push(f"h{number % 6}", number)
        had = (await one.pop()).url
        one.die()
        await two.take()
        redis_server.client.delete(*(PREFIX + name for name in names))
        found = await take_all(two)
        assert had.rpartition("/")[2] in {url[2:] for url in found}
        assert len(found) == len(set(found)) == 29
        assert not two.backlog.has_lost
        assert two.stat("rep/redis/repaired") >= 1
        assert redis_server.client.get(f"{PREFIX}count") == b"0"
    assert errors(caplog) == []


@coroutine_test
async def test_requests_that_are_gone_are_an_error_for_all(redis_server, caplog):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        for number in range(9):
            await one.push(f"h{number % 3}", number)
        redis_server.client.delete(f"{PREFIX}host:h1.example")
        assert len(await take_all(one, two)) == 6
        assert not await two.length()
        assert two.backlog.has_lost
        assert one.backlog.has_lost
        assert one.stat("rep/redis/lost") == two.stat("rep/redis/lost") == 3
    assert len(errors(caplog)) == 2
    assert "3 requests that waited in it are gone" in errors(caplog)[0]


def empty(server: RedisServer) -> None:
    server.client.flushall()


def restart(server: RedisServer) -> None:
    server.kill()
    server.start()


def go_back(server: RedisServer) -> None:
    """Have the server come back with what it had some time ago."""
    server.client.hincrby(f"{PREFIX}epoch", "queued", -3)


def other_epoch(server: RedisServer) -> None:
    """Have it forget all, and others queue more than it had."""
    server.client.flushall()
    server.client.hset(f"{PREFIX}epoch", mapping={"id": "other", "queued": 10**6})


@pytest.mark.parametrize("fault", [empty, restart, go_back, other_epoch])
@coroutine_test
async def test_a_server_that_forgot_is_an_error_for_each_worker(
    redis_server, fault, caplog
):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        for number in range(3):
            for worker in (one, two):
                await worker.push(f"h{number}", number)
        fault(redis_server)
        for worker in (one, two):
            await worker.pop()
            await until(partial(getattr, worker.backlog, "has_lost"))
            assert worker.stat("rep/redis/forgot") == 1
        await until(lambda: one.link.up)
        await one.push("later")  # the crawl goes on
        assert one.exchange.outbox == []
    assert len(errors(caplog)) == 2


@pytest.mark.parametrize(
    ("policy", "limit", "said"),
    [
        ("noeviction", "1gb", None),
        ("allkeys-lru", "0", None),
        ("allkeys-lru", "1gb", "requests that wait"),
        ("volatile-ttl", "1gb", "what it knows of robots.txt and of paces"),
    ],
)
@coroutine_test
async def test_a_server_that_makes_room_is_warned_about(
    redis_server, policy, limit, said, caplog
):
    redis_server.client.config_set("maxmemory-policy", policy)
    redis_server.client.config_set("maxmemory", limit)
    async with Crawl(redis_server) as worker:
        await worker.push("a")
    redis_server.client.config_set("maxmemory", 0)
    redis_server.client.config_set("maxmemory-policy", "noeviction")
    found = [
        r.getMessage() for r in caplog.records if "maxmemory-policy" in r.getMessage()
    ]
    assert len(found) == (0 if said is None else 1)
    assert said is None or said in found[0]
