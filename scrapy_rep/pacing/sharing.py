"""What the workers of a fleet tell each other of hosts."""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from scrapy.utils.defer import deferred_from_coro

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.downloader import Departure
    from scrapy_rep.pacing.bookings import Bookings
    from scrapy_rep.pacing.health import Health
    from scrapy_rep.pacing.keeper import Keeper

CLOCK_DIFFERENCE_SECONDS = 0.05
"""Seconds by which the clocks of two workers may differ."""
TELL_EVERY_SECONDS = 1.0
"""Seconds between two times that we tell others of successes at a host that has recovered."""
TOLD_CHANGE_PART = 0.2
"""The part by which a response time must change before other workers are told."""


class Sharing:
    """Tells other workers, by *bookings*, what is learned here, and learns from them."""

    def __init__(self, bookings: Bookings, keeper: Keeper) -> None:
        self.bookings = bookings
        self._keeper = keeper
        self._untold: dict[str, tuple[int, float]] = {}
        """Host -> successes that others do not know of yet, and when they were last told."""
        bookings.on_health(self._learn)

    def park(self, host: str, seconds: float) -> None:
        deferred_from_coro(self.bookings.park(host, seconds))

    def end(self, host: str, booking: int) -> None:
        """Note that the request of *booking* was answered, or will not be."""
        deferred_from_coro(self.bookings.over(host, booking))

    def tell_latency(self, host: str, before: float | None, seconds: float) -> None:
        if before is None or abs(seconds - before) > TOLD_CHANGE_PART * before:
            deferred_from_coro(self.bookings.tell_latency(host, seconds))

    # One request at a time, at a host in trouble

    async def claim(
        self, departure: Departure, gives_back: Callable[[Departure], None]
    ) -> bool:
        """Claim a host in trouble for *departure*; ``False``: another process asks it.

        *gives_back* is called when it gives the claim back.
        """
        host = departure.host
        if departure.is_holding or not self._keeper.hosts.find(host).health.level:
            return True
        claim = await self.bookings.claim(host)

        def give_back() -> None:
            gives_back(departure)
            deferred_from_coro(self._let_others(host, claim))

        if claim:
            departure.hold(give_back)
        return bool(claim)

    async def _let_others(self, host: str, claim: str) -> None:
        if left := self._keeper.hosts.find(host).parked_left(monotonic()):
            await self.bookings.park(host, left)  # they must know before they may ask
        await self.bookings.give_back(host, claim)

    # Health

    def tell_failure(self, host: str, change: Callable[[Health], Health]) -> None:
        served = self._untold.pop(host, (0, 0.0))[0]
        self._tell(host, lambda health: change(_after_successes(health, served)))

    def tell_success(self, host: str, before: Health) -> None:
        now = monotonic()
        served, told = self._untold.get(host, (0, now))
        is_well = before.since is None and not before.level
        if is_well and now < told + TELL_EVERY_SECONDS:
            self._untold[host] = served + 1, told
        else:
            self._untold.pop(host, None)
            self._tell(host, partial(_after_successes, number=served + 1))

    def _tell(self, host: str, change: Callable[[Health], Health]) -> None:
        deferred_from_coro(self.bookings.change_health(host, change))

    async def look(self, host: str) -> None:
        """Learn the shared health of *host* now."""
        await self.bookings.change_health(host, lambda health: health)

    def _learn(self, host: str, health: Health) -> None:
        """Take over the shared health of *host*."""
        if health.level:
            self._untold.pop(host, None)  # those were before its trouble
        record, now = self._keeper.hosts.of(host), monotonic()
        record.health = health
        left = health.resumes - now
        if left > record.parked_left(now) + CLOCK_DIFFERENCE_SECONDS:
            self._keeper.learn_parked(host, left)


def _after_successes(health: Health, number: int) -> Health:
    return health.after_success(number) if number else health
