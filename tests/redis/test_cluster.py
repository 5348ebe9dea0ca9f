"""A Redis Cluster of three servers, each of which is there or away by itself."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import redis
import scrapy
from redis.crc import key_slot
from scrapy.settings import Settings

from scrapy_rep.exceptions import RedisStartError
from scrapy_rep.redis import clients, orders, servers
from scrapy_rep.redis.clients import refusal_of
from scrapy_rep.redis.dupefilter import DupeFilter
from scrapy_rep.redis.fleet import MOST_CALLS, RedisAwayError
from scrapy_rep.redis.keys import queue_keys, shard_of, snapshot_key, start_key
from scrapy_rep.redis.overview import hosts, state
from scrapy_rep.redis.parts import connect
from scrapy_rep.redis.quick import Quick, check_server
from scrapy_rep.redis.servers import Servers
from scrapy_rep.redis.shards import SHARDS_IN_A_CLUSTER
from scrapy_rep.redis.store import RedisStore
from scrapy_rep.store import Snapshot
from tests.benchmarks.fleet import delayed
from tests.benchmarks.fleet import hosts as hosts_of_the_web
from tests.benchmarks.web import Web
from tests.fleet import Fleet, seed
from tests.redis.workers import Crawl, Worker, short
from tests.redis_cluster import NUMBER, OPTIONS, Cluster, ask
from tests.redis_cluster import until as wait_until
from tests.redis_server import RedisServer
from tests.utils import coroutine_test, make_crawler, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.only_asyncio,
    pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning"),
]

KEY = "quiet:requests"
HOSTS = [f"h{n}" for n in range(40)]
NAMES = queue_keys(KEY, SHARDS_IN_A_CLUSTER)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(whole: Cluster) -> Cluster:
    """Return one that is empty; whoever breaks it makes it whole."""
    for server in whole.servers:
        server.client.flushall()
    return whole


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine an answer may take a second; here that is no absence."""
    monkeypatch.setattr(clients, "TIMEOUT_SECONDS", 30.0)


def shard_key(host: str) -> str:
    return NAMES[shard_of(f"{host}.example", SHARDS_IN_A_CLUSTER)].fixed[0]


async def take(*workers: Crawl) -> list[str]:
    """Take what is due, until nothing is any more; the hosts ask for nothing."""
    found: list[str] = []
    while True:
        before = len(found)
        for worker in workers:
            worker.places = 200
            worker.exchange.ask_at = [0.0] * len(worker.shards)
            await worker.exchange.receive()
            while worker.exchange.hand:
                request = worker.queue.pop()
                await worker.start(request)
                found.append(short(request))
            await worker.exchange.send()
        if len(found) == before:
            return found


async def take_until(number: int, *workers: Crawl) -> list[str]:
    """Take until there were so many."""
    found: list[str] = []

    async def enough() -> bool:
        found.extend(await take(*workers))
        return len(found) >= number

    await until(enough)
    return found


def has_more(found: list[Any], number: int) -> bool:
    return len(found) > number


# What is where


@coroutine_test
async def test_the_shards_lie_on_all_servers_and_each_of_them_on_one(cluster):
    async with Crawl(cluster) as worker:
        assert len(worker.shards) == SHARDS_IN_A_CLUSTER
        for host in HOSTS:
            await worker.push(host)
        for server in cluster.servers:
            found = [key for key in server.client.keys("*") if b"host:" in key]
            assert len(found) > len(HOSTS) / NUMBER / 4
        assert sorted(await take(worker)) == sorted(f"{host}0" for host in HOSTS)
        assert await worker.length() == 0
        assert worker.stat("rep/redis/errors") is None


@coroutine_test
async def test_a_request_is_a_duplicate_for_all(cluster):
    async with Crawl(cluster) as one, Crawl(cluster) as two:
        for worker in (one, two):
            filter_ = DupeFilter.from_spider(worker.crawler.spider)
            for host in HOSTS[:10]:
                request = scrapy.Request(f"http://{host}.example/")
                assert not filter_.request_seen(request)
                worker.queue.push(request)
            await worker.exchange.send()
            filter_.server.close()
        assert await one.length() == 10
        assert two.stat("dupefilter/filtered") == 10
        filter_.clear()
        one.queue.clear()
        assert await one.length() == 0
        left = [key for server in cluster.servers for key in server.client.keys("*")]
        assert not any(b"dupefilter" in key or b"host:" in key for key in left)


