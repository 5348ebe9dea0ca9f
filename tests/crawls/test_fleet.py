"""Fleets of real workers at a real Redis, judged by what the sites saw of them.

Gaps are those at the server, by its clock: none may be shorter than the delay.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import redis

from scrapy_rep.frontier.redis_orders import FleetQueue
from tests.benchmarks.fleet import (
    FAULTS,
    delayed,
    hosts,
    kill_one,
    pages,
    seeded,
    seen,
)
from tests.benchmarks.web import Web
from tests.fleet import SPIDER, Fleet, Worker, left, out, seed
from tests.redis_server import RedisServer
from tests.site import Reply, Site
from tests.slow_proxy import SlowProxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DELAY = 0.5
SOON = 90  # seconds; a busy machine is slow
OPEN = "User-agent: *\nDisallow: /no\n"


def until(true: Callable[[], object]) -> None:
    """Wait until *true* is."""
    deadline = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.02)


def all_said(fleet: Fleet, word: str = "got", number: int = 1) -> Callable[[], bool]:
    return lambda: all(len(worker.said(word)) >= number for worker in fleet.workers)


def reasons(fleet: Fleet) -> set[str]:
    return {worker.stats["finish_reason"] for worker in fleet.workers}


def answered(fleet: Fleet) -> set[str]:
    return {url.partition("//")[2] for url in fleet.said("got")}


@contextmanager
def crawl(
    paths: dict[str, list[str]], robots: dict[str, str | None], workers: int, **settings
) -> Iterator[tuple[Web, RedisServer, Fleet]]:
    page = settings.pop("page", 0.1)
    with (
        Web(robots, page=page) as web,
        seeded(web, paths, workers, **settings) as (server, fleet),
    ):
        yield web, server, fleet


@pytest.mark.invariant4
@pytest.mark.invariant2
@pytest.mark.invariant1
def test_one_pace_one_fetch_and_no_page_that_is_disallowed():
    own = DELAY / 2
    robots = {**hosts(6, delayed(DELAY)), **hosts(2, OPEN, network=2)}
    robots["127.0.3.1"] = None  # which hangs
    paths = {host: [*found, "/no"] for host, found in pages(robots, 8).items()}
    settings: dict[str, Any] = {
        "DOWNLOAD_DELAY": own,
        "RANDOMIZE_DOWNLOAD_DELAY": False,
        "REP_TIMEOUT": 3,
        "REP_HOSTS": {"127.0.1.1": {"wide": 16}},
    }
    with crawl(paths, robots, 3, **settings) as (web, server, fleet):
        fleet.join(SOON)
        found = seen(web)
        assert left(server) == 0
    assert set(found.robots.values()) == {1}
    assert found.pages.pop("127.0.3.1") == []
    assert {len(hits) for hits in found.pages.values()} == {8}  # none was sent twice
    assert not [url for url in found.urls if url.endswith("/no")]
    assert found.gaps_at("127.0.1")[0] >= DELAY
    assert found.gaps_at("127.0.2")[0] >= own  # the user's
    refused = [worker.stats.get("robotstxt/forbidden", 0) for worker in fleet.workers]
    assert sum(refused) == 8 + 9
    assert reasons(fleet) == {"finished"}
    assert all(worker.process.returncode == 0 for worker in fleet.workers)


@pytest.mark.parametrize("workers", [2, 4])
def test_each_worker_gets_its_part_of_few_hosts(workers):
    robots = hosts(4, delayed(0.3))  # in four shards
    with crawl(pages(robots, 25), robots, workers) as (web, _, fleet):
        fleet.join(SOON)
        found = seen(web)
    assert len(found.urls) == 4 * 25
    got = [len(worker.said("got")) for worker in fleet.workers]
    assert sum(got) == 4 * 25  # none was sent twice
    assert min(got) >= 25 * 4 // workers // 2
    assert all(w.stats.get("rep/fleet/lost_shards", 0) == 0 for w in fleet.workers)


@pytest.mark.invariant2
def test_a_start_that_redis_forgets_is_known_to_its_worker():
    """So it goes with one whose lease ends, as a busy machine renews it too late."""
    robots = {**hosts(1, OPEN), **hosts(1, delayed(DELAY), network=2)}
    settings = {"DOWNLOAD_DELAY": DELAY, "RANDOMIZE_DOWNLOAD_DELAY": False}
    with crawl(pages(robots, 4), robots, 1, page=1, **settings) as (web, server, fleet):
        while fleet.workers[0].process.poll() is None:
            server.client.delete("none", *server.client.keys("*:turn:*"))
            time.sleep(0.02)
        found = seen(web)
    assert len(found.urls) == 2 * 4
    starts = [[at for at, _ in hits] for hits in found.pages.values()]
    gaps = [b - a for its in starts for a, b in pairwise(sorted(its))]
    assert min(gaps) >= 1 + DELAY  # from answer to start


def test_another_scheduler_shares_pace_and_robots_txt():
    # Each worker crawls for itself, but for the pace: as media and other spiders do.
    robots = hosts(2, delayed(DELAY))
    with Web(robots, page=0.02) as web, RedisServer() as server:
        urls = [web.url(host, f"/{n}") for host in robots for n in range(4)]
        scheduler = "scrapy.core.scheduler.Scheduler"
        with Fleet(server, 2, URLS=urls, SCHEDULER=scheduler) as fleet:
            fleet.join(SOON)
        found = seen(web)
    assert set(found.robots.values()) == {1}
    assert [len(hits) for hits in found.pages.values()] == [8, 8]
    assert found.gaps[0] >= DELAY


@pytest.mark.invariant6
def test_a_dead_workers_hosts_stand_still_for_its_lease_and_a_second():
    robots = hosts(4, delayed(DELAY))
    lease = 3
    settings = {"REP_FLEET_LEASE": lease}
    with crawl(pages(robots, 16), robots, 2, **settings) as (web, server, fleet):
        until(all_said(fleet, number=4))
        fleet.workers[0].stop()
        fleet.join(SOON)
        found = seen(web)
        assert left(server) == 0
    assert len(answered(fleet)) == len(found.urls) == 4 * 16
    assert fleet.workers[1].stats["rep/fleet/taken_back"] > 0
    assert found.gaps[0] >= DELAY
    # Beyond that: what a gap of the other worker's hosts takes on a machine so busy.
    longest = sorted(found.gaps_at(host)[-1] for host in robots)
    usual = max(gap for gap in longest if gap < lease)
    assert longest[-1] < lease + 1 + usual


def test_a_worker_that_slept_beyond_its_lease_keeps_the_pace():
    robots = hosts(4, delayed(DELAY))
    settings = {"REP_FLEET_LEASE": 2}
    with crawl(pages(robots, 18), robots, 2, **settings) as (web, _, fleet):
        until(all_said(fleet))
        sleeper = fleet.workers[0].process.pid
        os.kill(sleeper, signal.SIGSTOP)
        before = len(fleet.said("got"))
        until(lambda: len(fleet.said("got")) > before + 30)  # its hosts' among them
        os.kill(sleeper, signal.SIGCONT)
        fleet.join(SOON)
        found = seen(web)
    assert len(found.urls) == 4 * 18
    assert found.gaps[0] >= DELAY
    assert fleet.workers[0].stats["rep/fleet/lost_shards"] > 0
    assert reasons(fleet) == {"finished"}


@pytest.mark.invariant2
def test_workers_that_come_and_go_under_load_keep_the_pace():
    robots = hosts(20, delayed(DELAY))
    with crawl(pages(robots, 24), robots, 1) as (web, server, fleet):
        until(all_said(fleet, number=20))
        fleet.workers += [Worker(fleet.settings | {"TOGETHER": 0}) for _ in range(2)]
        until(all_said(fleet, number=5))
        fleet.workers[0].process.send_signal(signal.SIGTERM)
        fleet.join(SOON)
        found = seen(web)
        assert left(server) == 0
    assert all(len(hits) == 24 for hits in found.pages.values())  # none was sent twice
    assert set(found.robots.values()) == {1}
    assert found.gaps[0] >= DELAY
    assert found.gaps[-1] < 3  # nobody waited for a lease to end


def test_who_is_asked_to_stop_gives_back_what_it_has():
    robots = {**hosts(6, delayed(20)), **hosts(4, OPEN, network=2)}
    with crawl(pages(robots, 10), robots, 1, page=0.5) as (_, server, fleet):
        (worker,) = fleet.workers
        until(lambda: len(worker.said("got")) > 8)
        assert out(server)
        worker.process.send_signal(signal.SIGTERM)
        fleet.join(SOON)
        assert worker.process.returncode == 0
        assert worker.stats["finish_reason"] == "shutdown"
        assert out(server) == 0
        assert not server.client.keys("*:owner")
        assert left(server) + len(answered(fleet)) == 100


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_redis(name, tmp_path: Path):
    fault, settings = FAULTS[name]
    robots = hosts(6, delayed(DELAY))
    paths = {host: [*found, "/no"] for host, found in pages(robots, 16).items()}
    settings = {"REP_FLEET_LEASE": 4, "folder": tmp_path, **settings}
    with crawl(paths, robots, 3, **settings) as (web, server, fleet):
        until(lambda: len(fleet.said("got")) > 20)
        fault(server)
        fleet.join(SOON)
        found = seen(web)
    assert not [url for url in found.urls if url.endswith("/no")]
    if (
        name == "emptied"
    ):  # each host may be asked once too early, and the queue is gone
        short = [gap for gap in found.gaps if gap < DELAY]
        assert len(short) <= len(robots)
        for worker in fleet.workers:
            assert worker.stats["finish_reason"] == "requests_lost"
            assert worker.stats["rep/fleet/forgot"] == 1
            assert worker.log.count("ERROR: Redis has lost") == 1
    else:
        assert len(found.urls) == 6 * 16
        assert set(found.robots.values()) == {1}
        assert found.gaps[0] >= DELAY
        assert reasons(fleet) == {"finished"}
    if name in {"hung for 5 s", "away for 8 s"}:
        for worker in fleet.workers:
            away = worker.log.count("WARNING: Redis is away")
            assert 1 <= away == worker.stats["rep/fleet/away"] <= 3
            assert "ERROR" not in worker.log.replace("log_count/ERROR", "")


def evict(server: RedisServer) -> None:
    """Have the server make room, by the keys that expire alone."""
    client = server.client
    client.config_set("maxmemory-policy", "volatile-lru")
    client.config_set("maxmemory", client.info("memory")["used_memory"])
    with suppress(redis.ResponseError):  # nothing is left that may go
        for number in range(10_000):
            client.set(f"ballast:{number}", "x" * 2000)
    client.config_set("maxmemory", 0)
    assert client.info("stats")["evicted_keys"]


def forget_the_index(server: RedisServer) -> None:
    assert server.client.delete(*server.client.keys(f"*:{SPIDER}:lists"))


def forget_the_owners(server: RedisServer) -> None:
    assert server.client.delete(*server.client.keys("*:owner"))


def test_a_server_that_makes_room_loses_no_request():
    robots = {**hosts(4, delayed(DELAY)), **hosts(4, OPEN, network=2)}
    with crawl(pages(robots, 20), robots, 3, page=0.3) as (web, server, fleet):
        for fault in (evict, forget_the_index, forget_the_owners):
            before = len(answered(fleet))
            until(partial(more_than, before + 15, fleet))
            fault(server)
        fleet.join(SOON)
        found = seen(web)
    assert len(found.urls) == 8 * 20
    assert reasons(fleet) == {"finished"}


def forget_lists(server: RedisServer) -> int:
    client = server.client
    keys = client.keys(f"*:{SPIDER}:w:*")
    with client.pipeline() as together:  # nobody takes any meanwhile
        for key in keys:
            together.llen(key)
        together.delete(*keys)
        *gone, _ = together.execute()
    return sum(gone)


@pytest.mark.invariant6
def test_requests_that_are_gone_are_an_error_for_all():
    robots = hosts(4, delayed(DELAY))
    with crawl(pages(robots, 40), robots, 2) as (web, server, fleet):
        until(all_said(fleet))
        gone = forget_lists(server)
        assert gone
        fleet.join(SOON)
        found = seen(web)
        assert left(server) == 0
    assert len(found.urls) == 4 * 40 - gone
    assert reasons(fleet) == {"requests_lost"}
    for worker in fleet.workers:
        assert worker.stats["rep/fleet/lost"] == gone
        assert "ERROR: Redis has lost" in worker.log


def test_a_server_whose_memory_is_full_loses_nothing():
    """Until it has room again, workers go on with what it has, and keep what comes of it."""
    number, links = 120, 12
    with Site({"/robots.txt": OPEN}) as site, RedisServer() as server:
        for page in range(number):
            first = page * links // 2 + 1
            named = [f"/{n}" for n in range(first, min(first + links, number))]
            site.replies[f"/{page}"] = linking(named)
        seed(server, [site.url("/0")])
        with Fleet(server, 2) as fleet:
            until(lambda: len(fleet.said("got")) > 5)
            client = server.client
            client.config_set("maxmemory", client.info("memory")["used_memory"] // 2)
            until(lambda: any("memory is full" in w.log for w in fleet.workers))
            time.sleep(1)
            client.config_set("maxmemory", 0)
            fleet.join(SOON)
        assert left(server) == 0
    assert len(answered(fleet)) == number
    assert reasons(fleet) == {"finished"}


def more_than(number: int, fleet: Fleet) -> bool:
    return len(answered(fleet)) > number


def linking(paths: list[str]) -> Reply:
    links = "".join(f'<a href="{path}">more</a>' for path in paths)
    return Reply(links, headers={"Content-Type": "text/html"}, after=0.1)


def test_no_link_is_lost_when_its_worker_is_killed():
    # Each page names twenty others, half of which others name, too.
    number, links = 200, 20
    with Site({"/robots.txt": OPEN}) as site, RedisServer() as server:
        for page in range(number):
            first = page * links // 2 + 1
            named = [f"/{n}" for n in range(first, min(first + links, number))]
            site.replies[f"/{page}"] = linking(named)
        seed(server, [site.url("/0")])
        with Fleet(server, 3, REP_FLEET_LEASE=2) as fleet:
            for nth in range(1, 4):
                until(partial(more_than, 30 * nth, fleet))
                kill_one(fleet.workers[nth - 1], fleet)
            fleet.join(SOON)
        assert left(server) == 0
    assert len(answered(fleet)) == number
    twice = len(fleet.said("got")) - number
    assert twice <= 3 * 16  # what three workers had in hand


def test_a_slow_way_to_the_server_by_tls(tmp_path):
    robots = hosts(6, delayed(DELAY))
    with Web(robots, page=0.05) as web, RedisServer() as server:
        urls = [web.url(host, f"/{n}") for n in range(10) for host in robots]
        seed(server, urls)
        with (
            SlowProxy(server.port, 0.05, tls=tmp_path) as proxy,
            Fleet(server, 2, REP_FLEET=proxy.url) as fleet,
        ):
            fleet.join(SOON)
        found = seen(web)
        assert left(server) == 0
    assert all(len(hits) == 10 for hits in found.pages.values())
    assert set(found.robots.values()) == {1}
    assert found.gaps[0] >= DELAY
    assert reasons(fleet) == {"finished"}


def test_a_replica_that_takes_over():
    robots = hosts(4, delayed(DELAY))
    with (
        crawl(pages(robots, 20), robots, 2) as (web, server, fleet),
        RedisServer() as replica,
    ):
        replica.client.execute_command("REPLICAOF", "127.0.0.1", server.port)
        until(lambda: replica.client.info("replication")["master_link_status"] == "up")
        until(all_said(fleet, number=4))
        # So that it knows all that the workers were told: Redis itself does not wait for that.
        server.client.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
        at = server.client.info("replication")["master_repl_offset"]
        until(
            lambda: replica.client.info("replication")["slave_repl_offset"] >= at,
        )
        server.kill()
        replica.client.execute_command("REPLICAOF", "NO", "ONE")
        with SlowProxy(replica.port, port=server.port):  # the name leads there now
            fleet.join(SOON)
        found = seen(web)
        assert left(replica) == 0
    assert len(answered(fleet)) == 4 * 20
    assert found.gaps[0] >= DELAY
    assert reasons(fleet) == {"finished"}


def test_who_is_asked_to_stop_while_redis_hangs_ends_all_the_same():
    robots = {**hosts(9, delayed(DELAY)), **hosts(3, OPEN, network=2)}
    settings = {"REP_FLEET_LEASE": 3, "page": 0.3}
    with crawl(pages(robots, 16), robots, 2, **settings) as (_, server, fleet):
        until(all_said(fleet, number=4))
        server.hang()
        for workers in (fleet.workers, fleet.workers[1:]):  # the other one twice
            for worker in workers:
                worker.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
        fleet.join(SOON)  # it hangs until they have ended
        assert all(worker.process.returncode == 0 for worker in fleet.workers)
        server.resume()
        fleet.workers.append(Worker(fleet.settings | {"TOGETHER": 0}))
        fleet.join(SOON)
        assert left(server) == 0
    assert len(answered(fleet)) == 12 * 16
    assert fleet.workers[-1].stats["finish_reason"] == "finished"


def test_more_workers_than_shards_stand_by_and_take_over():
    robots = hosts(4, delayed(DELAY))
    settings = {"REP_FLEET_SHARDS": 1, "REP_FLEET_LEASE": 2, "LOG_LEVEL": "INFO"}
    says = "2 workers and 1 shards: this worker only stands by"
    with crawl(pages(robots, 20), robots, 2, **settings) as (web, server, fleet):
        until(lambda: len(fleet.said("got")) > 10)
        until(lambda: any(says in worker.log for worker in fleet.workers))
        (spare,) = [worker for worker in fleet.workers if says in worker.log]
        (owner,) = [worker for worker in fleet.workers if worker is not spare]
        # Who came first may have had the shard until then, and hands it over.
        until(lambda: owns(owner, server))
        owner.stop()
        before = len(spare.said("got"))
        fleet.join(SOON)
        found = seen(web)
    assert len(found.urls) == 4 * 20
    assert len(spare.said("got")) > before
    assert spare.stats["finish_reason"] == "finished"


def owns(worker: Worker, server: RedisServer) -> bool:
    """Tell whether *worker* has the first shard now."""
    name = server.client.get(f"{{rep:0}}:{SPIDER}:owner")
    return f"-{worker.process.pid}-" in str(name)


def test_a_host_without_a_delay_is_spread_if_one_says_so():
    robots = hosts(1, OPEN)
    wide = {"REP_HOSTS": {"127.0.1.1": {"wide": 16}}}
    with crawl(pages(robots, 200), robots, 3, page=0.2, **wide) as (web, _, fleet):
        fleet.join(SOON)
        found = seen(web)
    assert len(found.urls) == 200
    assert found.robots == {"127.0.1.1": 1}
    assert all(len(worker.said("got")) > 10 for worker in fleet.workers)
    assert not any('"wide"' in worker.log for worker in fleet.workers)


def test_a_host_that_keeps_one_worker_busy_while_others_idle_is_told():
    robots = hosts(1, OPEN)
    with crawl(pages(robots, 1500), robots, 2, page=0.2) as (_, _, fleet):
        until(lambda: any('"wide"' in worker.log for worker in fleet.workers))
    told = [line for worker in fleet.workers for line in worker.log.splitlines()]
    (said,) = [line for line in told if '"wide"' in line]
    assert "127.0.1.1 got" in said
    assert "1 of 2 workers have nothing to do" in said


@pytest.mark.parametrize("persist", [True, False])
def test_what_is_left_outlives_the_last_worker_where_it_is_to(persist):
    robots = hosts(2, OPEN)
    settings = {"REP_FLEET_PERSIST": persist, "CLOSESPIDER_PAGECOUNT": 5}
    with crawl(pages(robots, 40), robots, 1, **settings) as (_, server, fleet):
        fleet.join(SOON)
        waits, known = left(server), server.client.keys(f"*:{SPIDER}:seen")
    assert (waits > 0) == persist
    assert bool(known) == persist


def test_an_empty_queue_for_the_first_worker_and_no_other():
    robots = hosts(2, delayed(DELAY))
    with crawl(pages(robots, 8), robots, 1, REP_FLEET_FLUSH=True) as (web, _, fleet):
        fleet.join(SOON)  # what was queued before is gone
        assert not seen(web).urls
        urls = [web.url(host, f"/{n}") for host in robots for n in range(8)]
        settings = fleet.settings | {"URLS": urls, "TOGETHER": 0}
        fleet.workers.append(Worker(settings))
        until(lambda: len(fleet.workers[1].said("got")) > 4)
        fleet.workers.append(Worker(settings))  # which deletes nothing of the other's
        fleet.join(SOON)
        found = seen(web)
    assert len(found.urls) == 16
    assert reasons(fleet) == {"finished"}


def test_faults_are_found_and_repaired():
    robots = hosts(4, OPEN)
    with crawl(pages(robots, 10), robots, 0) as (_, server, _):
        client = server.client
        with FleetQueue(server.url, SPIDER) as queue:
            for what, kinds in (
                ("lists", {"unknown_host"}),
                ("w:*", {"empty_host", "count"}),
            ):
                assert list(queue.faults(repair=False)) == []
                client.delete(client.keys(f"*:{SPIDER}:{what}")[0])
                found = list(queue.faults(repair=True))
                assert {fault.kind for fault in found} == kinds
            assert list(queue.faults(repair=False)) == []
            assert queue.state().lost == 10
            assert queue.state().counted == left(server) == 30


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://127.0.0.1:9/0", "it cannot be reached"),
        ("redis://:wrong@127.0.0.1:{}/0", "REP_FLEET must have its user and password"),
    ],
)
def test_a_server_that_cannot_be_used_ends_the_crawl_before_it_begins(url, said):
    with RedisServer(None, "--requirepass", "secret") as server:
        worker = Worker({"REP_FLEET": url.format(server.port), "TOGETHER": 0})
        worker.process.wait(SOON)
        worker.stop()
    assert "ERROR: Redis at redis://" in worker.log
    assert said in worker.log
    assert "wrong" not in worker.log.replace("wrong or missing", "")


PASSWORD = "CONFIG", "SET", "requirepass"


@pytest.mark.parametrize(
    ("options", "fault", "undo", "told"),
    [
        (
            ["--requirepass", "secret"],
            (*PASSWORD, "other"),
            (*PASSWORD, "secret"),
            "must have its user and password",
        ),
        (
            [],
            ("REPLICAOF", "127.0.0.1", "9"),
            ("REPLICAOF", "NO", "ONE"),
            "it is a replica",
        ),
    ],
)
def test_a_server_that_refuses_us_later_is_an_error(options, fault, undo, told):
    robots = hosts(2, delayed(DELAY))
    with Web(robots, page=0.1) as web, RedisServer(None, *options) as server:
        url = server.url.replace("//", "//:secret@") if options else server.url
        urls = [web.url(host, f"/{n}") for n in range(12) for host in robots]
        settings = {"URLS": urls, "REP_FLEET": url, "TOGETHER": 0}
        with Fleet(server, 1, **settings) as fleet:
            (worker,) = fleet.workers
            until(all_said(fleet))
            client = server.client
            client.execute_command(*fault)
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            until(lambda: told in worker.log)
            client.execute_command(*undo)
            fleet.join(SOON)
        found = seen(web)
    assert worker.log.count("ERROR: Redis refuses us") == 1
    assert len(found.urls) == 2 * 12
    assert found.gaps[0] >= DELAY
    assert reasons(fleet) == {"finished"}
