"""A fleet's parts at a real Redis: what scripts promise, whatever comes between."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack, suppress
from functools import partial
from inspect import Signature, signature
from time import monotonic
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import redis

from scrapy_rep.crawl import Crawl
from scrapy_rep.exceptions import SettingError
from scrapy_rep.frontier.redis_hosts import FleetBookings, FleetStore, facts_of, learn
from scrapy_rep.frontier.redis_server import (
    AWAY_ERRORS,
    CALL_SECONDS,
    CALLS_AT_A_TIME,
    DIGESTS,
    SCRIPTS,
    refusal_of,
)
from scrapy_rep.frontier.redis_shards import MOST_LOOKS, Shards
from scrapy_rep.pacing.hosts import Health
from scrapy_rep.pacing.keeper import ParkedError
from tests.frontier.waiting import Waiting, in_a_crawl, in_redis, request
from tests.slow_proxy import slow_proxy
from tests.utils import coroutine_test, make_crawler, sleep

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.frontier.redis_server import Server
    from tests.redis_server import RedisServer

pytestmark = pytest.mark.only_asyncio
HOST = "a.example"
ORIGIN = f"http://{HOST}"


def server_of(redis: RedisServer, **settings: Any) -> Server:
    """Return a worker's server, as a crawl has it."""
    found: Server = Crawl.of(make_crawler(REP_FLEET=redis.url, **settings)).fleet
    found.is_ending = lambda: False  # there is no engine
    return found


def of_workers(number: int, **settings: Any) -> Callable[..., Any]:
    """Give a test the servers of so many workers, before its fixtures."""

    def decorate(test: Callable[..., Any]) -> Any:
        its = [*signature(test).parameters.values()][number:]
        own = signature(server_of).parameters["redis"].replace(name="redis_server")

        async def run(redis_server: RedisServer, **fixtures: Any) -> None:
            if any(each.name == "redis_server" for each in its):
                fixtures["redis_server"] = redis_server
            servers = [server_of(redis_server, **settings) for _ in range(number)]
            try:
                await test(*servers, **fixtures)
            finally:
                for server in servers:
                    await server.close()

        others = [each for each in its if each.name != "redis_server"]
        within: Any = coroutine_test(run)
        within.__signature__ = Signature([own, *others])
        return within

    return decorate


class Shard:
    """Shard 0, as one worker speaks of it."""

    def __init__(self, server: Server) -> None:
        self.server, self.term = server, ""
        self.key = server.owner_key(0)

    async def own(self, lease: int = 60_000) -> bool:
        answer = await self.server.run("own", [self.key], [self.server.me, lease, "e"])
        if answer is not None:
            self.term = answer[0].decode()
        return answer is not None

    async def file(
        self, batch: int, new: list[tuple[str, bytes, bytes]], *, hand: bool = False
    ) -> list[int]:
        """File requests, given as list, fingerprint and data."""
        args: list[Any] = [self.server.me, batch, self.term, len(new)]
        for list_, fingerprint, data in new:
            args += [list_, "L", int(hand), fingerprint, data]
        (answer,) = await self.server.run("file", [self.key], args)
        return [int(part) for part in answer]

    async def done(self, bodies: list[bytes]) -> int:
        """End requests; return whether this is not its owner."""
        args = [self.term, len(bodies), *(body[:8] for body in bodies)]
        (is_over,) = await self.server.run("done", [self.key], args)
        return int(is_over)

    async def take(self, number: int, list_: str = "0\0a") -> list[Any]:
        args = [self.term, list_, number]
        return list(await self.server.run("take", [self.key], args) or [])

    async def news(self) -> list[bytes]:
        args = [self.server.me, 60_000, self.term]
        ((*_, news),) = await self.server.run("tick", [self.key], args)
        return list(news)

    async def count(self) -> tuple[int, int]:
        should, there = await self.server.run("count", [self.key], [0])
        return should, there


def data(number: int) -> bytes:
    return number.to_bytes(8, "big") + b"body %d" % number


