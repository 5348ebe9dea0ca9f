"""What grants the starts of requests if several processes share a pace."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.pacing.health import Health


class ParkedError(Exception):
    """Another process has parked the host, for so many *seconds* from now on."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"parked for {seconds:g} s")


class Booking(NamedTuple):
    """A start that the pace of a host has granted."""

    at: int
    """In microseconds, by the clock that the processes share."""
    here: float
    """The same by ``time.monotonic()``; a request that leaves later must say so (``late``)."""


class Bookings(Protocol):
    """Grants each start."""

    @property
    def restless(self) -> bool:
        """Tell whether requests may leave rather late, as all processes are busy."""

    async def book(
        self, host: str, interval: float, waits: Callable[[], object] = lambda: None
    ) -> Booking | None:
        """Wait until *interval* seconds have passed since the last start; book this start.

        An interval of 0 means that it is not known here what the host asks for. *waits* is
        called before each wait. Returns the booking, which ``late`` takes; ``None``: nothing
        was booked. Raises ``ParkedError`` if another process has parked the host.
        """

    async def late(self, host: str, at: int, seconds: float) -> bool:
        """Note that the request booked *at* may have started so many *seconds* later.

        Returns ``False`` if another start was booked since.
        """

    async def claim(self, host: str) -> str:
        """Keep all other processes from asking *host* until ``give_back``, or our death.

        Returns the claim; empty: another process has it.
        """

    async def give_back(self, host: str, claim: str) -> None:
        """Let others ask *host*."""

    async def park(self, host: str, seconds: float) -> None:
        """Let no process start a request to *host* for so many *seconds*."""

    async def latency(self, host: str) -> float | None:
        """Return the last response time of *host* that a process told; ``None``: none."""

    async def tell_latency(self, host: str, seconds: float) -> None:
        """Tell the other processes the response time of *host*."""

    async def spend(self, host: str, most: int) -> bool:
        """Count a request to *host*; ``False``: *most* requests have started already."""

    async def change_health(
        self, host: str, change: Callable[[Health], Health]
    ) -> None:
        """Replace the shared health of *host* by what *change* returns for it."""

    def on_health(self, listener: Callable[[str, Health], None]) -> None:
        """Call *listener* with a host and its shared health, when that has changed."""
