"""Snapshots of a fleet: one fetch of a robots.txt serves all workers and spiders."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy_rep.frontier.redis_server import AwayError
from scrapy_rep.settings import DAY
from scrapy_rep.store import Store, origin_of_key
from scrapy_rep.store.rows import MAX_ROW_SIZE, flatten, pack_body, read_row

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
            return self._snapshot(row)
        except (ValueError, TypeError, RecursionError) as error:
            await self._server.at_host(host, "UNLINK", self._key(origin))
            raise ValueError(f"what Redis had is damaged: {error}") from error

    async def put(self, origin: str, snapshot: Snapshot) -> None:
        row = await self._row(snapshot)
        args = [self._key(origin), row, "PX", self._expiry]
        with suppress(AwayError):  # another worker may ask once more
            await self._server.at_host(host_in(origin), "SET", *args)

    async def touch(self, origin: str, snapshot: Snapshot) -> None:
        """See ``Store``; nobody else writes it meanwhile, as only one has the claim."""
        try:
            kept = await self.get(origin)
        except ValueError:
            kept = None
        if kept is None:
            if snapshot.stands_alone:
                await self.put(origin, snapshot)
        elif kept.status == snapshot.status:
            answer, known = snapshot.answer, kept.answer
            if answer is not None and known is not None:
                answer = answer._replace(body=known.body, encoding=known.encoding)
            await self.put(origin, snapshot._replace(answer=answer))

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

    # From what is in Redis, and to it

    def _key(self, origin: str) -> str:
        return self._server.key_at(host_in(origin), f"robots:{origin}")

    def _snapshot(self, row: bytes) -> Snapshot:
        """Return the snapshot that was read; raises ``ValueError`` if it is damaged."""
        if len(row) > MAX_ROW_SIZE:
            raise ValueError("it is too long")
        head, _, body = row.partition(b"\n")
        known = json.loads(head)
        if (
            not isinstance(known, list)
            or len(known) != 2
            or not isinstance(known[0], dict)
        ):
            raise ValueError("it is something else")
        return read_row(known[0], known[1], body, ahead=self._server.ahead)

    async def _row(self, snapshot: Snapshot) -> bytes:
        """Return *snapshot* as octets; its times are by the server's clock."""
        facts, encoding, body = flatten(snapshot, ahead=self._server.ahead)
        if facts["status"] is not None:
            facts["status"] = int(facts["status"])
        aside = len(body) > LARGE_OCTETS
        packed = await asyncio.to_thread(pack_body, body) if aside else pack_body(body)
        return json.dumps([facts, encoding]).encode() + b"\n" + packed


def host_in(origin: str) -> str:
    """Return the host of *origin*, or of the key of one of its variants."""
    try:
        return urlsplit(origin_of_key(origin)).hostname or ""
    except ValueError:
        return ""
