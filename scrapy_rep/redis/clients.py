"""Clients for the Redis server that scrapy-redis' settings name."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from functools import cache
from hashlib import sha1
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from scrapy_redis.connection import SETTINGS_PARAMS_MAP
from scrapy_redis.defaults import REDIS_PARAMS

from scrapy_rep.exceptions import SettingError
from scrapy_rep.redis.topology import Address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.settings import BaseSettings

TIMEOUT_SECONDS = 1.0
"""Seconds that a call waits for the server at the most."""
AWAY_ERRORS = (RedisError, OSError)
"""What a call may raise if the server cannot be had, among other reasons."""
SCRAPY_REDIS_PARAMS = (
    *("redis_cls", "retry_on_timeout", "max_connections", "startup_nodes"),
    *("require_full_coverage", "dynamic_startup_nodes", "reinitialize_steps"),
    *("read_from_replicas", "load_balancing_strategy", "address_remap"),
    "cluster_error_retry_attempts",
)
"""Those of REDIS_PARAMS that only scrapy-redis' own client takes."""
CREDENTIALS = "REDIS_URL or REDIS_PARAMS must have its user and password"
OTHER_SERVER = (
    "it is one of several servers of a Redis Cluster, and its user must be allowed to ask"
    " it for CLUSTER SLOTS"
)
REFUSALS = {
    "NOAUTH": CREDENTIALS,
    "NOPERM": "its user must be allowed to run scripts and to use all keys of the queue"
    " and those that begin with rep:",
    "READONLY": "it is a replica: REDIS_URL must name the master",
    "OOM": "its memory is full, and maxmemory must be raised",
    "MOVED": OTHER_SERVER,
    "ASK": OTHER_SERVER,
}
"""How a server refuses us, and what must be done about it."""
MOVING_ERRORS = (AskError, TryAgainError)  # MovedError is an AskError
"""How a server of a cluster answers while keys move to or from another server."""
MOVE_TRIES = 8
"""How often a call is repeated while its slot moves from one server to another."""
MOVE_RETRY_SECONDS = 0.05
"""Seconds between two of those calls."""
REFUSAL_CODES = {
    AuthenticationError: "NOAUTH",
    NoPermissionError: "NOPERM",
    ReadOnlyError: "READONLY",
    OutOfMemoryError: "OOM",
    MovedError: "MOVED",
    AskError: "ASK",
}


class Script(NamedTuple):
    """A Lua script of ours, as a server knows it."""

    text: str
    digest: str

    @classmethod
    @cache
    def named(cls, name: str, *, after: str = "") -> Script:
        text = script_text(name, after=after)
        return cls(text, sha1(text.encode()).hexdigest())  # noqa: S324 - as Redis does

    def command(self, keys: Sequence[str], args: Sequence[Any]) -> list[Any]:
        return ["EVALSHA", self.digest, len(keys), *keys, *args]


def client(settings: BaseSettings) -> redis.asyncio.Redis:
    """Return an asyncio client, from the settings that scrapy-redis reads, as it does.

    These are REDIS_URL, REDIS_HOST, REDIS_PORT, REDIS_DB, REDIS_ENCODING and REDIS_PARAMS;
    ``redis_cls`` and REDIS_DECODE_RESPONSES are for scrapy-redis alone. Raises
    ``SettingError`` if the URL is not valid.
    """
    given: dict[str, Any] = {**REDIS_PARAMS, **settings.getdict("REDIS_PARAMS")}
    for name, parameter in SETTINGS_PARAMS_MAP.items():
        if settings.get(name):
            given[parameter] = settings.get(name)
    for name in SCRAPY_REDIS_PARAMS:
        given.pop(name, None)
    ours = _timeout_options(given, redis.asyncio.retry.Retry)
    url = given.pop("url", None)
    if not url:
        return _with_one_context(redis.asyncio.Redis(**given | ours))
    try:
        made = redis.asyncio.Redis.from_url(url, **given)
        pool = made.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # it is not connected yet
    except (TypeError, ValueError):  # which may tell a part of the password
        expected = "such as redis://user:password@host:6379/0, with options of redis-py"
        raise SettingError("REDIS_URL", url, expected) from None
    # The options of a URL go before those beside it.
    pool.connection_kwargs |= ours
    return _with_one_context(made)


def _with_one_context(server: redis.asyncio.Redis) -> redis.asyncio.Redis:
    """Let all connections of *server* share one TLS context, if they use TLS.

    Making a context reads all certificates, which takes longer than connecting.
    """
    pool = server.connection_pool
    if not issubclass(pool.connection_class, redis.asyncio.SSLConnection):
        return server
    shared = pool.connection_class(**pool.connection_kwargs).ssl_context

    class SSLConnection(pool.connection_class):  # type: ignore[misc,name-defined]
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.ssl_context = shared

    pool.connection_class = SSLConnection
    return server


