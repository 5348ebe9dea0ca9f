"""The shared store: one fetch for all workers, and one time."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep.policies.lifecycle import WAITING_STATES, correct_times, standing_of
from scrapy_rep.redis import leases
from scrapy_rep.redis import store as store_module
from scrapy_rep.redis.keys import TOLD_CHANNEL, fleet_keys, lease_key
from scrapy_rep.store.rows import pack_body
from tests.redis.workers import Worker, at_once_when, promptly
from tests.site import Site, hosts_of
from tests.snapshots import answer_of, changed, snapshot_of
from tests.utils import coroutine_test, crawl, make_crawler, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.redis_server import RedisServer

pytestmark = pytest.mark.only_asyncio

ORIGIN = "https://example.com"
KEY = f"rep:{{{ORIGIN}}}:robots"
LEASE = f"{KEY}:asking"
GOOD = snapshot_of(
    status=200,
    body=b"User-agent: *\nDisallow: /\n",
    encoding="utf-8",
    url="https://example.com/robots.txt",
    lifetime=86400.0,
    grace=172800.0,
)


def calls(server: Any, command: str) -> int:
    """Return how many commands of that name the server has served."""
    stats = server.client.info("commandstats").get(f"cmdstat_{command}", {})
    return int(stats.get("calls", 0))


def listeners(server: Any) -> int:
    """Return how many connections wait to be told that a lease was given back."""
    ((_, number),) = server.client.pubsub_numsub(TOLD_CHANNEL)
    return int(number)


def alive(kind: type) -> int:
    """Return how many objects of that class there are."""
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


# Times


@pytest.mark.parametrize("seconds", [3.0, -3.0, 86400.0])
@coroutine_test
async def test_machines_whose_clocks_differ_agree_on_ages(
    redis_server, monkeypatch, seconds
):
    async with Worker(redis_server) as here:
        monkeypatch.setattr(store_module, "time", lambda: time.time() + seconds)
        async with Worker(redis_server) as there:
            now = time.time()
            snapshot = changed(
                GOOD,
                checked=now - 10,
                failures=1,
                failing_since=now - 5,
                retry_at=now + 20,
            )
            await here.store.put(ORIGIN, snapshot)
            found = await there.store.get(ORIGIN)
            now += seconds
            assert now - found.answer.checked == pytest.approx(10, abs=1)
            assert now - found.failures.since == pytest.approx(5, abs=1)
            assert found.failures.retry_at - now == pytest.approx(20, abs=1)
            await there.store.touch(ORIGIN, changed(found, checked=now))
            found = await here.store.get(ORIGIN)
            assert found.answer.checked == pytest.approx(now - seconds, abs=1)


@coroutine_test
async def test_a_store_knows_the_servers_time_before_it_writes(
    redis_server, monkeypatch
):
    monkeypatch.setattr(store_module, "time", lambda: time.time() + 60)
    worker = Worker(redis_server)
    await worker.store.put(ORIGIN, changed(GOOD, checked=time.time() + 60))
    monkeypatch.undo()
    async with Worker(redis_server) as other:
        found = await other.store.get(ORIGIN)
    assert found.answer.checked == pytest.approx(time.time(), abs=20)
    await worker.__aexit__(None, None, None)


@coroutine_test
async def test_a_server_clock_that_was_set_back_makes_copies_old(redis_server):
    async with Worker(redis_server) as worker:
        right = worker.link.offset
        assert right is not None
        worker.link.offset = right + 3600
        await worker.store.put(ORIGIN, changed(GOOD, checked=time.time() - 10))
        worker.link.offset = right
        found = await worker.store.get(ORIGIN)
        assert found.answer.checked > time.time() + 3500
        now = time.time()
        copy = correct_times(found, now, worker.link.settings)
        assert (
            standing_of(copy, now + 0.1, worker.link.settings).state in WAITING_STATES
        )


@coroutine_test
async def test_what_is_kept_expires(redis_server):
    async with Worker(redis_server, REP_UNREACHABLE_MAX=86400) as worker:
        for call in (worker.store.put, worker.store.touch):
            await call(ORIGIN, GOOD)
            left = redis_server.client.pttl(KEY) / 1e3
            assert left == pytest.approx(3 * 86400, abs=10)
            redis_server.client.persist(KEY)
        async with worker.store.claim(ORIGIN):
            keys = redis_server.client.keys()
            assert {KEY.encode(), LEASE.encode()} < set(keys)
            redis_server.client.delete(KEY)
            await worker.store.touch(ORIGIN, GOOD)
            assert all(redis_server.client.pttl(key) > 0 for key in keys)


@coroutine_test
async def test_workers_see_what_others_have_put(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        await one.store.put(ORIGIN, GOOD)
        assert await two.store.get(ORIGIN) == GOOD
        await two.store.put(ORIGIN, changed(GOOD, body=b"", status=404))
        found = await one.store.get(ORIGIN)
        assert (found.status, found.answer.body) == (404, b"")


@coroutine_test
async def test_an_answer_is_never_joined_to_anothers_body(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        await one.store.put(ORIGIN, GOOD)
        await two.store.put(ORIGIN, changed(GOOD, body=b"", status=404))
        await one.store.touch(ORIGIN, changed(GOOD, body=b"", checked=time.time()))
        found = await two.store.get(ORIGIN)
        assert (found.status, found.answer.checked) == (404, 0.0)


# What others have written

FACTS = {
    "status": 200,
    "url": "",
    "etag": "",
    "last_modified": "",
    "failure": "",
    "checked": 1.8e9,
    "lifetime": 9e9,
    "grace": 9e9,
    "failures": 0,
    "failing_since": 0,
    "retry_at": 0,
}
BODY = pack_body(answer_of(GOOD).body)
BOMB = pack_body(bytes(10 * 2**20))


def row(facts: Any = None, **fields: Any) -> dict[str, Any]:
    """Return a row; of *facts*, those that differ."""
    text = json.dumps(FACTS | facts) if isinstance(facts, dict) else facts
    known = {"status": "200", "facts": text or json.dumps(FACTS)}
    return known | {"encoding": "utf-8", "body": BODY} | fields


HOSTILE = [
    pytest.param({"x": "y"}, id="other fields"),
    pytest.param(row(body=BOMB), id="a bomb"),
    pytest.param(row(body=b"User-agent: *\nAllow: /"), id="a body that is not packed"),
    pytest.param(row(body=b""), id="no body"),
    pytest.param(row(body=bytes(2**24)), id="a long body"),
    pytest.param(row(encoding=b"\xff"), id="an encoding that is no text"),
    pytest.param(row(b"\xff"), id="facts that are no text"),
    pytest.param(row("{"), id="facts that are no JSON"),
    pytest.param(row("[" * 10**5), id="facts in facts in facts"),
    pytest.param(row("[1]"), id="a list of facts"),
    pytest.param(row("null"), id="no facts"),
    pytest.param(row('{"status": ' + "9" * 5000 + "}"), id="a number without end"),
    pytest.param(row({"checked": float("nan")}), id="nan"),
    pytest.param(row({"lifetime": float("inf")}), id="inf"),
    pytest.param(row({"checked": 10**400}), id="a huge number"),
    pytest.param(row({"lifetime": "9"}), id="a number that is a text"),
    pytest.param(row({"etag": "\ud800"}), id="half of a character"),
    pytest.param(row({"status": 404}), id="two statuses"),
    pytest.param(row({"status": True}, status="True"), id="a status that is true"),
    pytest.param(
        row({"status": None, "failures": 9, "retry_at": 9e9}, status="None"),
        id="failing for ever",
    ),
    pytest.param(b"a text", id="a text"),
    pytest.param(["a", "list"], id="a list"),
]


def plant(server: Any, what: Any, key: str = KEY) -> None:
    """Have *what* stand where a snapshot does."""
    if isinstance(what, dict):
        server.client.hset(key, mapping=what)
    elif isinstance(what, list):
        server.client.rpush(key, *what)
    else:
        server.client.set(key, what)


@coroutine_test
async def test_a_row_of_these_is_read(redis_server):
    async with Worker(redis_server) as worker:
        plant(redis_server, row())
        found = await worker.store.get(ORIGIN)
        answer = answer_of(GOOD)
        assert found.status == 200
        assert (found.answer.body, found.answer.encoding) == (answer.body, "utf-8")


@pytest.mark.parametrize("what", HOSTILE)
@coroutine_test
async def test_what_no_worker_has_written_is_told_and_forgotten(redis_server, what):
    async with Worker(redis_server) as worker:
        plant(redis_server, what)
        with pytest.raises(ValueError, match=r"^what Redis had is damaged: ."):
            await worker.store.get(ORIGIN)
        assert await worker.store.get(ORIGIN) is None
        await worker.store.touch(ORIGIN, changed(GOOD, body=b""))
        assert await worker.store.get(ORIGIN) is None  # nothing of it was left to join
        await worker.store.put(ORIGIN, GOOD)
        assert await worker.store.get(ORIGIN) == GOOD
        assert worker.stat("rep/redis/errors") is None


@pytest.mark.parametrize("what", HOSTILE)
@coroutine_test
async def test_what_no_worker_has_written_decides_nothing(redis_server, caplog, what):
    with Site({"/robots.txt": "User-agent: *\nDisallow: /secret"}) as site:
        key = f"rep:{{{site.origin}}}:robots"
        plant(redis_server, what, key)
        crawler = make_crawler(REP_STORE="redis", REDIS_URL=redis_server.url)
        urls = [site.url("/secret"), site.url("/page")]
        await maybe_deferred_to_future(deferred_from_coro(crawl(crawler, urls=urls)))
        assert site.paths == ["/robots.txt", "/page"]
        assert redis_server.client.hget(key, "status") == b"200"
    assert crawler.stats.get_value("rep/store/errors") == 1
    told = [text for text in caplog.messages if "is damaged" in text]
    assert len(told) == 1


@coroutine_test
async def test_a_lifetime_beyond_rep_max_age_is_none(redis_server):
    """A row that says it is fresh for ever is believed for a day."""
    async with Worker(redis_server) as worker:
        plant(redis_server, row({"checked": time.time() - 2 * 86400}))
        found = await worker.store.get(ORIGIN)
        now = time.time()
        copy = correct_times(found, now, worker.link.settings)
        assert standing_of(copy, now, worker.link.settings).state in WAITING_STATES


@coroutine_test
async def test_a_lease_that_does_not_expire_is_none(redis_server):
    async with Worker(redis_server) as worker:
        redis_server.client.set(LEASE, "for ever")
        await asyncio.wait_for(ask(worker, None, []), 30)


@coroutine_test
async def test_what_others_say_on_the_channel_wakes_nobody_else(redis_server):
    async with one_asks(redis_server) as (log, answered, asking, waiting):
        redis_server.client.publish(TOLD_CHANNEL, b"\xff")
        await asyncio.sleep(0.3)
        assert len(log) == 1  # the other one waits still
        answered.set()
        await asyncio.gather(asking, waiting)
        assert log[1::2] == ["over", "over"]
        assert listeners(redis_server)


@coroutine_test
async def test_a_worker_with_a_name_that_is_no_text_is_counted(redis_server):
    lives = (time.time() + 60) * 1e6
    for key in fleet_keys():
        redis_server.client.zadd(key, {b"\xff": lives})
    async with Worker(redis_server) as worker:
        assert worker.link.workers == 2


# One asks


@pytest.fixture
def long_lease(monkeypatch):
    """Have leases outlast a test, so that none is over because its time is."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", 600.0)


