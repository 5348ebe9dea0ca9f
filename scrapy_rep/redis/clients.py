"""Clients for the server that scrapy-redis' settings name."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
)
from scrapy_redis import get_redis_from_settings
from scrapy_redis.connection import SETTINGS_PARAMS_MAP
from scrapy_redis.defaults import REDIS_PARAMS

from scrapy_rep.exceptions import RedisStartError, SettingError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

TIMEOUT = 1.0
"""Seconds that a call waits for the server at the most."""
AWAY = (RedisError, OSError)
"""What a call raises where the server cannot be had, among others."""
CREDENTIALS = "REDIS_URL or REDIS_PARAMS must have its user and password"
ONE_SERVER = (
    "it is one of several servers of a Redis Cluster, and the queue needs one server, or"
    " a cluster of one"
)
REFUSALS = {
    "NOAUTH": CREDENTIALS,
    "NOPERM": "its user must be allowed to run scripts and to use all keys of the queue"
    " and those that begin with rep:",
    "READONLY": "it is a replica: REDIS_URL must name the master",
    "OOM": "its memory is full, and maxmemory must be raised",
    "MOVED": ONE_SERVER,
    "ASK": ONE_SERVER,
}
"""What a server says that is there, but not for us, and what must be done."""
KINDS = {
    AuthenticationError: "NOAUTH",
    NoPermissionError: "NOPERM",
    ReadOnlyError: "READONLY",
    OutOfMemoryError: "OOM",
    MovedError: "MOVED",
    AskError: "ASK",
}


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


def impatient(server: Any, timeout: float = TIMEOUT) -> Any:
    """Return a client for what *server* is connected to, which gives up after *timeout* s.

    Where that cannot be told, as with a cluster's client, it is *server* itself.
    """
    pool = getattr(server, "connection_pool", None)
    if pool is None:
        return server
    given = dict(pool.connection_kwargs)
    given.pop("retry_on_timeout", None)
    given |= _impatient(given, redis.retry.Retry, timeout)
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


def refusal_of(error: Exception) -> str | None:
    """Return what must be done where a server refuses us; ``None``: it is away."""
    text = str(error)
    for kind, code in KINDS.items():
        # What comes of a script in Redis 6 has its code in the text alone.
        if isinstance(error, kind) or f"-{code} " in text:
            return f"{text.removesuffix('.')}: {REFUSALS[code]}"
    return None


def greet(settings: BaseSettings) -> None:
    """Look whether the server is there when a crawl begins, and is one that will do.

    Raises ``RedisStartError`` where it refuses us; and where it cannot be had, if the
    scheduler is scrapy-redis', which cannot begin without it.
    """
    url = url_of(settings)
    with warnings.catch_warnings():
        # redis-py says so of what scrapy-redis gives it; its own call does say it.
        warnings.simplefilter("ignore", DeprecationWarning)
        server = impatient(get_redis_from_settings(settings))
    try:
        role = server.info("replication")
        if role.get("role") == "slave" and role.get("slave_read_only", 1):
            raise ReadOnlyError("It is read only")
        if is_cluster(server) and int(server.cluster("info")["cluster_size"]) > 1:
            raise RedisStartError(url, ONE_SERVER)
    except AWAY as error:
        refusal = refusal_of(error)
        if refusal is None and not str(settings["SCHEDULER"]).startswith(
            "scrapy_redis"
        ):
            return
        kind = str(error) or type(error).__name__
        raise RedisStartError(url, refusal or f"it cannot be had: {kind}") from None
    finally:
        close(server)


def url_of(settings: BaseSettings) -> str:
    """Return the URL of the server, or its host and port; it may have a password."""
    return settings.get("REDIS_URL") or (
        f"{settings.get('REDIS_HOST') or 'localhost'}"
        f":{settings.get('REDIS_PORT') or 6379}"
    )


def is_forgotten(error: Exception) -> bool:
    """Tell whether a script says that the server has lost what it had (common.lua)."""
    return isinstance(error, redis.ResponseError) and str(error).startswith("REPFORGOT")


def script(name: str, *, after: str = "") -> str:
    """Return the text of a Lua script of ours, where wanted with another before it."""
    folder = resources.files(__package__).joinpath("lua")
    parts = [part for part in (after, name) if part]
    return "\n".join(
        folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in parts
    )


def _impatient(
    given: dict[str, Any], retry: Any, timeout: float = TIMEOUT
) -> dict[str, Any]:
    return {
        "decode_responses": False,
        "socket_timeout": min(timeout, given.get("socket_timeout") or timeout),
        "socket_connect_timeout": min(
            TIMEOUT, given.get("socket_connect_timeout") or TIMEOUT
        ),
        # Once: a connection that was open when the server restarted.
        "retry": retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    }


async def end_task(task: asyncio.Task[None]) -> None:
    """Cancel *task*, and wait until it is over."""
    await asyncio.sleep(0)  # what is cancelled before it begins tells nobody
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
