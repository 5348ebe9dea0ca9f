"""What an answer, or none, tells of how its host is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.access.demands import REFUSALS, demand_of
from scrapy_rep.downloader import kind_of
from scrapy_rep.downloader.failures import LOST, REFUSED, TIMEOUT
from scrapy_rep.log.lines import NEWS_SECONDS
from scrapy_rep.pacing.health import SERVICE_UNAVAILABLE, TOO_MANY_REQUESTS
from scrapy_rep.policies.freshness import fields_of, retry_after
from scrapy_rep.protocol.printable import without_user

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.http import Response

    from scrapy_rep.access.demands import Demand
    from scrapy_rep.downloader import Departure
    from scrapy_rep.log import CrawlLog
    from scrapy_rep.pacing import Keeper
    from scrapy_rep.settings import Settings

OF_THE_HOST = frozenset({REFUSED, TIMEOUT})
"""The kinds of failures that speak for the host; a lost connection may be about one page."""
IN_A_ROW = 3
"""Of what may be about one page, so many pages in a row speak for the host."""
MAX_ROWS = 10_000
"""Hosts whose rows are kept; then all begin anew."""


class BackedOff(NamedTuple):
    """A host is left alone, as it asks for that or is in trouble."""

    host: str
    url: str
    what: str
    """A status, or a kind of failure."""
    seconds: float
    """For how long, from now."""
    asked: float | None
    """The seconds of a Retry-After that is heeded; ``None``: there is none."""
    is_down: bool
    """Its requests are refused meanwhile."""


class Symptoms:
    """Heeds what comes of each request: of pages, not of a robots.txt, which is asked for
    again later, and whose pages wait for that.
    """

    def __init__(
        self,
        settings: Settings,
        keeper: Keeper,
        log: CrawlLog,
        now: Callable[[], float],
    ) -> None:
        """*now* tells the seconds since 1970."""
        self._settings = settings
        self._keeper = keeper
        self._log = log
        self._now = now
        self._backs_off = "back-off" in settings.obey
        self._rows: dict[str, set[int]] = {}
        """Host -> the pages that have failed in a row, by their hashes."""
        self._listeners: list[Callable[[BackedOff], None]] = []
        self._demanding: set[str] = set()
        """Hosts of which the log has said that they want a licence or a payment."""
        self._demand_listeners: list[Callable[[str, str, int, Demand], None]] = []

    def on_back_off(self, listener: Callable[[BackedOff], None]) -> None:
        """Call *listener* when a host is left alone, once for all that failed together."""
        self._listeners.append(listener)

    def on_demand(self, listener: Callable[[str, str, int, Demand], None]) -> None:
        """Call *listener* with host, URL, status and demand of each page that wants something."""
        self._demand_listeners.append(listener)

    def answered(self, departure: Departure, response: Response) -> None:
        status, host = response.status, departure.host
        if status < 500 and status != TOO_MANY_REQUESTS:
            if status in REFUSALS and is_page(departure):
                self._look_for_demand(departure, response)
            if self._rows and is_page(departure):
                self._rows.pop(host, None)
            if self._keeper.was_in_trouble(host) and is_page(departure):
                self._keeper.note_success(host, departure.started_at)
            return
        if not host or not is_page(departure):
            return
        asked = 0.0
        if status in {TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE}:
            # Then Retry-After is about the host.
            asked = retry_after(fields_of(response.headers), self._now())
        elif not self._is_a_row(departure):
            return
        self._suffers(departure, str(status), response, asked)

    def _look_for_demand(self, departure: Departure, response: Response) -> None:
        """Tell of a page that is had only with a licence or for a payment."""
        request = departure.request
        demand = demand_of(request.url, response.status, fields_of(response.headers))
        if demand is None:
            return
        if response.status in self._settings.retried:
            request.meta["dont_retry"] = True  # another try would get the same answer
        self._log.count("demanded")
        cause = demand.cause
        self._log.count(f"demanded/{cause}")
        if departure.host not in self._demanding:
            if len(self._demanding) < MAX_ROWS:
                self._demanding.add(departure.host)
            self._log.tell(
                "hosts that want a licence or a payment",
                "%(host)s wants %(words)s for a page (%(status)d for %(url)s), which is not "
                "asked for again",
                host=departure.host,
                words=demand.in_words(),
                status=response.status,
                url=without_user(request.url),
            )
        for listener in self._demand_listeners:
            listener(departure.host, request.url, response.status, demand)

    def failed(self, departure: Departure, error: Exception) -> None:
        if not departure.host or not is_page(departure):
            return
        kind = kind_of(error)
        if kind in OF_THE_HOST or (kind == LOST and self._is_a_row(departure)):
            self._suffers(departure, kind)

    def _is_a_row(self, departure: Departure) -> bool:
        """Note that a page failed; tell whether so many have that it is not the page."""
        if self._keeper.is_in_trouble(departure.host):
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
        response: Response | None = None,
        asked: float = 0.0,
    ) -> None:
        request, host = departure.request, departure.host
        status = None if response is None else response.status
        heeded = asked and "retry-after" in self._settings.obey
        if not (heeded or self._backs_off):
            self._log.count("backoff/ignored")
            return
        most = self._settings.retry_after_max
        pause = min(asked, most) if heeded else 0.0
        if self._backs_off:
            before, health = self._keeper.note_failure(
                host, departure.started_at, status, pause
            )
            is_news = health.at != before.at
            if is_news and self._keeper.is_down(host):
                self._log.note_down(host, self._settings.back_off_give_up)
            if is_news and not heeded:
                pause = health.resumes - health.at
        longer = self._keeper.park(host, pause, what)
        if heeded:
            assert response is not None
            self._log.note_back_off(host, response, asked, most, longer)
        else:
            self._log.note_trouble(host, what, request.url, pause, longer)
        if longer and longer >= min(pause, NEWS_SECONDS):
            is_down = self._keeper.refuses(host)
            told = asked if heeded else None
            for listener in self._listeners:
                listener(BackedOff(host, request.url, what, pause, told, is_down))


def is_page(departure: Departure) -> bool:
    """Tell that it is not for a robots.txt."""
    return departure.robots_hop is None
