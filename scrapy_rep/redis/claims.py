"""Which worker asks a host in trouble: one request at a time goes there, of all workers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from scrapy_rep.redis.clients import script
from scrapy_rep.redis.fleet import Link, RedisAwayError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

LEASE = 10.0
"""Seconds after which a worker that is dead keeps the others waiting no more."""
RENEWED_EVERY = 3.0


class Claims:
    """Each is one request's. While Redis is away every worker asks for itself."""

    def __init__(self, crawler: Crawler) -> None:
        self._link = Link.of(crawler)
        self._renew = self._link.client.register_script(script("renew"))
        self._release = self._link.client.register_script(script("release"))
        self._renewing: dict[str, asyncio.Task[None]] = {}

    async def take(self, host: str) -> str:
        """Return a claim to *host*, which is kept until ``give_back``; empty: it is taken."""
        claim = token_hex(8)
        try:
            if not await self._link.call(self._take, [_key(host)], [claim]):
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
            await self._link.call(self._release, [_key(host)], [claim])

    async def _take(self, keys: list[str], args: list[Any]) -> bool:
        px = round(LEASE * 1e3)
        return bool(await self._link.client.set(keys[0], args[0], nx=True, px=px))

    async def _keep(self, host: str, claim: str) -> None:
        while claim in self._renewing:  # redis-py may swallow the cancellation
            await asyncio.sleep(RENEWED_EVERY)
            with suppress(RedisAwayError):
                args = [claim, round(LEASE * 1e3)]
                await self._link.call(self._renew, [_key(host)], args)


def _key(host: str) -> str:
    return f"rep:{{{host}}}:asked"