@of_workers(1)
async def test_what_was_heard_counts_once(server, redis_server):
    shard = Shard(server)
    assert await shard.own()
    redis_server.client.script_flush()  # they are told anew
    new = [("0\0a", b"f1", data(1)), ("0\0a", b"f1", data(2)), ("0\0a", b"", data(3))]
    first = await shard.file(1, new)
    assert first == [0, 2]  # the second has the first one's fingerprint
    assert await shard.file(1, new) == first  # its answer was lost
    assert await shard.count() == (2, 2)
    assert await shard.file(2, new) == [0, 1, 2]  # another batch


@of_workers(2)
async def test_who_owns_a_shard_no_more_takes_and_ends_nothing(one, other):
    old, new = Shard(one), Shard(other)
    assert await old.own(lease=1)
    await old.file(1, [("0\0a", b"", data(n)) for n in range(4)])
    left, *bodies = await old.take(2)
    assert (left, len(bodies)) == (2, 2)
    while not await new.own():  # noqa: ASYNC110 - its lease is over soon
        await asyncio.sleep(0.01)
    assert await other.run("back", [new.key], [new.term, 500]) == 0
    assert await old.take(1) == []
    assert await old.done(bodies[:1]) == 1
    assert await one.run("free", [old.key], [old.term, "{}"]) == 0
    left, *again = await new.take(10)
    assert (left, len(again)) == (0, 4)  # with those that the other one had
    assert await new.done(again) == 0
    assert await new.count() == (0, 0)
    # What comes of the page that the other one had is filed all the same, and told to the owner.
    assert await old.file(3, [("0\0a", b"f", data(9))]) == [1]
    assert await new.count() == (1, 1)
    assert await new.news() == [b"0\0a", b"1"]
    assert await new.news() == []


@in_a_crawl()
async def test_what_is_asked_for_as_its_shard_is_lost_is_its_next_owners(
    crawler, redis_server, tmp_path, caplog
):
    make = partial(in_redis, redis_server.url)
    waiting = await Waiting.opened(crawler, tmp_path, make)
    for number in range(30):
        waiting.push(request("a", number))
    await waiting.settle()
    client = redis_server.client
    for key in client.keys("*:n"):
        client.hset(key, "term", "of another one")
    at_hand = await waiting.all_of()
    assert 0 < len(at_hand) < 30
    assert not len(waiting.frontier.places)
    assert not [r for r in caplog.records if "task" in r.getMessage()]
    await waiting.close()
    wait = sum(map(client.llen, client.keys("*:w:*")))
    assert wait + sum(map(client.hlen, client.keys("*:out"))) == 30


@in_a_crawl()
async def test_what_is_asked_for_in_vain_comes_when_redis_is_back(
    crawler, redis_server, tmp_path
):
    make = partial(in_redis, redis_server.url)
    waiting = await Waiting.opened(crawler, tmp_path, make)
    for number in range(30):
        waiting.push(request("a", number))
    await waiting.settle()
    redis_server.hang()
    popped: list[Any] = [waiting.frontier.pop() for _ in range(4)]  # more are asked for
    await sleep(CALL_SECONDS + 0.5)
    redis_server.resume()
    got, deadline = {each.url for each in popped}, monotonic() + 20
    while len(got) < 30:
        assert monotonic() < deadline
        got.update(await waiting.all_of())
        await sleep(0.05)
    await waiting.close()


@in_a_crawl()
async def test_what_was_taken_comes_although_the_answer_is_lost(
    crawler, redis_server, tmp_path
):
    redis_server.client.script_load(SCRIPTS["take"])
    with slow_proxy(redis_server.port, cut=DIGESTS["take"].encode()) as url:
        waiting = await Waiting.opened(crawler, tmp_path, partial(in_redis, url))
        for number in range(30):
            waiting.push(request("a", number))
        await waiting.settle()
        got, deadline = set[str](), monotonic() + 20
        while len(got) < 30:
            assert monotonic() < deadline
            got.update(await waiting.all_of())
            await sleep(0.05)
        await waiting.close()


def large_fleet(server: Server, redis: RedisServer) -> Shards:
    """Return the shards of one of twelve workers, with nothing in their frontier."""
    expiry = 1e15
    workers, _ = server.fleet_keys
    redis.client.zadd(workers, {f"worker {n}": expiry for n in range(11)})
    frontier = SimpleNamespace(room=1, wake=lambda: None)
    keeper = Crawl.of(make_crawler()).keeper
    ledger: Any = SimpleNamespace(frontier=frontier)
    return Shards(server, ledger, keeper, lambda shard: False)


