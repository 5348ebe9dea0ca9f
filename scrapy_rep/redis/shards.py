"""The shards of a fleet's queue; each has some of the hosts, and all that belongs to them."""

from __future__ import annotations

import asyncio
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


SHARDS_IN_A_CLUSTER = 16
"""Default number of shards for a new queue in a cluster of several servers."""
AGREE_SCRIPT = Script.named("shards")


def shards_of(quick: Quick, key: str, wanted: int | None = None) -> list[QueueKeys]:
    """Return the shards of the queue *key*; if it is new, it is made with *wanted* shards.

    ``None``: one, or SHARDS_IN_A_CLUSTER. Raises what redis-py does.
    """
    quick.look()
    if wanted is None:
        wanted = SHARDS_IN_A_CLUSTER if len(quick.topology.servers) > 1 else 1
    number = int(
        quick.call(AGREE_SCRIPT, shard_number_keys(key), [wanted, token_hex(8)])
    )
    return queue_keys(key, number, in_cluster=quick.topology.is_cluster)


class Shards:
    """All shards of a queue. Each host is in one shard, by the hash of its name."""

    def __init__(self, server: Any, crawler: Crawler, key: str) -> None:
        self.servers = Servers.of(crawler)
        self._log = self.servers.log
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
            self._log.warn_user(
                f"REP_REDIS_SHARDS is {wanted}, but the queue {key} was made with"
                f" {len(self.all)}: that stays"
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
        """Return how many requests wait or are with a worker, as was last heard."""
        return sum(shard.known_length for shard in self.all)

    def length(self) -> int:
        """Ask how many requests wait or are with a worker; if Redis is away, an old figure."""
        return sum(shard.length() for shard in self.all)

    def begin(self) -> None:
        """Look at all shards for the first time."""
        self.length()
        if hosts := sum(shard.blocked for shard in self.all):
            self._log.warn_user(
                f"An operator has blocked {counted(hosts, 'host')} of the queue {self._key}:"
                " what waits there stays, and the crawl does not end before that is purged or"
                " unblocked (scrapy robots fleet -h)"
            )

    def clear(self, at_a_time: int) -> None:
        """Delete all that waits, for all workers; and scrapy-redis' own queue, if any."""
        self.quick.call("DEL", [self._key])
        for shard in self.all:
            while shard.run("clear", [at_a_time]):
                pass

    async def is_empty(self) -> bool:
        """Tell whether no request waits in any shard, or is with a worker.

        A request with a worker may lead to new ones in another shard. So we look at all
        shards twice: if nothing was queued in between, all were empty at the same moment.
        """
        first = await self._look()
        return first is not None and first == await self._look()

    async def _look(self) -> list[int] | None:
        """Return how many requests were ever queued, by shard; ``None``: some may be left."""
        found = await asyncio.gather(*(shard.look() for shard in self.all))
        if any(queued is None for queued in found):
            return None
        return [queued for queued in found if queued is not None]

    async def agree(self) -> None:
        """Tell the server the number of shards again, in case it has lost it."""
        if len(self.all) > 1:
            keys = shard_number_keys(self._key)
            try:
                await self.servers.call(AGREE_SCRIPT, keys, [len(self.all), ""])
            except RedisAwayError:
                return
