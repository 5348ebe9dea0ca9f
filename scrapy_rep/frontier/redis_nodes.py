"""The servers behind REP_FLEET, one or those of a cluster: calls, and how they refuse us."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import random
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    RedisClusterException,
    RedisError,
    TryAgainError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    Address = tuple[str, int]

AWAY_ERRORS = (RedisError, RedisClusterException, OSError, asyncio.TimeoutError)
"""What a call may raise if the server cannot be reached, or refuses."""
CALL_SECONDS = 2.0
"""Seconds that a call takes at the most."""
CALLS_AT_A_TIME = 8
"""So many connections a worker has to each server, and one to hear by."""
MOST_REDIRECTIONS = 16
TRY_AGAIN_SECONDS = 0.05
KEY_AT = {"EVALSHA": 3, "EVAL": 3}
"""Command -> where it has its first key; others have it next."""
LIMITS = {"socket_timeout": CALL_SECONDS, "socket_connect_timeout": CALL_SECONDS}
REFUSALS = {
    "NOAUTH": "REP_FLEET must have its user and password",
    "WRONGPASS": "REP_FLEET must have its user and password",
    "NOPERM": "its user must be allowed to run scripts, and all keys and channels that begin"
    " with rep: or {rep:",
    "READONLY": "it is a replica: REP_FLEET must name the master",
    "OOM": "its memory is full, and maxmemory must be raised",
    "MOVED": "it is one of a Redis Cluster, and its user must be allowed to ask for CLUSTER",
    "CLUSTERDOWN": "a part of the slots has no server: see redis-cli --cluster check",
}
"""How a server refuses us, and what must be done about it."""
KINDS = {
    "OOM": "OUTOFMEMORY",
    "NOPERM": "NOPERMISSION",
    "WRONGPASS": "AUTHENTICATIONWRONG",
}
"""How the names of redis-py's exceptions for these begin, where not with the code."""


def code_of(error: BaseException) -> str | None:
    """Return by which of REFUSALS a server refuses us; ``None``: it is away instead."""
    if isinstance(error, redis.AuthenticationError):
        return "NOAUTH"
    kind, text = type(error).__name__.upper(), str(error)
    for code in REFUSALS:
        # redis-py makes a kind of exception of the codes of some, unless a script has it.
        if f"{code} " in text or kind.startswith(KINDS.get(code, code)):
            return code
    return None


def refusal_of(error: BaseException) -> str | None:
    """Return what must be done if a server refuses us; ``None``: it is away instead."""
    code = code_of(error)
    return code and f"{str(error).rstrip('.')}: {REFUSALS[code]}"


class Node:
    """One server, with a limit to the time of each call, and to how many there are at once."""

    def __init__(self, url: str, address: Address | None) -> None:
        retry = Retry(NoBackoff(), 0)
        self.client: Any = redis.asyncio.Redis.from_url(url, retry=retry, **LIMITS)  # type: ignore[arg-type]
        options = self.client.connection_pool.connection_kwargs
        if address is not None:
            options |= {"host": address[0], "port": address[1]}
        self.host = str(options.get("host", "localhost"))
        self.failed_at = 0.0
        self.turns = asyncio.Semaphore(CALLS_AT_A_TIME)

    async def execute(self, command: Sequence[Any], *, asks: bool = False) -> Any:
        """Run a command; where it *asks*, although its slot is still on its way here."""
        async with self.turns:
            try:
                return await self._execute(command, asks)
            except redis.ConnectionError:
                # It may have been open since before a restart.
                return await self._execute(command, asks)

    async def _execute(self, command: Sequence[Any], asks: bool) -> Any:
        try:
            return await asyncio.wait_for(self._send(command, asks), CALL_SECONDS)
        except (
            OSError,
            redis.ConnectionError,
            redis.TimeoutError,
            asyncio.TimeoutError,
        ):
            self.failed_at = monotonic()
            raise

    async def _send(self, command: Sequence[Any], asks: bool) -> Any:
        parts = [part() if callable(part) else part for part in command]
        if not asks:
            return await self.client.execute_command(*parts)
        async with self.client.pipeline(transaction=False) as together:
            together.execute_command("ASKING")
            together.execute_command(*parts)
            return (await together.execute())[-1]


