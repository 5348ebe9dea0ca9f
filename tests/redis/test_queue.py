"""The fleet's queue, by itself: a test does what the engine would."""

from __future__ import annotations

import ast
import asyncio
import time
from typing import Any

import pytest
import redis
import scrapy
from redis.crc import key_slot
from scrapy import signals
from scrapy_redis.queue import FifoQueue, PriorityQueue

from scrapy_rep.redis import queue, take_over
from scrapy_rep.redis.clients import Script
from scrapy_rep.redis.dupefilter import DupeFilter
from scrapy_rep.redis.fleet import RedisAwayError
from scrapy_rep.redis.keys import as_member
from scrapy_rep.redis.store import RedisStore
from tests.redis.workers import Crawl, Quiet, nothing, short
from tests.redis_server import RedisServer
from tests.utils import coroutine_test, until

pytestmark = pytest.mark.only_asyncio

PREFIX = "{quiet:requests}:"


class Literals:
    """A serializer to str, for SCHEDULER_SERIALIZER."""

    dumps = staticmethod(repr)

    @staticmethod
    def loads(data: bytes) -> Any:
        return ast.literal_eval(data.decode())


@coroutine_test
async def test_order_within_a_host(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        for number, priority in enumerate([0, 5, -3, 5, 100, 0]):
            worker = (one, two)[number % 2]
            await worker.push("a", number, priority=priority)
        assert await one.length() == await two.length() == 6
        assert await two.take_all() == ["a4", "a1", "a3", "a0", "a5", "a2"]
        assert await two.pop() is None
        assert await two.length() == 0


@coroutine_test
async def test_hosts_take_turns(redis_server):
    async with Crawl(redis_server) as worker:
        for number in range(3):
            for host in "abc":
                await worker.push(host, number)
        found = await worker.take_all()
        assert found == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


@coroutine_test
async def test_a_host_not_yet_known_is_handed_out_once(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        for number in range(3):
            await one.push("a", number)
        first = await one.pop()
        assert await one.pop() is None
        assert await two.pop() is None
        await one.start(first)  # nothing was asked of our speed
        assert (short(await two.pop()), short(await one.pop())) == ("a1", "a2")
        assert await two.length() == 3  # they are with workers


@coroutine_test
async def test_a_refused_request_makes_way_for_the_next(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        await one.push("a", 1)
        await one.push("a", 2)
        one.done(await one.pop())  # it never started
        await one.exchange.send()
        assert short(await two.pop()) == "a2"
        assert await one.length() == 1


def in_micros(time: Any) -> int:
    """Return what TIME has answered, in microseconds."""
    seconds, micros = time
    return int(seconds) * 10**6 + int(micros)


@coroutine_test
async def test_a_paced_host_is_handed_out_a_little_ahead_of_its_time(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        for number in range(3):
            await one.push("a", number)
        request, before = await one.pop(), redis_server.client.time()
        await one.start(request, 0.5)
        due = redis_server.client.zscore(f"{PREFIX}later", "a.example")
        after = redis_server.client.time()
        assert in_micros(before) + 0.3e6 < due < in_micros(after) + 0.5e6
        assert await two.pop() is None
        await until(two.pop)
        assert in_micros(redis_server.client.time()) >= due


@coroutine_test
async def test_the_engine_is_woken_when_a_host_is_due(redis_server):
    async with Crawl(redis_server) as worker:
        await worker.push("a", 1)
        await worker.push("a", 2)
        began = time.monotonic()
        await worker.take(0.4)
        assert await worker.pop() is None
        worker.woken.clear()
        await until(lambda: worker.woken)
        assert worker.woken[0] - began > 0.2
        await until(worker.pop)  # the server may have heard of the start a little later


@coroutine_test
async def test_a_parked_host_is_parked_for_all(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        began = time.monotonic()
        one.hold(0.5)
        await one.push("a", 1)
        await one.push("b", 1)
        one.hold(0.0)
        await two.push("c", 1)
        await two.push("a", 2)  # who does not know it does not bring it back
        assert short(await two.pop()) == "c1"
        assert await two.pop() is None
        found: list[str] = []
        while len(found) < 2:
            await asyncio.sleep(0.02)
            if popped := await one.pop():
                found.append(short(popped))
        assert found == ["a1", "b1"]
        assert time.monotonic() - began >= 0.5


@coroutine_test
async def test_a_site_that_asks_to_be_left_alone_is_parked_for_all(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        for number in range(4):
            await one.push("a", number)
        await one.take()  # nothing is asked of our speed
        other = await two.pop()
        began = time.monotonic()
        one.keeper.park("a.example", 0.5)  # its answer says so
        await one.exchange.send()
        await two.start(other)  # which says nothing of how it is now
        await two.push("a", 4)
        await two.push("b")
        assert (short(other), short(await one.pop())) == ("a1", "b0")
        assert await one.pop() is None
        await until(two.pop)
        assert time.monotonic() - began >= 0.5


@coroutine_test
async def test_a_retry_waits_from_the_moment_it_is_queued(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        one.exchange.tell = lambda *_: None  # the others are not told yet
        one.keeper.park("a.example", 5.0)
        await one.push("a")
        assert await two.pop() is None
        assert redis_server.client.hget(f"{PREFIX}pace", "a.example") == b"parked"


@coroutine_test
async def test_the_longest_pause_counts(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        await one.push("a")
        for worker, seconds in ((one, 60.0), (one, 600.0), (two, 300.0)):
            worker.keeper.park("a.example", seconds)
            await worker.exchange.send()
        seconds, _ = redis_server.client.time()
        due_at = redis_server.client.zscore(f"{PREFIX}later", "a.example") / 1e6
        assert due_at - seconds == pytest.approx(600, abs=100)


@coroutine_test
async def test_a_host_that_is_held_stays_parked_for_longer(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        await one.push("a", 1)
        await one.pop()
        two.hold(3600.0)
        await two.push("a", 2)
        await one.exchange.beat()
        seconds, _ = redis_server.client.time()
        due_at = redis_server.client.zscore(f"{PREFIX}later", "a.example") / 1e6
        assert due_at > seconds + 3500


@coroutine_test
async def test_a_full_host_does_not_hold_up_the_others(redis_server):
    async with Crawl(redis_server, CONCURRENT_REQUESTS_PER_DOMAIN=1) as worker:
        for number in range(2):
            await worker.push("a", number)
        first = await worker.pop()
        await worker.start(first)
        await worker.push("b", 0)
        worker.keeper.has_place = lambda slot, host: host != "a.example"
        assert short(await worker.pop()) == "b0"
        assert await worker.pop() is None


@coroutine_test
async def test_length_counts_what_waits_and_what_is_handed_out(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        for number in range(30):
            await one.push(f"h{number % 7}", number)
        assert await two.length() == 30
        taken = [await one.pop() for _ in range(7)]
        assert await two.length() == 30
        one.done(*taken)
        await one.pop()
        assert await two.length() == 23


@coroutine_test
async def test_clear_deletes_everything(redis_server, monkeypatch):
    monkeypatch.setattr(queue, "CLEARED_PER_CALL", 100)
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        redis_server.client.zadd("quiet:requests", {"theirs": 1})
        for number in range(250):
            await one.push(f"h{number}", number)
        await two.take(60.0)
        await one.pop()
        one.queue.clear()
        assert await one.length() == 0
        assert await one.pop() is None
        left = set(redis_server.client.keys())
        fixed = {
            f"{PREFIX}{name}".encode()
            for name in ("clock", "count", "epoch", "workers")
        }
        assert {key for key in left if not key.startswith(b"rep:")} <= fixed
        assert await two.pop() is None


@coroutine_test
async def test_all_keys_of_a_queue_are_in_one_slot_of_a_cluster(redis_server):
    async with Crawl(redis_server) as worker:
        for host in "abc":
            await worker.push(host)
        worker.hold(60.0)
        await worker.push("d")
        await worker.pop()
        keys = [k for k in redis_server.client.keys("*") if not k.startswith(b"rep:")]
        assert len(keys) >= 9
        slots = {key_slot(key) for key in keys}
        assert len(slots) == 1


# Nothing is lost


@coroutine_test
async def test_what_a_dead_worker_had_comes_back_after_its_lease(redis_server):
    lease = {"REP_REDIS_LEASE": 0.9}
    async with Crawl(redis_server, **lease) as one, Crawl(redis_server, **lease) as two:
        for number in range(6):
            await one.push(f"h{number}", number)
        had = {short(await one.pop()) for _ in range(3)}
        one.die()
        found: set[str] = set()
        deadline = time.monotonic() + 60
        while len(found) < 6 and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
            if url := await two.take():
                found.add(url)
        assert had < found
        assert len(found) == 6
        assert two.stat("rep/redis/taken_back") == 3
        assert await two.pop() is None
        assert await two.length() == 0


@coroutine_test
async def test_a_worker_that_dies_before_its_next_sign_of_life(redis_server):
    """Another one has flushed the queue, and with it who is alive."""
    lease = {"REP_REDIS_LEASE": 0.9}
    async with Crawl(redis_server, **lease) as one, Crawl(redis_server, **lease) as two:
        two.queue.clear()
        one.die()
        await one.push("a")
        assert await one.pop() is not None
        await until(two.pop)


@coroutine_test
async def test_a_worker_that_was_cut_off_loses_nothing(redis_server):
    """For longer than its lease, so that another one has what it has; it comes back."""
    lease = {"REP_REDIS_LEASE": 1.5}
    async with Crawl(redis_server, **lease) as one, Crawl(redis_server, **lease) as two:
        for host in "ab":
            await one.push(host)
        one.places = 2
        first = await one.pop()
        beat, one.exchange.beat = one.exchange.beat, nothing
        taken: list[str] = []

        async def both() -> bool:
            taken.extend(await two.take_all())
            return len(taken) == 2

        await until(both)
        one.exchange.beat = beat
        await beat()
        one.queue.push(scrapy.Request("http://c.example/"))  # of its page
        one.done(first)
        while one.exchange.hand:
            one.queue.pop()
        assert await one.exchange.send()
        assert await two.take() == "c"
        assert await two.length() == await one.length() == 0
        assert not two.shards.has_lost


@coroutine_test
async def test_a_worker_that_is_slow_keeps_what_it_has(redis_server):
    lease = {"REP_REDIS_LEASE": 3}
    async with Crawl(redis_server, **lease) as one, Crawl(redis_server, **lease) as two:
        await one.push("a", 1)
        await one.push("a", 2)
        assert await one.pop() is not None

        signs_of_life = set()

        def seen() -> int:
            alive_until = redis_server.client.zscore(f"{PREFIX}workers", one.servers.me)
            signs_of_life.add(alive_until)
            return len(signs_of_life)

        await until(lambda: seen() > 2)
        assert await two.pop() is None


@coroutine_test
async def test_an_answer_that_was_lost_is_found_again(redis_server):
    async with Crawl(redis_server) as worker:
        await worker.push("a")
        backlog: Any = worker.backlog
        call, answers = backlog.call, []

        async def lose(*args: Any) -> None:
            answers.append(await call(*args))

        backlog.call = lose
        assert await worker.pop() is None
        backlog.call = call
        assert len(answers[0]) == 4 + 3
        await worker.exchange.beat()
        assert await worker.length() == 1
        # It has kept the host's time: the host is held, as nobody has told.
        later = redis_server.client.zrange(f"{PREFIX}later", 0, -1)
        assert later == [b"a.example"]


@coroutine_test
async def test_a_push_whose_answer_was_lost_is_no_second_request(redis_server):
    async with Crawl(redis_server) as worker:
        servers: Any = worker.servers
        call = servers.call

        async def lose(what, *args):
            answer = await call(what, *args)
            if what is not Script.named("put", after="common"):
                return answer
            servers.call = call
            worker.link.note_lost(redis.ConnectionError("lost"))
            raise RedisAwayError

        servers.call = lose
        await worker.push("a")
        await until(lambda: worker.link.up)
        await worker.pop()
        assert worker.exchange.outbox == []
        assert await worker.length() == 1


@coroutine_test
async def test_who_leaves_gives_back_what_it_has(redis_server):
    async with Crawl(redis_server) as two:
        async with Crawl(redis_server) as one:
            for number in range(3):
                await one.push(f"h{number}", number)
            done, other = await one.pop(), await one.pop()
            one.done(done)
            left = short(other)
            await one.leave()
            one.die()
        assert await two.length() == 2
        workers = redis_server.client.zrange(f"{PREFIX}workers", 0, -1)
        assert workers == [two.servers.me.encode()]
        waiting = redis_server.client.keys(f"{PREFIX}host:*")
        assert f"{PREFIX}host:{left[:2]}.example".encode() in waiting


@coroutine_test
async def test_a_request_that_cannot_be_read_loses_no_other(redis_server, caplog):
    async with Crawl(redis_server) as worker:
        await worker.push("a", 1, callback=worker.crawler.spider.other)
        await worker.push("a", 2)
        await worker.push("b", 3)
        other = Quiet.other
        del Quiet.other
        try:
            popped = await worker.pop() or await worker.pop()
        finally:
            Quiet.other = other  # type: ignore[method-assign]
        assert short(popped) == "b3"
        assert worker.stat("rep/unreadable") == 1
        assert await worker.length() == 2
        await asyncio.sleep(0.05)  # its host waits for nobody
        assert await worker.take_all() == ["a2"]
        worker.done(popped)
        assert await worker.pop() is None
        assert await worker.length() == 0


@coroutine_test
async def test_a_host_whose_requests_were_evicted_stalls_nobody(redis_server):
    async with Crawl(redis_server) as worker:
        await worker.push("a")
        await worker.push("b")
        redis_server.client.delete(f"{PREFIX}host:a.example")
        await worker.pop()
        assert worker.link.up
        assert (
            redis_server.client.zcard(f"{PREFIX}due")
            + redis_server.client.zcard(f"{PREFIX}later")
            == 1
        )


@coroutine_test
async def test_what_was_evicted_is_waited_for_by_nobody(redis_server):
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        await one.push("a")
        await one.push("b", 1)
        await one.push("b", 2)
        in_hand = await one.pop()
        redis_server.client.delete(f"{PREFIX}host:b.example")
        assert await two.pop() is None
        assert await two.length() == 3  # the first is in hand, and may bring others
        one.done(in_hand)
        assert await one.pop() is None
        assert await one.pop() is None
        await until(two.is_empty)
        assert two.backlog.has_lost  # and not in silence


@coroutine_test
async def test_a_full_host_is_still_counted(redis_server):
    async with Crawl(redis_server) as worker:
        for number in range(2):
            await worker.push("a", number)
        await worker.start(await worker.pop())
        worker.keeper.has_place = lambda *_: False
        redis_server.client.delete(f"{PREFIX}workers")
        assert await worker.pop() is None
        assert await worker.length() == 2


@coroutine_test
async def test_a_cluster(tmp_path):
    with RedisServer(tmp_path, cluster=True) as server:
        server.own_all_slots()
        async with Crawl(server) as one, Crawl(server) as two:
            with pytest.raises(redis.ResponseError, match="same slot"):
                server.client.mget("a", "b")
            filter_ = duplicates_filter(one)
            for host in "aab":
                request = scrapy.Request(f"http://{host}.example/")
                if not filter_.request_seen(request):
                    one.queue.push(request)
            await one.exchange.send()
            assert one.exchange.outbox == []
            assert [await two.take(), await two.take()] == ["a", "b"]
            assert await one.pop() is None
            await two.exchange.beat()
            one.queue.clear()
            assert one.link.up
            assert two.link.up
            filter_.clear()
            filter_.server.close()
            store = RedisStore.from_crawler(one.crawler)
            assert store.bookings is not None
            first = await store.bookings.book("a.example", 0.3)
            assert first is not None
            await store.bookings.over("a.example", first)
            second = await store.bookings.book("a.example", 0.3)
            assert second is not None
            # The machine's clock may be put right.
            assert second - first >= 250_000
            await store.close()


@coroutine_test
async def test_a_server_clock_that_was_set_back_stalls_nobody(redis_server):
    async with Crawl(redis_server) as worker:
        for number in range(3):
            await worker.push("a", number)
        await worker.take(0.5)
        # The server's clock was an hour ahead.
        ahead = 3600_000_000
        client = redis_server.client
        for key in ("later", "workers"):
            for member, score in client.zrange(
                f"{PREFIX}{key}", 0, -1, withscores=True
            ):
                client.zadd(f"{PREFIX}{key}", {member: score + ahead})
        client.incrby(f"{PREFIX}clock", ahead)
        assert await worker.pop() is None
        await until(worker.pop)
        alive_until = client.zscore(f"{PREFIX}workers", worker.servers.me) / 1e6
        assert alive_until < client.time()[0] + 600


@coroutine_test
async def test_scripts_survive_a_flush(redis_server):
    async with Crawl(redis_server) as worker:
        for number in range(2):
            redis_server.client.script_flush()
            await worker.push("a", number)
        for number in range(2):
            redis_server.client.script_flush()
            assert await worker.take() == f"a{number}"
        redis_server.client.script_flush()
        await worker.exchange.beat()
        await until(lambda: worker.link.up)


@coroutine_test
async def test_requests_are_serialized_as_is_set(redis_server):
    async with Crawl(redis_server, serializer=Literals) as worker:
        callback = worker.crawler.spider.other
        await worker.push("a", 7, callback=callback, meta={"a": [1]}, priority=3)
        ((member, score),) = redis_server.client.zrange(
            f"{PREFIX}host:a.example", 0, -1, withscores=True
        )
        assert Literals.loads(member[16:])["url"] == "http://a.example/7"
        assert score == -3
        popped = await worker.pop()
        assert (popped.callback, popped.meta["a"], popped.priority) == (
            callback,
            [1],
            3,
        )


# Redis is away


@coroutine_test
async def test_what_is_pushed_without_redis_arrives_later(redis_server):
    async with Crawl(redis_server) as worker:
        await worker.push("a", 0)
        redis_server.hang()
        began = time.monotonic()
        for number in range(1, 100):
            await worker.push("a", number)
            assert await worker.pop() is None
        assert len(worker.queue) >= 99
        # Each call that was tried would have taken a second.
        assert time.monotonic() - began < 50
        redis_server.resume()
        await until(lambda: worker.link.up)
        found = await worker.take_all()
        assert sorted(found, key=lambda url: int(url[1:])) == [
            f"a{number}" for number in range(100)
        ]


@coroutine_test
async def test_who_has_queued_what_cannot_be_had_yet_is_not_at_its_end(redis_server):
    """As where another worker holds the host, and the queue was empty at the start."""
    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        await one.push("a")
        assert await one.pop() is not None
        assert len(two.queue) == 0
        await two.push("a", 1)
        assert len(two.queue) >= 1
        assert await two.length() == 2


@coroutine_test
async def test_a_worker_that_cannot_look_is_not_at_its_end(redis_server):
    async with Crawl(redis_server) as worker:
        redis_server.kill()
        assert await worker.pop() is None
        assert len(worker.queue) > 0
        redis_server.start()
        await until(lambda: worker.link.up)
        assert await worker.length() == 0  # the server has forgotten all


def duplicates_filter(worker: Crawl) -> Any:
    return DupeFilter.from_spider(worker.crawler.spider)


@coroutine_test
async def test_a_request_is_seen_once_it_is_queued(redis_server, caplog):
    dropped: list[str] = []

    def note(request: Any) -> None:
        dropped.append(request.url)

    async with Crawl(redis_server) as one, Crawl(redis_server) as two:
        one.crawler.signals.connect(note, signals.request_dropped)
        filter_ = duplicates_filter(one)
        request = scrapy.Request("http://a.example/")
        assert not filter_.request_seen(request)
        assert not redis_server.client.exists("quiet:dupefilter")  # nor queued yet
        two.queue.push(request)
        await two.exchange.send()
        assert redis_server.client.scard("quiet:dupefilter") == 1
        for number in (1, 2, 2, 1):  # within a page, too
            url = "http://a.example/" + "2" * (number - 1)
            again = scrapy.Request(url)
            assert not filter_.request_seen(again)
            one.queue.push(again)
        one.queue.push(scrapy.Request(request.url, dont_filter=True))
        await one.exchange.send()
        assert await two.length() == 3
        assert one.stat("dupefilter/filtered") == 3
        assert dropped == [request.url, "http://a.example/2", request.url]
        filter_.clear()
        assert not redis_server.client.exists("quiet:dupefilter")
        filter_.server.close()


@coroutine_test
async def test_duplicates_are_found_when_redis_is_back(redis_server):
    async with Crawl(redis_server) as worker:
        filter_ = duplicates_filter(worker)
        first = scrapy.Request("http://a.example/")
        assert not filter_.request_seen(first)
        worker.queue.push(first)
        redis_server.hang()
        for _ in range(3):
            again = scrapy.Request(first.url)
            assert not filter_.request_seen(again)
            worker.queue.push(again)
        redis_server.resume()
        await until(lambda: worker.link.up)
        await worker.exchange.send()
        assert await worker.length() == 1
        assert worker.stat("dupefilter/filtered") == 3
        filter_.server.close()


# From scrapy-redis' own queue


def theirs(worker: Crawl, kind: Any = PriorityQueue, serializer: Any = None) -> Any:
    return kind(worker.server, worker.crawler.spider, "%(spider)s:requests", serializer)


@pytest.mark.parametrize("serializer", [None, Literals])
@coroutine_test
async def test_take_over(redis_server, serializer):
    async with Crawl(redis_server, serializer=serializer) as worker:
        old = theirs(worker, serializer=serializer)
        for number in range(250):
            url = f"http://h{number % 9}.example/{number}"
            old.push(scrapy.Request(url, priority=number % 3))
        meta = {"download_slot": "mine"}
        old.push(scrapy.Request("http://a.example/1", meta=meta))
        given = {} if serializer is None else {"serializer": serializer}
        assert take_over(redis_server.client, "quiet", **given) == 251
        assert take_over(redis_server.client, "quiet", **given) == 0
        assert not redis_server.client.exists("quiet:requests")
        assert await worker.length() == 251
        assert redis_server.client.exists(f"{PREFIX}host:mine")
        scores = [
            score
            for _, score in redis_server.client.zrange(
                f"{PREFIX}host:h1.example", 0, -1, withscores=True
            )
        ]
        assert scores == sorted(scores)
        assert set(scores) == {-1.0}  # their numbers are 1, 10, 19...


@coroutine_test
async def test_take_over_that_is_interrupted_loses_nothing(redis_server, monkeypatch):
    async with Crawl(redis_server) as worker:
        old = theirs(worker)
        for number in range(20):
            old.push(scrapy.Request(f"http://a.example/{number}"))
        left = iter(range(7))

        def interrupted(*args):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return as_member(*args)

        monkeypatch.setattr("scrapy_rep.redis.migration.as_member", interrupted)
        monkeypatch.setattr("scrapy_rep.redis.migration.REQUESTS_PER_CALL", 2)
        with pytest.raises(KeyboardInterrupt):
            take_over(redis_server.client, "quiet")
        monkeypatch.undo()
        assert take_over(redis_server.client, "quiet") == 14
        assert sorted(await worker.take_all()) == sorted(f"a{n}" for n in range(20))


@coroutine_test
async def test_take_over_refuses_other_queues(redis_server):
    async with Crawl(redis_server) as worker:
        theirs(worker, FifoQueue).push(scrapy.Request("http://a.example/"))
        with pytest.raises(TypeError, match="expected a PriorityQueue"):
            take_over(redis_server.client, "quiet")