@of_workers(1)
async def test_no_worker_of_a_large_fleet_ends_on_what_an_earlier_look_told(
    server, redis_server
):
    shards = large_fleet(server, redis_server)
    while not shards.is_empty:
        await shards.tick()
    key = next(
        server.owner_key(n) for n in range(server.shards) if n not in shards.owned
    )
    redis_server.client.set(key, "worker 1")
    new = ["0\0a", "R", 0, "", data(1)]
    await server.run("file", [key], ["worker 2", 1, "", 1, *new])
    for _ in range(2 * MOST_LOOKS):
        await shards.tick()
        assert not shards.is_empty


@of_workers(1)
async def test_no_worker_of_a_large_fleet_ends_as_redis_is_away(server, redis_server):
    shards = large_fleet(server, redis_server)
    while not shards.is_empty:
        await shards.tick()
    redis_server.kill()
    for _ in range(2 * MOST_LOOKS):
        await shards.tick()
        assert not shards.is_empty


@in_a_crawl()
async def test_no_worker_ends_on_a_look_that_began_before_it_filed(
    crawler, redis_server, tmp_path
):
    waiting = await Waiting.opened(
        crawler, tmp_path, partial(in_redis, redis_server.url)
    )
    shards, server = waiting.ledger._shards, waiting.ledger._server
    heard: list[str] = []
    while not shards.is_empty:
        await sleep(0.01)
    for_shards = server.for_shards

    async def late(script: str, *args: Any) -> dict[int, Any]:
        told = await for_shards(script, *args)
        if script == "tick" and not heard:  # of a cluster, whose other server is slow
            shards.owned.clear()
            waiting.push(request("a"))
            await waiting.settle()
            heard.append(script)
        return dict(told)

    server.for_shards = late
    while not heard:
        await sleep(0.01)
    assert not waiting.ledger.may_end()
    await waiting.close()


@of_workers(2)
async def test_a_lease_over_but_not_taken_goes_on(one, other):
    shard = Shard(one)
    assert await shard.own(lease=1)
    await asyncio.sleep(0.05)
    ((*_, mine, _),) = await one.run("tick", [shard.key], [one.me, 60_000, shard.term])
    assert mine == 1
    assert not await Shard(other).own()


@of_workers(1)
async def test_much_that_a_dead_worker_had_comes_back_by_pages(server):
    shard = Shard(server)
    await shard.own()
    for batch in range(5):
        new = [("0\0a", b"", data(1000 * batch + n)) for n in range(400)]
        await shard.file(batch + 1, new, hand=True)
    left, calls = 2000, 0
    while left:
        left = await server.run("back", [shard.key], [shard.term, 500])
        calls += 1
    assert calls > 2
    assert await shard.count() == (2000, 2000)


@of_workers(2)
async def test_a_start_is_held_until_its_answer_and_the_delay_counts_from_there(
    one, other
):
    first, second = FleetBookings(one), FleetBookings(other)
    waited: list[str] = []
    booking = await first.book(HOST, 0.3)
    asking = asyncio.ensure_future(
        second.book(HOST, 0.3, waits=lambda: waited.append("held"))
    )
    await asyncio.sleep(0.6)  # the answer takes longer than the delay
    assert not asking.done()
    assert waited
    await first.over(HOST, booking)
    answered = monotonic()
    await asking
    assert monotonic() - answered >= 0.29  # Redis' clock is another one
    await second.over(HOST, 0)


@pytest.mark.invariant2
@pytest.mark.parametrize("own", [0.0, 0.05])
@of_workers(2)
async def test_who_does_not_know_the_delay_keeps_the_one_that_others_keep(
    one, other, own
):
    first, second = FleetBookings(one), FleetBookings(other)
    booking = await first.book(HOST, 0.4)
    began = monotonic()
    await first.over(HOST, booking)
    booking = await second.book(HOST, own, is_known=False)  # a robots.txt
    assert monotonic() - began >= 0.38
    began = monotonic()
    await second.over(HOST, booking)
    await first.book(HOST, 0.4)  # counts from the robots.txt
    assert monotonic() - began >= 0.38


