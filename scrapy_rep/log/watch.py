"""The lines that the log has from time to time, and at the end of a crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.extensions.telnet import update_telnet_vars
from scrapy.utils.asyncio import call_later

from scrapy_rep.log.lines import NEWS_MOST
from scrapy_rep.log.waits import WHY, in_words
from scrapy_rep.protocol.printable import counted, duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_rep.downloader import Downloader
    from scrapy_rep.log.lines import CrawlLog
    from scrapy_rep.log.waits import Waits
    from scrapy_rep.settings import Settings

REFUSED_WORDS = {
    "rule": "by a rule",
    "status": "by the status of a robots.txt",
    "unreachable": "as a robots.txt is unreachable",
    "purpose": "for what the crawl is for",
    "crawl_delay": "as the delay is too long",
    "visit_time": "as the visit time is too far off",
    "parked": "as a site wants to be left alone",
    "waiting": "as too many wait",
    "down": "as a host does nothing but fail",
    "budget": "as a host has had as many as it may",
}
"""Why requests were refused, by the cause in ``rep/forbidden``. Other causes are shown as they
are."""
FORBIDDEN_STATS = "forbidden/"
ALL_PARKED = "all_parked"
"""The reason with which a crawl ends because of REP_ALL_PARKED_MAX."""


class Watch:
    """Tells what a crawl waits for while it does nothing else, and sums up at its end."""

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        downloader: Downloader,
        waits: Waits,
        log: CrawlLog,
    ) -> None:
        self._crawler = crawler
        self._downloader = downloader
        self._waits = waits
        self._log = log
        self._obey = settings.obey
        self._longest_idle = settings.all_parked_max
        if self._longest_idle is not None:
            waits.on_idle(self._end_if_long)
        self._every = crawler.settings.getfloat("LOGSTATS_INTERVAL")
        self._pages = 0
        self._quiet = 0.0
        self._timer: CallLaterResult | None = None

    def opened(self) -> None:
        """Note that the crawl begins."""
        if "disallow" not in self._obey:
            self._log.tell_user(
                'This is a dry run, as REP_OBEY has no "disallow": what a robots.txt is '
                "against is sent all the same, and counted in rep/would_forbid"
            )
        self._crawler.signals.connect(self._equip_telnet, update_telnet_vars)
        if self._every > 0:
            self._timer = call_later(self._every, self._look)

    def _equip_telnet(self, telnet_vars: dict[str, Any]) -> None:
        """Show what waits with the status of the engine, ``est()``."""
        status = telnet_vars.get("est")

        def est() -> None:
            if status is not None:
                status()
            waiting = self._waits.waiting()
            print(f"robots.txt: {in_words(waiting) if waiting else 'nothing waits'}\n")

        telnet_vars["est"] = est

    def _look(self) -> None:
        self._timer = call_later(self._every, self._look)
        pages, self._pages = self._pages, self._downloader.pages
        if pages != self._pages:
            self._quiet = 0.0
            return
        self._quiet += self._every
        quiet = self._waits.idle_for() if self._waits.has_queue() else self._quiet
        if quiet < self._every / 2:
            return
        waiting = self._waits.waiting()
        self._log.count_waiting(
            sum(each.requests for each in waiting), len({each.host for each in waiting})
        )
        if waiting:
            text = in_words(waiting)
            self._log.tell_user(f"Nothing was sent for {duration(quiet)}: {text}")

    def _end_if_long(self, seconds: float) -> None:
        """End the crawl if nothing can be sent for *seconds*, and that is too long."""
        most = self._longest_idle
        if most is None or seconds <= most or not self._downloader.only_queue_is_left():
            return
        self._longest_idle = None
        waiting = in_words(self._waits.waiting())
        self._log.tell_user(
            f"The crawl ends, as all hosts are parked for longer than REP_ALL_PARKED_MAX "
            f"({most:g} s): {waiting}"
        )
        call_later(0, self._downloader.close, ALL_PARKED)

    def closed(self) -> None:
        """Note that the crawl is over, and its queues are closed."""
        if self._timer is not None:
            self._timer.cancel()
        self._waits.note_busy()
        self._waits.close_all()
        stats: Any = self._crawler.stats
        left = self._waits.left
        self._log.count_waiting(sum(left.values()), self._waits.hosts_left)
        for cause, number in left.items():
            self._log.count(f"unsent/{cause}", number)
        idle_time = self._waits.idle_time
        if idle_time:
            stats.set_value("rep/parked_time", idle_time)
        refused = {
            name.partition(FORBIDDEN_STATS)[2]: number
            for name, number in stats.get_stats().items()
            if name.startswith(f"rep/{FORBIDDEN_STATS}")
        }
        self._log.tell_user(self._sums(refused, stats.get_value("rep/would_forbid", 0)))
        number = sum(refused.values())
        if number and not self._downloader.pages:
            first = self._log.first_refusal
            self._log.tell_user(
                f"Nothing was fetched: each of the {number:,} requests was refused; the "
                f"first: {first}"
                if number > 1
                else f"Nothing was fetched: the one request was refused: {first}"
            )
        more = [
            f"{number - NEWS_MOST:,} more {kind}"
            for kind, number in self._log.told.items()
            if number > NEWS_MOST
        ]
        if more:
            self._log.tell_user(f"Not told one by one: {', '.join(more)}")

    def _sums(self, refused: Mapping[str, int], would_forbid: int) -> str:
        left, idle_time = self._waits.left, self._waits.idle_time
        sums = [f"{counted(self._downloader.pages, 'request')} sent"]
        if refused:
            causes = _by_cause(refused, REFUSED_WORDS)
            sums.append(f"{sum(refused.values()):,} refused ({causes})")
        if left:
            causes = _by_cause(left, WAITING_WORDS)
            kept = f"; {self._waits.kept:,} of them are in JOBDIR" * bool(
                self._waits.kept
            )
            sums.append(f"{sum(left.values()):,} never sent ({causes}{kept})")
        if would_forbid:
            sums.append(
                f"{would_forbid:,} sent although a robots.txt is against it (REP_OBEY)"
            )
        if idle_time >= 1:
            sums.append(f"for {duration(idle_time)} it did nothing but wait")
        return f"In all: {'; '.join(sums)}"


WAITING_WORDS = {cause: f"as {why}" for cause, why in WHY.items()}


def _by_cause(numbers: Mapping[str, int], words: Mapping[str, str]) -> str:
    return ", ".join(
        f"{number:,} {words.get(cause, cause)}" for cause, number in numbers.items()
    )
