"""What can be read of a damaged file goes into a new one."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_FAILURES = 20_000
"""After so many places that cannot be read, the rest is given up."""
LARGEST_NUMBER = 2**32
"""Stands for the largest number of a request, if that cannot be read."""
ROWS_PER_STEP, MOST_STEPS = 2000, 4000
KEY_BITS = 48
"""The first bits of a fingerprint, by which ranges of fingerprints are read."""

COUNT_AGAIN = (
    # These are filed anew, where they belong, when they are handed out.
    (
        "INSERT OR IGNORE INTO places"
        " SELECT place, 'a damaged file ' || place, 0, NULL, NULL FROM requests GROUP BY place"
    ),
    (
        "UPDATE places SET waiting ="
        " (SELECT count(*) FROM requests WHERE requests.place = places.id)"
    ),
    "DELETE FROM places WHERE waiting = 0",
)


@dataclass(slots=True)
class Salvaged:
    """How many requests and fingerprints were read."""

    requests: int = 0
    seen: int = 0
    listed: int | None = None
    """How many requests there should be; ``None``: that cannot be read either."""

    def what_is_lost(self) -> str:
        if self.listed is None:
            return "How many more requests there were is not known."
        lost = max(0, self.listed - self.requests)
        return f"{lost} requests are lost." if lost else "No request is lost."


def salvage(old: sqlite3.Connection, new: sqlite3.Connection) -> Salvaged:
    """Copy what can be read of *old* into *new*, which is empty."""
    found = Salvaged()
    with suppress(sqlite3.DatabaseError):
        sql = "SELECT count(*) FROM requests INDEXED BY waiting"
        (found.listed,) = old.execute(sql).fetchone()
    last = _last_of(old)
    new.execute("BEGIN IMMEDIATE")
    for row in _ranges(old, "requests", "id", (0, last)):
        new.execute("INSERT INTO requests VALUES (?, ?, ?, ?, ?)", row)
        found.requests += 1
    with suppress(sqlite3.DatabaseError):
        for name in old.execute("SELECT id, name FROM places"):
            new.execute(
                "INSERT OR IGNORE INTO places VALUES (?, ?, 0, NULL, NULL)", name
            )
    for statement in COUNT_AGAIN:
        new.execute(statement)
    for row in _ranges(old, "seen", "fingerprint", (0, 2**KEY_BITS)):
        new.execute("INSERT OR IGNORE INTO seen VALUES (?)", row)
        found.seen += 1
    new.execute("COMMIT")
    return found


def _last_of(old: sqlite3.Connection) -> int:
    """Return a number that no request exceeds."""
    largest = 0
    for sql in (
        "SELECT max(id) FROM requests",
        "SELECT max(rowid) FROM requests INDEXED BY waiting",
    ):
        try:
            (number,) = old.execute(sql).fetchone()
        except sqlite3.DatabaseError:
            number = LARGEST_NUMBER
        largest = max(largest, number or 0)
    return largest + 1


def _ranges(
    old: sqlite3.Connection, table: str, key: str, whole: tuple[int, int]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of *table* that can be read, range by range of their *key*."""
    failures = 0
    first, last = whole
    step = max(ROWS_PER_STEP, (last - first) // MOST_STEPS + 1)
    ranges = [(n, min(n + step, last)) for n in range(first, last, step)]
    ranges.reverse()
    sql = f"SELECT * FROM {table} WHERE {key} >= ? AND {key} < ? ORDER BY {key}"  # noqa: S608
    while ranges and failures < MOST_FAILURES:
        first, last = ranges.pop()
        try:
            rows = old.execute(sql, (_bound(key, first), _bound(key, last))).fetchall()
        except sqlite3.DatabaseError:
            failures += 1
            middle = (first + last) // 2
            if middle > first:
                ranges += [(middle, last), (first, middle)]
        else:
            yield from rows


def _bound(key: str, number: int) -> int | bytes:
    if key == "id":
        return number
    if not number:
        return b""  # of however few octets the first one is
    if number >= 2**KEY_BITS:
        return b"\xff" * 17
    return number.to_bytes(KEY_BITS // 8, "big")
