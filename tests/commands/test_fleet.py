"""``scrapy robots fleet``, on queues as they are, and while real workers are at them."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.settings import Settings

from scrapy_rep.redis.orders import block, faults
from scrapy_rep.redis.overview import hosts as look_at_hosts
from scrapy_rep.redis.overview import state
from scrapy_rep.redis.parts import connect
from tests.benchmarks.fleet import delayed, hosts, pages, seeded
from tests.benchmarks.web import Web
from tests.commands.cli import Done, robots
from tests.commands.test_schema import documented
from tests.documents import blocks, room
from tests.fleet import Fleet, seed
from tests.redis_server import RedisServer
from tests.site import Reply, some_sites

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scrapy_rep.redis.overview import Host

SOON = 180  # seconds; a busy machine is slow
OPEN = "User-agent: *\nDisallow: /no\n"
PREFIX = "{fleet:requests}:"
KINDS = ("queue", "worker", "host")


def until(true: Callable[[], object]) -> Any:
    """Wait until *true* is; return what it was."""
    deadline = time.monotonic() + SOON
    while not (found := true()):
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.05)
    return found


def fleet(server: RedisServer, *args: str, spider: str = "fleet") -> Done:
    return robots("fleet", spider, *args, "-s", f"REDIS_URL={server.url}")


def parts(server: RedisServer) -> Any:
    return connect(Settings({"REDIS_URL": server.url}), "fleet")


def rows(server: RedisServer) -> list[Host]:
    """Return what the command would tell of hosts; it takes a while to begin."""
    return look_at_hosts(parts(server), state(parts(server)).workers)


@pytest.fixture
def queue(redis_server):
    """Return a server with requests for three hosts, of which no worker knows."""
    urls = {"a.example": 3, "b.example": 2, "c.example": 1}
    seed(
        redis_server,
        [f"http://{h}/{n}" for h, number in urls.items() for n in range(number)],
    )
    return redis_server


def test_what_is_told_and_done_in_words(queue):
    done = fleet(queue)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        "fleet is running: 6 requests wait for 3 hosts, no worker is at it",
        "",
        "host       waiting  in hand  until  why",
        "a.example        3        0  now    it may be asked now",
        "b.example        2        0  now    it may be asked now",
        "c.example        1        0  now    it may be asked now",
    ]
    done = fleet(queue, "block", "a.example")
    assert (done.status, done.err) == (0, "")
    assert done.out == "a.example is blocked: 3 requests wait, until unblock or purge\n"
    done = fleet(queue, "purge", "b.example")
    assert (done.status, done.err) == (0, "")
    assert done.out == "b.example: 2 requests deleted\n"
    assert fleet(queue, "drain").out.startswith("fleet is draining: 0 workers at work ")
    assert fleet(queue).out.splitlines() == [
        "fleet is draining: 4 requests wait for 2 hosts, no worker is at it",
        "blocked: a.example",
        "2 requests were purged, of 6 in all",
        "",
        "host       waiting  in hand  until  why",
        "a.example        3        0  -      blocked",
        "c.example        1        0  now    it may be asked now",
    ]
    assert fleet(queue, "unblock", "a.example", "--json").objects == [
        {
            "did": "unblock",
            "host": "a.example",
            "requests": 3,
            "changed": True,
            "workers": None,
        }
    ]
    assert fleet(queue, "resume", "--json").objects == [
        {
            "did": "resume",
            "host": None,
            "requests": 0,
            "changed": True,
            "workers": 0,
        }
    ]
    assert fleet(queue, "show", "c.example", "b.example").out.splitlines() == [
        "fleet is running: 1 request waits for 1 host, no worker is at it",
        "",
        "host       waiting  in hand  until  why",
        "c.example        1        0  now    it may be asked now",
    ]


def test_the_page_of_fleets_shows_what_it_prints(redis_server):
    (part,) = parts(redis_server)
    worker, second = "crawler1-71-5d0c31a9", 10**6

    def wait(host: str, number: int) -> None:
        seed(redis_server, [f"http://{host}.example/{n}" for n in range(number)])

    def tell(host: str, pace: str, seconds: float) -> None:
        told = [1, f"{host}.example", pace, round(seconds * second)]
        part.run("put", worker, 0, 0, *told)

    wait("a", 8)
    part.run("pop", worker, round(54.9 * second), 1, 8, 0)
    tell("a", "free", 0)
    wait("c", 3)
    part.run("pop", worker, round(54.9 * second), 3, 8, 0)
    for host, number in {"b": 4, "d": 1, "e": 1}.items():
        wait(host, number)
    tell("b", "paced", 18.9)
    tell("d", "parked", 2 * 3600 + 50)
    block(parts(redis_server), "e.example")
    (page,) = [
        text
        for text in blocks("console", room("redis"))
        if text.startswith("$ scrapy robots")
    ]
    shown = fleet(redis_server).out.replace("fleet is", "shop is")
    assert timeless(shown) == timeless(page.partition("\n")[2] + "\n")


def timeless(text: str) -> str:
    return re.sub(r"\d\d s", "so many s", text)


def test_check_and_repair(queue):
    assert fleet(queue, "check") == (0, "All is well.\n", "")
    queue.client.zrem(f"{PREFIX}due", "a.example")
    done = fleet(queue, "check")
    assert done.status == 1
    assert done.out.splitlines() == [
        "nobody asks for 3 requests of a.example",
        "repair puts that right, while workers run or not.",
    ]
    done = fleet(queue, "repair", "--json")
    assert done.status == 0
    assert done.objects == [
        {
            "fault": "unknown_host",
            "name": "a.example",
            "requests": 3,
            "counted": None,
            "repaired": True,
        }
    ]
    queue.client.incr(f"{PREFIX}count")
    done = fleet(queue, "repair")
    assert (done.status, done.out) == (
        1,
        "7 are counted, 6 requests are there: repaired\n",
    )
    assert fleet(queue, "check").status == 0
    assert state(parts(queue)).lost == 1


def test_names_cannot_steer_the_terminal(redis_server):
    seed(redis_server, ["http://a.example/"])
    redis_server.client.zadd(f"{PREFIX}due", {"\x1b[31m": 1})
    redis_server.client.zadd(f"{PREFIX}host:\x1b[31m", {"x" * 20: 1})
    done = fleet(redis_server)
    assert "2 requests wait for 2 hosts" in done.out
    assert "\x1b" not in done.out


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["x"], "There is no queue of 'x' in Redis at redis://127.0.0.1"),
        ([], "arguments are required: SPIDER. scrapy robots fleet -h tells more."),
        (
            ["x", "paws"],
            "Argument DO: invalid choice: 'paws' (choose from ",
        ),
        (
            ["x", "pause", "a.example"],
            "pause is about the whole queue. Type scrapy robots fleet x pause.",
        ),
        (["x", "pause", "--watch"], "--watch is for what is shown. Type no pause"),
        (
            ["x", "block"],
            "block is about a host. Type scrapy robots fleet x block HOST.",
        ),
        (["x", "--lint"], "There is no --lint. scrapy robots fleet -h tells more."),
        (
            ["x", "block", "http://a/"],
            "'http://a/' is no host. Type one as fleet shows it.",
        ),
    ],
)
def test_wrong_arguments(args, problem, redis_server):
    done = robots("fleet", *args, "-s", f"REDIS_URL={redis_server.url}")
    assert (done.status, done.out) == (2, "")
    assert problem in done.err
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    assert redis_server.client.keys("*") == []


def test_a_server_that_cannot_be_had():
    with RedisServer(None, "--requirepass", "right") as server:
        for url, why in {
            "redis://:secret@127.0.0.1:9": "it cannot be had: Error",
            f"redis://:secret@127.0.0.1:{server.port}": "must have its user and password",
            "secret": "REDIS_URL is 'secret'. Set one",
        }.items():
            done = robots("fleet", "x", "-s", f"REDIS_URL={url}")
            assert done.status == 2
            assert why in done.err
            assert "Traceback" not in done.err
            assert ":secret" not in done.err


PROJECT = {
    "scrapy.cfg": "[settings]\ndefault = shop.settings\n",
    "shop/__init__.py": "",
    "shop/settings.py": "SPIDER_MODULES = ['shop.spiders']\n",
    "shop/spiders/__init__.py": "",
    "shop/spiders/mine.py": """