@coroutine_test
async def test_what_a_dead_worker_had_comes_back_from_each_shard(cluster):
    lease = {"REP_REDIS_LEASE": 1.5}
    async with Crawl(cluster, **lease) as one, Crawl(cluster, **lease) as two:
        one.places = len(HOSTS)
        for host in HOSTS:
            one.queue.push(scrapy.Request(f"http://{host}.example/0"))
        assert await one.pop() is not None
        assert len(one.exchange.hand) == len(HOSTS) - 1
        one.die()
        assert len(set(await take_until(len(HOSTS), two))) == len(HOSTS)


@coroutine_test
async def test_the_crawl_is_not_at_its_end_while_anything_is_with_another_worker(
    cluster,
):
    async with Crawl(cluster) as one, Crawl(cluster) as two:
        await one.push("a")
        assert len(two.queue) >= 1
        page = await two.pop()
        await until(lambda: len(one.queue) >= 1)
        two.queue.push(scrapy.Request("http://b.example/1"))
        two.done(page)
        await two.exchange.send()
        assert await one.pop() is not None
        two.exchange.ask_at = [0.0] * len(two.shards)
        assert len(two.queue) >= 1
        one.done(*list(one.in_progress))
        await one.exchange.send()

        async def empty() -> bool:
            await two.pop()
            return len(two.queue) == 0

        await until(empty)


# Connections


@coroutine_test
async def test_a_worker_has_at_most_four_connections_to_each_server(cluster):
    def connected(server: RedisServer) -> set[str]:
        return {each["id"] for each in server.client.client_list()}

    before = {server: connected(server) for server in cluster.servers}
    async with Crawl(cluster) as worker:
        store: Any = RedisStore.from_crawler(worker.crawler)

        async def ask(origin: str) -> None:
            async with store.claim(origin):
                for host in HOSTS:
                    await worker.push(host)
                await asyncio.gather(
                    *(worker.servers.call("GET", [host], []) for host in HOSTS * 5),
                    *(worker.servers.look() for _ in range(3)),
                    *(shard.repair() for shard in worker.shards.all),
                    *(link.show_up() for link in worker.servers.all),
                    worker.exchange.beat(),
                )

        # Who waits for another one's claim listens on a connection of its own.
        await asyncio.gather(*(ask("http://a.example") for _ in range(2)))
        found = [len(connected(server) - before[server]) for server in cluster.servers]
        assert sorted(found) == [MOST_CALLS, MOST_CALLS, MOST_CALLS + 1]
        await store.close()


# How many shards


@coroutine_test
async def test_the_number_of_shards_stays(redis_server, caplog):
    async with Crawl(redis_server, REP_REDIS_SHARDS=4) as one:
        for host in HOSTS:
            await one.push(host)
        eight = Crawl(redis_server, REP_REDIS_SHARDS=8)
        async with eight as two, Crawl(redis_server) as three:
            assert [len(worker.shards) for worker in (one, two, three)] == [4, 4, 4]
            assert len(await take(two, three)) == len(HOSTS)
    said = [
        r.getMessage() for r in caplog.records if "REP_REDIS_SHARDS" in r.getMessage()
    ]
    assert said == [
        f"quiet: REP_REDIS_SHARDS is 8, but the queue {KEY} was made with 4: that stays"
    ]


@coroutine_test
async def test_a_queue_that_is_there_is_not_cut(redis_server):
    async with Crawl(redis_server) as one:
        await one.push("a")
        redis_server.client.delete(f"{{{KEY}}}:epoch")  # of a version before that
        async with Crawl(redis_server, REP_REDIS_SHARDS=4) as two:
            assert len(two.shards) == 1
            assert await two.take() == "a0"


@coroutine_test
async def test_a_server_that_forgot_the_number_of_shards_is_told(redis_server):
    async with Crawl(redis_server, REP_REDIS_SHARDS=4) as worker:
        redis_server.client.flushall()
        await worker.exchange.beat()
        assert redis_server.client.get(f"{{{KEY}}}:shards") == b"4"


