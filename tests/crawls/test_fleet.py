"""Fleets of real workers at a real Redis, judged by what arrived at the sites.

The figures are the benchmark's (``tests/benchmarks/fleet.py``). Here a gap may be a tenth
short, since the machine may be busy with other tests; without a shared pace there are gaps
of nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

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
from tests.fleet import Fleet, seed
from tests.redis_server import RedisServer
from tests.site import Reply, Site
from tests.utils import timed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = timed

DELAY = 0.5
CLOSE = 0.9 * DELAY
SCRAPYS = {
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter",
}
OPEN = "User-agent: *\nDisallow: /no\n"


@pytest.mark.parametrize("workers", [1, 3])
def test_one_pace_and_one_fetch(workers):
    web_hosts = hosts(6, delayed(DELAY))
    with (
        Web(web_hosts, page=0.02) as web,
        seeded(web, pages(web_hosts, 8), workers) as (_, fleet),
    ):
        fleet.join(60)
        found = seen(web)
    assert set(found.robots.values()) == {1}
    assert len(found.urls) == 6 * 8
    assert all(len(hits) == 8 for hits in found.pages.values())  # none was sent twice
    assert found.gaps[0] >= CLOSE
    assert all(worker.process.returncode == 0 for worker in fleet.workers)
    if workers > 1:
        assert all(worker.said("got") for worker in fleet.workers)


def test_the_users_own_delay_is_shared():
    web_hosts = hosts(3, OPEN)
    with (
        Web(web_hosts, page=0.02) as web,
        seeded(
            web,
            pages(web_hosts, 8),
            3,
            DOWNLOAD_DELAY=DELAY,
            RANDOMIZE_DOWNLOAD_DELAY=False,
        ) as (_, fleet),
    ):
        fleet.join(60)
        found = seen(web)
    assert len(found.urls) == 3 * 8
    assert found.gaps[0] >= CLOSE


def test_the_store_alone_shares_a_pace():
    # With Scrapy's own scheduler: each worker crawls for itself, but for the pace.
    web_hosts = hosts(2, delayed(DELAY))
    with Web(web_hosts, page=0.02) as web, RedisServer() as server:
        urls = [web.url(host, f"/{n}") for host in web_hosts for n in range(5)]
        with Fleet(server, 2, URLS=urls, **SCRAPYS) as fleet:
            fleet.join(60)
        found = seen(web)
    assert set(found.robots.values()) == {1}
    assert [len(hits) for hits in found.pages.values()] == [10, 10]
    assert found.gaps[0] >= CLOSE


def test_disallows_and_unreachable_hosts():
    web_hosts = {**hosts(3, OPEN), "127.0.2.1": None}  # which hangs
    paths = {**pages(web_hosts, 5), "127.0.2.1": ["/a", "/b"]}
    for host in hosts(3, OPEN):
        paths[host].append("/no")
    with (
        Web(web_hosts, page=0.0) as web,
        seeded(web, paths, 2, REP_TIMEOUT=1, LOG_LEVEL="DEBUG") as (_, fleet),
    ):
        fleet.join(60)
        found = seen(web)
    assert found.robots["127.0.2.1"] == 1  # the others know by then
    assert found.pages["127.0.2.1"] == []
    assert len(found.urls) == 3 * 5
    assert not [url for url in found.urls if url.endswith("/no")]
    refused = [worker.stats.get("robotstxt/forbidden", 0) for worker in fleet.workers]
    assert sum(refused) == 3 + 2


def test_what_a_killed_worker_had_is_sent_all_the_same():
    web_hosts = {**hosts(3, delayed(0.2)), **hosts(3, OPEN, network=2)}
    paths = pages(web_hosts, 20)
    with (
        Web(web_hosts, page=0.3) as web,
        seeded(web, paths, 3, REP_REDIS_LEASE=2) as (server, fleet),
    ):
        for worker in fleet.workers[:3]:
            deadline = time.monotonic() + 30
            while not worker.said("got") and time.monotonic() < deadline:
                time.sleep(0.05)
            kill_one(worker, fleet)
        fleet.join(60)
        found = seen(web)
        answered = {url.partition("//")[2] for url in fleet.said("got")}
        left = server.client.get("{fleet:requests}:count")
    assert len(answered) == len(found.urls) == 6 * 20
    assert int(left or 0) == 0
    taken_back = [w.stats.get("rep/redis/taken_back", 0) for w in fleet.workers[3:]]
    assert sum(taken_back) > 0


def test_a_request_waits_in_redis_for_a_long_delay():
    # Its worker learns of the delay when it has the request in hand already.
    web_hosts = hosts(1, delayed(4))
    with (
        Web(web_hosts, page=0.0) as web,
        seeded(web, pages(web_hosts, 1), 1, LOG_LEVEL="INFO") as (server, fleet),
    ):
        (worker,) = fleet.workers
        deadline = time.monotonic() + 30
        while "asks for 4 s" not in worker.log:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1)
        assert server.client.keys("{fleet:requests}:out:*") == []
        assert server.client.keys("{fleet:requests}:host:*") != []
        fleet.join(60)
        found = seen(web)
    assert len(found.urls) == 1
    assert found.gaps[0] >= 0.9 * 4  # from robots.txt to the page


@pytest.mark.parametrize("rules", [OPEN, delayed(0.2)])
def test_a_site_that_asks_to_be_left_alone(rules):
    busy = Reply(status=503, headers={"Retry-After": "3"}, after=0.05)
    with Site({"/robots.txt": rules}) as site, RedisServer() as server:
        for number in range(30):
            site.replies[f"/{number}"] = Reply("page", after=0.1)
        site.replies["/8"] = [busy, "fine"]
        seed(server, [site.url(f"/{number}") for number in range(30)])
        with Fleet(server, 2, CONCURRENT_REQUESTS_PER_DOMAIN=2) as fleet:
            fleet.join(60)
            counted = [
                worker.stats.get("rep/backoff/count", 0) for worker in fleet.workers
            ]
        parked_at = next(hit.seconds for hit in site.hits if hit.path == "/8") + 0.05
        during = [hit for hit in site.hits if 0.3 < hit.seconds - parked_at < 2.97]
        assert during == []
        assert site.count("/8") == 2
        assert site.hits[-1].seconds - parked_at > 3
    assert len(fleet.said("got")) == 30
    if rules == OPEN:  # else there is one page at a time, and one may get them all
        assert all(worker.said("got") for worker in fleet.workers)
    assert sum(counted) == 1


# "away for 12 s" is for the benchmark; that the workers take turns is tested by itself.
@pytest.mark.parametrize("name", [name for name in FAULTS if "away" not in name])
def test_faults_of_redis(name, tmp_path: Path):
    fault, settings = FAULTS[name]
    web_hosts = hosts(4, delayed(DELAY))
    paths = {host: [*found, "/no"] for host, found in pages(web_hosts, 10).items()}
    with (
        Web(web_hosts, page=0.02) as web,
        seeded(web, paths, 3, folder=tmp_path, **settings) as (server, fleet),
    ):
        deadline = time.monotonic() + 30
        while not all(w.said("got") for w in fleet.workers):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        fault(server)
        fleet.join(90)
        found = seen(web)
    assert not [url for url in found.urls if url.endswith("/no")]
    if (
        name == "emptied"
    ):  # each host may be asked once too early, and the queue is gone
        short = [gap for gap in found.gaps if gap < CLOSE]
        assert len(short) <= len(web_hosts)
    else:
        assert len(found.urls) == 4 * 10
        assert found.gaps[0] >= CLOSE
    if name in {"killed and restarted", "hung for 5 s"}:
        for worker in fleet.workers:
            assert worker.log.count("WARNING: Redis is away") == 1
            assert worker.stats["rep/redis/away"] == 1
            # A call that hangs is given up after a second, and no other one is tried.
            assert 0 < worker.stats["loop_held"] < 4
