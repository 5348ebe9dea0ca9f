"""Which server of a Redis Cluster has which key. No I/O: the caller brings the answers."""

from __future__ import annotations

from typing import Any, NamedTuple

from redis.crc import REDIS_CLUSTER_HASH_SLOTS as SLOTS

from scrapy_rep.redis.keys import slot_of


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Topology:
    """The servers that have slots, as far as is known; or the one server that has all keys."""

    def __init__(self, first: Address) -> None:
        self.first = first
        """The server that the settings name."""
        self._owners: list[Address] = []
        """The server of each slot; empty: there is no cluster."""
        self.servers = {first}
        """All servers that have a slot."""

    @property
    def is_cluster(self) -> bool:
        return bool(self._owners)

    def owner(self, key: str) -> Address:
        return self._owners[slot_of(key)] if self._owners else self.first

    def slots(self, address: Address) -> list[int] | None:
        """Return the slots that *address* has; ``None``: there is no cluster."""
        if not self._owners:
            return None
        return [slot for slot, owner in enumerate(self._owners) if owner == address]

    def read(self, answer: Any, asked: Address) -> dict[Address, set[Address]]:
        """Note what the server *asked* has answered to ``CLUSTER SLOTS``.

        Returns server -> the servers that it has taken slots over from. A slot that the answer
        leaves out stays where it was.
        """
        before = self._owners
        owners = list(before) or [asked] * SLOTS
        for first, last, (host, port, *_), *_replicas in answer:
            name = host.decode() if isinstance(host, bytes) else host
            owner = Address(name or asked.host, int(port))
            owners[int(first) : int(last) + 1] = [owner] * (int(last) + 1 - int(first))
        self._owners, self.servers = owners, set(owners)
        moved: dict[Address, set[Address]] = {}
        for new, old in zip(owners, before):  # noqa: B905 - there may be none before
            if new != old:
                moved.setdefault(new, set()).add(old)
        return moved

    def move(self, slot: int, address: Address) -> None:
        """Note that a server has said that *address* has *slot*."""
        self._owners[slot] = address
        self.servers.add(address)
