"""What an answer, or none, tells of how its host is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.access.answers import REFUSALS, demand_of
from scrapy_rep.engine.starts import LOST, REFUSED, TIMEOUT, kind_of
from scrapy_rep.events.of_hosts import BackedOff, Demanded, Down
from scrapy_rep.pacing.hosts import SERVICE_UNAVAILABLE, TOO_MANY_REQUESTS, WELL
from scrapy_rep.policies.lifecycle import fields_of, retry_after
from scrapy_rep.protocol.printable import without_user

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.http import Response

    from scrapy_rep.engine.starts import Departure, Outcome
    from scrapy_rep.events.stream import Stream
    from scrapy_rep.pacing.keeper import Keeper
    from scrapy_rep.settings import Settings

OF_THE_HOST = frozenset({REFUSED, TIMEOUT})
"""The kinds of failures that speak for the host; a lost connection may be about one page."""
IN_A_ROW = 3
"""Of what may be about one page, so many pages in a row speak for the host."""
MAX_ROWS = 10_000
"""Hosts whose rows are kept; then all begin anew."""


class Symptoms:
    """Heeds what comes of each request: of pages, not of a robots.txt, which is asked for
    again later, and whose pages wait for that.
    """

    def __init__(
        self,
        settings: Settings,
        keeper: Keeper,
        events: Stream,
        now: Callable[[], float],
    ) -> None:
        """*now* tells the seconds since 1970."""
        self._settings = settings
        self._keeper = keeper
        self._events = events
        self._now = now
        self._backs_off = "back-off" in settings.obey
        self._rows: dict[str, set[int]] = {}
        """Host -> the pages that have failed in a row, by their hashes."""

    def heed(self, departure: Departure, outcome: Outcome) -> None:
        if departure.robots_hop is not None or outcome is None:
            return
        if not isinstance(outcome, Exception):
            self._heed_answer(departure, outcome)
        elif departure.host:
            kind = kind_of(outcome)
            if kind in OF_THE_HOST or (kind == LOST and self._is_a_row(departure)):
                self._suffers(departure, kind)

    def _heed_answer(self, departure: Departure, response: Response) -> None:
        status, host = response.status, departure.host
        if status < 500 and status != TOO_MANY_REQUESTS:
            if status in REFUSALS:
                self._look_for_demand(departure, response)
            if self._rows:
                self._rows.pop(host, None)
            if self._keeper.health(host) is not WELL:
                self._keeper.note_success(host, departure.started_at)
            return
        if host and status in {TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE}:
            # Then Retry-After is about the host.
            asked = retry_after(fields_of(response.headers), self._now())
            self._suffers(departure, str(status), status, asked)
        elif host and self._is_a_row(departure):
            self._suffers(departure, str(status), status)

    def _look_for_demand(self, departure: Departure, response: Response) -> None:
        """Tell of a page that a site gives only with a licence or for a payment."""
        request = departure.request
        demand = demand_of(request.url, response.status, fields_of(response.headers))
        if demand is None:
            return
        if response.status in self._settings.retried:
            request.meta["dont_retry"] = True  # another try would get the same answer
        host, url, status = departure.host, without_user(request.url), response.status
        terms = demand.license or None, demand.price or None
        self._events.tell(Demanded(host, url, status, demand.cause, *terms))

    def _is_a_row(self, departure: Departure) -> bool:
        """Note that a page failed; tell whether so many have that it is not the page."""
        if self._keeper.health(departure.host).since is not None:
            return True
        if len(self._rows) >= MAX_ROWS:
            self._rows.clear()
        row = self._rows.setdefault(departure.host, set())
        if len(row) < IN_A_ROW:
            row.add(hash(departure.request.url))
        return len(row) >= IN_A_ROW

    def _suffers(
        self,
        departure: Departure,
        what: str,
        status: int | None = None,
        asked: float = 0,
    ) -> None:
        """Leave the host alone for as long as it has *asked* for, or as it has failed."""
        keeper, settings, host = self._keeper, self._settings, departure.host
        heeded = asked if "retry-after" in settings.obey else 0.0
        if not (heeded or self._backs_off):
            self._events.count("backoff/ignored")
            return
        pause = min(heeded, settings.retry_after_max)
        if self._backs_off:
            before, health = keeper.note_failure(
                host, departure.started_at, status, pause
            )
            is_news = health.at != before.at
            if is_news and keeper.is_down(host):
                self._events.tell(Down(host, settings.back_off_give_up))
            if is_news and not heeded:
                pause = health.resumes - health.at
        longer, url = (
            keeper.park(host, pause, what),
            without_user(departure.request.url),
        )
        down = keeper.refuses(host) or None
        told = BackedOff(
            host, url, what, pause, longer, asked=heeded or None, down=down
        )
        self._events.tell(told)