@of_workers(2)
async def test_a_start_that_is_booked_before_its_time_waits_for_it(
    one, other, redis_server
):
    first, second = FleetBookings(one), FleetBookings(other)
    await first.over(HOST, await first.book(HOST, 0.8))
    over = monotonic()
    booking = asyncio.ensure_future(first.book(HOST, 0.8))
    await until_held(redis_server, one)
    asking = asyncio.ensure_future(second.book(HOST, 0.8))
    await booking
    assert monotonic() - over >= 0.79  # Redis' clock is another one
    await asyncio.sleep(1)
    assert not asking.done()
    asking.cancel()
    await first.over(HOST, 0)
    due = monotonic() + 1.5
    await first.book(HOST, 0.8, due)  # as far as one knows itself
    assert monotonic() >= due


@of_workers(1)
async def test_the_delay_counts_from_the_answer_however_late_that_is_told(server):
    bookings = FleetBookings(server)
    await bookings.book(HOST, 0.8)
    async with AsyncExitStack() as stack:
        for _ in range(CALLS_AT_A_TIME):  # no connection is free
            await stack.enter_async_context(server.nodes.any().turns)
        answered = monotonic()
        telling = asyncio.ensure_future(bookings.over(HOST, 0))
        await asyncio.sleep(0.4)
    await telling
    await bookings.book(HOST, 0.8)
    assert 0.79 <= monotonic() - answered < 1.1


async def until_held(redis: RedisServer, server: Server) -> None:
    """Wait until a start is booked, whose time may be later."""
    key = server.key_at(HOST, f"turn:{HOST}")
    while not str(redis.client.get(key)).startswith("b'held"):  # noqa: ASYNC110
        await asyncio.sleep(0)


@of_workers(1, REP_FLEET_LEASE=0.5)
async def test_who_sleeps_for_longer_than_it_holds_a_start_books_it_anew(
    server, redis_server
):
    bookings, client = FleetBookings(server), redis_server.client
    await bookings.over(HOST, await bookings.book(HOST, 0.4))
    booking = asyncio.ensure_future(bookings.book(HOST, 0.4))
    await until_held(redis_server, server)
    time.sleep(1)  # noqa: ASYNC251 - meanwhile another one starts, which is answered just now
    answered = monotonic()
    seconds, micros = client.time()
    over = f"paced {seconds * 1e3 + micros / 1e3:.3f} 400"
    client.set(server.key_at(HOST, f"turn:{HOST}"), over)
    await booking
    assert monotonic() - answered >= 0.39


@of_workers(1)
async def test_a_start_that_is_booked_again_as_its_answer_was_lost_is_no_earlier(
    server,
):
    minute = 60_000
    first = FleetBookings(server)
    await first.over(HOST, await first.book(HOST, 60.0))
    key = server.key_at(HOST, f"turn:{HOST}")
    args = "me:1", "book", minute, minute, minute  # up to a minute before its time
    (wait,) = await server.run("turn", [key], args)
    (again,) = await server.run("turn", [key], args)
    assert 0 < again <= wait <= minute


@of_workers(2, REP_FLEET_LEASE=60)
async def test_who_gives_up_a_start_that_it_has_booked_leaves_it_to_others(
    one, other, redis_server
):
    booking = asyncio.ensure_future(
        FleetBookings(one).book(HOST, 0.2, monotonic() + 60)
    )
    await until_held(redis_server, one)
    booking.cancel()
    await asyncio.wait_for(FleetBookings(other).book(HOST, 0.2), 20)


@of_workers(2, REP_FLEET_LEASE=0.6)
async def test_a_start_is_held_for_as_long_as_its_answer_takes_and_its_worker_lives(
    one, other
):
    await FleetBookings(one).book(HOST, 0.1)
    asking = asyncio.ensure_future(FleetBookings(other).book(HOST, 0.1))
    await asyncio.sleep(1.6)
    assert not asking.done()
    await one.close()  # it holds it no longer
    await asyncio.wait_for(asking, 5)


@of_workers(2)
async def test_a_host_that_one_has_parked_is_parked_for_all(one, other):
    await FleetBookings(one).park(HOST, 30.0)
    await FleetBookings(one).park(HOST, 3.0)  # the longest counts
    with pytest.raises(ParkedError) as parked:
        await FleetBookings(other).book(HOST, 0.1)
    assert 25 < parked.value.seconds <= 30


