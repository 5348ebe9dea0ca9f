"""The names of all keys in Redis, and how a queue is cut into shards.

All keys that one script touches are in one slot of a cluster, as their names begin with the same
words in braces. ``lua/common.lua`` says what each key of a queue holds.
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
    # A key that never exists. While a slot moves, a server refuses a script if it lacks one
    # of its keys; else a script could find only some of its keys, and stop half way.
    "nothing",
)
ID_LENGTH = 16
"""Octets before a serialized request that make it unique."""
HEALTH_KEYS = ["rep:{fleet}:health", "rep:{fleet}:health:changed"]
TOLD_CHANNEL = "rep:{fleet}:told"
"""The channel on which workers tell each other that an origin has been asked."""


class QueueKeys(NamedTuple):
    """One shard of a queue."""

    prefix: str
    """All its keys begin with this."""
    fixed: list[str]
    """The keys of QUEUE_KEY_NAMES, in that order."""
    in_cluster: bool

    def of_filter(self, key: str) -> str:
        """Return the key of its fingerprints; *key* is scrapy-redis' own.

        In a cluster it is in the same slot as the rest; else it is scrapy-redis' own.
        """
        return self.prefix + key if self.in_cluster else key


def queue_keys(
    key: str, shards: int = 1, *, in_cluster: bool = False
) -> list[QueueKeys]:
    """Return the keys of the queue *key* (``myspider:requests``), shard by shard.

    With one shard each name begins with ``{key}:``, with several with ``{key:n}:``. The
    numbers n are chosen so that the slots of the shards lie evenly apart: if the servers of a
    cluster have equal ranges of slots, their numbers of shards differ by one at the most.
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
    """Return the key of the number of shards, and those of a queue that is not cut."""
    prefix = f"{{{key}}}:"
    names = ("shards", "due", "later", "count", "workers", "epoch")
    return [prefix + name for name in names]


def shard_of(host: str, shards: int) -> int:
    """Return the number of the shard that has *host*, or a line of it; the first is 0."""
    return crc32(host.partition("\n")[0].encode()) % shards


def slot_of(key: str) -> int:
    return key_slot(key.encode())


def fleet_keys(slots: Iterable[int] | None = None) -> list[str]:
    """Return the two keys with the workers of one server, by lease and by name.

    Each server of a cluster has keys of its own, in one of its *slots*.
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
    """Return the number of hosts in *names* of keys, the hosts, and the workers.

    The names come without the prefix of the queue.
    """
    all_ = list(names)
    hosts = [name[5:] for name in all_ if name.startswith(b"host:")]
    workers = (name[4:] for name in all_ if name.startswith(b"out:"))
    return [len(hosts), *hosts, *workers]


def as_member(request: bytes | str, serial: int) -> bytes:
    """Return a serialized *request* in the form that is queued.

    Of requests with equal priority the first comes first, by the clocks of the workers.
    """
    data = request.encode() if isinstance(request, str) else request
    return pack(">QQ", time_ns(), serial) + data