async def ask(worker: Worker, until_: asyncio.Event | None, log: list[Any]) -> None:
    """Ask, which takes *until_* then; note in *log* whether others may have, and the end."""
    async with worker.store.claim(ORIGIN) as others_asked:
        log.append(others_asked)
        if until_ is not None:
            await until_.wait()
        log.append("over")


class OneAsks(NamedTuple):
    """What comes of two workers, of which one asks and the other waits for that."""

    log: list[Any]
    """Of both, as ``ask`` notes it."""
    answered: asyncio.Event
    asking: asyncio.Task[None]
    waiting: asyncio.Task[None]


@asynccontextmanager
async def one_asks(server: RedisServer) -> AsyncIterator[OneAsks]:
    async with Worker(server) as one, Worker(server) as two:
        log: list[Any] = []
        answered = asyncio.Event()
        asking = asyncio.create_task(ask(one, answered, log))
        await until(lambda: log)
        waiting = asyncio.create_task(ask(two, None, log))
        await until(lambda: listeners(server))
        yield OneAsks(log, answered, asking, waiting)


@coroutine_test
async def test_one_asks_and_tells_the_others(redis_server, long_lease):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        log: list[Any] = []
        answered = asyncio.Event()
        asking = asyncio.create_task(ask(one, answered, log))
        await until(lambda: log)
        looked = calls(redis_server, "pttl")
        waiting = asyncio.create_task(ask(two, None, log))
        await until(lambda: calls(redis_server, "pttl") > looked)
        tried = calls(redis_server, "set")
        await asyncio.sleep(0.2)
        assert len(log) == 1
        answered.set()
        await promptly(asyncio.gather(asking, waiting))
        # The first cannot know that nobody has.
        assert log == [True, "over", True, "over"]
        # It has waited to be told, and not looked again and again.
        assert calls(redis_server, "set") - tried <= 2
        assert not redis_server.client.exists(LEASE)


