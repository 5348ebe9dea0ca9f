"""Starts at hosts with a delay, booked for a whole fleet: one key a host, with a lease."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from math import inf
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from scrapy_rep.frontier.redis_server import AwayError
from scrapy_rep.pacing.hosts import WELL, Health, early_of
from scrapy_rep.pacing.keeper import ParkedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.frontier.redis_server import Server
    from scrapy_rep.pacing.keeper import Keeper

AWAY_SECONDS = 0.5
"""How often a start is asked for again that another one holds, or whose server is away."""
RENEW_PART = 3
"""A start that is held is renewed so many times in a lease."""
SPENT_KEPT_MS = 86_400_000
"""For so long after the last request it is known how many a host has had."""
PACED_SECONDS = 1.0
"""Seconds for which a host must have to wait yet that its next owner is told of."""
MOST_FACTS = 1000
"""Of so many hosts of a shard its next owner is told."""
TIMES = ("at", "resumes", "since")
"""Fields of ``Health`` that are times by ``time.monotonic()``."""


class Asked:
    """What one turn is asked for."""

    def __init__(self, host: str, args: list[Any]) -> None:
        self.host, self.args = host, args
        self.answer = asyncio.get_running_loop().create_future()


class FleetBookings:
    """Books each start at a host with a delay, by the clock of Redis.

    A start is held until its answer, by a lease that is renewed meanwhile, and the delay counts
    after it. So the pace is kept by all that ask: other workers, media, other spiders, and one
    that wakes up too late. What a host's owner alone need know is not told: a host has one.
    """

    def __init__(self, server: Server, is_ending: Callable[[], bool]) -> None:
        """*is_ending* tells whether the crawl is ending."""
        self._server, self._is_ending = server, is_ending
        self._kept = server.settings.crawl_delay_max + 1
        """For so long it is known when a host was asked: as long as a delay may be."""
        self._held: dict[str, float] = {}
        """Host with a start that we hold -> its delay in seconds."""
        self._renewing: asyncio.Task[Any] | None = None
        self._bookings = count(1)
        self._asked: dict[int, list[Asked]] = {}
        """What the next call asks, or in a cluster that for each shard."""

    async def book(
        self,
        host: str,
        interval: float,
        due: float = 0.0,
        waits: Callable[[], object] = lambda: None,
    ) -> int:
        """Wait until *interval* seconds have passed since the last request; book this start.

        It is not before *due*, by ``time.monotonic()``, and should be asked for some time before
        that (``early_of``), as it takes time to book it.

        Until ``over`` nobody else starts there. An interval of 0 means that it is not known here
        what the host asks for. *waits* is called before each wait. Returns the booking. Raises
        ``ParkedError`` if another process has parked the host.
        """
        try:
            while not await self._book(host, interval, due, waits):
                pass
        except asyncio.CancelledError:  # whether Redis has booked it is not known
            self._held[host] = interval
            self._server.begin_task(self.over(host, 0))
            raise
        return next(self._bookings)

    async def _book(
        self, host: str, interval: float, due: float, waits: Callable[[], object]
    ) -> bool:
        """Ask for a start, and wait until it may be; ``False``: it must be asked for again."""
        # The delay begins a little later by Redis' clock than by ours.
        early, hold, asked = (
            2 * early_of(interval),
            self._hold_of(interval),
            monotonic(),
        )
        try:
            wait, *why = await self._turn(host, "book", interval, hold, early)
        except AwayError:
            wait, why = AWAY_SECONDS * 1e3, [b"away"]
            if self._is_ending():
                raise ParkedError(self._server.lease) from None
        if not why:
            self._held[host] = interval
            if self._renewing is None:
                self._renewing = self._server.begin_task(self._renew())
            await asyncio.sleep(max(due - monotonic(), wait / 1e3))
            return (
                monotonic() < asked + hold
            )  # else we slept for longer than it is held
        if why == [b"parked"]:
            raise ParkedError(wait / 1e3)
        waits()
        # Who holds it may be through with it before its lease is over.
        most = inf if why == [b"paced"] else AWAY_SECONDS
        await asyncio.sleep(min(wait / 1e3 - early, most))
        return False

    async def over(self, host: str, booking: int) -> None:
        """Note that the request of *booking*, the host's only one, is over: its delay begins."""
        interval = self._held.pop(host, None)
        if interval is not None:
            with suppress(AwayError):  # its lease ends by itself
                await self._turn(host, "over", interval, max(self._kept, interval))

    async def park(self, host: str, seconds: float) -> None:
        """Let no process start a request to *host* for so many *seconds*."""
        with suppress(AwayError):
            await self._turn(host, "park", 0.0, seconds)

    async def spend(self, host: str, most: int) -> bool:
        """Count a request to *host*; ``False``: *most* requests have started already."""
        key = self._server.key_at(host, f"{self._server.spider}:spent:{host}")
        while not self._is_ending():
            with suppress(AwayError):
                number = await self._server.at_host(host, "INCR", key)
                await self._server.at_host(host, "PEXPIRE", key, SPENT_KEPT_MS)
                return int(number) <= most
            await asyncio.sleep(AWAY_SECONDS)
        return True

    def _hold_of(self, interval: float) -> float:
        """Return for how long a start is held: at least its delay after each renewal."""
        lease = self._server.lease
        return max(lease, interval + 2 * lease / RENEW_PART)

    async def _turn(
        self, host: str, what: str, interval: float, life: float, early: float = 0.0
    ) -> Any:
        """Ask Redis, in one call with what else is asked in this turn of the event loop."""
        server, at = self._server, monotonic()
        ago = (lambda: round((monotonic() - at) * 1e3)) if what == "over" else None
        ms = [round(interval * 1e3), max(1, round(life * 1e3))]
        one = Asked(host, [what, *ms, ago or round(early * 1e3)])
        # In a cluster a server that hangs holds up no other shards than its own.
        part = server.shard_of(host) if server.in_cluster else 0
        if part not in self._asked:
            self._asked[part] = []
            server.begin_task(self._ask(part))
        self._asked[part].append(one)
        return await one.answer

    async def _ask(self, part: int) -> None:
        server, by_shard = self._server, dict[int, list[Asked]]()
        for one in self._asked.pop(part):
            by_shard.setdefault(server.shard_of(one.host), []).append(one)
        keys, blocks = {}, {}
        for n, its in by_shard.items():
            keys[n] = [server.key_at(one.host, f"turn:{one.host}") for one in its]
            blocks[n] = [len(its), *(arg for one in its for arg in one.args)]
        answers = await server.for_shards("turn", blocks, [server.me], keys=keys)
        for n, its in by_shard.items():
            for nth, one in enumerate(its):
                if one.answer.done():  # nobody waits for it
                    continue
                if n in answers:
                    one.answer.set_result(answers[n][nth])
                else:
                    one.answer.set_exception(AwayError())

    async def _renew(self) -> None:
        """Hold on to the starts whose answers take long."""
        before: set[str] = set()
        while self._held:
            for host in before & self._held.keys():
                with suppress(AwayError):
                    hold = self._hold_of(self._held.get(host, 0.0))
                    await self._turn(host, "hold", 0.0, hold)
            before = set(self._held)
            await asyncio.sleep(self._server.lease / RENEW_PART)
        self._renewing = None


