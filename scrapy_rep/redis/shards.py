"""The shards of a fleet's queue, each of which has its hosts and all that belongs to them."""

from __future__ import annotations

import asyncio
import logging
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from scrapy_rep.exceptions import RedisStartError
from scrapy_rep.protocol.printable import counted
from scrapy_rep.redis.backlog import Backlog
from scrapy_rep.redis.clients import AWAY_ERRORS, Script, refusal_of
from scrapy_rep.redis.fleet import RedisAwayError
from scrapy_rep.redis.keys import QueueKeys, queue_keys, shard_number_keys, shard_of
from scrapy_rep.redis.quick import Quick
from scrapy_rep.redis.servers import Servers

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger("scrapy_rep")

SHARDS_IN_A_CLUSTER = 16
"""Shards of a queue that is made in a cluster of several servers, if nobody says else."""
AGREE_SCRIPT = Script.named("shards")


def shards_of(quick: Quick, key: str, wanted: int | None = None) -> list[QueueKeys]:
    """Return the shards of the queue *key*, which is made with *wanted*, if it is new.

    ``None``: one, or SHARDS_IN_A_CLUSTER. Raises what redis-py does where the server is away.
    """
    quick.look()
    if wanted is None:
        wanted = SHARDS_IN_A_CLUSTER if len(quick.topology.servers) > 1 else 1
    number = int(
        quick.call(AGREE_SCRIPT, shard_number_keys(key), [wanted, token_hex(8)])
    )
    return queue_keys(key, number, in_cluster=quick.topology.is_cluster)


class Shards:
    """All that waits or is with a worker. A host is in one shard, by the hash of its name."""

    def __init__(self, server: Any, crawler: Crawler, key: str) -> None:
        self._crawler = crawler
        self.servers = Servers.of(crawler)
        self.quick = Quick(server)
        self._key = key
        wanted = self.servers.settings.redis_shards
        try:
            names = shards_of(self.quick, key, wanted)
        except AWAY_ERRORS as error:
            why = refusal_of(error) or f"it cannot be had: {error}"
            raise RedisStartError(str(self.quick.topology.first), why) from None
        self.all = [Backlog(self.quick, crawler, one) for one in names]
        if wanted not in {None, len(self.all)}:
            logger.warning(
                "REP_REDIS_SHARDS is %d, but the queue %s was made with %d: that stays",
                *(wanted, key, len(self.all)),
                extra={"spider": crawler.spider},
            )

    def __len__(self) -> int:
        return len(self.all)

    def number_of(self, host: str) -> int:
        """Return which shard has *host*, or a line of it."""
        return shard_of(host, len(self.all)) if len(self.all) > 1 else 0

    @property
    def has_lost(self) -> bool:
        """Tell whether requests were lost since this crawl began."""
        return any(shard.has_lost for shard in self.all)

    @property
    def known_length(self) -> int:
        """Return how many requests are said to wait or to be with a worker."""
        return sum(shard.known_length for shard in self.all)

    def length(self) -> int:
        """Return how many do; an old figure if need be."""
        return sum(shard.length() for shard in self.all)

    def begin(self) -> None:
        """Look at them for the first time."""
        self.length()
        if hosts := sum(shard.blocked for shard in self.all):
            logger.warning(
                "An operator has blocked %s of the queue %s: what waits there stays, and the"
                " crawl does not end before that is purged or unblocked (scrapy robots"
                " --fleet)",
                *(counted(hosts, "host", "hosts"), self._key),
                extra={"spider": self._crawler.spider},
            )

    def clear(self, at_a_time: int) -> None:
        """Delete all that waits, for all workers; and scrapy-redis' own queue, if any."""
        self.quick.call("DEL", [self._key])
        for shard in self.all:
            while shard.run("clear", [at_a_time]):
                pass

    async def is_empty(self) -> bool:
        """Look whether nothing waits anywhere, nor is with any worker.

        What is with a worker may bring forth more in another shard. So each shard is looked
        at twice, all of them between: where nothing was queued meanwhile, all were empty at
        that moment.
        """
        first = await self._look()
        return first is not None and first == await self._look()

    async def _look(self) -> list[int] | None:
        """Return how many were ever queued in each; ``None``: there may be some left."""
        found = await asyncio.gather(*(shard.look() for shard in self.all))
        if any(queued is None for queued in found):
            return None
        return [queued for queued in found if queued is not None]

    async def agree(self) -> None:
        """Have a server that has forgotten the number of shards know it again."""
        if len(self.all) > 1:
            keys = shard_number_keys(self._key)
            try:
                await self.servers.call(AGREE_SCRIPT, keys, [len(self.all), ""])
            except RedisAwayError:
                return