async def run(
    server: redis.asyncio.Redis,
    what: Script | str,
    keys: Sequence[str],
    args: Sequence[Any],
    *,
    asking: bool = False,
) -> Any:
    """Run a script or a command; *asking*: its keys are just moving to this server."""
    if isinstance(what, str):
        return await _execute(server, [what, *keys, *args], asking)
    command = what.command(keys, args)
    try:
        return await _execute(server, command, asking)
    except NoScriptError:
        return await _execute(server, ["EVAL", what.text, *command[2:]], asking)


async def _execute(server: Any, command: list[Any], asking: bool) -> Any:
    if not asking:
        return await server.execute_command(*command)
    async with server.pipeline(transaction=False) as together:
        together.execute_command("ASKING")
        together.execute_command(*command)
        return (await together.execute())[1]


async def slots_known_to(server: Any) -> Any:
    """Return the server's ``CLUSTER SLOTS``; ``None``: it is no cluster, or does not tell."""
    try:
        return await server.execute_command("CLUSTER SLOTS")
    except ResponseError:
        return None


def address_of(server: Any) -> Address:
    given = server.connection_pool.connection_kwargs
    host = given.get("path") or given.get("host") or "localhost"
    return Address(host, int(given.get("port") or 6379))


def client_at(known: redis.asyncio.Redis, address: Address) -> redis.asyncio.Redis:
    """Return a client like *known* for another server of its cluster."""
    pool = known.connection_pool
    given = dict(pool.connection_kwargs) | address._asdict()
    kind = pool.connection_class
    if given.pop("path", None):  # which leads to one of them
        kind = redis.asyncio.Connection
    made = redis.asyncio.ConnectionPool(connection_class=kind, **given)
    return redis.asyncio.Redis.from_pool(made)


def sync_client_like(
    server: Any, *, timeout: float | None = None, at: Address | None = None
) -> redis.Redis:
    """Return a new client for the server that *server* is connected to, or for *at*.

    A call fails after *timeout* seconds; ``None``: after TIMEOUT_SECONDS; infinite: when
    *server* would give up. If *server* is a client of a cluster, any one server is taken.
    """
    if isinstance(server, redis.RedisCluster):
        of: Any = server
        server = of.get_redis_connection(of.get_default_node())
    pool = server.connection_pool
    kind = pool.connection_class
    given = dict(pool.connection_kwargs)
    if timeout != math.inf:
        given.pop("retry_on_timeout", None)
        given |= _timeout_options(given, redis.retry.Retry, timeout)
    if at is not None:
        given |= at._asdict()
        if given.pop("path", None):  # which leads to one of them
            kind = redis.Connection
    made = type(pool)(connection_class=kind, **given)
    return redis.Redis.from_pool(made)  # which it closes when it goes


def close(server: Any) -> None:
    """Close the connections of *server*; if it is used once more, it connects again.

    scrapy-redis leaves that to the garbage collector.
    """
    with suppress(*AWAY_ERRORS):
        server.close()


def refusal_of(error: Exception) -> str | None:
    """Return what must be done if a server refuses us; ``None``: it is away instead."""
    text = str(error)
    for kind, code in REFUSAL_CODES.items():
        # What comes of a script in Redis 6 has its code in the text alone.
        if isinstance(error, kind) or f"-{code} " in text:
            return f"{text.removesuffix('.')}: {REFUSALS[code]}"
    return None


def moved_to(error: AskError, known: Address) -> tuple[int, Address]:
    """Return the slot that has moved, and its new server, as the server *known* has said."""
    return error.slot_id, Address(error.host or known.host, error.port)


def is_in_motion(error: Exception) -> bool:
    """Tell whether the server is there, and the keys are just moving to or from it."""
    return isinstance(error, MOVING_ERRORS) or (
        isinstance(error, ClusterDownError) and "not served" in str(error)
    )


def url_of(settings: BaseSettings) -> str:
    """Return the URL of the server, or its host and port; it may have a password."""
    return settings.get("REDIS_URL") or (
        f"{settings.get('REDIS_HOST') or 'localhost'}"
        f":{settings.get('REDIS_PORT') or 6379}"
    )


def is_forgotten(error: Exception) -> bool:
    """Tell whether a script says that the server has lost data (common.lua)."""
    return isinstance(error, redis.ResponseError) and str(error).startswith("REPFORGOT")


def script_text(name: str, *, after: str = "") -> str:
    """Return the text of one of our Lua scripts, with the script *after* put before it."""
    folder = resources.files(__package__).joinpath("lua")
    parts = [part for part in (after, name) if part]
    return "\n".join(
        folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in parts
    )


def _timeout_options(
    given: dict[str, Any], retry: Any, timeout: float | None = None
) -> dict[str, Any]:
    timeout = timeout or TIMEOUT_SECONDS
    return {
        "decode_responses": False,
        "socket_timeout": min(timeout, given.get("socket_timeout") or timeout),
        "socket_connect_timeout": min(
            TIMEOUT_SECONDS, given.get("socket_connect_timeout") or TIMEOUT_SECONDS
        ),
        # Once: a connection that was open when the server restarted.
        "retry": retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    }


async def end_task(task: asyncio.Task[None]) -> None:
    """Cancel *task*, and wait until it is over."""
    await asyncio.sleep(0)  # a task that is cancelled before it begins runs no cleanup
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