# One server away


@coroutine_test
async def test_one_server_that_is_away_pauses_its_own_hosts_alone(cluster, caplog):
    async with Crawl(cluster) as worker:
        for host in HOSTS:
            await worker.push(host)
        victim = cluster.servers[2]
        its_own = [host for host in HOSTS if cluster.owner(shard_key(host)) is victim]
        victim.kill()
        await until(lambda: any(not link.up for link in worker.servers.all))
        others = {f"{host}0" for host in HOSTS if host not in its_own}
        assert set(await take_until(len(others), worker)) == others
        # What comes of pages waits here, and the pages with it.
        page = await worker.pop()
        assert page is None
        await worker.push(its_own[0], 1)
        await worker.push(next(host for host in HOSTS if host not in its_own), 1)
        page = await worker.pop()
        worker.done(page)
        assert not await worker.exchange.send()
        key = shard_key(short(page)[:-1])
        in_hand = key.rpartition(":")[0] + f":out:{worker.servers.me}"
        assert cluster.owner(key).client.hlen(in_hand) == 1
        assert len(worker.exchange.outbox) == 1
        victim.start()
        cluster.settle()
        await until(lambda: all(link.up for link in worker.servers.all))
        found = await take_until(len(its_own) + 1, worker)
        assert sorted(found) == sorted([*(f"{h}0" for h in its_own), f"{its_own[0]}1"])
        assert await worker.length() == 0
        assert not worker.shards.has_lost
    said = [r.getMessage() for r in caplog.records if "away" in r.getMessage()]
    assert said
    assert all(f"Redis at 127.0.0.1:{victim.port} is away" in text for text in said)


@coroutine_test
async def test_who_cannot_read_a_robots_txt_keeps_its_delay_all_the_same(cluster):
    """It fetches the file, of a host whose times lie on a server that is there."""
    victim = cluster.servers[2]
    host = next(
        host
        for host in HOSTS
        if cluster.owner(snapshot_key(f"http://{host}")) is victim
        and cluster.owner(start_key(host)) is not victim
    )
    async with Worker(cluster) as one, Worker(cluster) as two:
        await one.store.put(f"http://{host}", Snapshot(varies_at=time.time()))
        assert await two.store.get(f"http://{host}") is not None
        victim.kill()
        booking = await one.starts.book(host, 0.5)
        await one.starts.over(host, booking)
        assert await two.store.get(f"http://{host}") is None
        assert await two.starts.book(host, 0.0) >= booking + 500_000
        victim.start()
        cluster.settle()


@coroutine_test
async def test_a_replica_takes_over(tmp_path):
    for name in ("cluster", "replica"):
        (tmp_path / name).mkdir()
    with (
        Cluster(tmp_path / "cluster") as cluster,
        RedisServer(tmp_path / "replica", *OPTIONS, cluster=True) as replica,
    ):
        first, *_, victim = cluster.servers
        ask(replica, "MEET", "127.0.0.1", first.port)
        its_id = ask(victim, "MYID").decode()
        wait_until(lambda: its_id in str(ask(replica, "NODES")))
        ask(replica, "REPLICATE", its_id)
        wait_until(
            lambda: replica.client.info("replication").get("master_link_status") == "up"
        )
        async with Crawl(cluster) as worker:
            for host in HOSTS:
                await worker.push(host)
            assert victim.client.wait(1, 30_000) == 1
            victim.kill()
            found = await take_until(len(HOSTS), worker)
            assert sorted(found) == sorted(f"{host}0" for host in HOSTS)
            assert not worker.shards.has_lost
            (taken_over,) = [
                link for link in worker.servers.all if link.address.port == replica.port
            ]
            # Others may have taken turns at its hosts.
            assert taken_over.was_away


def empty(server: RedisServer) -> None:
    server.client.flushall()


