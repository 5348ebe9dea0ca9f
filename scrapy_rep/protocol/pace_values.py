"""Values of the records that ask for a pace: Crawl-delay, Request-rate, Visit-time.

No standard defines them; RFC 9309 2.2.4 lets crawlers interpret them. A value that is not
in the form given here counts as not written.
"""

from __future__ import annotations

from datetime import time
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.fields import CRAWL_DELAY, REQUEST_RATE, VISIT_TIME
from scrapy_rep.protocol.patterns import compiled

if TYPE_CHECKING:
    from collections.abc import Iterable


class RequestRate(NamedTuple):
    """At most `requests` requests in `seconds` seconds."""

    requests: int
    seconds: float
    start: time | None = None
    """UTC time of day from which the rate holds; None: the whole day."""
    end: time | None = None
    """UTC time of day until which it holds; before `start` when it spans midnight."""


class VisitTime(NamedTuple):
    """The part of the day in which visits are welcome, in UTC."""

    start: time
    end: time
    """Before `start` when the time spans midnight."""


NUMBER = r"(?a)\d+(?:\.\d*)?|\.\d+"
RATE = r"(?ai)(\d{1,18})[ \t]*/[ \t]*(\d{1,18})[ \t]*([smhd]?)(?:[ \t]+(\S.*))?"
# White space alone, as in "0200 0630", can mean nothing but the hyphen.
TIME_SPAN = r"(?a)(\d\d):?(\d\d)(?:[ \t]*-[ \t]*|[ \t]+)(\d\d):?(\d\d)"
UNIT_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def crawl_delay(value: str) -> float | None:
    """Seconds: a decimal number, "10" or "0.5". None: anything else."""
    if compiled(NUMBER).fullmatch(value) is None:
        return None
    seconds = float(value)
    return seconds if isfinite(seconds) else None


def request_rate(value: str) -> RequestRate | None:
    """Requests per time: "1/10s", "30/60m 0900-1700"; the unit is s, m, h, d or seconds."""
    found = compiled(RATE).fullmatch(value)
    if found is None:
        return None
    requests, seconds = int(found[1]), int(found[2]) * UNIT_SECONDS[found[3].lower()]
    if not requests or not seconds:
        return None
    if found[4] is None:
        return RequestRate(requests, seconds)
    window = visit_time(found[4])
    return None if window is None else RequestRate(requests, seconds, *window)


def visit_time(value: str) -> VisitTime | None:
    """Times of day: "0600-0845", "2200-0300" past midnight."""
    found = compiled(TIME_SPAN).fullmatch(value)
    if found is None:
        return None
    try:
        return VisitTime(
            time_of_day(found[1], found[2]), time_of_day(found[3], found[4])
        )
    except ValueError:  # there is no such time
        return None


class Paces(NamedTuple):
    """What the records of one agent ask of its speed."""

    delay: float | None
    rate: RequestRate | None
    visit: VisitTime | None


NO_PACES = Paces(None, None, None)


def paces_from(records: list[tuple[str, str]]) -> Paces:
    """The paces that fields and values ask for."""
    if not records:
        return NO_PACES
    delays, rates, visits = (
        [value for field, value in records if field == name]
        for name in (CRAWL_DELAY, REQUEST_RATE, VISIT_TIME)
    )
    return Paces(largest_delay(delays), slowest_rate(rates), first_visit(visits))


def largest_delay(values: Iterable[str]) -> float | None:
    """Of all values that are delays; None: there are none."""
    delays = map(crawl_delay, values)
    return max((delay for delay in delays if delay is not None), default=None)


def slowest_rate(values: Iterable[str]) -> RequestRate | None:
    """Of all values that are rates; None: there are none."""
    return max(
        (rate for rate in map(request_rate, values) if rate is not None),
        key=lambda rate: rate.seconds / rate.requests,
        default=None,
    )


def first_visit(values: Iterable[str]) -> VisitTime | None:
    """Of all values that are times of day; None: there are none."""
    return next((time for time in map(visit_time, values) if time is not None), None)


def time_of_day(hours: str, minutes: str) -> time:
    if hours + minutes == "2400":  # how people write the end of a day
        return time(0)
    return time(int(hours), int(minutes))
