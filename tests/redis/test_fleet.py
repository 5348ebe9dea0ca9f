"""A crawl's connection to Redis."""

from __future__ import annotations

import asyncio
import ssl

import pytest
from redis.exceptions import TimeoutError as RedisTimeoutError
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep.redis import clients, fleet, servers
from scrapy_rep.redis.fleet import MOST_CALLS
from scrapy_rep.redis.keys import fleet_keys
from scrapy_rep.redis.servers import Servers
from tests.redis.workers import Worker, at_once_when, promptly
from tests.slow_proxy import SlowProxy
from tests.utils import coroutine_test, make_crawler, until


class TimesOutWhenCancelled:
    """A call that hangs, and says only that it has timed out when it is cancelled."""

    called = cancelled = False

    async def __call__(self, *_: object):
        self.called = True
        try:
            await asyncio.sleep(0 if self.cancelled else 60)
        except asyncio.CancelledError:
            self.cancelled = True
        raise RedisTimeoutError("Timeout reading")


async def nobody(_: object) -> None:
    """Answer as a server that is of no cluster."""


@pytest.mark.only_asyncio
@coroutine_test
async def test_close_is_not_held_up_by_a_call_that_times_out_then(monkeypatch):
    link = Servers.of(make_crawler(REDIS_URL="redis://127.0.0.1:9")).first
    hangs = TimesOutWhenCancelled()
    monkeypatch.setattr(fleet, "run", hangs)
    monkeypatch.setattr(servers, "slots_known_to", nobody)

    async def close():
        link.keep_beating()
        await until(lambda: hangs.called)
        # Not wait_for: what it cancels may come to its end after all.
        done, _ = await asyncio.wait([asyncio.ensure_future(link.close())], timeout=10)
        assert done

    await maybe_deferred_to_future(deferred_from_coro(close()))


@pytest.mark.only_asyncio
@coroutine_test
async def test_who_asks_while_the_crawl_ends_does_not_wait_for_ever(redis_server):
    for turns in range(4):
        worker = Worker(redis_server)
        getting = asyncio.create_task(worker.store.get("https://example.com"))
        before = asyncio.all_tasks()
        await at_once_when(lambda: asyncio.all_tasks() - before)  # noqa: B023
        for _ in range(turns):
            await asyncio.sleep(0)
        await worker.servers.close()
        assert await promptly(getting) is None
        await worker.store.close()


@pytest.mark.only_asyncio
@coroutine_test
async def test_a_start_over_tls_makes_one_context_and_few_connections(
    redis_server, tmp_path, monkeypatch
):
    monkeypatch.setattr(clients, "TIMEOUT_SECONDS", 30.0)  # on a busy machine
    made: list[ssl.SSLContext] = []
    make = ssl.create_default_context

    def noted() -> ssl.SSLContext:
        made.append(make())
        return made[-1]

    with SlowProxy(redis_server.port, tls=tmp_path) as proxy:
        worker = Worker(proxy)
        monkeypatch.setattr(ssl, "create_default_context", noted)
        calls = [worker.servers.call("GET", [f"{n}"], []) for n in range(32)]
        assert await asyncio.gather(*calls) == [None] * 32
        connected = redis_server.client.client_list()
        await worker.servers.close()
        await worker.store.close()
    assert len(made) == 1
    assert len(connected) - 1 <= MOST_CALLS


@pytest.mark.only_asyncio
@coroutine_test
async def test_a_sign_of_life_is_as_short_in_a_large_fleet(redis_server):
    """Else what all workers are told would grow with the square of their number."""
    async with Worker(redis_server) as worker:
        by_lease, by_name = fleet_keys()
        others = dict.fromkeys((f"{n}" for n in range(5000)), 4e15)
        redis_server.client.zadd(by_lease, others)
        redis_server.client.zadd(by_name, dict.fromkeys(others, 0))
        await worker.show_up()
        assert worker.link.workers == 5001
