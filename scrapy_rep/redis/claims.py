"""Which worker asks a host in trouble: one request at a time goes there, of all workers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING

from scrapy_rep.redis.clients import Script
from scrapy_rep.redis.fleet import RedisAwayError
from scrapy_rep.redis.keys import claim_key
from scrapy_rep.redis.servers import Servers

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

LEASE = 10.0
"""Seconds after which a worker that is dead keeps the others waiting no more."""
RENEWED_EVERY = 3.0


class Claims:
    """Each is one request's. While Redis is away every worker asks for itself."""

    def __init__(self, crawler: Crawler) -> None:
        self._servers = Servers.of(crawler)
        self._renew = Script.named("renew")
        self._release = Script.named("release")
        self._renewing: dict[str, asyncio.Task[None]] = {}

    async def take(self, host: str) -> str:
        """Return a claim to *host*, which is kept until ``give_back``; empty: it is taken."""
        claim = token_hex(8)
        try:
            args = [claim, "NX", "PX", round(LEASE * 1e3)]
            if not await self._servers.call("SET", [claim_key(host)], args):
                return ""
        except RedisAwayError:
            return claim
        keeping = self._keep(host, claim)
        self._renewing[claim] = asyncio.get_running_loop().create_task(keeping)
        return claim

    async def give_back(self, host: str, claim: str) -> None:
        renewing = self._renewing.pop(claim, None)
        if renewing is not None:
            renewing.cancel()
        with suppress(RedisAwayError):  # then it expires
            await self._servers.call(self._release, [claim_key(host)], [claim])

    async def _keep(self, host: str, claim: str) -> None:
        while claim in self._renewing:  # redis-py may swallow the cancellation
            await asyncio.sleep(RENEWED_EVERY)
            with suppress(RedisAwayError):
                args = [claim, round(LEASE * 1e3)]
                await self._servers.call(self._renew, [claim_key(host)], args)
