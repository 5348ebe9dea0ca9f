"""The lines of the log: of each event, of who waits from time to time, and at the end."""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy.utils.asyncio import call_later

from scrapy_rep.engine.inner import hop_of
from scrapy_rep.engine.tools import Alarm
from scrapy_rep.events import Event
from scrapy_rep.events.kinds import EVENTS, Reachable, Refused, Told, Unreachable
from scrapy_rep.events.waits import WHY, in_words
from scrapy_rep.exceptions import PlainError
from scrapy_rep.protocol.printable import counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scrapy.crawler import Crawler

    from scrapy_rep.engine.inner import Engine
    from scrapy_rep.events.stream import Stream
    from scrapy_rep.events.waits import Waits
    from scrapy_rep.exceptions import RobotsRefused
    from scrapy_rep.settings import Settings

logger = logging.getLogger("scrapy_rep")

GAP = re.compile(r"%\((\w+)\)s")
NUMBERS = {
    "that_wait": ("; {}", "request waits", "requests wait"),
    "that_waited": (" ({})", "request has waited", "requests have waited"),
    "that_go_on": ("; {}", "request goes on", "requests go on"),
    "more_that_wait": ("; {}", "more request waits", "more requests wait"),
    "among_them": (", {} among them", "request that waits", "requests that wait"),
}
"""Gaps for how many requests of a host or origin wait: filled where any does."""
NEWS_MOST = 10
"""Lines on one topic at INFO; further ones are written at DEBUG, and summed up at the end."""
NAMES_MOST = 10
MAX_SITUATIONS = 10_000
"""Hosts whose last one is remembered, for each kind of event; then all begin anew."""
UNRETRIEVED = ("asyncio", "twisted")
"""The loggers that show what ends a crawl before it begins, as Scrapy leaves it to them."""
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
"""By the cause in ``rep/forbidden``; other causes are shown as they are."""
WAITING_WORDS = {cause: f"as {why}" for cause, why in WHY.items()}
MOSTLY = 0.9
"""From this share of a time on in which a crawl only waited it is told who waits."""
ALL_PARKED = "all_parked"
_going_on: WeakSet[Crawler] = WeakSet()
_of_several: WeakSet[Crawler] = WeakSet()


def _is_not_plain(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, PlainError):
        logging.getLogger(record.name).log(record.levelno, "%s", error)
        return False
    return True


def tell_plainly() -> None:
    for name in UNRETRIEVED:
        logging.getLogger(name).addFilter(_is_not_plain)  # added once at the most


