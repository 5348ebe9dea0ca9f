"""What happens in a crawl? Each event is declared once, and whoever wants to know listens.

Here, too, is how the records of an audit are read: by the declarations by which they are written.
That needs no Scrapy, nor does anything in this room but ``stream``.
"""

from __future__ import annotations

import json
from contextlib import suppress

from scrapy_rep.events import of_hosts, of_requests
from scrapy_rep.events.event import KINDS, Event, fields_of
from scrapy_rep.events.of_requests import FORMAT

EVENTS: tuple[type[Event], ...] = tuple(
    each
    for module in (of_requests, of_hosts)
    for each in vars(module).values()
    if isinstance(each, type)
    and issubclass(each, Event)
    and each.__module__ == module.__name__
)
"""All of them, in the order in which they are declared."""
MAX_DIGEST_CHARACTERS = 200
END_OF_TIME = 1e11
"""Seconds since 1970, in the year 5138: later times are not valid. Charts go beyond the last time,
and Python's dates end with the year 9999."""


RECORDS = {each.audit: fields_of(each) for each in EVENTS if each.audit}
"""Type of record -> its fields."""

decode = json.JSONDecoder().decode


def fault(record: object) -> str:
    """Return what is wrong with a line of an audit; "" where nothing is.

    Records of a type that is not known are no concern, but must have their time. Nor are
    keys that are no fields.
    """
    if type(record) is not dict:
        return "not a JSON object"
    name = record.get("type")
    if type(name) is not str:
        return _wrong("type", name, "the type of a record")
    time = record.get("time")
    if type(time) not in KINDS["float"].types or not 0 <= time < END_OF_TIME:  # type: ignore[operator]
        return _wrong("time", time, "seconds since 1970")
    for key, (kind, needed) in RECORDS.get(name, {}).items():
        value = record.get(key)
        if value is None:
            if needed:
                return _wrong(key, value, kind.expected)
        # Python reads NaN and infinities, too.
        elif type(value) not in kind.types or (
            int in kind.types and not 0 <= value < END_OF_TIME
        ):
            return _wrong(key, value, kind.expected)
        elif key == "digest" and len(value) > MAX_DIGEST_CHARACTERS:
            return _wrong(key, value, f"up to {MAX_DIGEST_CHARACTERS} characters")
        elif key == "format" and value != FORMAT:
            return _wrong(key, value, f"{FORMAT}, the only one known here")
    return ""


def _wrong(name: str, value: object, expected: str) -> str:
    shown = "missing" if value is None else ascii(value)
    if len(shown) > 60:
        shown = f"{shown[:57]}..."
    return f"{name} is {shown}, expected {expected}"


def as_text(octets: bytes) -> tuple[str, str]:
    """Return a charset and the text that *octets* are in it: ``encoding`` and ``body``.

    Encoded again it is *octets*, one by one, so that their digest can be checked. That is
    why it is not the text that is parsed, nor in the charset that a site declares.
    """
    try:
        return "utf-8", octets.decode()
    except UnicodeDecodeError:
        return "latin-1", octets.decode("latin-1")


def as_octets(encoding: str | None, text: str) -> bytes:
    """Return what ``as_text`` was given."""
    if encoding == "latin-1":
        with suppress(UnicodeEncodeError):
            return text.encode("latin-1")
    return text.encode("utf-8", "surrogatepass")