class Facts:
    """What the next owner of a host must know: how it is, until when it is parked, when it was asked.

    The last, so that its requests wait in the frontier and not for their booking.
    """

    def __init__(self, server: Server, keeper: Keeper) -> None:
        self._server, self._keeper = server, keeper

    def _clock(self) -> float:
        """Return by how much the wall clock of the server is ahead of our monotonic one."""
        return time() - monotonic() + self._server.ahead

    def known(self, shard: int) -> dict[str, dict[str, Any]]:
        """Return what is known of hosts of *shard* that must wait, or are not well.

        Times are by the server's clock.
        """
        clock, now = self._clock(), monotonic()
        found: dict[str, dict[str, Any]] = {}
        for host, record in self._keeper.hosts.by_name.items():
            if self._server.shard_of(host) != shard or len(found) >= MOST_FACTS:
                continue
            is_parked = record.parked_left(now) > 0
            is_well = record.health is WELL
            left = self._keeper.pace_left(host, behind=False)
            if is_parked or left > PACED_SECONDS or not is_well:
                health = record.health._asdict()
                shifted = {name: health[name] + clock for name in TIMES if health[name]}
                found[host] = {
                    "parked": record.parked_until + clock if is_parked else 0.0,
                    "health": health | shifted,
                    "last": record.last and record.last + clock,
                }
        return found

    def learn(self, facts: dict[str, dict[str, Any]]) -> None:
        """Take over what another worker has ``known``."""
        clock, now = self._clock(), monotonic()
        for host, fact in facts.items():
            health = fact["health"]
            shifted = {name: health[name] - clock for name in TIMES if health[name]}
            record = self._keeper.hosts.of(host)
            if record.health is WELL and health["at"]:
                record.health = Health(**health | shifted)
            if record.last is None and fact["last"]:
                record.last = min(now, fact["last"] - clock)
            if (left := fact["parked"] - clock - now) > 0:
                self._keeper.learn_parked(host, left)