class Nodes:
    """The server, or those of a cluster, each of which is asked for what it has.

    redis-py's own client of a cluster closes all connections where one server is away, and looks
    around for seconds, in which nobody gets an answer. Here a server that is away holds up
    nobody but who wants what it has.
    """

    def __init__(self, url: str, *, in_cluster: bool) -> None:
        self._url, self._in_cluster = url, in_cluster
        self._first = Node(url, None)
        self._nodes: dict[Address, Node] = {}
        self._slots: dict[int, Address] = {}
        """Who has which slot of a cluster, as far as is known."""
        self._looking = asyncio.Lock()

    def any(self) -> Node:
        """Return one that has not failed of late, if there is one."""
        known = [*self._nodes.values()] or [self._first]
        return min(known, key=lambda node: (node.failed_at, random()))  # noqa: S311

    async def execute(self, command: Sequence[Any]) -> Any:
        """Run a command where its key is; a part that is a function is called just before.

        Raises one of AWAY_ERRORS.
        """
        if not self._in_cluster:
            return await self._first.execute(command)
        slot = _slot_of(command[KEY_AT.get(command[0], 1)])
        asked: Address | None = None
        for _ in range(MOST_REDIRECTIONS):
            address = asked or await self._address_of(slot)
            try:
                return await self._node(address).execute(command, asks=bool(asked))
            except MovedError as error:
                self._slots[slot], asked = self._address(error, address), None
            except AskError as error:
                asked = self._address(error, address)
            except TryAgainError:
                await asyncio.sleep(TRY_AGAIN_SECONDS)
            except AWAY_ERRORS:
                self._slots.pop(slot, None)  # another one may have it by now
                raise
        raise ClusterDownError("CLUSTERDOWN its servers lead from one to another")

    async def node_of(self, key: str) -> Node:
        if not self._in_cluster:
            return self._first
        return self._node(await self._address_of(_slot_of(key)))

    def _address(self, error: AskError, asked: Address) -> Address:
        return error.host or asked[0], error.port

    def _node(self, address: Address) -> Node:
        if address not in self._nodes:
            self._nodes[address] = Node(self._url, address)
        return self._nodes[address]

    async def _address_of(self, slot: int) -> Address:
        """Return who has *slot*, which a server is asked for where it is not known."""
        if slot not in self._slots:
            async with self._looking:
                if slot not in self._slots:
                    await self._look(slot)
        return self._slots[slot]

    async def _look(self, slot: int) -> None:
        problem: BaseException = ClusterDownError("CLUSTERDOWN Hash slot not served")
        known = [self._first, *self._nodes.values()]
        for node in sorted(known, key=lambda node: node.failed_at):
            try:
                ranges = await node.execute(("CLUSTER", "SLOTS"))
            except AWAY_ERRORS as error:
                problem = error
                continue
            for first, last, *servers in ranges:
                addresses = [
                    (cast("bytes", host or b"").decode() or node.host, int(port))
                    for host, port, *_ in servers
                ]
                for address in addresses:
                    self._node(address)
                for each in range(first, last + 1):
                    self._slots[each] = addresses[0]
            if slot in self._slots:
                return
        raise problem

    async def aclose(self) -> None:
        for node in (self._first, *self._nodes.values()):
            with suppress(*AWAY_ERRORS):
                await asyncio.wait_for(node.client.aclose(), CALL_SECONDS)


def _slot_of(key: str) -> int:
    return key_slot(key.encode())


class Look:
    """Synchronous clients, while a ``with`` block lasts: of one server, and of all of a cluster.

    Raises ``ValueError`` if the URL is not one of redis-py's, else one of AWAY_ERRORS.
    """

    def __init__(self, url: str) -> None:
        try:
            self.one: Any = redis.Redis.from_url(url, **LIMITS)
            known = self.one.info("cluster")
        except TypeError as error:  # an option that redis-py does not know
            raise ValueError(str(error)) from None
        self.in_cluster = bool(known.get("cluster_enabled"))
        self.all: Any = (
            redis.RedisCluster.from_url(url, **LIMITS) if self.in_cluster else self.one
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.one.close()
        if self.in_cluster:
            self.all.close()
            # Which leaves the pools of its nodes open.
            for node in self.all.get_nodes():
                if node.redis_connection is not None:
                    node.redis_connection.connection_pool.disconnect()
