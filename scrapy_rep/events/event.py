"""What an event is: a small record that knows how it reads, counts and is written down."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, fields
from functools import cache
from json import JSONEncoder
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import dataclass_transform

    from scrapy_rep.events.stream import Stats
else:

    def dataclass_transform(**_: object) -> Any:
        return lambda kind: kind


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


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class Declared:
    """Makes a dataclass of each class that is derived from it."""

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)


class Event(Declared):
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
    def raised(self) -> BaseException | None:
        """What was raised: its traceback stands below the line."""
        return None

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
    def is_counted(cls) -> bool:
        """Tell whether it counts in any stat."""
        return bool(cls.counts) or cls.count is not Event.count

    def count(self, stats: Stats) -> None:
        """Count it."""
        for name in self.counts:
            stats.count(name.replace("{cause}", getattr(self, "cause", "")))

    def as_json(self) -> str:
        """Return the line of its record, in ASCII and with its end."""
        return writer_of(type(self))(self)  # type: ignore[arg-type]


@cache
def writer_of(record: Any) -> Callable[[Event], str]:
    """Return a function that makes the line of a *record*.

    It is compiled from the declaration, as dataclasses are: a request has three lines, and
    looking at each field of each would take twice as long.
    """
    parts = [f"""'{{"type":"{record.audit}"'"""]
    for each in fields(record):
        kind = str(each.type)
        value = SPELLINGS[kind.removesuffix(" | None")].format(f"of.{each.name}")
        part = f"""',"{each.name}":' + ({value})"""
        if kind.endswith(" | None"):
            part = f"('' if of.{each.name} is None else {part})"
        parts.append(part)
    code = f"lambda of: {' + '.join(parts)} + '}}\\n'"
    line: Callable[[Event], str] = eval(code, {"quoted": quoted, "encode": encode})  # noqa: S307 - its code is ours
    return line
