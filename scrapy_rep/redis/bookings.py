"""Grants the starts of requests, for all workers that share a Redis server."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, Any
from zlib import crc32

from scrapy_rep.pacing import ParkedError
from scrapy_rep.redis.clients import Script
from scrapy_rep.redis.fleet import SETTLE_SECONDS, RedisAwayError
from scrapy_rep.redis.health import SharedHealth
from scrapy_rep.redis.keys import (
    claim_key,
    latency_key,
    parked_key,
    spent_key,
    start_key,
)
from scrapy_rep.redis.leases import LEASE_SECONDS, Leases
from scrapy_rep.redis.servers import Servers

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

    from scrapy_rep.redis.fleet import Link

START_KEPT_SECONDS = 60.0
"""Seconds for which a host's last start is kept, beyond the longest delay."""
SPENT_KEPT_SECONDS = 86400.0
"""Seconds for which the number of a host's requests is kept, from the last one on."""
LATENCY_KEPT_SECONDS = 3600.0
"""The same for a response time."""
MOVED_RETRY_SECONDS = 0.005
"""Seconds after which a server is asked again, as a host's key may be on its way to another one."""
LONG_AWAY_SECONDS = 3.0
"""Seconds for which the server must be away before we go on without it. By then each living worker
has noticed."""
UNKNOWN_AWAY_SECONDS = 30.0
"""Seconds for which a request for a robots.txt waits while the server is away: other workers may
know a delay of the host, and ask it in their turns."""
SPARE_PART, SPARE_SECONDS = 0.02, 0.02
"""The part, and the seconds, by which a turn is longer than the interval: clocks are not exact."""


