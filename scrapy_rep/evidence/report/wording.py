"""Figures, times and causes, as a page shows them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

NO_VALUE = "–"  # noqa: RUF001 - a dash as wide as a figure
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

CAUSE_WORDS = {
    "rule": "a rule of robots.txt",
    "status": "the status of robots.txt, which denies everything",
    "unreachable": "robots.txt could not be had",
    "waiting": "too many requests waited for robots.txt",
    "on_the_way": "robots.txt waited for the request",
    "crawl_delay": "a longer delay than the crawl would keep",
    "visit_time": "outside the hours for visits",
    "purpose": "not for the purpose of the crawl",
    "down": "nothing but failures came of the host",
    "budget": "the host had as many requests as it may",
    "parked": "the host was to be left alone",
    "unknown": "robots.txt was not known yet",
}
WAIT_WORDS = {
    "pace": "the delay of its host",
    "asked": "a robots.txt that is being asked for",
    "parked": "a host that is left alone",
    "unreachable": "a robots.txt that could not be had",
    "visit_time": "the hours for visits",
    "disk": "its disk queue",
    "other": "other reasons",
}
"""What a request waits for."""
DROPPED_WORDS = {
    "nofollow": "requests: the page asks that no link be followed",
    "rel_nofollow": "requests: the link asks not to be followed",
    "noindex": "items: the page asks not to be indexed",
    "unavailable_after": "items: the page was to be gone by then",
    "purpose": "items: the page says no to the purpose of the crawl",
}


def number(value: int) -> str:
    return f"{value:,}"


def seconds(value: float | None) -> str:
    """Return a delay or a gap, to the millisecond where that tells something."""
    if value is None:
        return NO_VALUE
    if 0 < value < 0.001:
        return "< 0.001 s"
    if value < 100:
        return f"{value:.3f}".rstrip("0").rstrip(".") + " s"
    if value < 7200:
        return f"{value:,.0f} s"
    return f"{value / 3600:,.1f} h"


def moment(time: float | None) -> str:
    """Return a time as a date and a time of day, in UTC."""
    if time is None:
        return NO_VALUE
    return f"{EPOCH + timedelta(seconds=time):%Y-%m-%d %H:%M:%S}"


def clock(time: float, span: float) -> str:
    """Return a time, in UTC, as far as it tells something in a chart of *span* seconds."""
    date = EPOCH + timedelta(seconds=time)
    if span < 10:
        return f"{date:%H:%M:%S.%f}"[:-3]
    if span < 86400:
        return f"{date:%H:%M:%S}"
    return f"{date:%m-%d %H:%M}" if span < 60 * 86400 else f"{date:%Y-%m-%d}"
