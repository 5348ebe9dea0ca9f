"""Fleets of real workers at a real Redis, judged by what the sites saw of them.

Gaps are those at the server, by its clock: none may be shorter than the delay.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import redis

from scrapy_rep.frontier.redis_orders import FleetQueue
from tests.benchmarks.fleet import (
    Seen,
    delayed,
    hosts,
    kill_one,
    pages,
    seeded,
    seen,
)
from tests.benchmarks.web import Web
from tests.fleet import SOON, SPIDER, Fleet, Worker, left, out, seed, until
from tests.redis_server import RedisServer
from tests.site import Reply, Site
from tests.slow_proxy import slow_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DELAY = 0.5
OPEN = "User-agent: *\nDisallow: /no\n"
FOUR = hosts(4, delayed(DELAY))  # of four shards
OWN_DELAY: dict[str, Any] = {"DOWNLOAD_DELAY": DELAY, "RANDOMIZE_DOWNLOAD_DELAY": False}


class Crawl(NamedTuple):
    """A fleet at sites: those of the first network ask for a delay of DELAY."""

    web: Web
    server: Any
    """A server, or a cluster."""
    fleet: Fleet
    number: int
    """How many pages were queued."""

    def until_got(self, number: int = 1) -> None:
        """Wait until each worker has got so many pages."""
        its = self.fleet.workers
        until(lambda: all(len(worker.said("got")) >= number for worker in its))

    def until_more(self, number: int) -> None:
        """Wait until so many pages more were sent."""
        before = len(self.fleet.said("got"))
        until(lambda: len(self.fleet.said("got")) >= before + number)

    def add(self, **settings: Any) -> Worker:
        """Begin one more worker."""
        worker = Worker(self.fleet.settings | {"TOGETHER": 0, **settings})
        self.fleet.workers.append(worker)
        return worker

    def end(self, reason: str = "finished", *, fewer: int = 0) -> Seen:
        """Wait until all have ended, and check what is so after each crawl."""
        self.fleet.join(SOON)
        found = seen(self.web)
        assert left(self.server) == 0
        assert len(found.urls) == self.number - fewer
        assert {*found.robots.values()} == {1}
        assert all(gap >= DELAY for gap in found.gaps_at("127.0.1"))
        assert reasons(self.fleet) == {reason}
        return found


def reasons(fleet: Fleet) -> set[str]:
    """Return why they have ended, but for those that were killed."""
    ended = [worker for worker in fleet.workers if worker.said("stats")]
    return {worker.stats["finish_reason"] for worker in ended}


def answered(fleet: Fleet) -> set[str]:
    return {url.partition("//")[2] for url in fleet.said("got")}


@contextmanager
def crawl(
    number: int = 16,
    workers: int = 2,
    robots: dict[str, str | None] = FOUR,
    *,
    more: Any = (),
    page: Any = 0.1,
    **settings: Any,
) -> Iterator[Crawl]:
    """Have *workers* at so many pages, and *more*, of each host."""
    paths = {host: [*its, *more] for host, its in pages(robots, number).items()}
    with (
        Web(robots, page=page) as web,
        seeded(web, paths, workers, **settings) as (server, fleet),
    ):
        yield Crawl(web, server, fleet, number * len(robots))


@pytest.mark.invariant4
@pytest.mark.invariant2
@pytest.mark.invariant1
def test_one_pace_one_fetch_and_no_page_that_is_disallowed():
    own = DELAY / 2
    robots = {**hosts(6, delayed(DELAY)), **hosts(2, OPEN, network=2)}
    robots["127.0.3.1"] = None  # which hangs
    settings: dict[str, Any] = OWN_DELAY | {
        "CLOCKS_OFF": 3.0,
        "DOWNLOAD_DELAY": own,
        "REP_TIMEOUT": 3,
        "REP_HOSTS": {"127.0.1.1": {"wide": 16}},
    }
    with crawl(8, 3, robots, more=("/no",), **settings) as running:
        found = running.end(fewer=8)
    assert found.pages.pop("127.0.3.1") == []
    assert {len(hits) for hits in found.pages.values()} == {8}  # none was sent twice
    assert not [url for url in found.urls if url.endswith("/no")]
    assert found.gaps_at("127.0.2")[0] >= own  # the user's
    workers = running.fleet.workers
    refused = [worker.stats.get("robotstxt/forbidden", 0) for worker in workers]
    assert sum(refused) == 8 + 9
    for worker in workers:
        assert worker.process.returncode == 0
        assert "WARNING: Redis is away" not in worker.log


def test_each_worker_gets_its_part_of_few_hosts():
    with crawl(12, 4) as running:
        running.end()
    got = [len(worker.said("got")) for worker in running.fleet.workers]
    assert sum(got) == running.number  # none was sent twice
    assert min(got) >= running.number // 4 // 2


@pytest.mark.invariant2
def test_a_start_that_redis_forgets_is_known_to_its_worker():
    """So it goes with one whose lease ends, as a busy machine renews it too late."""
    robots = {**hosts(1, OPEN, network=2), **hosts(1, delayed(DELAY))}
    with crawl(4, 1, robots, page=1, **OWN_DELAY) as running:
        while running.fleet.workers[0].process.poll() is None:
            client = running.server.client
            client.delete("none", *client.keys("*:turn:*"))
            time.sleep(0.02)
        found = running.end()
    starts = [[at for at, _ in hits] for hits in found.pages.values()]
    gaps = [b - a for its in starts for a, b in pairwise(sorted(its))]
    assert min(gaps) >= 1 + DELAY  # from answer to start


def test_another_scheduler_shares_pace_and_robots_txt():
    # Each worker crawls for itself, but for the pace: as media and other spiders do.
    with Web(FOUR, page=0.02) as web, RedisServer() as server:
        urls = [web.url(host, f"/{n}") for host in FOUR for n in range(3)]
        scheduler = "scrapy.core.scheduler.Scheduler"
        with Fleet(server, 2, URLS=urls, SCHEDULER=scheduler) as fleet:
            found = Crawl(web, server, fleet, len(urls)).end()
    assert {len(hits) for hits in found.pages.values()} == {6}


@pytest.mark.invariant6
def test_a_dead_workers_hosts_stand_still_for_its_lease_and_a_second():
    lease = 3
    with crawl(REP_FLEET_LEASE=lease) as running:
        running.until_got(4)
        running.fleet.workers[0].stop()
        found = running.end()
    assert len(answered(running.fleet)) == running.number
    assert running.fleet.workers[1].stats["rep/fleet/taken_back"] > 0
    # Beyond that: what a gap of the other worker's hosts takes on a machine so busy.
    longest = sorted(found.gaps_at(host)[-1] for host in FOUR)
    usual = max(gap for gap in longest if gap < lease)
    assert longest[-1] < lease + 1 + usual


def test_a_worker_that_slept_beyond_its_lease_keeps_the_pace():
    with crawl(18, REP_FLEET_LEASE=2) as running:
        running.until_got()
        worker = running.fleet.workers[0]
        os.kill(worker.process.pid, signal.SIGSTOP)
        running.until_more(30)  # its hosts' among them
        os.kill(worker.process.pid, signal.SIGCONT)
        running.end()
    assert worker.stats["rep/fleet/lost_shards"] > 0


@pytest.mark.invariant2
def test_workers_that_come_and_go_under_load_keep_the_pace():
    with crawl(20, 1, hosts(12, delayed(DELAY))) as running:
        running.until_got(12)
        running.add()
        running.add()
        running.until_got(5)
        running.fleet.workers[0].process.send_signal(signal.SIGTERM)
        running.fleet.join(SOON)
        assert running.fleet.workers.pop(0).stats["finish_reason"] == "shutdown"
        found = running.end()
    assert all(len(hits) == 20 for hits in found.pages.values())  # none was sent twice
    assert found.gaps[-1] < 8  # nobody waited for a lease, of 8 s, to end


def test_who_is_asked_to_stop_gives_back_what_it_has():
    robots = {**hosts(6, delayed(20)), **hosts(4, OPEN, network=2)}
    with crawl(10, 1, robots, page=0.5) as running:
        (worker,), server = running.fleet.workers, running.server
        running.until_got(9)
        assert out(server)
        worker.process.send_signal(signal.SIGTERM)
        running.fleet.join(SOON)
        assert worker.process.returncode == 0
        assert worker.stats["finish_reason"] == "shutdown"
        assert out(server) == 0
        assert not server.client.keys("*:owner")
        assert left(server) + len(answered(running.fleet)) == 100


def hang(server: RedisServer) -> None:
    server.hang()
    time.sleep(5)
    server.resume()


def long_away(server: RedisServer) -> None:
    server.kill()
    time.sleep(6)
    server.start()


FAULTS: dict[str, Callable[[RedisServer], object]] = {
    "hung for 5 s": hang,
    "away for 6 s": long_away,
    "emptied": lambda server: server.client.flushall(),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_redis(name, tmp_path: Path):
    fault = FAULTS[name]
    settings: dict[str, Any] = {"REP_FLEET_LEASE": 4, "folder": tmp_path}
    with crawl(10, 3, more=("/no",), **settings) as running:
        running.until_more(10)
        fault(running.server)
        if name != "emptied":
            found = running.end()
        else:  # each host may be asked once too early, and the queue is gone
            running.fleet.join(SOON)
            found = seen(running.web)
            assert len([gap for gap in found.gaps if gap < DELAY]) <= 4
            assert reasons(running.fleet) == {"requests_lost"}
    assert not [url for url in found.urls if url.endswith("/no")]
    for worker in running.fleet.workers:
        if name == "emptied":
            assert worker.stats["rep/fleet/forgot"] == 1
            assert worker.log.count("ERROR: Redis has lost") == 1
        else:
            away = worker.log.count("WARNING: Redis is away")
            # On a busy machine calls that began before it was back fail after that.
            assert 1 <= away == worker.stats.get("rep/fleet/away", 0) <= 6
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


def test_a_server_that_makes_room_loses_no_request():
    robots = {**hosts(4, delayed(DELAY)), **hosts(4, OPEN, network=2)}
    with crawl(12, 3, robots, page=0.3) as running:
        running.until_more(10)
        evict(running.server)
        for index in ("lists", "owner"):
            running.until_more(10)
            client = running.server.client
            assert client.delete(*client.keys(f"*:{SPIDER}:{index}"))
        running.fleet.join(SOON)
        found = seen(running.web)
    assert len(found.urls) == running.number  # what was evicted may be asked for again
    assert reasons(running.fleet) == {"finished"}


@pytest.mark.invariant6
def test_requests_that_are_gone_are_an_error_for_all():
    with crawl(20) as running:
        running.until_got()
        client = running.server.client
        with client.pipeline() as together:  # nobody takes any meanwhile
            for key in (keys := client.keys(f"*:{SPIDER}:w:*")):
                together.llen(key)
            together.delete(*keys)
            *gone, _ = together.execute()
        assert sum(gone)
        running.end("requests_lost", fewer=sum(gone))
    for worker in running.fleet.workers:
        assert worker.stats["rep/fleet/lost"] == sum(gone)
        assert "ERROR: Redis has lost" in worker.log


@contextmanager
def linked(number: int, links: int) -> Iterator[tuple[Site, RedisServer]]:
    """Serve so many pages, each of which links to others that half of all link to, too."""
    with Site({"/robots.txt": OPEN}) as site, RedisServer() as server:
        for page in range(number):
            first = page * links // 2 + 1
            named = range(first, min(first + links, number))
            text = "".join(f'<a href="/{n}">more</a>' for n in named)
            head = {"Content-Type": "text/html"}
            site.replies[f"/{page}"] = Reply(text, headers=head, after=0.1)
        seed(server, [site.url("/0")])
        yield site, server


def test_a_server_whose_memory_is_full_loses_nothing():
    """Until it has room again, workers go on with what it has, and keep what comes of it."""
    with linked(120, 12) as (_, server), Fleet(server, 2) as fleet:
        until(lambda: len(fleet.said("got")) > 5)
        client = server.client
        client.config_set("maxmemory", client.info("memory")["used_memory"] // 2)
        until(lambda: any("memory is full" in worker.log for worker in fleet.workers))
        time.sleep(1)
        client.config_set("maxmemory", 0)
        until(lambda: any("Redis has room again" in w.log for w in fleet.workers))
        fleet.join(SOON)
        assert left(server) == 0
    assert len(answered(fleet)) == 120
    assert reasons(fleet) == {"finished"}


def test_no_link_is_lost_when_its_worker_is_killed():
    with linked(200, 20) as (_, server), Fleet(server, 3, REP_FLEET_LEASE=2) as fleet:
        for nth in range(1, 4):
            until(lambda nth=nth: len(answered(fleet)) > 30 * nth)  # type: ignore[misc]
            kill_one(fleet.workers[nth - 1], fleet)
        fleet.join(SOON)
        assert left(server) == 0
    assert len(answered(fleet)) == 200
    assert len(fleet.said("got")) - 200 <= 3 * 16  # what three workers had in hand


def test_a_slow_way_to_the_server_by_tls(tmp_path):
    with (
        crawl(6, 0) as queued,
        slow_proxy(queued.server.port, 0.05, tls=tmp_path) as url,
        Fleet(queued.server, 2, REP_FLEET=url) as fleet,
    ):
        found = queued._replace(fleet=fleet).end()
    assert {len(hits) for hits in found.pages.values()} == {6}


def test_a_replica_that_takes_over():
    with crawl(12) as running, RedisServer() as replica:
        server = running.server
        replica.client.execute_command("REPLICAOF", "127.0.0.1", server.port)
        until(lambda: replica.client.info("replication")["master_link_status"] == "up")
        running.until_got(4)
        # So that it knows all that the workers were told: Redis itself does not wait for that.
        server.client.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
        at = server.client.info("replication")["master_repl_offset"]
        until(lambda: replica.client.info("replication")["slave_repl_offset"] >= at)
        server.kill()
        replica.client.execute_command("REPLICAOF", "NO", "ONE")
        with slow_proxy(replica.port, port=server.port):  # the name leads there now
            running._replace(server=replica).end()


def test_who_is_asked_to_stop_while_redis_hangs_ends_all_the_same():
    robots = {**hosts(6, delayed(DELAY)), **hosts(2, OPEN, network=2)}
    with crawl(12, 2, robots, page=0.3, REP_FLEET_LEASE=3) as running:
        running.until_got(4)
        workers = running.fleet.workers
        running.server.hang()
        for asked in (workers, workers[1:]):  # the other one twice
            for worker in asked:
                worker.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
        running.fleet.join(SOON)  # it hangs until they have ended
        assert all(worker.process.returncode == 0 for worker in workers)
        running.server.resume()
        last = running.add()
        running.fleet.join(SOON)
        assert left(running.server) == 0
    assert len(answered(running.fleet)) == running.number
    assert last.stats["finish_reason"] == "finished"


def test_more_workers_than_shards_stand_by_and_take_over():
    settings: dict[str, Any] = {
        "REP_FLEET_SHARDS": 1,
        "REP_FLEET_LEASE": 2,
        "LOG_LEVEL": "INFO",
    }
    says = "2 workers and 1 shards: this worker only stands by"
    with crawl(12, **settings) as running:
        running.until_more(10)
        workers = running.fleet.workers
        until(lambda: any(says in worker.log for worker in workers))
        (spare,) = [worker for worker in workers if says in worker.log]
        (owner,) = [worker for worker in workers if worker is not spare]
        owner.stop()
        before = len(spare.said("got"))
        running.end()
    assert len(spare.said("got")) > before


def test_a_host_without_a_delay_is_spread_if_one_says_so():
    wide = {"REP_HOSTS": {"127.0.2.1": {"wide": 16}}}
    with crawl(120, 3, hosts(1, OPEN, network=2), page=0.2, **wide) as running:
        running.end()
    for worker in running.fleet.workers:
        assert len(worker.said("got")) > 6
        assert '"wide"' not in worker.log


def test_a_host_that_keeps_one_worker_busy_while_others_idle_is_told():
    with crawl(700, 2, hosts(1, OPEN), page=0.25) as running:
        workers = running.fleet.workers
        until(lambda: any('"wide"' in worker.log for worker in workers))
        told = "".join(worker.log for worker in workers)
    (said,) = [line for line in told.splitlines() if '"wide"' in line]
    assert "127.0.1.1 got" in said
    assert "1 of 2 workers have nothing to do" in said


@pytest.mark.parametrize("persist", [True, False])
def test_what_is_left_outlives_the_last_worker_where_it_is_to(persist):
    settings = {"REP_FLEET_PERSIST": persist, "CLOSESPIDER_PAGECOUNT": 5}
    settings["LOG_LEVEL"] = "INFO"
    with crawl(40, 1, hosts(2, OPEN), **settings) as running:
        running.fleet.join(SOON)
        server = running.server
        assert (left(server) > 0) == persist
        assert bool(server.client.keys(f"*:{SPIDER}:seen")) == persist
        assert ("of them are in Redis" in running.fleet.workers[0].log) == persist


def test_an_empty_queue_for_the_first_worker_and_no_other():
    with crawl(4, 1, REP_FLEET_FLUSH=True) as running:
        running.fleet.join(SOON)  # what was queued before is gone
        web = running.web
        assert not seen(web).urls
        urls = [web.url(host, f"/{n}") for host in FOUR for n in range(4)]
        first = running.add(URLS=urls)
        until(lambda: first.said("got"))
        running.add(URLS=urls)  # which deletes nothing of the other's
        running.end()


def test_faults_are_found_and_repaired():
    with crawl(10, 0, hosts(4, OPEN)) as running:
        client = running.server.client
        with FleetQueue(running.server.url, SPIDER) as queue:
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
            assert queue.state().counted == left(running.server) == 30


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


def test_a_server_that_refuses_us_later_is_an_error():
    with (
        Web(FOUR, page=0.1) as web,
        RedisServer(None, "--requirepass", "secret") as server,
    ):
        url = server.url.replace("//", "//:secret@")
        urls = [web.url(host, f"/{n}") for n in range(8) for host in FOUR]
        with Fleet(server, 1, URLS=urls, REP_FLEET=url, TOGETHER=0) as fleet:
            running = Crawl(web, server, fleet, len(urls))
            running.until_got()
            client, (worker,) = server.client, fleet.workers
            client.config_set("requirepass", "other")
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            until(lambda: "must have its user and password" in worker.log)
            client.config_set("requirepass", "secret")
            running.end()
    assert worker.log.count("ERROR: Redis refuses us") == 1
