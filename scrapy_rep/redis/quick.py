"""Calls for which the crawl waits: at its beginning, and when its queue is deleted."""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from time import sleep
from typing import TYPE_CHECKING, Any

from redis import RedisCluster
from redis.exceptions import (
    MovedError,
    NoScriptError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from scrapy_redis import get_redis_from_settings

from scrapy_rep.exceptions import RedisStartError
from scrapy_rep.redis.clients import (
    AWAY_ERRORS,
    MOVE_RETRY_SECONDS,
    MOVE_TRIES,
    address_of,
    close,
    is_in_motion,
    moved_to,
    refusal_of,
    sync_client_like,
    url_of,
)
from scrapy_rep.redis.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis
    from scrapy.crawler import Crawler

    from scrapy_rep.redis.clients import Script
    from scrapy_rep.redis.topology import Address

CLUSTER_CLIENT_ADVICE = (
    "it is one of several servers of a Redis Cluster, where scrapy-redis' own calls need"
    ' REDIS_PARAMS = {"redis_cls": "redis.cluster.RedisCluster"}'
)
SCRAPY_REDIS_FILTER = "scrapy_redis.dupefilter.RFPDupeFilter"


class Quick:
    """Synchronous calls to the server or cluster of *server*, a client of scrapy-redis.

    *timeout* is as for ``sync_client_like``.
    """

    def __init__(self, server: Any, timeout: float | None = None) -> None:
        self.first: Any = sync_client_like(server, timeout=timeout)
        self.topology = Topology(address_of(self.first))
        self._clients = {self.topology.first: self.first}
        self._asked = False

    def look(self) -> None:
        """Learn which server has which keys; raises what redis-py does."""
        with suppress(ResponseError):  # it is no cluster, or does not tell
            answer: Any = self.first.execute_command("CLUSTER SLOTS")
            self.topology.read(answer, self.topology.first)
        self._asked = True

    def at(self, key: str) -> redis.Redis:
        return self._client(self.topology.owner(key))

    def call(
        self, what: Script | str, keys: Sequence[str], args: Sequence[Any] = ()
    ) -> Any:
        """Run a script or a command.

        Raises what redis-py does; ``TryAgainError`` if its keys are still moving.
        """
        if not self._asked:
            self.look()
        for _ in range(MOVE_TRIES):
            try:
                return _run(self.at(keys[0]), what, keys, args)
            except AWAY_ERRORS as error:  # noqa: PERF203
                is_known = (
                    self.topology.is_cluster
                )  # else we do not know the servers of keys
                if not (is_known and is_in_motion(error)):
                    raise
                if isinstance(error, MovedError):
                    self.topology.move(*moved_to(error, self.topology.first))
                else:
                    sleep(MOVE_RETRY_SECONDS)  # by then it has come to the other one
        raise TryAgainError(f"{keys[0]} is being moved to another server")

    def close(self) -> None:
        for client in self._clients.values():
            close(client)

    def _client(self, address: Address) -> redis.Redis:
        if address not in self._clients:
            self._clients[address] = sync_client_like(
                self.first, timeout=math.inf, at=address
            )
        return self._clients[address]


def _run(
    server: Any,
    what: Script | str,
    keys: Sequence[str],
    args: Sequence[Any],
) -> Any:
    if isinstance(what, str):
        return server.execute_command(what, *keys, *args)
    command = what.command(keys, args)
    try:
        return server.execute_command(*command)
    except NoScriptError:
        return server.execute_command("EVAL", what.text, *command[2:])


def check_server(crawler: Crawler) -> None:
    """Check, when *crawler* begins, that the server is there and suitable.

    Raises ``RedisStartError`` if it refuses us; or if it is away and the scheduler is
    scrapy-redis' own, which cannot begin without it.
    """
    settings = crawler.settings
    url = url_of(settings)
    needs_it = str(settings["SCHEDULER"]).startswith("scrapy_redis")
    server = quick = None
    try:
        with warnings.catch_warnings():
            # redis-py says so of what scrapy-redis gives it; its own call does say it.
            warnings.simplefilter("ignore", DeprecationWarning)
            server = get_redis_from_settings(settings)
            quick = Quick(server)
        quick.look()
        role = quick.first.info("replication")
        is_replica = role.get("role") == "slave" and role.get("slave_read_only", 1)
        if is_replica and not quick.topology.is_cluster:
            raise ReadOnlyError("It is read only")
        asks_itself = hasattr(crawler.spidercls, "schedule_next_requests") or (
            needs_it and settings["DUPEFILTER_CLASS"] == SCRAPY_REDIS_FILTER
        )
        if (
            asks_itself
            and len(quick.topology.servers) > 1
            and not isinstance(server, RedisCluster)
        ):
            raise RedisStartError(url, CLUSTER_CLIENT_ADVICE)
    except AWAY_ERRORS as error:
        refusal = refusal_of(error)
        if refusal or needs_it:
            kind = str(error) or type(error).__name__
            why = refusal or f"it cannot be had: {kind}"
            raise RedisStartError(url, why) from None
    finally:
        if quick is not None:
            quick.close()
        close(server)
