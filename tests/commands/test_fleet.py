"""``scrapy robots fleet``, on queues as they are, and while real workers are at them."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scrapy_rep.frontier.redis_orders import FleetQueue, Host, QueueState
from tests.benchmarks.fleet import delayed, hosts, pages, seeded
from tests.benchmarks.web import Web
from tests.commands.cli import Done, robots
from tests.commands.test_online import project
from tests.commands.test_options import documented
from tests.commands.test_transcript import run
from tests.fleet import SOON, Fleet, seed, until
from tests.redis_server import RedisServer
from tests.site import Reply, some_sites

OPEN = "User-agent: *\nDisallow: /no\n"
KINDS = ("queue", "worker", "host")


def fleet(server: RedisServer, *args: str, spider: str = "fleet") -> Done:
    return robots("fleet", spider, *args, "-s", f"REP_FLEET={server.url}")


def look(server: RedisServer) -> tuple[QueueState, list[Host]]:
    """Return what the command would tell; it takes a while to begin."""
    with FleetQueue(server.url, "fleet") as queue:
        now = queue.state()
        return now, queue.hosts(now)


def key_of(server: RedisServer, what: str, number: int) -> bytes:
    """Return the key of the shard in which *number* is the length of a list of requests."""
    client: Any = server.client
    for key in client.keys("*:fleet:w:*"):
        if client.llen(key) == number:
            return bytes(key.partition(b"w:")[0] + what.encode())
    raise AssertionError(number)


@pytest.fixture
def queue(redis_server):
    """Return a server with requests for three hosts, of which no worker knows."""
    urls = {"a.example": 3, "b.example": 2, "c.example": 1}
    seed(
        redis_server,
        [f"http://{h}/{n}" for h, number in urls.items() for n in range(number)],
    )
    return redis_server


def test_what_is_told_and_done_in_words(queue, tmp_path):
    queue.client.delete(key_of(queue, "lists", 3))
    text = Path(__file__).with_name("fleet.txt").read_text(encoding="utf-8")
    assert run(text, tmp_path, REDIS=queue.url) == text


def test_what_was_lost_is_counted_as_such(queue):
    queue.client.hincrby(key_of(queue, "n", 3), "filed", 1)
    told = "4 are counted, 3 requests are there: repaired\n"
    assert fleet(queue, "repair") == (1, told, "")
    assert fleet(queue, "check").status == 0
    assert look(queue)[0].lost == 1


def test_names_cannot_steer_the_terminal(redis_server):
    seed(redis_server, ["http://a.example/"])
    client = redis_server.client
    shard = key_of(redis_server, "", 1)
    client.rpush(shard + b"w:0\0\x1b[31m", b"x" * 20)
    client.sadd(shard + b"lists", b"0\0\x1b[31m")
    done = fleet(redis_server)
    assert "2 requests wait for 2 hosts" in done.out
    assert "\x1b" not in done.out


def test_a_queue_that_is_not_there(redis_server):
    done = fleet(redis_server, spider="x")
    assert (done.status, done.out) == (2, "")
    assert "There is no queue of 'x' in Redis at redis://127.0.0.1" in done.err
    assert redis_server.client.keys("*") == []


def test_a_server_that_cannot_be_had():
    with RedisServer(None, "--requirepass", "right") as server:
        for url, why in {
            "redis://:secret@127.0.0.1:9": "it cannot be reached: Error",
            f"redis://:secret@127.0.0.1:{server.port}": "must have its user and password",
            "secret": "REP_FLEET is",
        }.items():
            done = robots("fleet", "x", "-s", f"REP_FLEET={url}")
            assert done.status == 2
            assert why in done.err
            assert "Traceback" not in done.err
            assert ".." not in done.err
            assert ":secret" not in done.err


def test_the_settings_of_the_spider(tmp_path: Path, redis_server):
    folder = project(tmp_path, "SPIDER_MODULES = ['its_spiders']\n")
    (folder / "its_spiders.py").write_text(
        "import scrapy\n"
        "class Mine(scrapy.Spider):\n"
        "    name = 'mine'\n"
        f"    custom_settings = {{'REP_FLEET': '{redis_server.url}'}}\n"
    )
    assert "There is no queue of 'mine'" in robots("fleet", "mine", cwd=folder).err
    redis_server.client.zadd("{rep:mine}:workers", {"one": 1})
    assert robots("fleet", "mine", cwd=folder).status == 0


@contextmanager
def a_worker_with_all_reasons(server: RedisServer):
    """Run one at hosts that wait for different things; yield the hosts by those."""
    now = time.gmtime(time.time() + 2 * 3600)
    closed = f"{now.tm_hour:02}00-{now.tm_hour:02}30"
    robots_of: dict[str, Any] = {
        "pace": delayed(100),
        "visit_time": f"{OPEN}Visit-time: {closed}\n",
        "unreachable": Reply(status=503),
        "parked": OPEN,
        "asked": Reply(hang=True),
    }
    with some_sites(len(robots_of), None, first=20) as sites:
        urls = []
        for site, (why, text) in zip(sites, robots_of.items(), strict=True):
            site.replies["/robots.txt"] = text
            site.replies["/0"] = Reply("page")
            urls += [site.url(f"/{n}") for n in range(3)]
            if why == "parked":
                busy = Reply(status=503, headers={"Retry-After": "100"})
                site.replies |= {f"/{n}": busy for n in range(3)}
        seed(server, urls)
        settings = {
            "REP_VISIT_TIME_MAX": 86400,
            "REP_UNREACHABLE_RETRY_DELAYS": [100],
            "REP_TIMEOUT": 100,
            "REP_CRAWL_DELAY_MAX": 1000,
        }
        with Fleet(server, 1, **settings):
            yield {why: site.host for why, site in zip(robots_of, sites, strict=True)}


def test_why_hosts_wait_and_every_key_is_documented(redis_server):
    with a_worker_with_all_reasons(redis_server) as expected:
        until(lambda: {r.why: r.name for r in look(redis_server)[1]} == expected)
        done = fleet(redis_server, "--json")
        words = fleet(redis_server).out
    assert (done.status, done.err) == (0, "")
    kinds = {kind: documented(f"of ``{kind}``\n") for kind in KINDS}
    assert [set(each) for each in done.objects] == [
        kinds[each["kind"]] for each in done.objects
    ]
    found = {each["why"]: each for each in done.objects if each["kind"] == "host"}
    (worker,) = [each for each in done.objects if each["kind"] == "worker"]
    assert all(each["wait"] > 0 for why, each in found.items() if why != "asked")
    assert worker["in_hand"] == {}
    for said in (
        "its robots.txt is being asked for",
        "its delay is not over",
        "its robots.txt is unreachable",
        "its robots.txt wants visits at another time",
        "it is parked",
    ):
        assert said in words


def test_pause_block_purge_and_drain_with_real_workers():
    quick, slow = hosts(10, delayed(0.2)), hosts(2, delayed(3), network=2)
    number = 20
    paths = pages({**quick, **slow}, number)
    blocked, purged = slow
    with (
        Web({**quick, **slow}, page=0.05) as web,
        seeded(web, paths, 2, LOG_LEVEL="INFO") as (server, crawling),
    ):
        until(lambda: all(worker.said("got") for worker in crawling.workers))
        assert fleet(server, "pause").status == 0
        until(lambda: all("is paused" in worker.log for worker in crawling.workers))
        until(lambda: not look(server)[0].in_hand)
        got = crawling.said("got")
        time.sleep(1.5)  # they look four times a second
        assert crawling.said("got") == got
        (block,) = fleet(server, "block", blocked, "--json").objects
        (purge,) = fleet(server, "purge", purged, "--json").objects
        assert purge["requests"] > 0
        assert fleet(server, "resume").status == 0
        kept = block["requests"] + purge["requests"]
        until(lambda: len(crawling.said("got")) == len(paths) * number - kept)
        until(lambda: [row.name for row in look(server)[1]] == [blocked])
        (row,) = look(server)[1]
        assert (row.why, row.waiting, row.in_hand) == ("blocked", block["requests"], 0)
        assert fleet(server, "unblock", blocked).status == 0
        until(
            lambda: (
                len(crawling.said("got")) + purge["requests"] + row.waiting
                > len(paths) * number
            )
        )
        assert fleet(server, "drain").status == 0
        crawling.join(SOON)
        for worker in crawling.workers:
            assert worker.process.returncode == 0
            assert worker.stats["finish_reason"] == "drained"
            assert worker.log.count("is paused") == 1
        got = crawling.said("got")
        assert len(set(got)) == len(got)
        assert not look(server)[0].workers
        (row,) = look(server)[1]
        assert row.name == blocked
        assert len(got) + row.waiting + purge["requests"] == len(paths) * number
        assert fleet(server, "check").status == 0
