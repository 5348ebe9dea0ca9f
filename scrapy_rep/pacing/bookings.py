"""What grants the starts of requests if several processes share a pace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class ParkedError(Exception):
    """Another process has parked the host, for so many *seconds* from now on."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"parked for {seconds:g} s")


class Bookings(Protocol):
    """Grants each start."""

    async def book(
        self, host: str, interval: float, waits: Callable[[], object] = lambda: None
    ) -> int | None:
        """Wait until *interval* seconds have passed since the last request; book this start.

        Until ``over`` nobody else starts there. An interval of 0 means that it is not known here
        what the host asks for. *waits* is called before each wait. Returns the booking; ``None``:
        nothing was booked. Raises ``ParkedError`` if another process has parked the host.
        """

    async def over(self, host: str, booking: int) -> None:
        """Note that the request of *booking* was answered, or will not be: its delay begins."""

    async def park(self, host: str, seconds: float) -> None:
        """Let no process start a request to *host* for so many *seconds*."""

    async def spend(self, host: str, most: int) -> bool:
        """Count a request to *host*; ``False``: *most* requests have started already."""
