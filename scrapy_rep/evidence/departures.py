"""Requests that are sent, and what comes of them, told as events."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from scrapy_rep.downloader import kind_of
from scrapy_rep.events.of_requests import Answered, Sent
from scrapy_rep.judging.target import how_judged
from scrapy_rep.protocol.printable import without_user

if TYPE_CHECKING:
    from scrapy.http import Response

    from scrapy_rep.downloader import Departure, Starts
    from scrapy_rep.events.stream import Stream


class Departures:
    """Tells of each request that is sent, and of what comes of it."""

    def __init__(self, starts: Starts, events: Stream) -> None:
        self._events = events
        starts.on_start(self._note_start)
        starts.on_answer(self._note_answer)
        starts.on_failure(self._note_failure)

    def _note_start(self, departure: Departure) -> None:
        request, robots = departure.request, departure.robots_hop is not None
        exempt, judged = None, None
        if not robots:
            exempt, judged = how_judged(request.url, request.meta)
        self._events.tell(
            Sent(
                without_user(request.url),
                departure.host or None,
                robots or None,
                exempt,
                judged,
                time=self._events.at(departure.started_at),
            )
        )

    def _note_answer(self, departure: Departure, response: Response) -> None:
        self._tell(departure, len(response.body), response.status, None)

    def _note_failure(self, departure: Departure, error: Exception) -> None:
        self._tell(departure, None, None, kind_of(error))

    def _tell(
        self,
        departure: Departure,
        octets: int | None,
        status: int | None,
        error: str | None,
    ) -> None:
        began, arrived = departure.started_at, departure.arrived_at
        self._events.tell(
            Answered(
                without_user(departure.request.url),
                departure.host or None,
                monotonic() - began,
                None if arrived is None else arrived - began,
                octets,
                status,
                error,
                departure.robots_hop is not None or None,
            )
        )
