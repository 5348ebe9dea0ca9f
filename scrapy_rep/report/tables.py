"""What follows from the records of an audit, as tables: gaps here, the rest in ``tables.sql``.

These two are the one place that knows what records mean for one another. Where ``sent`` or the
start of a delay comes to mean something else, it is said in ``GAP_EVENTS`` and ``gaps_of``.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CACHE_KIBIBYTES = 16 * 1024
"""What SQLite holds in memory; what is more goes to a temporary file of its own."""
KEPT_PART = 0.99
"""Of the delay; a gap under that is short. What is nearer may be the clock's doing."""
GAP_EVENTS = """
    SELECT * FROM (
        SELECT host, time, origin, delay, NULL AS began FROM decision WHERE delay IS NOT NULL
        UNION ALL SELECT host, time - seconds + headers, NULL, NULL, time - seconds FROM answer
        WHERE headers IS NOT NULL
        UNION ALL SELECT host, time, NULL, NULL, NULL FROM sent
    ) ORDER BY host, time, delay IS NULL, began IS NULL
"""
"""By host and time: the delay that a decision on an origin names; the headers of an answer, or that
a request has failed, and when it *began*; or neither: a request is sent."""
ROUNDING = 0.001
"""Seconds by which times of one request differ at most, as an audit rounds them."""

Event = tuple[str, float, "str | None", "float | None", "float | None"]
Gap = tuple[str, float, float, float, bool]


def open_database() -> sqlite3.Connection:
    """Return a database in memory, of which SQLite puts on disk what is too much."""
    database = sqlite3.connect("", isolation_level=None)
    for setting in (
        "journal_mode = OFF",
        "synchronous = OFF",
        f"cache_size = -{CACHE_KIBIBYTES}",
        "locking_mode = EXCLUSIVE",
    ):
        database.execute(f"PRAGMA {setting}")
    return database


def derive(database: sqlite3.Connection) -> None:
    """Make the tables that follow from the records."""
    database.execute("CREATE TABLE gap (host, time, gap, delay, short)")
    database.executemany(
        "INSERT INTO gap VALUES (?, ?, ?, ?, ?)", gaps_of(database.execute(GAP_EVENTS))
    )
    script = Path(__file__).with_name("tables.sql").read_text(encoding="utf-8")
    database.executescript(script)


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
