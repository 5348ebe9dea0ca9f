"""What an answer, or none, tells of how its host is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.downloader import ROBOTS_HOP
from scrapy_rep.policies.freshness import fields_of, retry_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.downloader import Departure
    from scrapy_rep.log import CrawlLog
    from scrapy_rep.pacing import Keeper
    from scrapy_rep.settings import Settings

REFUSING_STATUSES = frozenset({429, 503})
"""Those that speak for the host, and whose Retry-After says when requests are welcome again."""
FAILURES = (("connectionrefused", "connection refused"), ("timeout", "timeout"))
"""Of what speaks for the host: a part of the name of the exception, and what it is in words.
The exceptions of Twisted, of Scrapy and of each of its download handlers differ."""
LOST = ("connect", "failed", "neverreceived")
"""The same of what may be about one page."""
IN_A_ROW = 3
"""Of what may be about one page, so many pages in a row speak for the host."""
SPARED = 3
"""So many tries in a row, after the first, at a host that is in trouble do not count as tries
of their pages. Then they do, as the page itself may be what fails."""
MAX_ROWS = 10_000
"""Hosts whose rows are kept; then all begin anew."""


class Symptoms:
    """Heeds what comes of each request: of pages, not of a robots.txt, which is asked for
    again later, and whose pages wait for that.
    """

    def __init__(
        self,
        crawler: Crawler,
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
        of_scrapy = crawler.settings
        self._most_tries = 0
        if of_scrapy.getbool("RETRY_ENABLED"):
            self._most_tries = of_scrapy.getint("RETRY_TIMES")
        self._retried = {int(each) for each in of_scrapy.getlist("RETRY_HTTP_CODES")}

    def answered(self, departure: Departure, response: Response) -> None:
        status, host = response.status, departure.host
        if status < 500 and status != 429:
            if self._rows and is_page(departure):
                self._rows.pop(host, None)
            if self._keeper.troubles.is_known(host) and is_page(departure):
                self._keeper.troubles.note_success(host, departure.started_at)
            return
        if not host or not is_page(departure):
            return
        asked = 0.0
        if status in REFUSING_STATUSES:
            asked = retry_after(fields_of(response.headers), self._now())
        elif not self._is_a_row(departure):
            return
        self._suffers(departure, str(status), response, asked)

    def failed(self, departure: Departure, error: Exception) -> None:
        if not departure.host or not is_page(departure):
            return
        name = type(error).__name__.lower()
        for part, words in FAILURES:
            if part in name:
                self._suffers(departure, words)
                return
        if any(part in name for part in LOST) and self._is_a_row(departure):
            self._suffers(departure, "connection lost")

    def _is_a_row(self, departure: Departure) -> bool:
        """Note that a page failed; tell whether so many have that it is not the page."""
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
            before, health = self._keeper.troubles.note_failure(
                host, departure.started_at, status, pause
            )
            is_news = health.at != before.at
            if 1 <= before.level <= SPARED or not is_news:
                self._spare_a_try(request, status)
            if is_news and self._keeper.troubles.is_down(host):
                self._log.note_down(host, self._settings.back_off_give_up)
            if is_news and not heeded:
                pause = health.resumes - health.at
        longer = self._keeper.back_off.park(host, pause)
        if heeded:
            assert response is not None
            self._log.note_back_off(host, response, asked, most, longer)
        else:
            self._log.note_trouble(host, what, request.url, pause, longer)

    def _spare_a_try(self, request: Request, status: int | None) -> None:
        """Have RetryMiddleware not count this try: the host has failed, not the page."""
        meta = request.meta
        most = meta.get("max_retry_times", self._most_tries)
        if not most or (status is not None and status not in self._retried):
            return  # it is not tried again anyway
        if not self._keeper.troubles.is_down(self._keeper.host_of(request)):
            meta["retry_times"] = meta.get("retry_times", 0) - 1
            self._log.count("backoff/spared_tries")


def is_page(departure: Departure) -> bool:
    """Tell that it is not for a robots.txt."""
    return ROBOTS_HOP not in departure.request.meta
