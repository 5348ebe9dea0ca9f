"""How a line gets into the log: of whom, how many of a kind, and which are left for DEBUG."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider
    from scrapy.crawler import Crawler

logger = logging.getLogger("scrapy_rep")

NEWS_MOST = 10
"""Lines of one kind at INFO; further ones are written at DEBUG, and summed up at the end."""
NAMES_MOST = 10
"""Of those further ones, so many hosts are named at the end."""


class SpiderNames(logging.Filter):
    """Has each line about a spider begin with its name where several spiders run."""

    def filter(self, record: logging.LogRecord) -> bool:
        spider = getattr(record, "spider", None)
        if spider is not None and any(each.is_of(spider) for each in _of_several):
            name = spider.name.replace("%", "%%") if record.args else spider.name
            record.msg = f"{name}: {record.msg}"
        return True


logger.addFilter(SpiderNames())


class Telling:
    """Writes lines: at INFO up to ``NEWS_MOST`` of each kind, then at DEBUG."""

    def __init__(
        self, crawler: Crawler, is_ending: Callable[[], bool] = lambda: False
    ) -> None:
        self._crawler = crawler
        self._is_ending = is_ending
        self.told: Counter[str] = Counter()
        """How many lines of each kind there were to write."""
        self.not_told: dict[str, list[str]] = {}
        """By kind, the first hosts or origins that there was no line at INFO for."""

    def tell(self, kind: str, message: str, **values: object) -> bool:
        """Write a line at INFO; at DEBUG, if there were ``NEWS_MOST`` of its *kind* already.

        *kind* is a plural noun. Values that are functions are called only at INFO, as
        counting what waits takes time. Returns whether the line was written there. While the
        crawl ends none is written: they tell what we are going to do at a site.
        """
        if self._is_ending():
            return False
        self.told[kind] += 1
        is_news = self.told[kind] <= NEWS_MOST
        found = {k: v for k, v in values.items() if not callable(v)}
        found |= {k: v() if is_news else "" for k, v in values.items() if callable(v)}
        self._log(logging.INFO if is_news else logging.DEBUG, message, **found)
        if self.told[kind] == NEWS_MOST:
            self.tell_user(f"More {kind} are told at DEBUG, and summed up at the end")
        if not is_news:
            names = self.not_told.setdefault(kind, [])
            if len(names) < NAMES_MOST:
                names.append(str(values.get("host") or values.get("origin")))
        return is_news

    def tell_user(self, sentence: str) -> None:
        """Tell what could be better."""
        self._log(logging.INFO, "%(sentence)s", sentence=sentence)

    def warn_user(self, sentence: str) -> None:
        """Tell what must be changed."""
        self._log(logging.WARNING, "%(sentence)s", sentence=sentence)

    def begin(self) -> None:
        """Note that the crawl begins."""
        _going_on.add(self)
        if len(_going_on) > 1:
            _of_several.update(_going_on)

    def end(self) -> None:
        """Note that the crawl is over."""
        _going_on.discard(self)

    def is_of(self, spider: Spider) -> bool:
        return self._crawler.spider is spider

    def _log(self, level: int, message: str, **values: object) -> None:
        logger.log(level, message, values, extra={"spider": self._crawler.spider})


_going_on: WeakSet[Telling] = WeakSet()
"""Those of all crawls of the process that go on."""
_of_several: WeakSet[Telling] = WeakSet()
"""Those of crawls that have gone on at the same time as another."""
