"""Moves requests from scrapy-redis' own queue to ours."""

from __future__ import annotations

import math
from typing import Any
from urllib.parse import urlsplit

from scrapy_redis import picklecompat
from scrapy_redis.defaults import SCHEDULER_QUEUE_KEY

from scrapy_rep.redis.clients import Script
from scrapy_rep.redis.keys import as_member, shard_of
from scrapy_rep.redis.quick import Quick
from scrapy_rep.redis.shards import shards_of

REQUESTS_PER_CALL = 100
NOTHING_ELSE = (0, 0, 0)
"""For put.lua: no requests wanted, none done, no hosts told of."""


def take_over(
    server: Any,
    spider: str,
    *,
    key: str = SCHEDULER_QUEUE_KEY,
    serializer: Any = picklecompat,
    shards: int | None = None,
) -> int:
    """Move the requests in scrapy-redis' ``PriorityQueue`` of *spider* to ``PoliteQueue``.

    Call it once, while no worker runs; it returns how many requests were moved. If it is
    interrupted, call it again: a request may then be queued twice, but none is lost.
    *server* is what ``scrapy_redis.get_redis_from_settings`` returns, *key* and *serializer*
    are SCHEDULER_QUEUE_KEY and SCHEDULER_SERIALIZER, *shards* is REP_REDIS_SHARDS, and
    ``None`` its default. Raises ``TypeError`` if *key* holds a ``FifoQueue`` or
    ``LifoQueue``.
    """
    key %= {"spider": spider}
    quick = Quick(server, math.inf)
    queue = shards_of(quick, key, shards)
    server = quick.at(key)
    kind = server.type(key)
    if kind not in {b"zset", b"none", "zset", "none"}:
        raise TypeError(f"{key} is a Redis {kind!r}, expected a PriorityQueue's zset")
    put = Script.named("put", after="common")
    moved = 0
    while found := server.zrange(key, 0, REQUESTS_PER_CALL - 1, withscores=True):
        by_shard: dict[int, list[Any]] = {}
        for data, score in found:
            request = serializer.loads(data)
            host = request["meta"].get("download_slot")
            host = host or urlsplit(request["url"]).hostname or ""
            args = by_shard.setdefault(shard_of(host, len(queue)), [])
            args += [host, score, as_member(data, moved), ""]
            moved += 1
        for number, args in by_shard.items():
            prefix, keys, _ = queue[number]
            quick.call(put, keys, [prefix, "", 0, "", *NOTHING_ELSE, *args])
        server.zrem(key, *(data for data, _ in found))
    quick.close()
    return moved
