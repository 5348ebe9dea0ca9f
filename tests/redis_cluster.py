"""A real Redis Cluster for a test, each of whose servers a test may kill and start again."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import redis
from redis.crc import key_slot

from tests.fleet import until
from tests.redis_server import RedisServer

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

SLOTS = 2**14
OPTIONS = (
    *("--cluster-node-timeout", "1000"),
    *("--cluster-require-full-coverage", "no"),
)
NUMBER = 3


class Cluster:
    """So many masters, each with as many slots as the others."""

    def __init__(self, folder: Path) -> None:
        own = [folder / str(n) for n in range(NUMBER)]
        for each in own:
            each.mkdir()
        self.servers = [RedisServer(each, *OPTIONS, cluster=True) for each in own]
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        return self.servers[0].url

    def __enter__(self) -> Self:
        for server in self.servers:
            self._stack.enter_context(server)
        first, *others = self.servers
        for n, server in enumerate(self.servers):
            ask(server, "SET-CONFIG-EPOCH", n + 1)
            ask(
                server,
                "ADDSLOTS",
                *range(n * SLOTS // NUMBER, (n + 1) * SLOTS // NUMBER),
            )
        for other in others:
            ask(first, "MEET", "127.0.0.1", other.port)
        is_whole = lambda: all(map(self._is_whole, self.servers))
        until(is_whole, "the cluster does not come together")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _is_agreed(self) -> bool:
        """Tell whether all know of each other's last slots."""
        told = [
            sorted((node["node_id"], node["epoch"]) for node in nodes.values())
            for nodes in (ask(server, "NODES") for server in self.servers)
        ]
        return all(known == told[0] for known in told)

    def _is_whole(self, server: RedisServer) -> bool:
        try:
            info = ask(server, "INFO")
            nodes = ask(server, "NODES")
        except redis.ConnectionError:
            return False
        whole = info["cluster_slots_ok"] == str(SLOTS) and info["cluster_state"] == "ok"
        return whole and len(nodes) == NUMBER

    def owner(self, key: str) -> RedisServer:
        """Return who has *key* now."""
        slot = key_slot(key.encode())
        for server in self.servers:
            if server.process is None:
                continue
            (mine,) = [
                n for n in ask(server, "NODES").values() if "myself" in n["flags"]
            ]
            ranges = [range(int(a), int(b) + 1) for a, b in _pairs(mine["slots"])]
            if any(slot in some for some in ranges):
                return server
        raise AssertionError(f"nobody has {key}")

    def move(self, key: str) -> None:
        """Have the slot of *key* go from its server to another one, some keys at a time."""
        slot, source = key_slot(key.encode()), self.owner(key)
        target = self.servers[(self.servers.index(source) + 1) % NUMBER]
        ask(target, "SETSLOT", slot, "IMPORTING", ask(source, "MYID").decode())
        ask(source, "SETSLOT", slot, "MIGRATING", ask(target, "MYID").decode())
        to = "127.0.0.1", target.port, "", 0, 5000, "KEYS"
        while keys := ask(source, "GETKEYSINSLOT", slot, 10):
            source.client.execute_command("MIGRATE", *to, *keys)
        for server in (target, source, *self.servers):
            ask(server, "SETSLOT", slot, "NODE", ask(target, "MYID").decode())
        # One that gives a slot away before the others have heard that it was given another
        # one may still be believed to have both. Then Redis deletes the keys.
        until(self._is_agreed, "the servers do not agree who has what")


def ask(server: RedisServer, what: str, *args: object) -> Any:
    return server.client.execute_command(f"CLUSTER {what}", *args)


def _pairs(ranges: list[list[str]]) -> list[tuple[str, str]]:
    return [(found[0], found[-1]) for found in ranges if "->" not in found[0]]