class RedisBookings:
    """Books each start in Redis, whose clock alone decides; see ``Bookings``.

    A booked start is held until its request is over. A worker that dies meanwhile keeps the
    others from the host for ``LEASE_SECONDS`` at the most.

    While Redis is away, the workers that were last seen take turns by the same clock, as far
    as it is known here: each asks a host once in as many intervals as there are workers.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.holding: dict[tuple[str, int], asyncio.Task[None]] = {}
        """What keeps each booked start held while its request is under way."""
        self._servers = Servers.of(crawler)
        self._start = Script.named("start")
        self._hold = Script.named("hold")
        self._park = Script.named("park")
        self._spend = Script.named("spend")
        self._crawler = crawler
        longest = self._servers.settings.crawl_delay_max
        self._kept = round((longest + START_KEPT_SECONDS) * 1e3)  # milliseconds
        self._health = SharedHealth(crawler)
        self._leases = Leases(crawler)
        self.change_health = self._health.change
        self.on_health = self._health.on_health

    async def book(
        self, host: str, interval: float, waits: Callable[[], object] = lambda: None
    ) -> int | None:
        """Book a start. If *interval* is 0, the one counts that a worker has last kept."""
        while True:
            link = self._servers.at(start_key(host))
            told_for = self._told_for(link)
            if link.up:
                wait = max(0.0, -told_for)
                if not wait:
                    try:
                        wait, booking = await self._ask(host, interval, told_for)
                    except RedisAwayError:
                        await asyncio.sleep(
                            MOVED_RETRY_SECONDS
                        )  # its keys may be on their way
                        continue
                    if not wait:
                        assert booking is not None
                        keeping = self._keep(host, booking)
                        loop = asyncio.get_running_loop()
                        self.holding[host, booking] = loop.create_task(keeping)
                        return booking
                waits()
                await asyncio.sleep(wait)
                continue
            waits()
            if link.pauses:
                await link.wait_until_back()
            elif not interval:
                if not await self._wait_if_back_soon(link):
                    return None
            elif link.offset is None:  # nor do we know who else takes turns
                await link.wait_until_back()
            elif await self._wait_for_turn(link, host, interval):
                return None

    async def over(self, host: str, booking: int) -> None:
        if keeping := self.holding.pop((host, booking), None):
            keeping.cancel()
        with suppress(RedisAwayError):  # then it is held until its lease ends
            await self._hold_for(host, booking, 0.0)

    async def _keep(self, host: str, booking: int) -> None:
        while (host, booking) in self.holding:  # redis-py may swallow the cancellation
            await asyncio.sleep(LEASE_SECONDS / 3)
            with suppress(RedisAwayError):
                await self._hold_for(host, booking, LEASE_SECONDS)

    async def _hold_for(self, host: str, booking: int, seconds: float) -> None:
        args = [booking, round(seconds * 1e6), self._kept]
        await self._servers.call(self._hold, [start_key(host)], args)

    async def claim(self, host: str) -> str:
        """Return a claim to *host*; while Redis is away, each worker gets one."""
        claim = token_hex(8)
        with suppress(RedisAwayError):
            if not await self._leases.take(claim_key(host), claim):
                return ""
        return claim

    async def give_back(self, host: str, claim: str) -> None:
        await self._leases.give_back(claim_key(host), claim)

    async def park(self, host: str, seconds: float) -> None:
        """Park *host* for all workers; while Redis is away, the others are not told."""
        with suppress(RedisAwayError):
            args = [max(1, round(seconds * 1e3))]
            await self._servers.call(self._park, [parked_key(host)], args)

    async def latency(self, host: str) -> float | None:
        with suppress(RedisAwayError, ValueError):
            found = await self._servers.call("GET", [latency_key(host)], [])
            if found is not None and math.isfinite(seconds := float(found)):
                return max(0.0, seconds)
        return None

    async def tell_latency(self, host: str, seconds: float) -> None:
        with suppress(RedisAwayError):
            args = [seconds, "PX", round(LATENCY_KEPT_SECONDS * 1e3)]
            await self._servers.call("SET", [latency_key(host)], args)

    async def spend(self, host: str, most: int) -> bool:
        """Count a request, for all workers of a spider; while Redis is away, each by itself."""
        spider = getattr(self._crawler.spider, "name", "")
        try:
            keys = [spent_key(host, spider)]
            args = [most, round(SPENT_KEPT_SECONDS * 1e3)]
            return bool(await self._servers.call(self._spend, keys, args))
        except RedisAwayError:
            return True

    async def _ask(
        self, host: str, interval: float, told_for: float
    ) -> tuple[float, int | None]:
        """Return the seconds to wait, or 0 and the booking."""
        args: list[Any] = [round(interval * 1e6), self._kept]
        args.append("" if told_for == math.inf else round(told_for * 1e6))
        args.append(round(LEASE_SECONDS * 1e6))
        keys = [start_key(host), parked_key(host)]
        wait, *now = await self._servers.call(self._start, keys, args)
        if wait and now:
            raise ParkedError(wait / 1e6)
        return wait / 1e6, None if wait else now[0]

    def _told_for(self, link: Link) -> float:
        """Return for how many seconds Redis has known of each start of all workers.

        Negative: it will do so after that many seconds.
        """
        if not link.was_away or link.settings.redis_down == "pause":
            return math.inf
        return monotonic() - link.changed_at - SETTLE_SECONDS

    async def _wait_if_back_soon(self, link: Link) -> bool:
        """Wait until Redis is back; ``False``: it has been away for too long."""
        longest = link.changed_at + UNKNOWN_AWAY_SECONDS - monotonic()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(link.wait_until_back(), max(0.0, longest))
        return link.up

    async def _wait_for_turn(self, link: Link, host: str, interval: float) -> bool:
        """Wait for our turn; ``False``: Redis came back first."""
        width = interval * (1 + SPARE_PART) + SPARE_SECONDS
        earliest = max(monotonic(), link.changed_at + max(interval, LONG_AWAY_SECONDS))
        begins = self._next_turn(link, host, width, earliest)
        while not link.up and not link.gone:
            wait = begins - monotonic()
            if wait <= 0:
                if -wait < SPARE_SECONDS / 2:
                    return True
                # We came too late.
                begins = self._next_turn(link, host, width, monotonic())
                continue
            await asyncio.sleep(min(wait, 0.1))
        return False

    def _next_turn(self, link: Link, host: str, width: float, earliest: float) -> float:
        offset = link.offset or 0.0
        round_trip = max(1, link.workers) * width
        mine = (link.rank + crc32(host.encode()) / 2**32) * width - offset
        return mine + -(-(earliest - mine) // round_trip) * round_trip
