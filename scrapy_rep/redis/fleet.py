"""A crawl's connection to one server: is it there, what is its time, which workers are there?"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy_rep.redis.clients import (
    AWAY_ERRORS,
    Script,
    address_of,
    end_task,
    is_forgotten,
    is_in_motion,
    refusal_of,
    run,
    slots_known_to,
)
from scrapy_rep.redis.keys import fleet_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis.asyncio

    from scrapy_rep.redis.servers import Servers

logger = logging.getLogger("scrapy_rep")

BEAT_SECONDS = 2.0
"""Seconds between two signs of life."""
PROBE_SECONDS = 0.5
"""The same while the server is away."""
WORKER_LEASE_SECONDS = 10.0
"""Seconds after the last sign of life for which a worker counts."""
QUICK_SECONDS = 0.02
"""Seconds: a round trip that took at most so much longer than the quickest one tells the server's
time well enough."""
MOST_CALLS = 3
"""Calls at a time, each on a connection of its own. A fourth connection listens (store.py)."""
SHOW_UP_SCRIPT = Script.named("beat_fleet")
SETTLE_SECONDS = 2.5
"""Seconds after which each worker has noticed that the server is back: PROBE_SECONDS, and twice the
longest time of a call."""


class RedisAwayError(Exception):
    """Redis cannot be had now."""


class Link:
    """A connection to one server; ``Servers.of(crawler)`` has one for each server.

    While the server is away, no call is made except one that checks whether it is back, so
    that a server that hangs does not hold up the crawl.
    """

    def __init__(self, servers: Servers, client: redis.asyncio.Redis) -> None:
        self._servers = servers
        self._crawler = servers.crawler
        self._log = servers.log
        self.settings = servers.settings
        self.client = client
        self.address = address_of(client)
        self.called = "Redis"
        """Its name in the log."""
        self.names = fleet_keys()
        """The keys that hold its workers."""
        self._is_eviction_checked = False
        self.up = True
        self.gone = False
        """Whether it no longer belongs to the cluster."""
        self.changed_at = monotonic()
        """When it was last lost or found again."""
        self.was_away = False
        self.offset: float | None = None
        """The server's time less ours (``time.monotonic()``), in seconds."""
        self.round_trip = float("inf")
        """Seconds of the quickest call."""
        self.workers = 1
        """How many workers were last known to be alive."""
        self.rank = 0
        """The place of this worker among them, from 0, in an order that is the same for all."""
        self._beating: asyncio.Task[None] | None = None
        self._back = asyncio.Event()
        self._met = asyncio.Event()
        self._calls = asyncio.Semaphore(MOST_CALLS)
        self._closed = False

    @property
    def pauses(self) -> bool:
        """Tell whether nothing is to be sent now: REP_REDIS_DOWN."""
        return not self.up and self.settings.redis_down == "pause"

    async def call(
        self,
        what: Script | str,
        keys: Sequence[str],
        args: Sequence[Any],
        *,
        asking: bool = False,
    ) -> Any:
        """Run a script or a command; raises ``RedisAwayError`` if the server cannot be had.

        Raises what redis-py does if the script says that the server has lost data, or the
        keys are moving to another server; with *asking*, they are moving to this one.
        """
        self.keep_beating()
        async with self._calls:
            if not self.up or self._closed:
                raise RedisAwayError
            try:
                return await run(self.client, what, keys, args, asking=asking)
            except AWAY_ERRORS as error:
                if is_forgotten(error) or self._is_there(error):
                    raise
                self.note_lost(error)
                raise RedisAwayError from error

    def _is_there(self, error: Exception) -> bool:
        return self._servers.topology.is_cluster and is_in_motion(error)

    def note_lost(self, error: Exception) -> None:
        """Note that a call has failed with *error*."""
        self._log.count("redis/errors")
        if not self.up or self._closed:
            return
        self.up = False
        self.was_away = True
        self.changed_at = monotonic()
        self._back.clear()
        refusal = refusal_of(error)
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
            self._log.count("redis/away")
            fault = str(error) or type(error).__name__
            text = "%s is away (%s): until it is back %s"
            logger.warning(text, self.called, fault, then, extra=extra)
        else:
            self._log.count("redis/refused")
            text = "%s refuses us (%s). Until it does not, %s"
            logger.error(text, self.called, refusal, then, extra=extra)
        self.keep_beating()

    def note_takeover(self) -> None:
        """Note that it took over from a server that was away, and may lack some of its data."""
        self.was_away, self.changed_at = True, monotonic()

    def serve(self, slots: list[int] | None, *, alone: bool) -> None:
        """Note the *slots* that it has now; *alone*: there is no other server."""
        self.names = fleet_keys(slots)
        self.called = "Redis" if alone else f"Redis at {self.address}"
        self.keep_beating()

    def begin_eviction_check(self) -> bool:
        """Tell whether nobody has checked yet what it deletes when its memory is full."""
        is_first, self._is_eviction_checked = not self._is_eviction_checked, True
        return is_first

    async def slots(self) -> Any:
        """Return its ``CLUSTER SLOTS``, as ``slots_known_to`` does."""
        async with self._calls:
            return None if self._closed else await slots_known_to(self.client)

    async def meet(self) -> None:
        """Wait until we know whether the server is there, and what time it has."""
        self.keep_beating()
        await self._met.wait()

    async def wait_until_back(self) -> None:
        self.keep_beating()
        while not self.up and not self.gone:
            await self._back.wait()

    def end(self) -> None:
        """Note that the server no longer belongs to the cluster."""
        self.gone, self.up = True, False
        self._back.set()
        self._met.set()

    async def close(self) -> None:
        """Leave the fleet."""
        self._closed = True
        was_up, self.up = (
            self.up,
            False,
        )  # so that requests that still want to start do not call it
        task, self._beating = self._beating, None
        if task is not None:
            await end_task(task)
        for _ in range(MOST_CALLS):  # those that are under way come to their end
            await self._calls.acquire()
        if was_up:
            with suppress(*AWAY_ERRORS):
                await self._beat(0.0)
        await self.client.aclose()
        for _ in range(MOST_CALLS):
            self._calls.release()

    def keep_beating(self) -> None:
        if not (self._closed or self.gone) and (
            self._beating is None or self._beating.done()
        ):
            with suppress(RuntimeError):  # the loop does not run yet
                self._beating = asyncio.get_running_loop().create_task(self._go_on())

    async def _go_on(self) -> None:
        while True:
            await self.show_up()
            # redis-py may swallow the cancellation
            if self._closed or self.gone:
                return
            await asyncio.sleep(BEAT_SECONDS if self.up else PROBE_SECONDS)
            if not self.up and self._servers.topology.is_cluster:
                await self._servers.look()

    async def show_up(self) -> None:
        sent = monotonic()
        try:
            async with self._calls:
                await self._servers.meet_with(self)
                if self.gone:
                    return
                sent = monotonic()
                now, workers, rank = await self._beat(WORKER_LEASE_SECONDS)
        except AWAY_ERRORS as error:
            if self._is_there(error):
                self._note_back()
                await self._servers.look()
            else:
                self.note_lost(error)
            return
        finally:
            self._met.set()
        taken = monotonic() - sent
        self.round_trip = min(self.round_trip, taken)
        if self.offset is None or taken < self.round_trip + QUICK_SECONDS:
            self.offset = now / 1e6 - (sent + taken / 2)
        self.workers, self.rank = workers, rank
        self._note_back()

    def _note_back(self) -> None:
        if not self.up and not self.gone:
            self.up = True
            self.changed_at = monotonic()
            self._back.set()
            self._log.tell_user(f"{self.called} is back")

    async def _beat(self, lease: float) -> Any:
        args = [self._servers.me, round(lease * 1e6)]
        return await run(self.client, SHOW_UP_SCRIPT, self.names, args)
