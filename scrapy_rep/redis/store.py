"""Snapshots in Redis: one fetch of a robots.txt serves all workers and spiders."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from scrapy_rep.exceptions import RedisStartError
from scrapy_rep.redis.bookings import RedisBookings
from scrapy_rep.redis.clients import AWAY_ERRORS, TIMEOUT_SECONDS, Script, end_task
from scrapy_rep.redis.fleet import RedisAwayError
from scrapy_rep.redis.keys import TOLD_CHANNEL, lease_key, snapshot_key
from scrapy_rep.redis.leases import Leases
from scrapy_rep.redis.quick import check_server
from scrapy_rep.redis.servers import Servers
from scrapy_rep.settings import DAY
from scrapy_rep.store import Store
from scrapy_rep.store.rows import MAX_ROW_SIZE, flatten, pack_body, read_row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from scrapy_rep.redis.fleet import Link
    from scrapy_rep.store import Snapshot

LISTEN_SECONDS = 10.0
"""Seconds after which a listener checks whether the store is closed."""
LARGE_OCTETS = 64 * 1024
"""Octets of a body beyond which a thread packs it: 512 KiB take 16 ms."""
NO_EXPIRY = -1
"""PTTL of a key that does not expire."""


class RedisStore(Store):
    """Keeps each snapshot under a key of its own, which expires when it is of no more use."""

    def __init__(self, crawler: Crawler) -> None:
        self._servers = Servers.of(crawler)
        self.bookings = RedisBookings(crawler)
        """Grants each start of a request."""
        self._read = Script.named("read")
        self._touch = Script.named("touch")
        self._write = Script.named("write")
        settings = self._servers.settings
        self._expiry = round((settings.unreachable_max + settings.max_age + DAY) * 1e3)
        self._wall_at_zero = time() - monotonic()
        self._waiters: dict[str, list[asyncio.Event]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._begin_to_listen = asyncio.Lock()
        self._leases = Leases(crawler)
        self._closed = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        store = cls(crawler)  # which says what is wrong with the settings
        try:
            check_server(crawler)
        except RedisStartError:
            # For an old Scrapy's command a crawl that has a spider has not failed.
            crawler.spider = None
            raise
        return store

    async def get(self, origin: str) -> Snapshot | None:
        key = snapshot_key(origin)
        while (link := self._servers.at(key)).pauses:
            await link.wait_until_back()
        await self._servers.meet(key)
        kept = await self._call(self._read, origin, MAX_ROW_SIZE)
        if kept is None:
            return None
        try:
            return self._snapshot(origin, *kept)
        except (ValueError, RecursionError) as error:
            # What a touch keeps must not be joined to it.
            await self._call("UNLINK", origin)
            raise ValueError(f"what Redis had is damaged: {error}") from error

    async def put(self, origin: str, snapshot: Snapshot) -> None:
        await self._servers.meet(snapshot_key(origin))
        row = await self._row(origin, snapshot)
        fields = [part for pair in row.items() for part in pair]
        await self._call(self._write, origin, self._expiry, *fields)

    async def touch(self, origin: str, snapshot: Snapshot) -> None:
        await self._servers.meet(snapshot_key(origin))
        row = await self._row(origin, snapshot)
        args = [
            *(row["status"], row["facts"], row["encoding"]),
            *(int(snapshot.stands_alone), self._expiry, row["body"]),
        ]
        with suppress(RedisAwayError):
            await self._servers.call(self._touch, [snapshot_key(origin)], args)

    async def close(self) -> None:
        self._closed = True
        task, self._listening = self._listening, None
        if task is not None:
            await end_task(task)

    @asynccontextmanager
    async def claim(self, origin: str) -> AsyncIterator[bool]:
        """Be the only worker that asks *origin*.

        The block is given whether another worker may have asked meanwhile, so that the store
        may know more. While Redis is away, each worker asks for itself.
        """
        lease, me = lease_key(origin), self._servers.me
        mine = False
        with suppress(RedisAwayError):
            while not (mine := await self._leases.take(lease, me)):
                await self._until_told(origin, lease)
                if self._closed:  # redis-py may have swallowed the cancellation
                    raise asyncio.CancelledError
        if not mine:
            yield False
            return
        try:
            # Even if we did not wait: another worker may have asked between our last look at
            # the store and our lease.
            yield True
        finally:
            await self._leases.give_back(lease, me, TOLD_CHANNEL, origin)

    async def _lease_left(self, lease: str) -> float:
        left: int = await self._servers.call("PTTL", [lease], [])
        if left == NO_EXPIRY:  # none of ours, and all would wait for it
            await self._servers.call("UNLINK", [lease], [])
        return left / 1e3

    async def _call(self, what: Script | str, origin: str, *args: Any) -> Any:
        """Run a script or a command on the key of *origin*; ``None``: Redis is away."""
        with suppress(RedisAwayError):
            return await self._servers.call(what, [snapshot_key(origin)], list(args))
        return None

    # Waiting for another worker

    async def _until_told(self, origin: str, lease: str) -> None:
        """Wait until the worker that has *lease* gives it back, or it expires."""
        told = asyncio.Event()
        self._waiters.setdefault(origin, []).append(told)
        try:
            await self._listen(lease)
            # It may have been given back before we listened; and of a lease that expires
            # we are not told.
            left = await self._lease_left(lease)
            if left > 0:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(told.wait(), left)
        finally:
            waiters = self._waiters[origin]
            waiters.remove(told)
            if not waiters:
                del self._waiters[origin]

    async def _listen(self, lease: str) -> None:
        async with self._begin_to_listen:  # one connection serves all who wait
            if self._listening is not None and not self._listening.done():
                return
            # In a cluster each server passes on what any one is told.
            link = self._servers.at(lease)
            channel: Any = link.client.pubsub()
            try:
                await channel.subscribe(TOLD_CHANNEL)
                # Only now the server will tell us of what comes.
                await channel.get_message(timeout=TIMEOUT_SECONDS)
            except AWAY_ERRORS as error:
                link.note_lost(error)
                with suppress(*AWAY_ERRORS):
                    await channel.aclose()
                raise RedisAwayError from error
            loop = asyncio.get_running_loop()
            self._listening = loop.create_task(self._hear(link, channel))

    async def _hear(self, link: Link, channel: Any) -> None:
        try:
            while not self._closed:  # redis-py may swallow the cancellation
                message = await channel.get_message(
                    ignore_subscribe_messages=True, timeout=LISTEN_SECONDS
                )
                if message is not None:
                    origin = message["data"].decode(errors="replace")
                    for told in self._waiters.get(origin, ()):
                        told.set()
        except AWAY_ERRORS as error:
            link.note_lost(error)
        finally:
            # Whoever waits looks for itself.
            for waiters in self._waiters.values():
                for told in waiters:
                    told.set()
            with suppress(*AWAY_ERRORS):
                await channel.aclose()

    # From what is in Redis, and to it

    def _snapshot(self, origin: str, *kept: bytes | None) -> Snapshot:
        """Return the snapshot that was read; raises ``ValueError`` if it is damaged."""
        if not kept:
            raise ValueError("it is something else, or too long")
        status, text, encoding, body = kept
        facts = json.loads(text or b"")
        if not isinstance(facts, dict) or f"{facts.get('status')}".encode() != status:
            raise ValueError("it has not the status that it says")
        charset = (encoding or b"").decode() or None
        return read_row(facts, charset, body, ahead=self._ahead(origin))

    def _ahead(self, origin: str) -> float:
        """Return by how many seconds its server's clock is ahead of this machine's."""
        offset = self._servers.at(snapshot_key(origin)).offset
        return 0.0 if offset is None else offset - self._wall_at_zero

    async def _row(self, origin: str, snapshot: Snapshot) -> Any:
        """Return the fields of the hash for *snapshot*; its times are by the server's clock."""
        facts, encoding, body = flatten(snapshot, ahead=self._ahead(origin))
        status = snapshot.status
        aside = len(body) > LARGE_OCTETS
        packed = await asyncio.to_thread(pack_body, body) if aside else pack_body(body)
        return {
            # In digits: before Python 3.11 str makes the name of an HTTPStatus of it.
            "status": str(None if status is None else int(status)),
            "facts": json.dumps(facts),
            "encoding": encoding or "",
            "body": packed,
        }
