"""Fleets of real workers at a real Redis Cluster of three servers."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

from scrapy_rep.frontier.redis_orders import FleetQueue
from scrapy_rep.frontier.redis_server import SHARDS
from tests.benchmarks.fleet import delayed, hosts, pages, seen
from tests.benchmarks.web import Web
from tests.crawls.test_fleet import OPEN, answered, reasons, until
from tests.fleet import SPIDER, Fleet, left, seed
from tests.redis_cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.redis_server import RedisServer

DELAY = 0.5
SOON = 120


@contextmanager
def crawl(
    folder: Path, number: int, workers: int = 3, robots: str = delayed(DELAY)
) -> Iterator[tuple[Web, Cluster, Fleet]]:
    sites = hosts(16, robots)
    with Web(sites, page=0.05) as web, Cluster(folder) as cluster:
        paths = pages(sites, number)
        seed(
            cluster, [web.url(h, path) for h, found in paths.items() for path in found]
        )
        with Fleet(cluster, workers, LOG_LEVEL="INFO") as fleet:
            yield web, cluster, fleet


def goes(server: RedisServer) -> None:
    server.kill()


def hangs(server: RedisServer) -> None:
    server.hang()


def comes_back(server: RedisServer) -> None:
    if server.process is None:
        server.start()
    server.resume()


@pytest.mark.parametrize(("how", "seconds"), [(goes, 4), (hangs, 8)])
def test_hosts_of_a_server_that_is_away_wait_and_all_is_sent(how, seconds, tmp_path):
    number = 24
    with crawl(tmp_path, number) as (web, cluster, fleet):
        until(lambda: len(fleet.said("got")) > 30)
        shards = {host: crc32(host.encode()) % SHARDS for host in hosts(16, OPEN)}
        server = cluster.servers[1]
        its = {h for h, n in shards.items() if cluster.owner(f"{{rep:{n}}}") is server}
        how(server)
        gone = time.monotonic()
        while time.monotonic() < gone + seconds:
            time.sleep(0.1)
        comes_back(server)
        back = time.monotonic()
        fleet.join(SOON)  # every worker ends by itself
        found = seen(web)
        assert left(cluster) == 0
    assert len(answered(fleet)) == 16 * number
    assert reasons(fleet) == {"finished"}
    assert found.gaps[0] >= DELAY
    assert its
    for host, hits in found.pages.items():
        times = sorted(at for at, _ in hits)
        if host in its:  # what was on its way when the server went is finished
            assert not [at for at in times if gone + 2 < at < back]
        elif times[-1] > gone:
            assert any(gone < at < back for at in times)  # it went on meanwhile
    for worker in fleet.workers:
        assert worker.log.count("WARNING: Redis is away") >= 1
        assert worker.log.count("INFO: Redis is back") >= 1
        assert "ERROR" not in worker.log.replace("log_count/ERROR", "")


def test_nothing_is_lost_while_slots_move(tmp_path: Path):
    number = 16
    with crawl(tmp_path, number) as (web, cluster, fleet):
        until(lambda: len(fleet.said("got")) > 20)
        for shard in range(12):
            cluster.move(f"{{rep:{shard}}}")
        fleet.join(SOON)
        found = seen(web)
        assert left(cluster) == 0
    assert all(len(hits) == number for hits in found.pages.values())
    assert set(found.robots.values()) == {1}
    assert found.gaps[0] >= DELAY
    assert reasons(fleet) == {"finished"}


def test_no_crawl_ends_as_finished_where_one_of_the_servers_forgot(tmp_path: Path):
    with crawl(tmp_path, 20) as (_, cluster, fleet):
        until(lambda: len(fleet.said("got")) > 30)
        cluster.servers[1].client.flushall()
        fleet.join(SOON)
        assert left(cluster) == 0
    assert reasons(fleet) == {"requests_lost"}


def test_what_an_operator_orders_holds_for_all_shards(tmp_path: Path):
    with crawl(tmp_path, 10, workers=1, robots=OPEN) as (_, cluster, fleet):
        fleet.join(SOON)
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
