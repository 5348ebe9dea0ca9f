"""Clients for the server that scrapy-redis' settings name."""

from __future__ import annotations

from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from scrapy_redis.connection import SETTINGS_PARAMS_MAP
from scrapy_redis.defaults import REDIS_PARAMS

from scrapy_rep.exceptions import SettingError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

TIMEOUT = 1.0
"""Seconds that a call waits for the server at the most."""
AWAY = (RedisError, OSError)
"""What a call raises where the server cannot be had, among others."""


def client(settings: BaseSettings) -> redis.asyncio.Redis:
    """Return an asyncio client, from the settings that scrapy-redis reads, as it does.

    REDIS_URL, REDIS_HOST, REDIS_PORT, REDIS_DB, REDIS_ENCODING and REDIS_PARAMS; of
    those, ``redis_cls`` and REDIS_DECODE_RESPONSES are for scrapy-redis alone. Raises
    ``SettingError`` where the URL is none.
    """
    given: dict[str, Any] = {**REDIS_PARAMS, **settings.getdict("REDIS_PARAMS")}
    for name, parameter in SETTINGS_PARAMS_MAP.items():
        if settings.get(name):
            given[parameter] = settings.get(name)
    given.pop("redis_cls", None)
    given.pop("retry_on_timeout", None)
    given.pop("max_connections", None)
    ours = _impatient(given, redis.asyncio.retry.Retry)
    url = given.pop("url", None)
    if not url:
        return redis.asyncio.Redis(**given | ours)
    try:
        made = redis.asyncio.Redis.from_url(url, **given)
        pool = made.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # it is not connected yet
    except (TypeError, ValueError):  # which may tell a part of the password
        expected = "such as redis://user:password@host:6379/0, with options of redis-py"
        raise SettingError("REDIS_URL", url, expected) from None
    # The options of a URL go before those beside it.
    pool.connection_kwargs |= ours
    return made


def impatient(server: Any) -> Any:
    """Return a client for what *server* is connected to, which gives up after TIMEOUT.

    Where that cannot be told, as with a cluster's client, it is *server* itself.
    """
    pool = getattr(server, "connection_pool", None)
    if pool is None:
        return server
    given = dict(pool.connection_kwargs)
    given.pop("retry_on_timeout", None)
    given |= _impatient(given, redis.retry.Retry)
    quick = type(pool)(connection_class=pool.connection_class, **given)
    return redis.Redis.from_pool(quick)  # which it closes when it goes


def close(server: Any) -> None:
    """Close what *server* has open; used once more, it connects again.

    scrapy-redis leaves that to the garbage collector.
    """
    closing = getattr(server, "close", None)
    if closing is not None:
        with suppress(*AWAY):
            closing()


def is_cluster(server: Any) -> bool:
    """Tell whether keys of a script must be in one slot; ``False`` where it is away."""
    if getattr(server, "connection_pool", None) is None:
        return True
    with suppress(*AWAY):
        return bool(server.info("cluster").get("cluster_enabled"))
    return False


def script(name: str, *, after: str = "") -> str:
    """Return the text of a Lua script of ours, where wanted with another before it."""
    folder = resources.files(__package__).joinpath("lua")
    parts = [part for part in (after, name) if part]
    return "\n".join(
        folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in parts
    )


def _impatient(given: dict[str, Any], retry: Any) -> dict[str, Any]:
    return {
        "decode_responses": False,
        "socket_timeout": min(TIMEOUT, given.get("socket_timeout") or TIMEOUT),
        "socket_connect_timeout": min(
            TIMEOUT, given.get("socket_connect_timeout") or TIMEOUT
        ),
        # Once: a connection that was open when the server restarted.
        "retry": retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    }
