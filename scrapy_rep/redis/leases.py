"""Leases in Redis: the worker that has one excludes the others, for as long as it lives."""

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
"""Seconds after which a dead worker no longer keeps the others waiting."""


class Leases:
    """The leases of a crawl. Each has an owner, and a key that exists while it is taken."""

    def __init__(self, crawler: Crawler) -> None:
        self._servers = Servers.of(crawler)
        self._renew = Script.named("renew")
        self._release = Script.named("release")
        self.renewing: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def take(self, key: str, owner: str) -> bool:
        """Take the lease for *owner* until ``give_back``; ``False``: another one has it.

        Raises ``RedisAwayError``.
        """
        args = [owner, "NX", "PX", round(LEASE_SECONDS * 1e3)]
        if not await self._servers.call("SET", [key], args):
            return False
        keeping = self._keep(key, owner)
        self.renewing[key, owner] = asyncio.get_running_loop().create_task(keeping)
        return True

    async def give_back(self, key: str, owner: str, *told: str) -> None:
        """Release the lease if it is *owner*'s; *told*: a channel, and a message for it."""
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