def restart_without_its_data(server: RedisServer) -> None:
    assert server.folder is not None
    server.kill()
    for path in server.folder.glob("appendonly*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    server.start()


def make_room(server: RedisServer) -> None:
    """As with ``allkeys-lru``: what waits for one host is gone."""
    key = next(server.client.scan_iter("*:host:*", 1000))
    assert server.client.delete(key)


@pytest.mark.parametrize("fault", [empty, restart_without_its_data, make_room])
def test_no_crawl_ends_as_finished_where_one_of_the_servers_forgot(cluster, fault):
    web_hosts = hosts_of_the_web(12, delayed(0.4))
    with Web(web_hosts) as web:
        seed(cluster, [web.url(host, f"/{n}") for n in range(8) for host in web_hosts])
        with Fleet(cluster, 2) as fleet:
            wait_until(lambda: has_more(fleet.said("got"), 12))
            fault(cluster.servers[1])
            fleet.join(180)
        got = set(fleet.said("got"))
    for worker in fleet.workers:
        assert worker.stats["finish_reason"] == "requests_lost"
        assert worker.log.count("ERROR: Redis has lost") >= 1
        name = "lost" if fault is make_room else "forgot"
        assert worker.stats[f"rep/redis/{name}"] >= 1
    assert 12 < len(got) < 12 * 8
    cluster.settle()


# A slot on its way


@coroutine_test
async def test_nothing_is_lost_while_a_slot_moves(cluster):
    async with Crawl(cluster) as one, Crawl(cluster) as two:
        for number in range(3):
            for host in HOSTS:
                await one.push(host, number)
        prefix = shard_key("h0").removesuffix("due")
        client = cluster.owner(prefix).client
        for name in ("later", "idle"):  # so that no key is missing but that of a host
            client.zadd(prefix + name, {"nobody": 4e15})
        client.hset(f"{prefix}pace", "nobody", "free")
        client.sadd(f"{prefix}quiet:dupefilter", "other")
        source, target, slot = cluster.begin_to_move(shard_key("h0"))
        same = [host for host in HOSTS if shard_key(host) == shard_key("h0")]
        # A script that began would find that a key of a new host is not there.
        filter_ = DupeFilter.from_spider(one.crawler.spider)
        new = scrapy.Request("http://h0.example/new")
        filter_.request_seen(new)
        one.queue.push(new)
        assert not await one.exchange.send()
        cluster.move_keys(source, target, slot, 3)
        found = await take(two)
        assert not {url[:2] for url in found} & {*same}
        while cluster.move_keys(source, target, slot):
            pass
        cluster.end_move(source, target, slot)
        found += await take_until(3 * len(HOSTS) + 1 - len(found), one, two)
        assert len(found) == len(set(found)) == 3 * len(HOSTS) + 1
        assert await one.length() == await two.length() == 0
        assert one.stat("rep/redis/away") is two.stat("rep/redis/away") is None
        filter_.server.close()


@coroutine_test
async def test_a_slot_that_nobody_serves_is_an_error(cluster, caplog, monkeypatch):
    """As one is that servers have given away to each other, whose keys Redis has deleted."""
    caplog.set_level(logging.INFO, logger="scrapy_rep")
    monkeypatch.setattr(servers, "STUCK_SECONDS", 0.0)
    async with Crawl(cluster) as worker:
        await worker.push("h0")
        owner, slot = cluster.owner(shard_key("h0")), key_slot(shard_key("h0").encode())
        ask(owner, "DELSLOTS", slot)
        worker.queue.push(scrapy.Request("http://h0.example/1"))
        for _ in range(3):
            assert not await worker.exchange.send()
        assert len(worker.queue) >= 1
        ask(owner, "ADDSLOTS", slot)
        assert sorted(await take_until(2, worker)) == ["h00", "h01"]
    said = [r.getMessage() for r in caplog.records if f"slot {slot}" in r.getMessage()]
    assert len(said) == 2
    assert "moves the keys" in said[0]
    assert "redis-cli --cluster check" in said[1]


@coroutine_test
async def test_the_pace_of_a_host_whose_slot_moves_is_kept(cluster):
    interval = 0.3
    async with Worker(cluster) as one, Worker(cluster) as two:
        granted: list[float] = []

        async def book(worker: Worker) -> None:
            for _ in range(4):
                booking = await worker.starts.book("a.example", interval)
                granted.append(time.monotonic())
                await worker.starts.over("a.example", booking)

        booking = asyncio.gather(book(one), book(two))
        for number in (1, 3, 5):
            await until(partial(has_more, granted, number))
            await asyncio.to_thread(cluster.move, start_key("a.example"))
        await booking
        assert len(granted) == 8
        # The server's clock is exact; ours may be told late.
        assert max(granted) - min(granted) >= 7 * interval * 0.9
        assert one.stat("rep/redis/errors") is None


# Who looks after it


@coroutine_test
async def test_what_an_operator_sees_and_does_holds_for_all_shards(cluster, caplog):
    caplog.set_level(logging.INFO, logger="scrapy_rep")
    settings = Settings({"REDIS_URL": cluster.url})
    async with Crawl(cluster, SCHEDULER_PERSIST=True) as worker:
        for host in HOSTS:
            await worker.push(host)
        queue = connect(settings, "quiet")
        assert len(queue) == SHARDS_IN_A_CLUSTER
        assert await worker.pop() is not None
        now = state(queue)
        assert (now.counted, now.in_hand, now.queued) == (len(HOSTS), 1, len(HOSTS))
        assert {len(now.workers), len(hosts(queue, now.workers)) // len(HOSTS)} == {1}
        assert orders.block(queue, "h1.example") == (True, 1)
        assert orders.purge(queue, "h2.example") == 1
        assert state(queue).blocked == {"h1.example"}
        orders.give(queue, "pause")
        assert await take(worker) == []
        assert state(queue).does == "paused"
        orders.give(queue, None)
        found = await take_until(len(HOSTS) - 3, worker)
        assert not {"h10", "h20"} & {*found}
        assert orders.unblock(queue, "h1.example") == (True, 1)
        assert await take_until(1, worker) == ["h10"]
        await worker.push("h3")
        cluster.owner(shard_key("h3")).client.delete(shard_key("h3"))
        (fault,) = orders.faults(queue, 60.0, repair=True)
        assert (fault.kind, fault.name) == ("unknown_host", "h3.example")
        assert await take_until(1, worker) == ["h30"]
    said = [
        r.getMessage() for r in caplog.records if "The queue quiet" in r.msg % r.args
    ]
    assert [text.split(" is ")[1][:8] for text in said] == ["paused: ", "not held"]


@coroutine_test
async def test_the_strongest_order_of_all_shards_counts(cluster, caplog):
    """As where it has reached some of the servers, and not the others."""
    caplog.set_level(logging.INFO, logger="scrapy_rep")
    async with Crawl(cluster) as worker:
        queue = connect(Settings({"REDIS_URL": cluster.url}), "quiet")
        steps = [
            (3, "pause", "paused", "paused: nothing"),
            (7, "drain", "draining", "being drained, but"),
            (7, None, "paused", "paused: nothing"),
            (3, None, "running", "not held back any more"),
        ]
        for number, (shard, order, does, _) in enumerate(steps):
            queue[shard].order(order)
            for host in HOSTS:
                await worker.push(host, number)
            found = await take(worker)  # which asks each shard more than once
            assert state(queue).does == does
            held = {n for n, part in enumerate(queue) if part.run("look")[1]}
            of = {shard_of(f"{url[:-1]}.example", SHARDS_IN_A_CLUSTER) for url in found}
            assert held == set(range(SHARDS_IN_A_CLUSTER)) - of
    told = [r.getMessage().partition(" is ")[2] for r in caplog.records]
    told = [text for text in told if any(text.startswith(said) for *_, said in steps)]
    assert len(told) == len(steps)
    assert all(map(str.startswith, told, (said for *_, said in steps)))


@coroutine_test
async def test_a_slot_on_its_way_is_told_as_that(cluster):
    async with Crawl(cluster) as worker:
        await worker.push("h0")
        slot = key_slot(shard_key("h0").encode())
        cluster.begin_to_move(shard_key("h0"))
        with pytest.raises(redis.exceptions.TryAgainError) as caught:
            state(connect(Settings({"REDIS_URL": cluster.url}), "quiet"))
        assert refusal_of(caught.value) is None
        assert worker.shards.length() >= 1
        for server in cluster.servers:
            ask(server, "SETSLOT", slot, "STABLE")
    assert worker.stat("rep/redis/away") is None


# What the user must do


@coroutine_test
async def test_a_wrong_password_of_one_server_is_an_error(cluster, caplog):
    async with Crawl(cluster) as worker:
        for host in HOSTS:
            await worker.push(host)
        server = cluster.servers[1]
        server.client.config_set("requirepass", "right")
        server.client.execute_command(
            "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"
        )
        await until(lambda: any(not link.up for link in worker.servers.all))
        server.client.config_set("requirepass", "")
        await until(lambda: all(link.up for link in worker.servers.all))
        assert len(await take_until(len(HOSTS), worker)) == len(HOSTS)
        assert worker.stat("rep/redis/refused") == 1
    errors = [r for r in caplog.records if r.levelno == logging.ERROR]
    (said,) = [r.getMessage() for r in errors if "refuses" in r.getMessage()]
    assert f"Redis at 127.0.0.1:{server.port} refuses us" in said
    assert "must have its user and password" in said


@coroutine_test
async def test_who_may_not_ask_for_slots_is_told(cluster):
    user = ("crawler", "on", ">secret", "~*", "+@all", "-cluster")
    for server in cluster.servers:
        server.client.execute_command("ACL", "SETUSER", *user)
    elsewhere = next(
        name for name in HOSTS if cluster.owner(name) is not cluster.servers[0]
    )
    url = cluster.url.replace("//", "//crawler:secret@")
    quick = Quick(redis.Redis.from_url(url))
    with pytest.raises(redis.ResponseError) as caught:
        quick.call("GET", [elsewhere])
    assert "must be allowed to ask it for CLUSTER SLOTS" in str(
        refusal_of(caught.value)
    )
    quick.close()
    ours = Servers.of(make_crawler(REDIS_URL=url))
    with pytest.raises(RedisAwayError):
        await ours.call("GET", [elsewhere], [])
    assert ours.crawler.stats is not None
    assert ours.crawler.stats.get_value("rep/redis/refused") == 1
    await ours.close()


class Reads(scrapy.Spider):
    """As a RedisSpider does."""

    name = "reads"

    def schedule_next_requests(self) -> None:
        raise AssertionError


@coroutine_test
async def test_what_scrapy_redis_asks_itself_needs_a_client_of_a_cluster(cluster):
    settings: dict[str, Any] = {"REDIS_URL": cluster.url}
    check_server(make_crawler(**settings))
    with pytest.raises(RedisStartError, match=r"redis\.cluster\.RedisCluster"):
        check_server(make_crawler(Reads, **settings))
    settings["REDIS_PARAMS"] = {"redis_cls": "redis.cluster.RedisCluster"}
    check_server(make_crawler(Reads, **settings))
    async with Crawl(cluster, **settings) as worker:
        await worker.push("a")
        assert short(await worker.pop()) == "a0"


# Names


def test_shards_have_one_slot_each_evenly_apart():
    for key in ("quiet:requests", "{quiet}:requests", "a" * 300):
        for number in (2, 16, 64):
            shards = queue_keys(key, number)
            slots = [{key_slot(name.encode()) for name in one.fixed} for one in shards]
            assert all(len(found) == 1 for found in slots)
            places = sorted(found.pop() * number // 2**14 for found in slots)
            assert places == list(range(number))


def test_a_queue_that_is_not_cut_has_the_names_that_it_always_had():
    (one,) = queue_keys(KEY)
    assert one.fixed[0] == "{quiet:requests}:due"
    assert one.of_filter("quiet:dupefilter") == "quiet:dupefilter"
    (one,) = queue_keys(KEY, in_cluster=True)
    assert one.of_filter("quiet:dupefilter") == "{quiet:requests}:quiet:dupefilter"


def test_a_host_is_in_the_same_shard_for_all_and_for_ever():
    found = [shard_of(host, 16) for host in ("a.example", "b.example", "")]
    assert found == [12, 9, 0]
    assert shard_of("a.example\n0123", 16) == shard_of("a.example", 16)
    assert all(a != b for a, b in pairwise(found))