@pytest.mark.invariant2
@of_workers(2)
async def test_a_host_that_was_parked_for_less_than_its_delay_keeps_that(one, other):
    first, second = FleetBookings(one), FleetBookings(other)
    booking = await first.book(HOST, 0.6)
    await first.park(HOST, 0.1)
    await asyncio.sleep(0.2)
    asking = asyncio.ensure_future(second.book(HOST, 0.6))
    await asyncio.sleep(0.7)
    assert not asking.done()  # the first one is not answered
    await first.over(HOST, booking)
    over = monotonic()
    booking = await asking
    assert monotonic() - over >= 0.59  # Redis' clock is another one
    await second.over(HOST, booking)
    over = monotonic()
    await second.park(HOST, 0.1)
    await asyncio.sleep(0.2)
    await first.book(HOST, 0.6)
    assert monotonic() - over >= 0.59


@of_workers(2)
async def test_the_next_owner_of_a_host_knows_what_its_last_one_did(one, other):
    crawls = [Crawl.of(make_crawler()) for _ in range(2)]
    old, new = (crawl.keeper for crawl in crawls)
    # Two crawls of one process share their hosts; two workers do not.
    new.hosts = type(old.hosts)()
    old.keep(HOST, ORIGIN, 60)
    new.keep(HOST, ORIGIN, 60)
    old.keep("other.example", "http://other.example", 60)  # not asked yet
    old.hosts.of(HOST).last = asked = monotonic() - 5
    old.hosts.of(HOST).health = Health(level=3, at=asked)
    told = json.loads(json.dumps(facts_of(one.shard_of(HOST), one, old)))
    assert set(told) == {HOST}
    learn(told, other, new)
    record = new.hosts.of(HOST)
    assert record.last == pytest.approx(asked, abs=0.1)
    assert record.health.level == 3
    assert record.health.at == pytest.approx(asked, abs=0.1)
    assert 54 < new.pace_left(HOST) < 55
    learn({HOST: told[HOST] | {"last": 0.0}}, other, new)
    assert record.last == pytest.approx(asked, abs=0.1)  # one's own is newer
    old.learn_parked(HOST, 30)
    learn(facts_of(one.shard_of(HOST), one, old), other, new)
    assert 29 < new.parked_left(HOST) < 30.1


@pytest.mark.parametrize("what", ["", "nonsense", "paced 99999999999999 0", "held"])
@of_workers(1, REP_FLEET_LEASE=0.5)
async def test_what_is_no_turn_stalls_nobody_and_shortens_no_delay(
    server, redis_server, what
):
    redis_server.client.set(server.key_at(HOST, f"turn:{HOST}"), what)
    began = monotonic()
    await FleetBookings(server).book(HOST, 0.3)
    assert (0.28 if what else 0) <= monotonic() - began < 5


@of_workers(2)
async def test_a_budget_is_of_the_whole_fleet(one, other):
    first, second = FleetBookings(one), FleetBookings(other)
    spent = [await each.spend(HOST, 3) for each in (first, second, first, second)]
    assert spent == [True, True, True, False]
    await second.give_back(HOST)
    await first.give_back(HOST)
    assert await second.spend(HOST, 3)
    one.is_ending = lambda: True
    assert await first.spend(HOST, 3) is None


@pytest.mark.invariant4
@of_workers(2)
async def test_one_worker_asks_an_origin_at_a_time(one, other):
    stores = [FleetStore(server) for server in (one, other)]
    async with stores[0].claim(ORIGIN) as others_asked:
        assert others_asked
        assert stores[0].fetched() == {HOST}
        asking = asyncio.ensure_future(claim(stores[1]))
        await asyncio.sleep(0.5)
        assert not asking.done()
    await asyncio.wait_for(asking, 10)
    assert not stores[0].fetched()


async def claim(store: FleetStore) -> None:
    async with store.claim(ORIGIN):
        pass


@of_workers(2)
async def test_nobody_waits_for_a_claim_beyond_the_end_of_the_crawl(one, other):
    is_ending: list[bool] = []
    async with FleetStore(one).claim(ORIGIN):
        other.is_ending = lambda: bool(is_ending)
        asking = asyncio.ensure_future(claim(FleetStore(other)))
        await asyncio.sleep(0.1)
        is_ending.append(True)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asking, 10)


