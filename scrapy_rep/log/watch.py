"""The lines that the log has from time to time, and at the end of a crawl."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.extensions.telnet import update_telnet_vars
from scrapy.utils.asyncio import call_later

from scrapy_rep.downloader.starts import ROBOTS_HOP
from scrapy_rep.downloader.tools import Alarm
from scrapy_rep.events.of_requests import Refused
from scrapy_rep.events.stream import Stream
from scrapy_rep.log.waits import WHY, in_words
from scrapy_rep.protocol.printable import counted, duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.crawler import Crawler

    from scrapy_rep.downloader.starts import Departure, Outcome
    from scrapy_rep.engine import Engine
    from scrapy_rep.exceptions import RobotsRefused
    from scrapy_rep.log.lines import Log
    from scrapy_rep.log.waits import Waits
    from scrapy_rep.settings import Settings

REFUSED_WORDS = {
    "rule": "by a rule",
    "status": "by the status of a robots.txt",
    "unreachable": "as a robots.txt is unreachable",
    "approval": "as a robots.txt is not as approved",
    "purpose": "for what the crawl is for",
    "crawl_delay": "as the delay is too long",
    "visit_time": "as the visit time is too far off",
    "parked": "as a host is parked",
    "waiting": "as too many wait",
    "on_the_way": "as their robots.txt waits for them",
    "down": "as a host does nothing but fail",
    "budget": "as a host has had as many as it may",
}
"""Why requests were refused, by the cause in ``rep/forbidden``. Other causes are shown as they
are."""
MOSTLY = 0.9
"""The share of a time in which a crawl only waited, from which on it is told who waits."""
ALL_PARKED = "all_parked"
"""The reason with which a crawl ends because of REP_ALL_PARKED_MAX."""


class Watch:
    """Tells what a crawl waits for while it does nothing else, and sums up at its end."""

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        engine: Engine,
        waits: Waits,
        log: Log,
    ) -> None:
        self._crawler = crawler
        self._engine = engine
        self._waits = waits
        self._log = log
        self._events = events = Stream.of(crawler)
        self._refused: Counter[str] = Counter()
        """How many requests were refused, by cause."""
        self._warned = 0
        """How many of those a person was warned of."""
        self._first_refusal: RobotsRefused | None = None
        events.listen(self._hear_refusal, [Refused])
        self._longest_idle = settings.all_parked_max
        if self._longest_idle is not None:
            waits.on_idle = self._end_if_long
        self._every = crawler.settings.getfloat("LOGSTATS_INTERVAL")
        self._pages = 0
        self._quiet = 0.0
        self._idle_time = 0.0
        self._alarm = Alarm(self._look)
        self._under_way = 0

    def _hear_refusal(self, event: Refused) -> None:
        self._refused[event.cause] += 1
        if event.instead:
            self._warned += 1
        else:
            self._first_refusal = self._first_refusal or event.refusal

    def opened(self) -> None:
        """Note that the crawl begins."""
        self._crawler.signals.connect(self._equip_telnet, update_telnet_vars)
        if self._waits.queue is None:
            self._follow_downloader()
        if self._every > 0:
            self._alarm.set(self._every)

    def _follow_downloader(self) -> None:
        """Note when all that is in the downloader waits, which no queue of ours will tell."""
        starts, connect = self._engine.starts, self._crawler.signals.connect
        starts.on_start.append(self._note_start)
        starts.on_over.append(self._note_over)
        connect(self._note_reached, signals.request_reached_downloader)

    def _note_start(self, departure: Departure) -> None:
        self._under_way += 1
        self._waits.note_busy()

    def _note_over(self, departure: Departure, outcome: Outcome) -> None:
        self._under_way -= departure.is_sent
        active = self._engine.active()
        if len(active) > (departure.request in active):
            self._note_reached()

    def _note_reached(self) -> None:
        if not self._under_way:
            self._waits.note_waiting()

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
        """Tell who waits, if that is nearly all that the crawl has done since the last look."""
        if self._engine.is_ending():
            return  # what waits will not be sent
        self._alarm.set(self._every)
        pages, self._pages = self._pages, self._engine.starts.pages
        sent = self._pages - pages
        idle_time = self._waits.idle_time + self._waits.idle_for()
        idled, self._idle_time = idle_time - self._idle_time, idle_time
        self._quiet = 0.0 if sent else self._quiet + self._every
        quiet = self._quiet  # as something else may hold up all that was sent
        if sent or (self._waits.queue is not None and not self._has_only_robots()):
            if idled < self._every * (MOSTLY if sent else 0.5):
                return
            quiet = max(idled, self._waits.idle_for())
        waiting = self._waits.waiting()
        hosts = {each.host for each in waiting}
        self._count_waiting(sum(each.requests for each in waiting), len(hosts))
        if not waiting:
            return
        said = f"Nothing was sent for {duration(quiet)}"
        if sent:
            said = (
                f"In {duration(self._every)} {counted(sent, 'request was', 'requests were')} "
                f"sent, and for {duration(idled)} of it the crawl did nothing but wait"
            )
        self._events.tell_user(f"{said}: {in_words(waiting)}")

    def _has_only_robots(self) -> bool:
        """Tell whether robots.txt files are asked for, and nothing else is."""
        active = self._engine.active()
        pages = sum(ROBOTS_HOP not in each.meta for each in active)
        return bool(active) and self._waits.are_at_gate(pages)

    def _end_if_long(self, seconds: float) -> None:
        """End the crawl if nothing can be sent for *seconds*, and that is too long."""
        most = self._longest_idle
        if most is None or seconds <= most or not self._engine.only_queue_is_left():
            return
        self._longest_idle = None
        waiting = in_words(self._waits.waiting())
        self._events.tell_user(
            f"The crawl ends, as nothing may be sent for longer than REP_ALL_PARKED_MAX "
            f"({duration(most)}): {waiting}"
        )
        call_later(0, self._engine.close, ALL_PARKED)

    def closed(self) -> None:
        """Note that the crawl is over, and its queues are closed."""
        self._alarm.cancel()
        waits, events, pages = self._waits, self._events, self._engine.starts.pages
        waits.note_busy()
        waits.end()
        self._count_waiting(waits.left.total(), waits.hosts_left)
        for cause, number in waits.left.items():
            events.count(f"unsent/{cause}", number)
        stats: Any = self._crawler.stats
        if waits.idle_time:
            stats.set_value("rep/waiting_time", waits.idle_time)
        number, first = self._refused.total(), self._first_refusal
        if pages or waits.left or not 0 < number == self._warned:
            events.tell_user(self._sums(stats.get_value("rep/would_forbid", 0)))
        if number and first is not None and not pages:
            those = f"each of the {number:,} requests was refused; the first"
            if number == 1:
                those = "the one request was refused"
            events.tell_user(f"Nothing was fetched: {those}: {first}")
        if more := "; ".join(self._log.told_at_debug()):
            events.tell_user(f"Told at DEBUG only: {more}")

    def _count_waiting(self, requests: int, hosts: int) -> None:
        """Set the stats of how many requests wait now, and for how many hosts."""
        stats: Any = self._crawler.stats
        if requests or stats.get_value("rep/waiting") is not None:
            stats.set_value("rep/waiting", requests)
            stats.set_value("rep/waiting/hosts", hosts)

    def _sums(self, would_forbid: int) -> str:
        waits, refused = self._waits, self._refused
        sums = [f"{counted(self._engine.starts.pages, 'request')} sent"]
        if refused:
            causes = _by_cause(refused, REFUSED_WORDS)
            sums.append(f"{refused.total():,} refused ({causes})")
        if waits.left:
            causes = _by_cause(waits.left, WAITING_WORDS)
            if waits.kept:
                causes += f"; {waits.kept:,} of them are in JOBDIR"
            sums.append(f"{waits.left.total():,} never sent ({causes})")
        if would_forbid:
            sums.append(
                f"{would_forbid:,} sent although a robots.txt is against it (REP_OBEY)"
            )
        if waits.idle_time >= 1:
            sums.append(f"for {duration(waits.idle_time)} it did nothing but wait")
        return f"In all: {'; '.join(sums)}"


WAITING_WORDS = {cause: f"as {why}" for cause, why in WHY.items()}


def _by_cause(numbers: Mapping[str, int], words: Mapping[str, str]) -> str:
    return ", ".join(
        f"{number:,} {words.get(cause, cause)}" for cause, number in numbers.items()
    )
