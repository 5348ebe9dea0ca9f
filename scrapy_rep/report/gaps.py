"""The time from the answer to one request of a host to the next one, from the view ``pace``.

With the two files of SQL this is the one place that knows what records mean for one another. Where
``sent`` or the start of a delay comes to mean something else, it is said in ``pace`` and here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KEPT_PART = 0.99
"""Of the delay; a gap under that is short. What is nearer may be the clock's doing."""
ROUNDING = 0.001
"""Seconds by which times of one request differ at most, as an audit rounds them."""

Event = tuple[str, float, "str | None", "float | None", "float | None"]
Gap = tuple[str, float, float, float, bool]


def gaps_of(events: Iterable[Event]) -> Iterator[Gap]:
    """Return host, time, gap, delay and whether it is short, of each request but a host's first.

    A gap begins when the headers of the request before are here, or it has failed. Where the audit
    does not say when, as at hosts without a delay, it begins when that request was sent. The
    delay is the longest that the origins of the host have asked for by then.
    """
    host = last = None
    sent = delay = 0.0
    gap: Gap | None = None  # of the last request
    delays: dict[str | None, float] = {}
    for its_host, time, origin, asked, began in events:
        if its_host != host:
            host, last, delays, delay = its_host, None, {}, 0.0
            if gap is not None:
                yield gap
                gap = None
        if asked is not None:
            if delays.get(origin) != asked:
                delays[origin] = asked
                delay = max(delays.values())
        elif began is not None:
            if gap is not None and began < sent - ROUNDING:
                # It was sent although the one before was under way.
                gap = (*gap[:2], 0.0, gap[3], gap[3] > 0)
            last = time
        else:
            if gap is not None:
                yield gap
            length = 0.0 if last is None else time - last
            short = length < delay * KEPT_PART
            gap = None if last is None else (its_host, time, length, delay, short)
            last = sent = time
    if gap is not None:
        yield gap
