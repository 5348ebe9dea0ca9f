"""The Redis servers of a crawl: one that has all keys, or those of a cluster."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
from contextlib import suppress
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from redis.exceptions import AskError, MovedError
from scrapy import signals
from scrapy.utils.asyncio import is_asyncio_available

from scrapy_rep.crawl import Crawl
from scrapy_rep.exceptions import SettingError
from scrapy_rep.redis.clients import (
    AWAY_ERRORS,
    MOVE_RETRY_SECONDS,
    MOVE_TRIES,
    address_of,
    client,
    client_at,
    is_in_motion,
    moved_to,
    slots_known_to,
)
from scrapy_rep.redis.fleet import Link, RedisAwayError
from scrapy_rep.redis.keys import slot_of
from scrapy_rep.redis.topology import Address, Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.crawler import Crawler

    from scrapy_rep.redis.clients import Script

logger = logging.getLogger("scrapy_rep")

STUCK_SECONDS = 30.0
"""Seconds after which a slot that no server serves is an error."""


class Servers:
    """One for each crawl, shared by all that use Redis in it.

    Each server may be away by itself. A cluster is asked which server has which keys at the
    start, whenever a key has moved, and while a server is away, as another one may have taken
    over from it.
    """

    # Weak on both sides: it holds its crawler, and those who use it hold it.
    _known: WeakKeyDictionary[Crawler, ReferenceType[Servers]] = WeakKeyDictionary()

    def __init__(self, crawler: Crawler) -> None:
        if not is_asyncio_available():
            raise SettingError(
                "TWISTED_REACTOR",
                crawler.settings.get("TWISTED_REACTOR"),
                "the asyncio reactor, or none, where Redis is used",
            )
        self.crawler = crawler
        self._crawl = Crawl.of(crawler)  # which lives for as long as it is held
        self.settings, self.log = self._crawl.settings, self._crawl.log
        self.me = f"{socket.gethostname()}-{os.getpid()}-{token_hex(4)}"
        self._client = client(crawler.settings)
        self.topology = Topology(address_of(self._client))
        self.first = Link(self, self._client)
        """The server that the settings name."""
        self._links = {self.first.address: self.first}
        self._made = [self.first]
        self._asked = False
        self._is_looking = False
        self._stuck: dict[int, float] = {}
        """Slots that were still moving after MOVE_TRIES calls, and since when."""
        self._closed = False
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        # After the store has given back its leases.
        crawler.signals.connect(self.close, signals.engine_stopped)

    @classmethod
    def of(cls, crawler: Crawler) -> Servers:
        """Return the servers of *crawler*, which live for as long as anything holds them.

        Raises ``SettingError`` without an asyncio event loop, which the clients need.
        """
        known = cls._known.get(crawler)
        servers = None if known is None else known()
        if servers is None:
            servers = cls(crawler)
            cls._known[crawler] = ref(servers)
        return servers

    @property
    def all(self) -> list[Link]:
        return [self._link(address) for address in self.topology.servers]

    def at(self, key: str) -> Link:
        """Return the link to the server that has *key*, as far as is known."""
        return self._link(self.topology.owner(key))

    async def call(
        self, what: Script | str, keys: Sequence[str], args: Sequence[Any]
    ) -> Any:
        """Run a script or a command; raises ``RedisAwayError`` if the server cannot be had.

        Raises what redis-py does if the script says that the server has lost data.
        """
        if not self._asked:
            await self.first.meet()
        slot = slot_of(keys[0]) if self.topology.is_cluster else 0
        for _ in range(1 if slot in self._stuck else MOVE_TRIES):
            try:
                answer = await self._call(self.at(keys[0]), what, keys, args)
            except AWAY_ERRORS as error:  # noqa: PERF203
                if not is_in_motion(error):
                    raise
                if isinstance(error, MovedError):
                    self.topology.move(*moved_to(error, self.first.address))
                    await self.look()
                    continue
                await asyncio.sleep(MOVE_RETRY_SECONDS)
            else:
                self._stuck.pop(slot, None)
                return answer
        self._note_stuck(slot)
        raise RedisAwayError

    def _note_stuck(self, slot: int) -> None:
        """Note that *slot* is still moving, so that the next calls to it do not wait long."""
        now = monotonic()
        if slot not in self._stuck:
            self.log.tell_user(
                f"Redis moves the keys of the slot {slot}: what is there waits until it has"
            )
        if now - self._stuck.setdefault(slot, now) > STUCK_SECONDS:
            self._stuck[slot] = math.inf  # once is enough
            text = (
                "No server of the Redis Cluster has answered for the slot %d within %d s:"
                " what is there waits. Unless it is still being moved, redis-cli --cluster"
                " check says what is wrong with it, and fix mends it"
            )
            extra = {"spider": self.crawler.spider}
            logger.error(text, slot, STUCK_SECONDS, extra=extra)

    async def _call(self, link: Link, *what: Any) -> Any:
        try:
            return await link.call(*what)
        except MovedError:
            raise
        except AskError as error:
            _, address = moved_to(error, link.address)
            return await self._link(address).call(*what, asking=True)

    async def meet(self, key: str) -> Link:
        """Wait until we know which server has *key*, and whether it is there."""
        await self.first.meet()
        link = self.at(key)
        await link.meet()
        return link

    async def meet_with(self, link: Link) -> None:
        """Ask *link*, the first server that we reach, which server has which keys."""
        if not self._asked:
            answer = await slots_known_to(link.client)
            self._asked = True
            if answer is not None:
                self._note(self.topology.read(answer, link.address))

    async def look(self) -> None:
        """Ask any server that is there which server has which keys."""
        if self._is_looking:
            return  # another call does
        self._is_looking = True
        try:
            for link in [*(link for link in self.all if link.up), self.first]:
                with suppress(*AWAY_ERRORS):
                    answer = await link.slots()
                    if answer:
                        self._note(self.topology.read(answer, link.address))
                        return
        finally:
            self._is_looking = False

    def _note(self, moved: dict[Address, set[Address]]) -> None:
        """Note which servers have taken slots over from others; drop those without slots."""
        for new, olds in moved.items():
            before = [self._links[old] for old in olds if old in self._links]
            if any(not link.up for link in before):
                # It may lack what the old one was told last, and workers may take turns.
                self._link(new).note_takeover()
        servers = self.topology.servers
        for address in [known for known in self._links if known not in servers]:
            self._links.pop(address).end()
        for link in self.all:
            link.serve(self.topology.slots(link.address), alone=len(servers) == 1)

    def _link(self, address: Address) -> Link:
        if address not in self._links:
            link = Link(self, client_at(self._client, address))
            self._links[address] = link
            self._made.append(link)
            if self._closed:
                link.end()
        return self._links[address]

    async def close(self) -> None:
        """Leave the fleet."""
        self._closed = True
        for link in self._made:
            await link.close()

    def _spider_opened(self) -> None:
        self.first.keep_beating()
