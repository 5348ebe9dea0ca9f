"""A server that is away, or refuses us, is said to be that when a crawl begins, and later."""

from __future__ import annotations

import logging
import pickle
import sys
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.exceptions import RedisStartError
from scrapy_rep.redis.store import RedisStore
from tests.forking import run
from tests.redis.workers import Crawl
from tests.redis_server import RedisServer
from tests.utils import coroutine_test, make_crawler, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.only_asyncio

NOBODY = "redis://127.0.0.1:9/0"
SCRAPY_REDIS = {"SCHEDULER": "scrapy_redis.scheduler.Scheduler"}
PASSWORD = "--requirepass"
SPIDER = """
import scrapy


class Mine(scrapy.Spider):
    name = "mine"
    custom_settings = {
        "ADDONS": {"scrapy_rep.Addon": 500},
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "SCHEDULER_QUEUE_CLASS": "scrapy_rep.redis.PoliteQueue",
        "REP_STORE": "redis",
    }
"""


def begin(url: str, **settings: Any) -> Any:
    return RedisStore.from_crawler(make_crawler(REDIS_URL=url, **settings))


def error(url: str, **settings: Any) -> str:
    with pytest.raises(RedisStartError) as caught:
        begin(url, **settings)
    found = pickle.loads(pickle.dumps(caught.value))
    assert str(found) == str(caught.value)
    assert "secret" not in str(found)
    return str(found)


@coroutine_test
async def test_a_server_that_is_away():
    assert "127.0.0.1:9/0: it cannot be had" in error(NOBODY, **SCRAPY_REDIS)
    begin(NOBODY)  # the store alone goes on without it


@pytest.mark.parametrize("settings", [SCRAPY_REDIS, {}], ids=["fleet", "store"])
@coroutine_test
async def test_a_server_that_wants_another_password(settings):
    with RedisServer(None, PASSWORD, "right") as server:
        for user in ("", ":secret@", "secret@"):
            url = f"redis://{user}127.0.0.1:{server.port}/0"
            assert "must have its user and password" in error(url, **settings)
        right = f"redis://:right@127.0.0.1:{server.port}/0"
        begin(right, **settings)


@coroutine_test
async def test_a_replica(redis_server):
    with RedisServer() as replica:
        replica.client.replicaof("127.0.0.1", str(redis_server.port))
        assert "must name the master" in error(replica.url, **SCRAPY_REDIS)


def test_the_exit_status(tmp_path: Path):
    (tmp_path / "mine.py").write_text(SPIDER)
    command = [sys.executable, "-m", "scrapy", "runspider", "mine.py"]
    done = run([*command, "-s", f"REDIS_URL={NOBODY}"], cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr  # it says all in its line, the last one
    assert "Redis at redis://" in done.stderr.strip().splitlines()[-1]


def deny_scripts(server: RedisServer) -> None:
    server.client.execute_command("ACL", "SETUSER", "default", "-evalsha", "-eval")


def make_a_replica(server: RedisServer) -> None:
    server.client.replicaof("127.0.0.1", "9")


def fill(server: RedisServer) -> None:
    server.client.config_set("maxmemory", 1)


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        (deny_scripts, "allowed to run scripts"),
        (make_a_replica, "it is a replica"),
        (fill, "maxmemory must be raised"),
    ],
)
@coroutine_test
async def test_a_server_that_refuses_us_is_not_away(fault, advice, caplog):
    with RedisServer() as server:
        async with Crawl(server) as worker:
            await worker.push("a")
            fault(server)
            await worker.push("b")
            assert not worker.link.up
            assert worker.stat("rep/redis/refused") == 1
            assert worker.stat("rep/redis/away") is None
            server.client.execute_command("ACL", "SETUSER", "default", "+@all")
            server.client.replicaof("NO", "ONE")
            server.client.config_set("maxmemory", 0)
            await until(lambda: worker.link.up)
            assert {await worker.take(), await worker.take()} == {"a0", "b0"}
    said = [r for r in caplog.records if "Redis refuses us" in r.getMessage()]
    assert [record.levelno for record in said] == [logging.ERROR]
    assert advice in said[0].getMessage()
    assert "away" not in caplog.text