@coroutine_test
async def test_those_who_come_one_after_the_other_look_again(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        for worker in (one, two, one):
            log: list[Any] = []
            await ask(worker, None, log)
            assert log[0]


@coroutine_test
async def test_many_who_wait_use_one_connection(redis_server, long_lease):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        async with asking_all(one, 50):
            looked, before = calls(redis_server, "pttl"), alive(asyncio.Event)
            waiting = [
                asyncio.create_task(_claimed(two, number)) for number in range(50)
            ]
            await until(lambda: calls(redis_server, "pttl") >= looked + 50)
            await asyncio.sleep(0.2)
            assert listeners(redis_server) == 1
            assert alive(asyncio.Event) == before + 50
        assert all(await promptly(asyncio.gather(*waiting)))
        assert alive(asyncio.Event) <= before + 1  # who listens may have the last one


class asking_all:
    """Have *worker* ask so many origins at once."""

    def __init__(self, worker: Worker, many: int) -> None:
        self._claims = [worker.store.claim(str(number)) for number in range(many)]

    async def __aenter__(self) -> None:
        for claim in self._claims:
            await claim.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        for claim in self._claims:
            await claim.__aexit__(None, None, None)


async def _claimed(worker: Worker, number: int) -> bool:
    async with worker.store.claim(str(number)) as others_asked:
        return bool(others_asked)


@coroutine_test
async def test_a_worker_that_dies_delays_the_others_by_its_lease(redis_server):
    async with Worker(redis_server) as worker:
        began = time.monotonic()
        redis_server.client.set(LEASE, "dead", px=500)
        async with worker.store.claim(ORIGIN) as others_asked:
            assert others_asked
            assert time.monotonic() - began >= 0.5
            assert redis_server.client.get(LEASE) == worker.servers.me.encode()


@coroutine_test
async def test_hosts_that_another_worker_asks_hold_up_nobody(redis_server):
    with Site({"/robots.txt": "# fine"}, host="0.0.0.0") as site:
        *others, quick = hosts_of(site, 13)
        for origin in others:
            redis_server.client.set(lease_key(origin), "another", px=3000)
        crawler = make_crawler(
            REDIS_URL=redis_server.url, REP_STORE="redis", CONCURRENT_REQUESTS=4
        )
        await crawl(crawler, urls=[f"{origin}/" for origin in (*others, quick)])
    assert crawler.spider.got[0] == f"{quick}/"
    assert len(crawler.spider.got) == 13


@coroutine_test
async def test_a_lease_is_renewed_while_it_takes_long(redis_server, monkeypatch):
    monkeypatch.setattr(leases, "LEASE_SECONDS", 3.0)
    async with Worker(redis_server) as one:
        before = asyncio.all_tasks()
        async with one.store.claim(ORIGIN):
            await until(lambda: redis_server.client.pttl(LEASE) < 2500)
            await until(lambda: redis_server.client.pttl(LEASE) > 2500)
        # A command that is just being sent ends a moment later; a renewal, after a second.
        await until(lambda: asyncio.all_tasks() <= before, 0.5)


@coroutine_test
async def test_a_lease_that_another_has_by_now_is_left_alone(redis_server):
    async with Worker(redis_server) as worker:
        async with worker.store.claim(ORIGIN):
            redis_server.client.set(LEASE, "another", px=10_000)
        assert redis_server.client.get(LEASE) == b"another"


@coroutine_test
async def test_a_fault_or_a_cancellation_gives_the_lease_back(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        with pytest.raises(RuntimeError):
            async with one.store.claim(ORIGIN):
                raise RuntimeError
        assert not redis_server.client.exists(LEASE)
        log: list[Any] = []
        never = asyncio.Event()
        asking = asyncio.create_task(ask(one, never, log))
        await until(lambda: log)
        before = alive(asyncio.Event)
        waiting = asyncio.create_task(ask(two, never, []))
        # Before, redis-py may swallow the cancellation.
        await until(lambda: listeners(redis_server))
        await asyncio.sleep(0.2)
        for task in (waiting, asking):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert alive(asyncio.Event) == before
        assert not redis_server.client.exists(LEASE)


@coroutine_test
async def test_a_lost_connection_to_listen_is_made_anew(redis_server, long_lease):
    async with one_asks(redis_server) as (log, answered, asking, waiting):
        await asyncio.sleep(0.2)
        redis_server.client.client_kill_filter(_type="pubsub")
        await asyncio.sleep(0.2)
        answered.set()
        await promptly(asyncio.gather(asking, waiting))
        assert log == [True, "over", True, "over"]


# Redis is away


@coroutine_test
async def test_without_redis_each_asks_for_itself(redis_server):
    async with Worker(redis_server) as one, Worker(redis_server) as two:
        redis_server.kill()
        logs: list[list[Any]] = [[], []]
        answered = asyncio.Event()
        asking = [
            asyncio.create_task(ask(worker, answered, log))
            for worker, log in zip((one, two), logs, strict=True)
        ]
        await until(lambda: all(logs))
        answered.set()
        await asyncio.gather(*asking)
        assert logs == [[False, "over"]] * 2
        assert await one.store.get(ORIGIN) is None
        await one.store.put(ORIGIN, GOOD)
        await one.store.touch(ORIGIN, GOOD)
        assert one.stat("rep/redis/away") == 1


@coroutine_test
async def test_who_waits_goes_on_when_redis_dies(redis_server, long_lease):
    async with one_asks(redis_server) as (_, answered, asking, waiting):
        redis_server.kill()
        await promptly(waiting)
        answered.set()
        await asking


@coroutine_test
async def test_a_server_that_hangs_is_given_up_in_a_second(redis_server, caplog):
    async with Worker(redis_server) as worker:
        await worker.store.put(ORIGIN, GOOD)
        redis_server.hang()
        began = time.monotonic()
        for _ in range(100):
            assert await worker.store.get(ORIGIN) is None
        # Each call that was tried would have taken a second.
        assert time.monotonic() - began < 50
        redis_server.resume()
        await until(lambda: worker.link.up)
        assert await worker.store.get(ORIGIN) == GOOD
        warnings = [r for r in caplog.records if r.levelname == "WARNING"]
        assert ["Redis is away" in r.getMessage() for r in warnings] == [True]
        assert worker.stat("rep/redis/away") == 1


@coroutine_test
async def test_pause_waits_before_it_says_that_nothing_is_known(
    redis_server, monkeypatch
):
    async with Worker(redis_server, REP_REDIS_DOWN="pause") as worker:
        await worker.store.put(ORIGIN, GOOD)
        redis_server.hang()
        await worker.show_up()
        assert not worker.link.up
        getting = asyncio.create_task(worker.store.get(ORIGIN))
        await asyncio.sleep(0.2)
        assert not getting.done()
        redis_server.resume()
        assert await getting == GOOD


@coroutine_test
async def test_a_crawl_that_ends_at_once_leaves_the_fleet(redis_server):
    for _ in range(3):
        worker = Worker(redis_server)
        assert await worker.store.get(ORIGIN) is None
        await promptly(worker.__aexit__(None, None, None))
        assert not redis_server.client.exists(*fleet_keys())


@coroutine_test
async def test_many_calls_at_once_do_not_take_the_server_for_lost(redis_server):
    async with Worker(redis_server) as worker:
        calls_ = [worker.store.get(str(number)) for number in range(500)]
        assert not any(await asyncio.gather(*calls_))
        assert worker.stat("rep/redis/away") is None


@coroutine_test
async def test_calls_under_way_come_to_their_end_with_the_crawl(redis_server):
    async with Worker(redis_server) as worker:
        begun = [
            asyncio.ensure_future(worker.store.put(str(number), GOOD))
            for number in range(100)
        ]
        await asyncio.sleep(0)
        await promptly(worker.servers.close())
        await asyncio.sleep(0)
        assert all(call.done() for call in begun)
    assert worker.stat("rep/redis/errors") is None


@coroutine_test
async def test_nobody_waits_beyond_the_end_of_the_crawl(redis_server):
    """Nor where it comes before the task that listens for others has begun to run."""
    for turns in range(4):
        async with Worker(redis_server) as worker:
            redis_server.client.set(LEASE, "another", px=600_000)
            waiting = asyncio.create_task(ask(worker, None, []))
            before = asyncio.all_tasks()
            await at_once_when(lambda: asyncio.all_tasks() - before)  # noqa: B023
            for _ in range(turns):
                await asyncio.sleep(0)
            await worker.store.close()
            with pytest.raises(asyncio.CancelledError):
                await promptly(waiting)
