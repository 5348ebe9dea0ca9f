"""Snapshots of a fleet: one fetch of a robots.txt serves all workers and spiders."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy_rep.frontier.redis_server import AwayError
from scrapy_rep.settings import DAY
from scrapy_rep.store import Store, origin_of_key
from scrapy_rep.store.packed import pack, unpack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scrapy_rep.frontier.redis_server import Server
    from scrapy_rep.store import Snapshot

LARGE_OCTETS = 64 * 1024
"""Octets of a body beyond which a thread packs it: 512 KiB take 16 ms."""
LOOK_SECONDS = 0.2
"""How often a worker looks whether another one has asked an origin."""
RENEW_PART = 3


class FleetStore(Store):
    """Keeps each snapshot beside the requests of its host, until it is of no more use.

    While the server of a host is away, nobody asks for its robots.txt.
    """

    def __init__(self, server: Server, is_ending: Callable[[], bool]) -> None:
        """*is_ending* tells whether the crawl is ending, and so waits for nothing."""
        self._server, self._is_ending = server, is_ending
        settings = server.settings
        self._expiry = round((settings.unreachable_max + settings.max_age + DAY) * 1e3)
        self._claimed: dict[str, int] = {}
        """Hosts of which a robots.txt is being fetched, and how many files."""

    def fetched(self) -> set[str]:
        """Return the hosts of which a robots.txt is being fetched."""
        return set(self._claimed)

    async def get(self, origin: str) -> Snapshot | None:
        host = host_in(origin)
        try:
            row = await self._server.at_host(host, "GET", self._key(origin))
        except AwayError:
            return None
        if row is None:
            return None
        try:
            return unpack(origin, row, ahead=self._server.ahead)
        except ValueError as error:
            await self._server.at_host(host, "UNLINK", self._key(origin))
            raise ValueError(f"what Redis had is damaged: {error}") from error

    async def put(self, origin: str, snapshot: Snapshot) -> None:
        packing = partial(pack, origin, snapshot, ahead=self._server.ahead)
        body = b"" if snapshot.answer is None else snapshot.answer.body
        is_large = len(body) > LARGE_OCTETS
        row = await asyncio.to_thread(packing) if is_large else packing()
        args = [self._key(origin), row, "PX", self._expiry]
        with suppress(AwayError):  # another worker may ask once more
            await self._server.at_host(host_in(origin), "SET", *args)

    async def touch(self, origin: str, snapshot: Snapshot) -> None:
        """See ``Store``; nobody else writes it meanwhile, as only one has the claim."""
        try:
            kept = await self.get(origin)
        except ValueError:
            kept = None
        touched = snapshot.touching(kept)
        if touched is not None:
            await self.put(origin, touched)

    async def close(self) -> None:
        """Nothing is to be written; the scheduler closes the connections."""

    @asynccontextmanager
    async def claim(self, origin: str) -> AsyncIterator[bool]:
        """Be the only worker that asks *origin*; the block is given whether the store may know more.

        A worker that dies meanwhile delays the others by a lease.
        """
        host = host_in(origin)
        self._claimed[host] = self._claimed.get(host, 0) + 1
        key = self._server.key_at(host, f"asks:{origin}")
        renewing: Any = None
        try:
            while not await self._take(host, key):
                if self._is_ending():
                    raise asyncio.CancelledError
                await asyncio.sleep(LOOK_SECONDS)
            renewing = self._server.begin_task(self._renew(host, key))
            yield True  # another worker may have asked between our last look and the claim
        finally:
            if renewing is not None:
                renewing.cancel()
                self._server.begin_task(self._give_back(host, key))
            self._claimed[host] -= 1
            if not self._claimed[host]:
                del self._claimed[host]

    async def _take(self, host: str, key: str) -> bool:
        args = [key, self._server.me, "NX", "PX", round(self._server.lease * 1e3)]
        try:
            return bool(await self._server.at_host(host, "SET", *args))
        except AwayError:
            return False

    async def _renew(self, host: str, key: str) -> None:
        lease = self._server.lease
        while True:
            await asyncio.sleep(lease / RENEW_PART)
            try:
                args = [self._server.me, round(lease * 1e3)]
                await self._server.at_host(host, "lease", [key], args)
            except AwayError:
                continue

    async def _give_back(self, host: str, key: str) -> None:
        with suppress(AwayError):  # its lease ends by itself
            await self._server.at_host(host, "lease", [key], [self._server.me, 0])

    def _key(self, origin: str) -> str:
        return self._server.key_at(host_in(origin), f"robots:{origin}")


def host_in(origin: str) -> str:
    """Return the host of *origin*, or of the key of one of its variants."""
    try:
        return urlsplit(origin_of_key(origin)).hostname or ""
    except ValueError:
        return ""
