"""Leases in Redis: who has one keeps the others from what it is for, as long as it lives."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy_rep.redis.clients import Script
from scrapy_rep.redis.fleet import RedisAwayError
from scrapy_rep.redis.servers import Servers

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

LEASE_SECONDS = 10.0
"""Seconds after which a worker that is dead keeps the others waiting no more."""


class Leases:
    """Those of a crawl. Each has a key, which is there while anybody has it, and an owner."""

    def __init__(self, crawler: Crawler) -> None:
        self._servers = Servers.of(crawler)
        self._renew = Script.named("renew")
        self._release = Script.named("release")
        self.renewing: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def take(self, key: str, owner: str) -> bool:
        """Tell whether *owner* has the lease now, and until ``give_back``.

        Raises ``RedisAwayError``.
        """
        args = [owner, "NX", "PX", round(LEASE_SECONDS * 1e3)]
        if not await self._servers.call("SET", [key], args):
            return False
        keeping = self._keep(key, owner)
        self.renewing[key, owner] = asyncio.get_running_loop().create_task(keeping)
        return True

    async def give_back(self, key: str, owner: str, *told: str) -> None:
        """Let others have it, if it is the owner's; *told*: a channel, and what it is told."""
        if renewing := self.renewing.pop((key, owner), None):
            renewing.cancel()
        with suppress(RedisAwayError):  # then it expires
            await self._servers.call(self._release, [key], [owner, *told])

    async def _keep(self, key: str, owner: str) -> None:
        while (key, owner) in self.renewing:  # redis-py may swallow the cancellation
            await asyncio.sleep(LEASE_SECONDS / 3)
            with suppress(RedisAwayError):
                args = [owner, round(LEASE_SECONDS * 1e3)]
                await self._servers.call(self._renew, [key], args)
