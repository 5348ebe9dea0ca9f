"""Fleets of real workers at a real Redis Cluster of three servers."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

from scrapy_rep.frontier.redis_orders import FleetQueue
from scrapy_rep.frontier.redis_server import SHARDS
from tests.benchmarks.fleet import delayed, hosts, pages
from tests.benchmarks.web import Web
from tests.crawls.test_fleet import DELAY, OPEN, Crawl, reasons
from tests.fleet import SOON, SPIDER, Fleet, left, seed
from tests.redis_cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.redis_server import RedisServer

HOSTS = 6


@contextmanager
def crawl(folder: Path, number: int) -> Iterator[Crawl]:
    sites = hosts(HOSTS, delayed(DELAY))
    with Web(sites, page=0.05) as web, Cluster(folder) as cluster:
        its = pages(sites, number)
        seed(cluster, [web.url(h, path) for h, found in its.items() for path in found])
        with Fleet(cluster, 2, LOG_LEVEL="INFO") as fleet:
            yield Crawl(web, cluster, fleet, HOSTS * number)


def goes(server: RedisServer) -> None:
    server.kill()


def hangs(server: RedisServer) -> None:
    server.hang()


def comes_back(server: RedisServer) -> None:
    if server.process is None:
        server.start()
    server.resume()


@pytest.mark.parametrize(("how", "seconds"), [(goes, 4), (hangs, 6)])
def test_hosts_of_a_server_that_is_away_wait_and_all_is_sent(how, seconds, tmp_path):
    with crawl(tmp_path, 16) as running:
        running.until_more(10)
        shards = {host: crc32(host.encode()) % SHARDS for host in hosts(HOSTS, OPEN)}
        cluster = running.server
        server = cluster.servers[1]
        its = {h for h, n in shards.items() if cluster.owner(f"{{rep:{n}}}") is server}
        assert its
        how(server)
        gone = time.monotonic()
        time.sleep(seconds)
        comes_back(server)
        back = time.monotonic()
        found = running.end()  # every worker ends by itself
    for host, hits in found.pages.items():
        times = sorted(at for at, _ in hits)
        if host in its:  # what was on its way when the server went is finished
            assert not [at for at in times if gone + 2 < at < back]
        elif times[-1] > gone:
            assert any(gone < at < back for at in times)  # it went on meanwhile
    for worker in running.fleet.workers:
        assert worker.log.count("WARNING: Redis is away") >= 1
        assert worker.log.count("INFO: Redis is back") >= 1
        assert "ERROR" not in worker.log.replace("log_count/ERROR", "")


def test_nothing_is_lost_while_slots_move(tmp_path: Path):
    with crawl(tmp_path, 10) as running:
        running.until_more(10)
        for shard in range(12):
            running.server.move(f"{{rep:{shard}}}")
        found = running.end()
    assert {len(hits) for hits in found.pages.values()} == {10}


def test_no_crawl_ends_as_finished_where_one_of_the_servers_forgot(tmp_path: Path):
    with crawl(tmp_path, 10) as running:
        running.until_more(10)
        running.server.servers[1].client.flushall()
        running.fleet.join(SOON)
        assert left(running.server) == 0
    assert reasons(running.fleet) == {"requests_lost"}


def test_what_an_operator_orders_holds_for_all_shards(tmp_path: Path):
    with Cluster(tmp_path) as cluster:
        seed(cluster, [f"http://h{n}.example/{m}" for n in range(20) for m in range(3)])
        with FleetQueue(cluster.url, SPIDER) as queue:
            assert queue.exists()
            now = queue.state()
            assert (now.counted, now.workers) == (60, [])
            assert {row.waiting for row in queue.hosts(now)} == {3}
            assert len(queue.hosts(now)) == 20
            assert queue.block("h1.example") == (True, 3)
            assert queue.purge("h2.example") == 3
            assert list(queue.faults(repair=False)) == []
            assert queue.state().counted == 57
