"""Figures, times and texts from the web, as a page shows them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

NOTHING = "–"  # noqa: RUF001 - a dash as wide as a figure
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def number(value: int) -> str:
    return f"{value:,}"


def plural(count: int, one: str) -> str:
    return f"{count:,} {one if count == 1 else one + 's'}"


def seconds(value: float | None) -> str:
    """Return a delay or a gap, to the millisecond where that tells something."""
    if value is None:
        return NOTHING
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
        return NOTHING
    return f"{EPOCH + timedelta(seconds=time):%Y-%m-%d %H:%M:%S}"


def clock(time: float, span: float) -> str:
    """Return a time, in UTC, as far as it tells something in a picture of *span* seconds."""
    date = EPOCH + timedelta(seconds=time)
    if span < 10:
        return f"{date:%H:%M:%S.%f}"[:-3]
    if span < 86400:
        return f"{date:%H:%M:%S}"
    return f"{date:%m-%d %H:%M}" if span < 60 * 86400 else f"{date:%Y-%m-%d}"
