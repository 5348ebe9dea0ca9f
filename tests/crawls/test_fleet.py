"""Fleets of real workers at a real Redis, judged by what they sent to the sites.

What arrives, and how fast, is measured by the benchmark (``tests/benchmarks/fleet.py``).
Here a gap may be a fifth short, as a busy machine may hold a worker up between what is
granted and what is sent; without a shared pace there are gaps of nothing.
"""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
import redis

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

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DELAY = 0.5
CLOSE = 0.8 * DELAY
BUSY = 1.0
"""Seconds for a page that keep two workers from doing all themselves, where each has two places
and four hosts have two requests a second: the third gets some, however late it begins."""
SOON = 180  # seconds; a busy machine is slow
SCRAPYS = {
    "SCHEDULER": "scrapy.core.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter",
}
OPEN = "User-agent: *\nDisallow: /no\n"


def until(true: Callable[[], object]) -> None:
    """Wait until *true* is."""
    deadline = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.02)


@pytest.mark.parametrize(("workers", "page", "places"), [(1, 0.02, 16), (3, BUSY, 2)])
def test_one_pace_and_one_fetch(workers, page, places):
    web_hosts = hosts(6, delayed(DELAY))
    with (
        Web(web_hosts, page=page, stamped=True) as web,
        seeded(web, pages(web_hosts, 7), workers, CONCURRENT_REQUESTS=places) as (
            _,
            fleet,
        ),
    ):
        fleet.join(SOON)
        found = seen(web)
    assert set(found.robots.values()) == {1}
    assert len(found.urls) == 6 * 7
    assert all(len(hits) == 7 for hits in found.pages.values())  # none was sent twice
    assert found.gaps[0] >= CLOSE
    assert all(worker.process.returncode == 0 for worker in fleet.workers)
    if workers > 1:
        assert all(worker.said("got") for worker in fleet.workers)


def test_the_users_own_delay_is_shared():
    web_hosts = hosts(3, OPEN)
    with (
        Web(web_hosts, page=0.02, stamped=True) as web,
        seeded(
            web,
            pages(web_hosts, 6),
            3,
            DOWNLOAD_DELAY=DELAY,
            RANDOMIZE_DOWNLOAD_DELAY=False,
        ) as (_, fleet),
    ):
        fleet.join(SOON)
        found = seen(web)
    assert len(found.urls) == 3 * 6
    assert found.gaps[0] >= CLOSE


def test_the_store_alone_shares_a_pace():
    # With Scrapy's own scheduler: each worker crawls for itself, but for the pace.
    web_hosts = hosts(2, delayed(DELAY))
    with Web(web_hosts, page=0.02, stamped=True) as web, RedisServer() as server:
        urls = [web.url(host, f"/{n}") for host in web_hosts for n in range(4)]
        with Fleet(server, 2, URLS=urls, **SCRAPYS) as fleet:
            fleet.join(SOON)
        found = seen(web)
    assert set(found.robots.values()) == {1}
    assert [len(hits) for hits in found.pages.values()] == [8, 8]
    assert found.gaps[0] >= CLOSE


def test_disallows_and_unreachable_hosts():
    web_hosts = {**hosts(3, OPEN), "127.0.2.1": None}  # which hangs
    paths = {**pages(web_hosts, 5), "127.0.2.1": ["/a", "/b"]}
    for host in hosts(3, OPEN):
        paths[host].append("/no")
    with (
        Web(web_hosts, page=0.0, stamped=True) as web,
        seeded(web, paths, 2, REP_TIMEOUT=3, LOG_LEVEL="DEBUG") as (_, fleet),
    ):
        fleet.join(SOON)
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
        Web(web_hosts, page=0.3, stamped=True) as web,
        seeded(web, paths, 3, REP_REDIS_LEASE=2) as (server, fleet),
    ):
        for worker in fleet.workers[:3]:
            until(partial(worker.said, "got"))
            kill_one(worker, fleet)
        fleet.join(SOON)
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
        Web(web_hosts, page=0.0, stamped=True) as web,
        seeded(web, pages(web_hosts, 1), 1, LOG_LEVEL="INFO") as (server, fleet),
    ):
        (worker,) = fleet.workers
        until(lambda: "asks for 4 s" in worker.log)
        until(
            lambda: (
                server.client.keys("{fleet:requests}:host:*") != []
                and server.client.keys("{fleet:requests}:out:*") == []
            )
        )
        fleet.join(SOON)
        found = seen(web)
    assert len(found.urls) == 1
    assert found.gaps[0] >= 0.8 * 4  # from robots.txt to the page