@dataclass(eq=False, repr=False)
class Log:
    _crawler: Crawler
    _settings: Settings
    _events: Stream
    _engine: Engine
    _waits: Waits

    def __post_init__(self) -> None:
        self._told: Counter[str] = Counter()
        self._untold: dict[str, list[str]] = {}
        """By topic, the first hosts or origins that have no line at INFO."""
        self._last: defaultdict[type[Event], dict[str, str]] = defaultdict(dict)
        self._since: dict[str, float] = {}
        """Origin -> since when it is unreachable, if the log has said so."""
        self._refused: Counter[str] = Counter()
        self._warned = 0
        """How many of the refused a person was warned of."""
        self._first_refusal: RobotsRefused | None = None
        self._longest_idle = self._settings.all_parked_max
        self._every = self._crawler.settings.getfloat("LOGSTATS_INTERVAL")
        self._pages = 0
        self._quiet = 0.0
        self._idle_time = 0.0
        self._alarm = Alarm(self._look)
        own: dict[type[Event], Callable[[Any], object]] = {
            Refused: self._hear_refusal,
            Unreachable: self._hear_unreachable,
            Reachable: self._hear_reachable,
        }
        for kind in EVENTS:
            if kind.words is not Event.words:
                self._events.listen(own.get(kind, self.hear), [kind])

    def hear(self, event: Event, **more: object) -> bool:
        """Write the line of *event*, with *more* in its gaps; tell whether it was above DEBUG."""
        level, words, topic = event.level, event.words, event.topic
        # What has a topic tells what we are going to do, which is nothing when the crawl ends.
        if not (words and event.is_news) or (topic and self._engine.is_ending()):
            return False
        if event.situation is not None and not self._is_new(event, event.situation):
            return False
        if topic:
            self._told[topic] += 1
            if self._told[topic] > NEWS_MOST:
                level = logging.DEBUG
                names = self._untold.setdefault(topic, [])
                if len(names) < NAMES_MOST:
                    names.append(event.whose)
        if logger.isEnabledFor(level):
            # How many wait is counted for INFO only, as it takes time.
            counts = level > logging.DEBUG
            for name in _gaps_of(words):
                more[name] = more.get(name) or self._said(event, name, counts=counts)
            spider: Any = self._crawler.spider
            if spider is not None and self._crawler in _of_several:
                words = f"{spider.name.replace('%', '%%')}: {words}"
            raised, extra = getattr(event, "raised", None), {"spider": spider}
            logger.log(level, words, more, exc_info=raised, extra=extra)
        if topic and self._told[topic] == NEWS_MOST:
            told = f"More {topic} are told at DEBUG, and summed up at the end"
            self.hear(Told(told))
        return level > logging.DEBUG

    def _said(self, event: Event, name: str, *, counts: bool) -> object:
        if name not in NUMBERS:
            value = getattr(event, name)
            if name == "cause":
                return WHY.get(value, value)
            return duration(value) if isinstance(value, float) else value
        form, *words = NUMBERS[name]
        host, origin = (getattr(event, each, "") for each in ("host", "origin"))
        number = self._waits.requests_of(host=host, origin=origin) if counts else 0
        return form.format(counted(number, *words)) if number else ""

    # Those that say something only by what was told before

    def _is_new(self, event: Event, situation: str) -> bool:
        last, whose = self._last[type(event)], event.whose
        if last.get(whose) == situation:
            return False
        if len(last) >= MAX_SITUATIONS:
            last.clear()
        last[whose] = situation
        return True

    def _hear_unreachable(self, event: Unreachable) -> None:
        since = self._since.get(event.origin)
        if event.again and since is None:
            return  # the first failure was not told, or that the origin was given up
        is_told = self.hear(event, passed=duration(event.time - (since or event.time)))
        if event.is_given_up:
            self._since.pop(event.origin)
        elif is_told and event.waits:
            self._since.setdefault(event.origin, event.time)

    def _hear_reachable(self, event: Reachable) -> None:
        since = self._since.pop(event.origin, None)
        if since is not None:
            self.hear(event, passed=duration(event.time - since))

    def _hear_refusal(self, event: Refused) -> None:
        self._refused[event.cause] += 1
        if event.instead:
            self._warned += 1
        else:
            self._first_refusal = self._first_refusal or event.refusal
        self.hear(event)

    # From the first line to the last

    def begin(self) -> None:
        _going_on.add(self._crawler)
        if len(_going_on) > 1:
            _of_several.update(_going_on)
        if self._longest_idle is not None:
            self._waits.on_idle = self._end_if_all_wait_long

    def opened(self) -> None:
        if telnet := sys.modules.get("scrapy.extensions.telnet"):  # else it is off
            connect = self._crawler.signals.connect
            connect(self._equip_telnet, telnet.update_telnet_vars)
        if self._waits.queue is None:
            self._waits.follow_downloader(self._crawler.signals.connect)
        if self._every > 0:
            self._alarm.set(self._every)

    def _equip_telnet(self, telnet_vars: dict[str, Any]) -> None:
        status = telnet_vars.get("est")

        def est() -> None:
            if status is not None:
                status()
            waiting = self._waits.waiting()
            print(f"robots.txt: {in_words(waiting) if waiting else 'nothing waits'}\n")

        telnet_vars["est"] = est

    def _look(self) -> None:
        """Tell who waits, if the crawl has done little else since the last look."""
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
        active = self._engine.active()
        pages = sum(hop_of(each) is None for each in active)
        return bool(active) and self._waits.are_at_gate(pages)

    def _end_if_all_wait_long(self, seconds: float) -> None:
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
        self._alarm.cancel()
        _going_on.discard(self._crawler)
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
        # What Scrapy's cache did with the others is not ours to tell.
        by_cache = any(stats.get_value(f"httpcache/{did}") for did in ("hit", "ignore"))
        if number and first is not None and not (pages or by_cache):
            those = f"each of the {number:,} requests was refused; the first"
            if number == 1:
                those = "the one request was refused"
            events.tell_user(f"Nothing was fetched: {those}: {first}")
        if more := "; ".join(self.told_at_debug()):
            events.tell_user(f"Told at DEBUG only: {more}")

    def _count_waiting(self, requests: int, hosts: int) -> None:
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
                causes += f"; {waits.kept:,} of them are in {waits.kept_in}"
            sums.append(f"{waits.left.total():,} never sent ({causes})")
        if would_forbid:
            sums.append(
                f"{would_forbid:,} sent although a robots.txt is against it (REP_OBEY)"
            )
        if waits.idle_time >= 1:
            sums.append(f"for {duration(waits.idle_time)} it did nothing but wait")
        return f"In all: {'; '.join(sums)}"

    def told_at_debug(self) -> Iterator[str]:
        for topic, names in self._untold.items():
            number = self._told[topic] - NEWS_MOST
            dots = ", ..." * (number > len(names))
            yield f"{number:,} more {topic} ({', '.join(names)}{dots})"


def _by_cause(numbers: Mapping[str, int], words: Mapping[str, str]) -> str:
    return ", ".join(
        f"{number:,} {words.get(cause, cause)}" for cause, number in numbers.items()
    )


@cache
def _gaps_of(words: str) -> list[str]:
    return GAP.findall(words)