import scrapy

class Mine(scrapy.Spider):
    name = "mine"
    custom_settings = {"REDIS_URL": "SERVER", "SCHEDULER_QUEUE_KEY": "of:%(spider)s"}
""",
}


def test_the_settings_of_the_spider(tmp_path: Path, redis_server):
    for name, text in PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("SERVER", redis_server.url))
    assert "There is no queue of 'mine'" in robots("fleet", "mine", cwd=tmp_path).err
    redis_server.client.set("{of:mine}:count", 0)
    assert robots("fleet", "mine", cwd=tmp_path).status == 0


@contextmanager
def a_worker_with_all_reasons(
    server: RedisServer,
) -> Iterator[dict[str, str]]:
    """Run one at hosts that wait for different things; yield the hosts by those."""
    now = time.gmtime(time.time() + 2 * 3600)
    closed = f"{now.tm_hour:02}00-{now.tm_hour:02}30"
    robots_of: dict[str, Any] = {
        "delay": delayed(100),
        "visit_time": f"{OPEN}Visit-time: {closed}\n",
        "unreachable": Reply(status=503),
        "parked": OPEN,
        "held": Reply(hang=True),
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
        until(lambda: {row.why: row.name for row in rows(redis_server)} == expected)
        done = fleet(redis_server, "--json")
        words = fleet(redis_server).out
    assert (done.status, done.err) == (0, "")
    kinds = {kind: documented(f"of ``{kind}``\n") for kind in KINDS}
    assert [set(each) for each in done.objects] == [
        kinds[each["kind"]] for each in done.objects
    ]
    found = {each["why"]: each for each in done.objects if each["kind"] == "host"}
    (worker,) = [each for each in done.objects if each["kind"] == "worker"]
    assert all(each["wait"] > 0 for each in found.values())
    held = found["held"]
    assert held["workers"] == [worker["name"]]
    assert held["in_hand"] == worker["in_hand"][held["name"]] >= 1
    for said in (
        f"held by {worker['name']}",
        "its delay is not over",
        "its robots.txt is unreachable",
        "its robots.txt wants visits at another time",
        "it is parked",
    ):
        assert said in words


def test_pause_block_purge_and_drain_with_real_workers():
    quick, slow = hosts(2, delayed(0.2)), hosts(2, delayed(3), network=2)
    number = 20
    paths = pages({**quick, **slow}, number)
    blocked, purged = slow
    with (
        Web({**quick, **slow}, page=0.05, stamped=True) as web,
        seeded(web, paths, 2, SCHEDULER_PERSIST=True) as (server, crawling),
    ):
        until(lambda: all(worker.said("got") for worker in crawling.workers))
        assert fleet(server, "pause").status == 0
        until(lambda: all("is paused" in worker.log for worker in crawling.workers))
        until(lambda: not state(parts(server)).in_hand)
        got = crawling.said("got")
        time.sleep(1.5)  # they ask every second
        assert crawling.said("got") == got
        (block,) = fleet(server, "block", blocked, "--json").objects
        (purge,) = fleet(server, "purge", purged, "--json").objects
        assert purge["requests"] > 0
        assert fleet(server, "resume").status == 0
        kept = block["requests"] + purge["requests"]
        until(lambda: len(crawling.said("got")) == 4 * number - kept)
        until(lambda: [row.name for row in rows(server)] == [blocked])
        (row,) = rows(server)
        assert (row.why, row.waiting, row.in_hand) == ("blocked", block["requests"], 0)
        assert fleet(server, "unblock", blocked).status == 0
        until(
            lambda: (
                len(crawling.said("got")) + purge["requests"] + row.waiting > 4 * number
            )
        )
        assert fleet(server, "drain").status == 0
        crawling.join(SOON)
        for worker in crawling.workers:
            assert worker.process.returncode == 0
            assert worker.stats["finish_reason"] == "drained"
            assert worker.log.count("is paused") == 1
            assert worker.log.count("is being drained") == 1
        got = crawling.said("got")
        assert len(set(got)) == len(got)
        assert not state(parts(server)).workers
        (row,) = rows(server)
        assert row.name == blocked
        assert len(got) + row.waiting + purge["requests"] == 4 * number
        assert list(faults(parts(server), 60.0, repair=False)) == []