@pytest.mark.parametrize(
    "what", [b"", b"x", b"[]\n", b'[{"status": "200"}, null]\nx', b"{}\nx"]
)
@of_workers(1)
async def test_what_no_worker_has_written_decides_nothing(server, redis_server, what):
    store = FleetStore(server)
    key = server.key_at(HOST, f"robots:{ORIGIN}")
    redis_server.client.set(key, what)
    with pytest.raises(ValueError, match="what Redis had is damaged"):
        await store.get(ORIGIN)
    assert not redis_server.client.exists(key)
    assert await store.get(ORIGIN) is None


@of_workers(1)
async def test_no_call_waits_for_ever(server, redis_server):
    redis_server.hang()
    began = monotonic()
    with pytest.raises(AWAY_ERRORS):
        await server.nodes.execute("GET", "key")
    assert monotonic() - began < 5
    redis_server.resume()


@coroutine_test
async def test_the_end_comes_although_a_cancellation_is_lost(redis_server):
    # As before Python 3.12 where what ``asyncio.wait_for`` waits for comes at the same moment.
    async def loses_one() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)

    server = server_of(redis_server)
    task = server.begin_task(loses_one())
    await asyncio.sleep(0)
    await asyncio.wait_for(server.close(), 30)
    assert task.cancelled()


@pytest.mark.invariant2
@of_workers(2, REP_FLEET_LEASE=0.5)
async def test_a_worker_that_dies_shortens_no_delay_that_it_does_not_know(one, other):
    first, second = FleetBookings(one), FleetBookings(other)
    await first.over(HOST, await first.book(HOST, 1.0))
    await second.book(HOST, is_known=False)
    began = monotonic()
    await other.close()  # nobody renews its hold
    await first.book(HOST, 1.0)
    assert monotonic() - began >= 0.98


@of_workers(1)
async def test_others_hear_what_is_told_as_a_worker_ends(other, redis_server):
    server = server_of(redis_server)
    first, second = FleetBookings(server), FleetBookings(other)
    booking = await first.book(HOST, 0.3)
    first.say(first.over(HOST, booking))
    await server.close()
    await asyncio.wait_for(second.book(HOST, 0.3), server.lease / 2)
    first.say(second.over(HOST))  # of a robots.txt that was under way
    await asyncio.sleep(0)
    assert second.held


@coroutine_test
async def test_the_number_of_shards_stays(redis_server, caplog):
    for number in (3, 5):
        server = server_of(redis_server, REP_FLEET_SHARDS=number)
        assert server.shards == 3
        await server.close()
    assert [r.getMessage()[:21] for r in caplog.records] == ["REP_FLEET_SHARDS is 5"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (redis.AuthenticationError("invalid username-password pair"), "user and"),
        (redis.ReadOnlyError("You can't write against a replica."), "the master"),
        (redis.OutOfMemoryError("command not allowed"), "maxmemory must be raised"),
        (redis.exceptions.MovedError("1 127.0.0.1:9"), "one of a Redis Cluster"),
        # As a script says it, or a redis-py that makes no kind of it.
        (redis.ResponseError("MOVED 1 127.0.0.1:9"), "one of a Redis Cluster"),
        (redis.ResponseError("NOPERM this user has no rights"), "allowed to run"),
        (redis.ResponseError("OOM command not allowed"), "maxmemory must be raised"),
        (redis.ResponseError("CLUSTERDOWN Hash slot not served"), "slots has no"),
    ],
)
def test_each_refusal_says_what_to_do(error, told):
    assert told in str(refusal_of(error))


def test_who_cannot_be_reached_does_not_refuse():
    assert refusal_of(redis.ConnectionError("connection refused")) is None


def test_a_fleet_needs_asyncio(monkeypatch):
    server = "scrapy_rep.frontier.redis_server"
    monkeypatch.setattr(f"{server}.is_asyncio_available", lambda: False)
    with pytest.raises(SettingError, match="the asyncio reactor, or none"):
        assert Crawl.of(make_crawler(REP_FLEET="redis://127.0.0.1:9")).fleet
