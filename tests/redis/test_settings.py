"""The settings that scrapy-redis reads mean the same here; and what is wrong is said."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest
import redis
from scrapy.settings import Settings
from scrapy_redis import get_redis_from_settings

from scrapy_rep import RepMiddleware
from scrapy_rep.exceptions import SettingError
from scrapy_rep.redis.clients import client, sync_client_like
from scrapy_rep.redis.servers import Servers
from tests.utils import coroutine_test, make_crawler

SHARED = (
    "host",
    "port",
    "path",
    "db",
    "username",
    "password",
    "encoding",
    "client_name",
    "health_check_interval",
    "ssl_cert_reqs",
)


def kwargs_of(server: Any) -> dict[str, Any]:
    return dict(server.connection_pool.connection_kwargs)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"REDIS_URL": "redis://:secret@redis.example:7000/3"},
        {"REDIS_URL": "rediss://redis.example?ssl_cert_reqs=none"},
        {"REDIS_URL": "unix:///run/redis.sock?db=2"},
        {"REDIS_URL": "redis://redis.example?socket_timeout=25&db=4"},
        {"REDIS_URL": "redis://redis.example?decode_responses=true"},
        {"REDIS_HOST": "redis.example", "REDIS_PORT": 7000, "REDIS_DB": 5},
        {"REDIS_HOST": "redis.example", "REDIS_ENCODING": "latin1"},
        {"REDIS_URL": "redis://a.example", "REDIS_HOST": "b.example"},
        {"REDIS_DECODE_RESPONSES": True},
        {"REDIS_PARAMS": {"password": "secret", "username": "crawler"}},
        {"REDIS_PARAMS": {"socket_timeout": 20, "socket_connect_timeout": 0.2}},
        {"REDIS_PARAMS": {"url": "redis://redis.example:7000", "db": 1}},
        {"REDIS_PARAMS": '{"host": "redis.example", "health_check_interval": 9}'},
        {"REDIS_HOST": "a.example", "REDIS_PARAMS": {"host": "b.example"}},
        {"REDIS_PARAMS": {"redis_cls": "redis.Redis", "host": "redis.example"}},
        {"REDIS_PARAMS": {"redis_cls": redis.StrictRedis, "client_name": "crawler"}},
    ],
)
# redis-py says so of what scrapy-redis gives it.
@pytest.mark.filterwarnings("ignore:.*retry_on_timeout:DeprecationWarning")
def test_the_server_is_the_one_of_scrapy_redis(settings):
    theirs = get_redis_from_settings(Settings(settings))
    ours = client(Settings(settings))
    expected, found = kwargs_of(theirs), kwargs_of(ours)
    for name in SHARED:
        assert found.get(name) == expected.get(name), name
    for quick in (ours, sync_client_like(theirs)):
        known = kwargs_of(quick)
        assert known["socket_timeout"] <= 1
        assert known["socket_connect_timeout"] <= 1
        assert not known["decode_responses"]
    kind = theirs.connection_pool.connection_class
    assert sync_client_like(theirs).connection_pool.connection_class is kind
    assert ours.connection_pool.connection_class.__name__ == kind.__name__


def test_a_shorter_timeout_of_the_users_stays():
    settings = Settings({"REDIS_PARAMS": {"socket_timeout": 0.25}})
    assert kwargs_of(client(settings))["socket_timeout"] == 0.25


@coroutine_test
async def test_another_event_loop_is_refused(pytestconfig):
    if pytestconfig.getoption("--reactor") != "default":
        pytest.skip("there is an asyncio event loop")
    with pytest.raises(
        SettingError, match=r"TWISTED_REACTOR is .* expected the asyncio"
    ):
        Servers.of(make_crawler())


@coroutine_test
async def test_a_crawl_with_another_event_loop_does_not_begin(pytestconfig):
    if pytestconfig.getoption("--reactor") != "default":
        pytest.skip("there is an asyncio event loop")
    with pytest.raises(SettingError, match="TWISTED_REACTOR"):
        RepMiddleware.from_crawler(make_crawler(REP_STORE="redis"))


@coroutine_test
async def test_what_is_missing_is_said(monkeypatch):
    for name in list(sys.modules):
        if name.partition(".")[0] == "redis" or name.startswith("scrapy_rep.redis"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ImportError):
        importlib.import_module("redis")
    with pytest.raises(SettingError, match='install scrapy_rep with its extra "redis"'):
        RepMiddleware.from_crawler(make_crawler(REP_STORE="redis"))
