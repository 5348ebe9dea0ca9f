"""What an event is: a small record that knows how it reads, counts and is written down."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from json import JSONEncoder
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.statscollectors import StatsCollector
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        return lambda kind: kind


class Kind(NamedTuple):
    """What values of a field are in JSON: the code that spells "{}", and what may be read."""

    spelling: str
    types: frozenset[type]
    expected: str


KINDS = {
    "float": Kind("'%.4f' % ({})", frozenset({int, float}), "a number from 0"),
    "int": Kind("repr({})", frozenset({int}), "a whole number from 0"),
    "str": Kind("quoted({})", frozenset({str}), "a string"),
    "list[str]": Kind("encode({})", frozenset({list}), "a list"),
    "bool": Kind("'true' if {} else 'false'", frozenset({bool}), "true or false"),
    "dict[str, Any]": Kind("encode({})", frozenset({dict}), "an object"),
}
"""By the annotation of a field."""


def in_json(value: object) -> object:
    return (
        sorted(map(str, value)) if isinstance(value, (set, frozenset)) else str(value)
    )


encode = JSONEncoder(separators=(",", ":"), default=in_json).encode


@dataclass_transform(eq_default=False, field_specifiers=(field,))
@dataclass(eq=False, repr=False)
class Event:
    """Something that happened in a crawl. What is derived from it is a dataclass, too.

    What it says in the log, counts in the stats and is in an audit stands beside its fields.
    Floats are seconds, and read in the log as durations.
    """

    # A property may stand in the place of each of these.
    level = logging.INFO
    words = ""
    """Its line in the log, with gaps for its attributes and ``NUMBERS`` of ``log``; "": none."""
    topic = ""
    """What it is one of, in the plural: few lines of a topic are at INFO, the others at DEBUG."""
    situation: ClassVar[str | None] = None
    """It has a line only where the last one of its kind and host told of another situation."""
    is_news = True
    """Whether it is told and written, or only counted."""
    counts: ClassVar[tuple[str, ...]] = ()
    """The stats to which it adds 1, without "rep/"; "{cause}" stands for its cause."""
    audit = ""
    """The type of its record in an audit; "": it has none. Fields that are ``None`` are left out."""

    time: float = field(default=0.0, kw_only=True)
    """When, in seconds since 1970, as all times here."""

    def __init_subclass__(cls) -> None:
        dataclass(eq=False, repr=False)(cls)  # a repr for each takes 3 ms in all

    def __repr__(self) -> str:
        return f"{type(self).__name__}({vars(self)})"

    @property
    def whose(self) -> str:
        """The host or the origin that it is about; "": none."""
        return getattr(self, "host", "") or getattr(self, "origin", "")

    def count(self, stats: StatsCollector) -> None:
        for name in self.counts:
            cause = getattr(self, "cause", "")
            stats.inc_value(f"rep/{name}".replace("{cause}", cause))

    def as_json(self) -> str:
        """Return the line of its record, in ASCII and with its end."""
        return _writer_of(type(self))(self)  # type: ignore[arg-type]


def fields_of(record: type[Event]) -> dict[str, tuple[Kind, bool]]:
    """Return name -> kind of the fields, and whether each is always there."""
    found = {}
    for each in fields(record):
        name, optional, _ = str(each.type).partition(" | None")
        found[each.name] = KINDS[name], not optional
    return found


@cache
def _writer_of(record: type[Event]) -> Callable[[Event], str]:
    # Compiled, as dataclasses are: looking at each field of each line would take twice as long.
    parts = [f"""'{{"type":"{record.audit}"'"""]
    for name, (kind, needed) in fields_of(record).items():
        value = kind.spelling.format(f"of.{name}")
        part = f"""',"{name}":' + ({value})"""
        parts.append(part if needed else f"('' if of.{name} is None else {part})")
    code = f"lambda of: {' + '.join(parts)} + '}}\\n'"
    line: Callable[[Event], str] = eval(code, {"quoted": quoted, "encode": encode})  # noqa: S307 - its code is ours
    return line


def as_text(octets: bytes) -> tuple[str, str]:
    """Return a charset and the text that *octets* are in it: ``encoding`` and ``body``.

    Encoded again it is *octets*, one by one, so that their digest can be checked.
    """
    try:
        return "utf-8", octets.decode()
    except UnicodeDecodeError:
        return "latin-1", octets.decode("latin-1")


def as_octets(encoding: str | None, text: str) -> bytes:
    if encoding == "latin-1":
        with suppress(UnicodeEncodeError):
            return text.encode("latin-1")
    return text.encode("utf-8", "surrogatepass")
