"""The names of all keys in Redis, and how a queue is cut into shards.

All that one script touches is in one slot of a cluster: names that begin with the same
words in braces are. ``lua/common.lua`` says what is under which key of a queue.
"""

from __future__ import annotations

import re
from itertools import count
from struct import pack
from time import time_ns
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from redis.crc import REDIS_CLUSTER_HASH_SLOTS as SLOTS
from redis.crc import key_slot

if TYPE_CHECKING:
    from collections.abc import Iterable

QUEUE_KEY_NAMES = (
    *("due", "later", "pace", "count", "workers", "clock", "idle", "epoch"),
    # Never there. A server refuses a script of which it lacks a key while it gives a slot
    # away, or is given one; else a script would find a part of what it needs, and stop
    # half way.
    "nothing",
)
ID_LENGTH = 16
"""Octets before a request that make it one of its kind."""
HEALTH_KEYS = ["rep:{fleet}:health", "rep:{fleet}:health:changed"]
TOLD_CHANNEL = "rep:{fleet}:told"
"""The channel on which workers tell each other that an origin has been asked."""


class QueueKeys(NamedTuple):
    """One shard of a queue."""

    prefix: str
    """With which all its keys begin."""
    fixed: list[str]
    """Those of QUEUE_KEY_NAMES, in that order."""
    in_cluster: bool

    def of_filter(self, key: str) -> str:
        """Return where its fingerprints are; *key* is scrapy-redis' own.

        In the same slot as the rest; where there are no slots, as scrapy-redis has it.
        """
        return self.prefix + key if self.in_cluster else key


def queue_keys(
    key: str, shards: int = 1, *, in_cluster: bool = False
) -> list[QueueKeys]:
    """Return the keys of the queue *key* (``myspider:requests``), shard by shard.

    One that is not cut has ``{key}:`` before each name, and a shard ``{key:n}:``. The
    numbers are chosen so that the slots of the shards lie evenly apart: a cluster whose
    servers have equal ranges of slots has as many shards on each, but for one.
    """
    tags = [key] if shards == 1 else _tags(key, shards)
    prefixes = [f"{{{tag}}}:" for tag in tags]
    return [
        QueueKeys(
            prefix,
            [prefix + name for name in QUEUE_KEY_NAMES],
            in_cluster or shards > 1,
        )
        for prefix in prefixes
    ]


def _tags(key: str, shards: int) -> list[str]:
    key = key.replace("{", "(").replace("}", ")")  # else those would be the braces
    found: dict[int, str] = {}
    for number in count():
        tag = f"{key}:{number}"
        found.setdefault(slot_of(tag) * shards // SLOTS, tag)
        if len(found) == shards:
            break
    return [found[part] for part in range(shards)]


def shard_number_keys(key: str) -> list[str]:
    """Return where the number of shards is, and what a queue has that is not cut."""
    prefix = f"{{{key}}}:"
    names = ("shards", "due", "later", "count", "workers", "epoch")
    return [prefix + name for name in names]


def shard_of(host: str, shards: int) -> int:
    """Return the number of the shard that has *host*, or a line of it; the first is 0."""
    return crc32(host.partition("\n")[0].encode()) % shards


def slot_of(key: str) -> int:
    return key_slot(key.encode())


def fleet_keys(slots: Iterable[int] | None = None) -> list[str]:
    """Return where the workers of one server are, by lease and by name.

    Each server of a cluster has its own, in one of its *slots*.
    """
    mine = None if slots is None else set(slots)
    for number in count(-1):
        tag = "fleet" if number < 0 else f"fleet:{number}"
        if mine is None or slot_of(tag) in mine:
            break
    return [f"rep:{{{tag}}}:workers", f"rep:{{{tag}}}:names"]


# Of a host, or an origin


def start_key(host: str) -> str:
    return f"rep:{{{host}}}:start"


def parked_key(host: str) -> str:
    return f"rep:{{{host}}}:parked"


def latency_key(host: str) -> str:
    return f"rep:{{{host}}}:latency"


def claim_key(host: str) -> str:
    return f"rep:{{{host}}}:asked"


def spent_key(host: str, spider: str) -> str:
    return f"rep:{{{host}}}:spent:{spider}"


def snapshot_key(origin: str) -> str:
    return f"rep:{{{origin}}}:robots"


def lease_key(origin: str) -> str:
    return f"{snapshot_key(origin)}:asking"


def pattern(prefix: str, name: str = "*") -> str:
    """Return the pattern by which SCAN finds keys that begin with *prefix*."""
    return literally(prefix) + name


def literally(text: str) -> str:
    """Return *text* as a pattern that matches it alone."""
    return re.sub(r"([\\*?\[\]])", r"\\\1", text)


def hosts_and_workers(names: Iterable[bytes]) -> list[bytes | int]:
    """Return how many hosts *names* of keys tell of, those, and the workers.

    The prefix is not part of a name.
    """
    all_ = list(names)
    hosts = [name[5:] for name in all_ if name.startswith(b"host:")]
    workers = (name[4:] for name in all_ if name.startswith(b"out:"))
    return [len(hosts), *hosts, *workers]


def as_member(request: bytes | str, serial: int) -> bytes:
    """Return *request*, serialized, as it is queued.

    Among equals the first comes first: the clocks of the workers order them well enough.
    """
    data = request.encode() if isinstance(request, str) else request
    return pack(">QQ", time_ns(), serial) + data
