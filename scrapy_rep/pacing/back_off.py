"""Which download slots are parked: their sites want to be left alone for some time.

Beyond RFC 9309. The statuses: RFC 6585 4, RFC 9110 15.6.4; Retry-After: RFC 9110 10.2.3.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Protocol

from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.downloader.timers import sleep
from scrapy_rep.exceptions import StillParked

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scrapy import Request
    from scrapy.http import Response

STATUSES = frozenset({429, 503})
"""The statuses whose Retry-After says when requests are welcome again."""
LOOK_UP = 0.5
"""Seconds after which who waits in the downloader looks whether the crawl is ending."""


class ParkedError(Exception):
    """Another process has parked the slot: for so many *seconds* from now on."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"parked for {seconds:g} s")


class Engine(Protocol):
    """What is to be known of the crawl."""

    def ends(self) -> bool: ...
    def wake(self) -> None: ...


class BackOff:
    """Until when each slot is parked. What is over is forgotten."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.until: dict[str, float] = {}
        """Slot -> when it is parked no more, by ``time.monotonic()``."""
        self._sweep_at = 16
        self.heed: Callable[[Request, Response], None] = lambda request, response: None
        """Called with each answer that may park its slot."""
        self.parked: Callable[[str, float], None] | None = None
        """Called when a slot is parked, with the seconds."""
        self.share: Callable[[str, float], Coroutine[None, None, None]] | None = None
        """Tells the other processes of a slot that this one has parked, if there are any."""

    def left(self, slot: str) -> float:
        """Return the seconds for which *slot* is still parked; 0: it is not."""
        until = self.until.get(slot)
        if until is None:
            return 0.0
        left = until - monotonic()
        if left > 0:
            return left
        del self.until[slot]
        return 0.0

    def park(self, slot: str, seconds: float) -> float:
        """Park *slot* from now on, unless it is parked for longer.

        Returns the seconds by which it is parked for longer than before.
        """
        longer = self.learn(slot, seconds)
        if longer and self.share is not None:
            deferred_from_coro(self.share(slot, seconds))
        return longer

    def learn(self, slot: str, seconds: float) -> float:
        """Park *slot* as another process has done; else as ``park``."""
        longer = seconds - self.left(slot)
        if longer <= 0:
            return 0.0
        if len(self.until) >= self._sweep_at:
            for name in list(self.until):  # those that nobody has looked at since
                self.left(name)
            self._sweep_at = 2 * len(self.until) + 16
        self.until[slot] = monotonic() + seconds
        if self.parked is not None:
            self.parked(slot, seconds)
        return longer

    async def wait(
        self, request: Request, slot: str, left: Callable[[str], float] | None = None
    ) -> None:
        """Wait until *request* may be sent to *slot*.

        *left* tells in how many seconds; without it that is when *slot* is parked no more.
        Raises ``StillParked`` where the crawl ends while it is.
        """
        left = left or self.left
        if left(slot):
            self._engine.wake()  # somebody else may have the place of *request*
        while seconds := left(slot):
            if (parked := self.left(slot)) and self._engine.ends():
                raise StillParked(request.url, parked)
            await sleep(min(seconds, LOOK_UP))