@pytest.mark.parametrize("rules", [OPEN, delayed(0.2)])
def test_a_site_that_asks_to_be_left_alone(rules):
    busy = Reply(status=503, headers={"Retry-After": "3"}, after=0.05)
    with Site({"/robots.txt": rules}) as site, RedisServer() as server:
        for number in range(20):
            site.replies[f"/{number}"] = Reply("page", after=0.1)
        site.replies["/8"] = [busy, "fine"]
        seed(server, [site.url(f"/{number}") for number in range(20)])
        with Fleet(server, 2, CONCURRENT_REQUESTS_PER_DOMAIN=2) as fleet:
            key = f"rep:{{{site.host}}}:parked"
            until(lambda: server.client.exists(key))
            told, asked = time.monotonic(), server.client.pttl(key) / 1e3
            fleet.join(SOON)
            counted = [
                worker.stats.get("rep/backoff/count", 0) for worker in fleet.workers
            ]
        during = [hit for hit in site.hits if told < hit.sent < told + asked]
        # What the other one was granted just before may still go: with a pace, one.
        assert len(during) <= (2 if rules == OPEN else 1)
        assert site.count("/8") == 2
        assert max(hit.sent for hit in site.hits) > told + asked
    assert len(fleet.said("got")) == 20
    assert sum(counted) == 1


# "away for 12 s" is for the benchmark; that the workers take turns is tested by itself.
@pytest.mark.parametrize("name", [name for name in FAULTS if "away" not in name])
def test_faults_of_redis(name, tmp_path: Path):
    fault, settings = FAULTS[name]
    web_hosts = hosts(4, delayed(DELAY))
    paths = {host: [*found, "/no"] for host, found in pages(web_hosts, 12).items()}
    with (
        Web(web_hosts, page=BUSY, stamped=True) as web,
        seeded(web, paths, 3, folder=tmp_path, CONCURRENT_REQUESTS=2, **settings) as (
            server,
            fleet,
        ),
    ):
        until(lambda: all(w.said("got") for w in fleet.workers))
        fault(server)
        fleet.join(SOON)
        found = seen(web)
    assert not [url for url in found.urls if url.endswith("/no")]
    if (
        name == "emptied"
    ):  # each host may be asked once too early, and the queue is gone
        short = [gap for gap in found.gaps if gap < CLOSE]
        assert len(short) <= len(web_hosts)
        for worker in fleet.workers:
            assert worker.stats["finish_reason"] == "requests_lost"
            assert worker.stats["rep/redis/forgot"] == 1
            assert worker.log.count("ERROR: Redis has lost") == 1
    else:
        assert len(found.urls) == 4 * 12
        assert found.gaps[0] >= CLOSE
    if name in {"killed and restarted", "hung for 5 s"}:
        for worker in fleet.workers:
            # Once for the fault; a busy machine may have a call take too long by itself.
            away = worker.log.count("WARNING: Redis is away")
            assert 1 <= away == worker.stats["rep/redis/away"] <= 3
            # A call that hangs is given up after a second, and no other one is tried.
            assert 0 < worker.stats["loop_held"] < 4


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


def forget_the_count(server: RedisServer) -> None:
    assert server.client.delete("{fleet:requests}:count")


def forget_the_hosts(server: RedisServer) -> None:
    assert server.client.delete("{fleet:requests}:due", "{fleet:requests}:later")


@pytest.mark.parametrize("fault", [evict, forget_the_count, forget_the_hosts])
def test_a_server_that_makes_room_loses_no_request(fault):
    web_hosts = {**hosts(4, delayed(DELAY)), **hosts(4, OPEN, network=2)}
    with (
        Web(web_hosts, page=BUSY / 2, stamped=True) as web,
        seeded(web, pages(web_hosts, 12), 3, CONCURRENT_REQUESTS=4) as (server, fleet),
    ):
        until(lambda: all(w.said("got") for w in fleet.workers))
        fault(server)
        fleet.join(SOON)
        found = seen(web)
    assert len(found.urls) == 8 * 12
    reasons = {worker.stats["finish_reason"] for worker in fleet.workers}
    assert reasons == {"finished"}


def test_who_is_asked_to_stop_gives_back_what_it_has():
    web_hosts = {**hosts(6, delayed(20)), **hosts(4, OPEN, network=2)}
    with (
        Web(web_hosts, page=0.5, stamped=True) as web,
        seeded(web, pages(web_hosts, 10), 1, LOG_LEVEL="INFO") as (server, fleet),
    ):
        (worker,) = fleet.workers
        client = server.client
        until(lambda: len(worker.said("got")) > 8)
        assert client.keys("{fleet:requests}:out:*")
        worker.process.send_signal(signal.SIGTERM)
        fleet.join(SOON)
        assert worker.process.returncode == 0
        assert worker.stats["finish_reason"] == "shutdown"
        assert client.keys("{fleet:requests}:out:*") == []
        waiting = sum(client.zcard(k) for k in client.keys("{fleet:requests}:host:*"))
        assert int(client.get("{fleet:requests}:count") or 0) == waiting
        assert waiting + len(set(worker.said("got"))) == 100


def more_than(number: int, fleet: Fleet) -> bool:
    return len(set(fleet.said("got"))) > number


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
        settings = {"REP_REDIS_LEASE": 2, "SCHEDULER_IDLE_BEFORE_CLOSE": 5}
        with Fleet(server, 3, **settings) as fleet:
            for nth in range(1, 4):
                until(partial(more_than, 30 * nth, fleet))
                kill_one(fleet.workers[nth - 1], fleet)
            fleet.join(SOON)
            got = set(fleet.said("got"))
            left = server.client.get("{fleet:requests}:count")
    assert len(got) == number
    assert int(left or 0) == 0
