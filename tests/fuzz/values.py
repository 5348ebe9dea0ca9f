"""Header fields, dates, paces and settings for the fuzzer."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, Any

from .inputs import CHARSETS, spoilt, text

if TYPE_CHECKING:
    from random import Random

DAYS = ["Sun", "Mon", "Sunday", "Thu", "", "Xxx", "sun"]
MONTHS = ["Jan", "Feb", "Nov", "Dec", "13", "Foo", "", "JAN", "January"]
ZONES = [
    "GMT", "GMT", "GMT", "UTC", "+0000", "-0800", "EST", "", "+9999", "-99999999", "Z",
]  # fmt: skip
NUMBERS = [
    "0", "1", "06", "31", "60", "94", "99", "1994", "2026", "9999", "10000", "-1", "+3", "",
    "1e9", "0x10", "\u0663", "\u00b2", "9" * 12, "9" * 30, "9" * 5000, " 5 ", "5.5",
]  # fmt: skip
DATES = [
    "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
    "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "0", "-1",
    "Sun, 06 Nov 1994 08.49.37 -0800",
]  # fmt: skip


def date(rnd: Random) -> bytes:
    """A date of HTTP, or what looks like one."""
    kind = rnd.random()
    number = rnd.choice
    if kind < 0.3:
        made = rnd.choice(DATES)
    elif kind < 0.5:
        made = (
            f"{rnd.choice(DAYS)}, {rnd.randrange(40):02} {rnd.choice(MONTHS)} "
            f"{rnd.randrange(1900, 2200)} {rnd.randrange(30):02}:{rnd.randrange(70):02}"
            f":{rnd.randrange(70):02} {rnd.choice(ZONES)}"
        )
    else:
        made = (
            f"{rnd.choice(DAYS)}{rnd.choice((', ', ' ', ',', ''))}{number(NUMBERS)}"
            f"{rnd.choice(' -/')}{rnd.choice(MONTHS)}{rnd.choice(' -/')}{number(NUMBERS)} "
            f"{number(NUMBERS)}{rnd.choice(':. ')}{number(NUMBERS)}"
            f"{rnd.choice((':', '.', ''))}{number(NUMBERS)} {rnd.choice(ZONES)}"
        )
    coded = made.encode("utf-8" if kind < 0.9 else "utf-16")
    return spoilt(rnd, coded, 0.3)


def pace(rnd: Random) -> str:
    """The value of a Crawl-delay, Request-rate or Visit-time, or what looks like one."""
    number = NUMBERS
    kind = rnd.randrange(4)
    if kind == 0:
        made = f"{rnd.choice(number)}{rnd.choice(('.', '', ','))}{rnd.choice(number)}"
    elif kind == 1:
        made = f"{rnd.choice(number)}/{rnd.choice(number)}{rnd.choice('smhdSx ')}"
    elif kind == 2:
        made = f"{rnd.choice(number)}{rnd.choice(number)}-{rnd.choice(number)}"
    else:
        start, end = rnd.randrange(2600), rnd.randrange(2600)
        made = f"{rnd.choice(('', '1/5 ', '1/1m  '))}{start:04}-{end:04}"
    return spoilt(rnd, made.encode(), 0.3).decode("utf-8", "replace")


DIRECTIVES = [
    *("no-store", "no-cache", "must-revalidate", "public", "max-age", "s-maxage", ""),
    *("MAX-AGE", "no-cache=x", "\x00", "max-age=", "=", "=5", "private", 'max-age="'),
]
CODINGS = [
    "gzip", "x-gzip", "deflate", "identity", "", "br", "GZIP ", "\x00", "gzip;q=1",
]  # fmt: skip
LOCATIONS = [
    "/", "//", "http://", "http://a/", "https://[", "file:///etc/passwd", "?", "#", "",
    "http://127.1/", "http://0x7f000001/", "http://a:99999/", "data:,x", "\x00", " /a ",
    "http://\u30c4.example/", "http://[::1%25a]/", "http://a@b:c/", "\\\\a\\b", "///a",
]  # fmt: skip
URL_STARTS = [
    *("", "/", "//", "http://", "https://b.com", "http://127.0.0.1", "http://b.com:")
]
URL_LETTERS = [
    *"127.0.0.1localhost[]:@\\/?#%.\u00b9\u00ba\u00ad\u3002",
    "\ud800",
    "\xff",
    " ",
]
HEADERS = [
    *(b"Cache-Control", b"Cache-Control", b"Age", b"Expires", b"Date", b"Retry-After"),
    *(b"Content-Type", b"ETag"),
]


def location(rnd: Random) -> str:
    if rnd.random() < 0.5:
        return spoilt(rnd, rnd.choice(LOCATIONS).encode(), 0.3).decode("latin-1")
    letters = rnd.choices(URL_LETTERS, k=rnd.randrange(20))
    return rnd.choice(URL_STARTS) + "".join(letters) + text(rnd, 3)


def header_value(rnd: Random, name: bytes) -> bytes:
    if rnd.random() < 0.05:
        return rnd.randbytes(rnd.randrange(40))
    if name == b"Cache-Control":
        words = (
            f"{rnd.choice(DIRECTIVES)}{rnd.choice(('=', '', '', ' = '))}{rnd.choice(NUMBERS)}"
            for _ in range(rnd.randrange(4))
        )
        value = ",".join(words).encode()
    elif name == b"Age" or (name == b"Retry-After" and rnd.random() < 0.5):
        value = rnd.choice(NUMBERS).encode()
    elif name == b"Content-Type":
        charset = rnd.choice(("", '"', "'")) + (rnd.choice(CHARSETS) or "utf-8")
        start = rnd.choice(("text/plain;charset=", "text/html; charset=", ";charset*="))
        value = (start + charset).encode()
    else:
        value = date(rnd)
    return spoilt(rnd, value, 0.2)


# Settings

ODD_VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 0.5, 60, 10**6, 10**400, 10**5000, inf, -inf, nan, 1j, 2**19 + 1),
    *("", " ", "0", "1", "10,60", "nan", "inf", "1e400", "9" * 5000, "\u0663", "\ud800", 2**19),
    *([], (), {}, set(), [1, 2], [inf], [nan], [10**400], ["x"], [None], [[]], [True], b"", b"1"),
    *(object(), int, range(3), {"a": 1}, {401, 403}, (404,), ["401", 403], "a.b.C", "sqlite"),
    *("allow", "disallow", "drop", "clamp", "rfc9309", "GYM2008", "mk1996"),
    *(["disallow", "crawl-delay"], "disallow, visit-time"),
]  # fmt: skip


def setting(rnd: Random) -> Any:
    kind = rnd.random()
    if kind < 0.7:
        return rnd.choice(ODD_VALUES)
    if kind < 0.8:
        return rnd.choice((rnd.randrange(-5, 1000), rnd.uniform(-5, 1000)))
    if kind < 0.9:
        return rnd.choices(ODD_VALUES, k=rnd.randrange(4))
    return text(rnd) if kind < 0.95 else rnd.choice(NUMBERS)
