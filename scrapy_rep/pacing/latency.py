"""REP_LATENCY_FACTOR: between two starts a host gets a pause of so many response times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.utils.defer import deferred_from_coro

from scrapy_rep.pacing.hosts import HOSTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.http import Response

    from scrapy_rep.downloader import Departure
    from scrapy_rep.engine import Engine
    from scrapy_rep.pacing.bookings import Bookings
    from scrapy_rep.settings import Settings

    Keep = Callable[[str, str, float], None]

LATENCY_WISHER = "latency"
"""Stands in the place of an origin: the interval comes from the host's response time."""
TOLD_CHANGE_PART = 0.2
"""The part by which a response time must change before other workers are told."""


class ResponseTimes:
    """Measures response times, and passes the delays that follow to *keep*: ``Keeper.keep``."""

    def __init__(self, engine: Engine, settings: Settings, keep: Keep) -> None:
        self.factor = settings.latency_factor
        self._least = settings.latency_delay_min
        self._most = settings.latency_delay_max
        self._keep = keep
        self._bookings: Bookings | None = None
        if self.factor:
            engine.starts.on_answer(self._measure)

    def share(self, bookings: Bookings) -> None:
        self._bookings = bookings

    def _measure(self, departure: Departure, response: Response) -> None:
        host = departure.host
        latency: float | None = departure.request.meta.get("download_latency")
        if latency is None or not host or departure.robots_hop is not None:
            return
        before = HOSTS.latency(host)
        smoothed = HOSTS.measure(host, latency, well=response.status < 400)
        self._keep_to(host, smoothed)
        differs = before is None or abs(smoothed - before) > TOLD_CHANGE_PART * before
        if differs and self._bookings is not None:
            deferred_from_coro(self._bookings.tell_latency(host, smoothed))

    def _keep_to(self, host: str, seconds: float) -> None:
        delay = min(max(self.factor * seconds, self._least), self._most)
        self._keep(host, LATENCY_WISHER, delay)

    async def learn(self, host: str) -> None:
        """Begin with the response time that another worker has measured."""
        if self._bookings is not None and HOSTS.wants_latency(host):
            seconds = await self._bookings.latency(host)
            if seconds is not None:
                self._keep_to(host, HOSTS.measure(host, seconds, well=True))
