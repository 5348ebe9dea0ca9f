"""The lines of the log and the stats: what is made of each event."""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy_rep.events import EVENTS
from scrapy_rep.events.event import Event
from scrapy_rep.events.of_hosts import Demanded, PutOff, Reachable, Unreachable
from scrapy_rep.events.of_requests import Told
from scrapy_rep.exceptions import PlainError
from scrapy_rep.log.waits import WHY
from scrapy_rep.protocol.printable import counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.crawler import Crawler

    from scrapy_rep.events.stream import Stream
    from scrapy_rep.log.waits import Waits

logger = logging.getLogger("scrapy_rep")

GAP = re.compile(r"%\((\w+)\)s")
NUMBERS = {
    "that_wait": ("; {}", "request waits", "requests wait"),
    "that_waited": (" ({})", "request has waited", "requests have waited"),
    "that_go_on": ("; {}", "request goes on", "requests go on"),
    "more_that_wait": ("; {}", "more request waits", "more requests wait"),
    "among_them": (
        ", {} among them",
        "request that waits",
        "requests that wait",
    ),
}
"""Gaps for how many requests of a host or origin wait: filled where any does."""
NEWS_MOST = 10
"""Lines on one topic at INFO; further ones are written at DEBUG, and summed up at the end."""
NAMES_MOST = 10
"""Of those further ones, so many hosts are named at the end."""
MAX_DEMANDING, MAX_PUT_OFF = 10_000, 100
"""Hosts that are remembered to want a licence, or to wait for some cause; then all begin anew."""
UNRETRIEVED = ("asyncio", "twisted")
"""The loggers that show what ends a crawl before it begins, as Scrapy leaves it to them."""
_going_on: WeakSet[Crawler] = WeakSet()
"""All crawls of the process that go on."""
_of_several: WeakSet[Crawler] = WeakSet()
"""Those that have gone on at the same time as another."""


class SpiderNames(logging.Filter):
    """Has each line about a spider begin with its name where several spiders run."""

    def filter(self, record: logging.LogRecord) -> bool:
        spider = getattr(record, "spider", None)
        if spider is not None and spider.crawler in _of_several:
            name = spider.name.replace("%", "%%") if record.args else spider.name
            record.msg = f"{name}: {record.msg}"
        return True


logger.addFilter(SpiderNames())


class Plainly(logging.Filter):
    """Leaves of the record of a ``PlainError`` its message; nothing else is touched."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, PlainError):
            vars(record).update(msg=str(error), args=(), exc_info=None, exc_text=None)
        return True


def tell_plainly() -> None:
    """Have each ``PlainError`` that nobody catches told in one line."""
    for name in UNRETRIEVED:
        other = logging.getLogger(name)
        if not any(isinstance(each, Plainly) for each in other.filters):
            other.addFilter(Plainly())


class Log:
    """Writes a line for each event that has one.

    At INFO there are ``NEWS_MOST`` lines on each topic, then they are written at DEBUG.
    """

    def __init__(
        self,
        crawler: Crawler,
        events: Stream,
        waits: Waits,
        is_ending: Callable[[], bool],
    ) -> None:
        self._crawler = crawler
        self._waits = waits
        self._is_ending = is_ending
        self._told: Counter[str] = Counter()
        """How many lines there were to write, by topic, or of those told of once by kind."""
        self._untold: dict[str, list[str]] = {}
        """By topic, the first hosts or origins that there was no line at INFO for."""
        self._last: defaultdict[type[Event], dict[str, str]] = defaultdict(dict)
        """Kind of event -> host -> the cause that was told last."""
        self._since: dict[str, float] = {}
        """Origin -> since when it is unreachable, if the log has said so."""
        own: dict[type[Event], Callable[[Any], object]] = {
            PutOff: lambda event: self._hear_if_new(event, event.cause, MAX_PUT_OFF),
            Demanded: lambda event: self._hear_if_new(event, "", MAX_DEMANDING),
            Unreachable: self._hear_unreachable,
            Reachable: self._hear_reachable,
        }
        for kind in EVENTS:
            if kind.words is not Event.words:
                events.listen(own.get(kind, self.hear), [kind])

    def hear(self, event: Event, **more: object) -> bool:
        """Write the line of *event*, with *more* in its gaps; tell whether it was above DEBUG.

        While the crawl ends none is written that has a topic: they tell what we are going to
        do at a site.
        """
        level, words, topic = event.level, event.words, event.topic
        if not (words and event.is_news) or (topic and self._is_ending()):
            return False
        if event.once:
            self._told[name := type(event).__name__] += 1
            if self._told[name] > 1:
                return False
        if topic:
            self._told[topic] += 1
            if self._told[topic] > NEWS_MOST:
                level = logging.DEBUG
                names = self._untold.setdefault(topic, [])
                if len(names) < NAMES_MOST:
                    names.append(_whose(event))
        if logger.isEnabledFor(level):
            # How many wait is counted for INFO only, as it takes time.
            counts = level > logging.DEBUG
            for name in _gaps_of(words):
                more[name] = more.get(name) or self._said(event, name, counts=counts)
            logger.log(level, words, more, extra={"spider": self._crawler.spider})
        if topic and self._told[topic] == NEWS_MOST:
            told = f"More {topic} are told at DEBUG, and summed up at the end"
            self.hear(Told(told))
        return level > logging.DEBUG

    def _said(self, event: Event, name: str, *, counts: bool) -> object:
        """Return what stands in the gap *name* of the line of *event*."""
        if name not in NUMBERS:
            value = getattr(event, name)
            return duration(value) if isinstance(value, float) else value
        form, *words = NUMBERS[name]
        host, origin = (getattr(event, each, "") for each in ("host", "origin"))
        number = self._waits.requests_of(host=host, origin=origin) if counts else 0
        return form.format(counted(number, *words)) if number else ""

    # Those that say something only by what was told before

    def _hear_if_new(self, event: PutOff | Demanded, cause: str, most: int) -> None:
        """Hear it where the last one of its host had another *cause*."""
        last, host = self._last[type(event)], event.host or ""
        if last.get(host) != cause:
            if len(last) >= most:
                last.clear()
            last[host] = cause
            self.hear(event, why=WHY.get(cause, cause))

    def _hear_unreachable(self, event: Unreachable) -> None:
        since = self._since.get(event.origin)
        if event.again and since is None:
            return  # the first failure was not told, or that the origin was given up
        if event.is_given_up and since is not None:
            del self._since[event.origin]
            self.hear(event, passed=duration(event.time - since))
        elif self.hear(event) and event.waits:
            self._since.setdefault(event.origin, event.time)

    def _hear_reachable(self, event: Reachable) -> None:
        since = self._since.pop(event.origin, None)
        if since is not None:
            self.hear(event, passed=duration(event.time - since))

    # From the first line to the last

    def begin(self) -> None:
        """Note that the crawl begins."""
        _going_on.add(self._crawler)
        if len(_going_on) > 1:
            _of_several.update(_going_on)

    def end(self) -> None:
        """Note that the crawl is over."""
        _going_on.discard(self._crawler)

    def told_at_debug(self) -> Iterator[str]:
        """Yield what was told at DEBUG only, a part of a sentence for each topic."""
        for topic, names in self._untold.items():
            number = self._told[topic] - NEWS_MOST
            dots = ", ..." * (number > len(names))
            yield f"{number:,} more {topic} ({', '.join(names)}{dots})"


def _whose(event: Event) -> str:
    return str(getattr(event, "host", "") or getattr(event, "origin", ""))


@cache
def _gaps_of(words: str) -> list[str]:
    return GAP.findall(words)
