"""A crawl's connection to Redis: whether it is there, what time it has, who else is."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from scrapy import signals
from scrapy.utils.asyncio import is_asyncio_available

from scrapy_rep.crawl import Crawl
from scrapy_rep.exceptions import SettingError
from scrapy_rep.redis.clients import (
    AWAY,
    client,
    end_task,
    is_forgotten,
    refusal_of,
    script,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.crawler import Crawler

logger = logging.getLogger("scrapy_rep")

WORKERS = ("rep:{fleet}:workers", "rep:{fleet}:names")
BEAT = 2.0
"""Seconds between two signs of life."""
PROBE = 0.5
"""The same while the server is away."""
LEASE = 10.0
"""Seconds after the last sign of life for which a worker counts."""
QUICK = 0.02
"""A round trip that took so many seconds more than the quickest tells the server's time
well enough."""
CALLS = 3
"""Calls at a time; each takes a connection. A fourth one listens (store.py)."""
SETTLE = 2.5
"""Seconds after which every worker has noticed that the server is back: PROBE, and twice
the time that a call may take."""


class RedisAwayError(Exception):
    """Redis cannot be had now; what it would have told is not known."""


class Link:
    """One for each crawl, shared by all that use Redis in it.

    While the server is away no call is tried but one that looks whether it is back, so
    that a server that hangs does not hold up the crawl.
    """

    # Weak on both sides: a link holds its crawler, and those who use the link hold it.
    _links: WeakKeyDictionary[Crawler, ReferenceType[Link]] = WeakKeyDictionary()

    def __init__(self, crawler: Crawler) -> None:
        if not is_asyncio_available():
            raise SettingError(
                "TWISTED_REACTOR",
                crawler.settings.get("TWISTED_REACTOR"),
                "the asyncio reactor, or none, where Redis is used",
            )
        self._crawler = crawler
        self._crawl = Crawl.of(crawler)
        self.settings = self._crawl.settings
        self.client = client(crawler.settings)
        self.me = f"{socket.gethostname()}-{os.getpid()}-{token_hex(4)}"
        self.up = True
        self.changed_at = monotonic()
        """When it was last lost, or found again."""
        self.was_away = False
        self.offset: float | None = None
        """The server's time less ours (``time.monotonic()``), in seconds."""
        self.round_trip = float("inf")
        """The seconds that the quickest call took."""
        self.workers = 1
        """How many were last known to be alive."""
        self.rank = 0
        """How many of them come before this one, in an order that is the same for all."""
        self._beat = self.client.register_script(script("beat_fleet"))
        self._beating: asyncio.Task[None] | None = None
        self._back = asyncio.Event()
        self._met = asyncio.Event()
        self._calls = asyncio.Semaphore(CALLS)
        self._closed = False
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        # After the store has given back its leases.
        crawler.signals.connect(self.close, signals.engine_stopped)

    @classmethod
    def of(cls, crawler: Crawler) -> Link:
        """Return the link of *crawler*, which lives as long as somebody holds it.

        Raises ``SettingError`` without an asyncio event loop, which the client needs.
        """
        known = cls._links.get(crawler)
        link = None if known is None else known()
        if link is None:
            link = cls(crawler)
            cls._links[crawler] = ref(link)
        return link

    @property
    def pauses(self) -> bool:
        """Tell whether nothing is to be sent now: REP_REDIS_DOWN."""
        return not self.up and self.settings.redis_down == "pause"

    async def call(
        self, function: Any, keys: Sequence[str], args: Sequence[Any]
    ) -> Any:
        """Run a script; raises ``RedisAwayError`` where the server cannot be had.

        Raises what redis-py does where the script says that the server has forgotten.
        """
        self._keep_beating()
        async with self._calls:
            if not self.up or self._closed:
                raise RedisAwayError
            try:
                return await function(keys=keys, args=args)
            except AWAY as error:
                if is_forgotten(error):
                    raise
                self.lost(error)
                raise RedisAwayError from error

    def lost(self, error: Exception) -> None:
        """Note that a call has failed with *error*."""
        assert self._crawler.stats is not None
        self._crawler.stats.inc_value("rep/redis/errors")
        if not self.up or self._closed:
            return
        self.up = False
        self.was_away = True
        self.changed_at = monotonic()
        self._back.clear()
        refusal = refusal_of(error)
        self._crawler.stats.inc_value(
            "rep/redis/refused" if refusal else "rep/redis/away"
        )
        if self.pauses:
            then = "nothing is sent where it is needed"
        elif self.offset is None:
            then = "hosts with a delay wait, as the other workers are not known"
        else:
            then = (
                "what is known here decides, at the pace of one worker of"
                f" {self.workers}"
            )
        extra = {"spider": self._crawler.spider}
        if refusal is None:
            fault = str(error) or type(error).__name__
            text = "Redis is away (%s): until it is back %s"
            logger.warning(text, fault, then, extra=extra)
        else:
            text = "Redis refuses us (%s). Until it does not, %s"
            logger.error(text, refusal, then, extra=extra)
        self._keep_beating()

    async def meet(self) -> None:
        """Wait until it is known whether the server is there, and what time it has."""
        self._keep_beating()
        await self._met.wait()

    async def until_back(self) -> None:
        self._keep_beating()
        while not self.up:
            await self._back.wait()

    async def close(self) -> None:
        """Leave the fleet."""
        self._closed = True
        was_up, self.up = self.up, False  # for who still asks to start a request
        task, self._beating = self._beating, None
        if task is not None:
            await end_task(task)
        for _ in range(CALLS):  # those that are under way come to their end
            await self._calls.acquire()
        if was_up:
            with suppress(*AWAY):
                await self._beat(keys=WORKERS, args=[self.me, 0])
        await self.client.aclose()
        for _ in range(CALLS):
            self._calls.release()

    def _spider_opened(self) -> None:
        self._keep_beating()

    def _keep_beating(self) -> None:
        if not self._closed and (self._beating is None or self._beating.done()):
            with suppress(RuntimeError):  # the loop does not run yet
                self._beating = asyncio.get_running_loop().create_task(self._go_on())

    async def _go_on(self) -> None:
        while True:
            await self._show_up()
            if self._closed:  # redis-py may swallow the cancellation
                return
            await asyncio.sleep(BEAT if self.up else PROBE)

    async def _show_up(self) -> None:
        sent = monotonic()
        try:
            args: list[Any] = [self.me, round(LEASE * 1e6)]
            async with self._calls:
                now, workers, rank = await self._beat(keys=WORKERS, args=args)
        except AWAY as error:
            self.lost(error)
            return
        finally:
            self._met.set()
        taken = monotonic() - sent
        self.round_trip = min(self.round_trip, taken)
        if self.offset is None or taken < self.round_trip + QUICK:
            self.offset = now / 1e6 - (sent + taken / 2)
        self.workers, self.rank = workers, rank
        if not self.up:
            self.up = True
            self.changed_at = monotonic()
            self._back.set()
            logger.info("Redis is back", extra={"spider": self._crawler.spider})
