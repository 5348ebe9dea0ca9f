"""What the log and the stats say."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy_rep.exceptions import explain
from scrapy_rep.protocol.printable import without_user

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.statscollectors import StatsCollector

    from scrapy_rep.exceptions import RobotsRefused, StillParked
    from scrapy_rep.pacing import Pace
    from scrapy_rep.protocol import Verdict

logger = logging.getLogger("scrapy_rep")

NEWS_SECONDS = 0.5
"""Seconds by which a slot must be parked for longer than before for a line in the log."""


class CrawlLog:
    """Writes the log lines of one crawl, and counts.

    DEBUG: a line per refusal. INFO: a line per origin that denies everything, cannot be
    had or asks for a delay. WARNING: what the user must change.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @property
    def _stats(self) -> StatsCollector:
        assert self._crawler.stats is not None
        return self._crawler.stats

    def count(self, name: str) -> None:
        self._stats.inc_value(f"rep/{name}")

    def _add(self, name: str, seconds: float) -> None:
        name = f"rep/{name}"
        self._stats.set_value(name, self._stats.get_value(name, 0.0) + seconds)

    def note_refusal(self, refusal: RobotsRefused, cause: str) -> None:
        """A request is not sent."""
        self._stats.inc_value("robotstxt/forbidden")
        self.count(f"forbidden/{cause}")
        self._log(logging.DEBUG, "%(refusal)s", refusal=refusal)

    def note_dry_run(self, refusal: RobotsRefused, cause: str) -> None:
        """A request is sent although robots.txt is against it: REP_OBEY leaves it out."""
        self.count("would_forbid")
        self.count(f"would_forbid/{cause}")
        self._log(
            logging.DEBUG, "Sent all the same (REP_OBEY): %(refusal)s", refusal=refusal
        )

    def note_cached_page(self, url: str, origin: str) -> None:
        """A page needs nothing of its site, whose robots.txt cannot be had."""
        self.count("from_http_cache")
        self._log(
            logging.DEBUG,
            "From the HTTP cache, as robots.txt of %(origin)s is unreachable: %(url)s",
            origin=origin,
            url=url,
        )

    def note_drop(self, what: str, page: str, cause: str, why: str) -> None:
        """What the spider found on *page* goes no further (REP_PAGE_OBEY)."""
        self.count(f"page/dropped/{cause}")
        self._log(
            logging.DEBUG,
            "Dropped %(what)s, found on %(page)s, which says %(why)s",
            what=what,
            page=page,
            why=why,
        )

    def note_unreachable(
        self, origin: str, failure: str, meanwhile: str, *, again: bool
    ) -> None:
        """An origin cannot be asked; *again*: nor could it be before."""
        self.count("unreachable")
        if not again:
            self._log(
                logging.INFO,
                "robots.txt of %(origin)s is unreachable (%(failure)s): %(meanwhile)s",
                origin=origin,
                failure=failure,
                meanwhile=meanwhile,
            )

    def note_denial_of_all(self, origin: str, verdict: Verdict) -> None:
        self._log(
            logging.INFO,
            "robots.txt of %(origin)s allows us nothing: %(reason)s",
            origin=origin,
            reason=explain(verdict),
        )

    def note_pace(self, origin: str, pace: Pace, now: float) -> None:
        """An origin asks for a delay, or for visits at a part of the day only."""
        visit = pace.visit
        if visit is not None:
            self._log(
                logging.INFO,
                "robots.txt of %(origin)s wants visits from %(start)s to %(end)s UTC only",
                origin=origin,
                start=visit.start.isoformat("minutes"),
                end=visit.end.isoformat("minutes"),
            )
        asked = pace.asked(now)
        if not asked:
            return
        self.count("crawl_delay/origins")
        self._stats.max_value("rep/crawl_delay/longest", asked)
        how = "kept"
        if asked > pace.most:
            self.count("crawl_delay/over_max")
            done = "nothing is fetched" if pace.drop else "that is kept instead"
            how = f"over REP_CRAWL_DELAY_MAX ({pace.most:g} s), so {done}"
        self._log(
            logging.INFO,
            "robots.txt of %(origin)s asks for %(asked)g s between requests: %(how)s",
            origin=origin,
            asked=asked,
            how=how,
        )

    def note_parked_slot(self, slot: str, wait: float, why: str) -> None:
        """A slot with waiting requests is not asked for some time."""
        self.count("parked")
        self._add("parked_time", wait)
        self._log(
            logging.DEBUG,
            "Download slot %(slot)s is parked for %(wait).3f s: %(why)s",
            slot=slot,
            wait=wait,
            why=why,
        )

    def note_back_off(
        self, slot: str, response: Response, asked: float, most: float, longer: float
    ) -> None:
        """An answer asks for a pause; its slot is parked for *longer* than before."""
        self.count("backoff/count")
        self._add("backoff/time", longer)
        self._stats.max_value("rep/backoff/longest", asked)
        how = "kept"
        if asked > most:
            self.count("backoff/over_max")
            how = f"over REP_RETRY_AFTER_MAX ({most:g} s), so that is kept instead"
        if longer < NEWS_SECONDS:
            return  # one line for all that were answered at the same time
        self._log(
            logging.INFO,
            "Download slot %(slot)s is to be left alone for %(asked)g s (%(status)d for "
            "%(url)s): %(how)s",
            slot=slot,
            asked=asked,
            status=response.status,
            url=without_user(response.url),
            how=how,
        )

    def note_unsent(self, parked: StillParked) -> None:
        """A request was waiting in a parked slot when the crawl ended."""
        self.count("backoff/unsent")
        self._log(logging.DEBUG, "%(parked)s", parked=parked)

    def note_lag(self, lag: float) -> None:
        """A parked slot is asked *lag* seconds after it was due."""
        stats = self._stats
        stats.max_value("rep/due_lag/max", lag)
        self._add("due_lag/total", lag)
        self.count("due_lag/count")
        mean = stats.get_value("rep/due_lag/total") / stats.get_value(
            "rep/due_lag/count"
        )
        stats.set_value("rep/due_lag/mean", mean)

    def note_store_failure(self, doing: str, origin: str, error: Exception) -> None:
        """The store is no judge: what it cannot tell is fetched."""
        self.count("store/errors")
        if self._stats.get_value("rep/store/errors") == 1:
            self._log(
                logging.WARNING,
                "The store (REP_STORE) could not %(doing)s %(origin)s: %(error)r. The "
                "crawl goes on; what is not kept is fetched again. Later failures are "
                "only counted, in rep/store/errors",
                doing=doing,
                origin=origin,
                error=error,
            )

    def note_evictions(self, number: int) -> None:
        if number:
            self._stats.set_value("rep/cache/evictions", number)

    def tell_user(self, sentence: str) -> None:
        """Tell what could be better."""
        self._log(logging.INFO, "%(sentence)s", sentence=sentence)

    def warn_user(self, sentence: str) -> None:
        """Tell what must be changed."""
        self._log(logging.WARNING, "%(sentence)s", sentence=sentence)

    def _log(self, level: int, message: str, **values: object) -> None:
        logger.log(level, message, values, extra={"spider": self._crawler.spider})
