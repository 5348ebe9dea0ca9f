"""What grants the starts of requests where several processes share a pace."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.pacing.health import Health


class ParkedError(Exception):
    """Another process has parked the host: for so many *seconds* from now on."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"parked for {seconds:g} s")


class Booking(NamedTuple):
    """A start that the pace of a host has granted."""

    at: int
    """In microseconds, by the clock that the processes share."""
    here: float
    """The same by ``time.monotonic()``: who leaves later than that is to tell."""


class Bookings(Protocol):
    """Grants each start."""

    @property
    def restless(self) -> bool:
        """Tell whether requests may leave rather late, as all processes are busy."""

    async def book(
        self, host: str, interval: float, waits: Callable[[], object] = lambda: None
    ) -> Booking | None:
        """Return when *interval* s have passed since the last start, and book this one.

        0: what is asked for is not known here. Returns the booking, for ``late``; ``None``
        where there is none. Calls *waits* before it waits. Raises ``ParkedError`` where another
        process has parked the host.
        """

    async def late(self, host: str, at: int, seconds: float) -> bool:
        """Note that the request that was booked *at* may have started so much later.

        Returns ``False`` where another one was booked since.
        """

    async def claim(self, host: str) -> str:
        """Have no other process ask *host* until ``give_back``, or this one is dead.

        Returns the claim; empty: another one has it.
        """

    async def give_back(self, host: str, claim: str) -> None:
        """Let others ask *host*."""

    async def park(self, host: str, seconds: float) -> None:
        """Have no process start any request that it books here for so long."""

    async def latency(self, host: str) -> float | None:
        """Return the response time of *host* that was told last; ``None``: none was."""

    async def tell_latency(self, host: str, seconds: float) -> None:
        """Have the others know the response time of *host*."""

    async def spend(self, host: str, most: int) -> bool:
        """Count a request to *host*, of which *most* may start; ``False``: they have."""

    async def change_health(
        self, host: str, change: Callable[[Health], Health]
    ) -> None:
        """Make what all know of *host* what *change* makes of it."""

    def on_health(self, listener: Callable[[str, Health], None]) -> None:
        """Call *listener* with what all know of a host, when that has changed."""
