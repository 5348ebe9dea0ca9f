"""What an event is: a small record that knows how it reads, counts and is written down."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, fields
from functools import cache
from json import JSONEncoder
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

encode = JSONEncoder(separators=(",", ":"), default=str).encode
SPELLINGS = {
    "float": "'%.4f' % ({})",
    "int": "repr({})",
    "str": "quoted({})",
    "bool": "'true' if {} else 'false'",
    "list[str]": "encode({})",
    "dict[str, Any]": "encode({})",
}
"""What spells a value in JSON, by the annotation of its field."""


class Stats:
    """The stats of a crawl in which events count, under ``rep/``."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @property
    def all(self) -> StatsCollector:
        """Scrapy's, with the stats of others."""
        assert self._crawler.stats is not None
        return self._crawler.stats

    def count(self, name: str, number: int = 1) -> None:
        self.all.inc_value(f"rep/{name}", number)

    def add(self, name: str, seconds: float) -> None:
        before = self.all.get_value(f"rep/{name}", 0.0)
        self.all.set_value(f"rep/{name}", before + seconds)

    def longest(self, name: str, seconds: float) -> None:
        self.all.max_value(f"rep/{name}", seconds)


@dataclass(slots=True, eq=False)
class Event:
    """Something that happened in a crawl, at a ``time`` in seconds since 1970.

    What it says in the log, counts in the stats and is in an audit stands beside its fields.
    Floats are seconds, and read in the log as durations.
    """

    once: ClassVar[bool] = False
    """Whether only the first of its kind has a line."""
    counts: ClassVar[tuple[str, ...]] = ()
    """The stats to which it adds 1, without "rep/"; "{cause}" stands for its cause."""
    audit: ClassVar[str] = ""
    """The type of its record in an audit, which has all its fields; "": it has none. A field
    that may be ``None`` is left out where it is."""

    time: float = field(default=0.0, kw_only=True)
    """When, in seconds since 1970, as all times here."""

    @property
    def level(self) -> int:
        """The level of its line in the log."""
        return logging.INFO

    @property
    def words(self) -> str:
        """Its line in the log; "": it has none.

        It has gaps for its attributes, and for how many requests of its host or origin wait
        (``NUMBERS`` in ``log/lines.py``).
        """
        return ""

    @property
    def topic(self) -> str:
        """What it is one of, in the plural: few lines of a topic are at INFO, the others at DEBUG.

        "": none is left out.
        """
        return ""

    @property
    def is_news(self) -> bool:
        """Whether it is told and written, or only counted."""
        return True

    @classmethod
    def may_be_no_news(cls) -> bool:
        return cls.is_news is not Event.is_news

    @classmethod
    def is_counted(cls) -> bool:
        """Tell whether it counts in any stat."""
        return bool(cls.counts) or cls.count is not Event.count

    def count(self, stats: Stats) -> None:
        """Count it."""
        for name in self.counts:
            stats.count(name.replace("{cause}", getattr(self, "cause", "")))

    def as_json(self) -> str:
        """Return the line of its record, in ASCII and with its end."""
        line: str = writer_of(type(self))(self)  # type: ignore[arg-type]
        return line


@cache
def writer_of(record: Any, names: str = "", *, whole: bool = True) -> Any:
    """Return a function that makes the line of a *record*; or a part of it, with those *names*.

    It is compiled from the declaration, as dataclasses are: a request has three lines, and
    looking at each field of each would take twice as long.
    """
    parts = []
    for each in fields(record):
        kind = str(each.type)
        if names and each.name not in names.split():
            continue
        value = SPELLINGS[kind.removesuffix(" | None")].format(f"of.{each.name}")
        part = f"""',"{each.name}":' + ({value})"""
        if kind.endswith(" | None"):
            part = f"('' if of.{each.name} is None else {part})"
        parts.append(part)
    code = " + ".join(parts)
    if whole:
        code = f"""'{{"type":"{record.audit}"' + {code} + '}}\\n'"""
    return eval(f"lambda of: {code}", {"quoted": quoted, "encode": encode})  # noqa: S307 - its code is ours
