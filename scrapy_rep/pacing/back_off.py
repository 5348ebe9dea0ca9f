"""Which download slots are parked: their sites want to be left alone for some time.

Beyond RFC 9309. The statuses: RFC 6585 4, RFC 9110 15.6.4; Retry-After: RFC 9110 10.2.3.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Protocol

from scrapy_rep.downloader import sleep
from scrapy_rep.exceptions import StillParked

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    Listener = Callable[[str, float], object]

LOOK_UP = 0.5
"""Seconds after which who waits in the downloader looks whether the crawl is ending."""


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
        self._listeners: list[Listener] = []
        self._listeners_here: list[Listener] = []

    def on_parked(self, listener: Listener) -> None:
        """Call *listener* whenever a slot is parked: the slot, the seconds from now."""
        self._listeners.append(listener)

    def on_parked_here(self, listener: Listener) -> None:
        """Call *listener* as ``on_parked``, but only where this process has parked it."""
        self._listeners_here.append(listener)

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
        if longer:
            for listener in self._listeners_here:
                listener(slot, seconds)
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
        for listener in self._listeners:
            listener(slot, seconds)
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
