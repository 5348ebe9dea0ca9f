"""The ledger of a job: what waits and what was seen, in one SQLite file in JOBDIR."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from math import inf
from time import monotonic, time
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.exceptions import CloseSpider

from scrapy_rep.engine.tools import Alarm
from scrapy_rep.frontier.job_file import (
    FILE_NAME,
    NEW_FACT,
    SCHEMA_VERSION,
    Changes,
    number_of,
)
from scrapy_rep.frontier.ledger import LOST_REASON, Ledger, shortened
from scrapy_rep.frontier.places import WINDOW
from scrapy_rep.pacing.hosts import HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from scrapy import Request

    from scrapy_rep.events.stream import Stream
    from scrapy_rep.frontier.frontier import Frontier
    from scrapy_rep.frontier.job_file import JobFile
    from scrapy_rep.frontier.ledger import Place

WRITE_AFTER_SECONDS = 0.05
WRITE_RETRY_SECONDS = 1.0
"""The same where the last one failed."""
MOST_PER_WRITE = 128
"""New requests, after which they are written at once: a write holds up all else."""
MOST_RANK = 2**62
WINDOW_LOOK_SECONDS = 0.5
"""So often we look whether others may come into the window of the frontier."""
LONG_WAIT = 30.0
"""Seconds that a place must have to wait to make way in the window for others."""
PLACES_PER_LOOK = 2000
TOTAL = "SELECT coalesce(sum(waiting), 0), count(*) FROM places"
FIRST_OF_PLACE = "SELECT rank, ord, id, body FROM requests WHERE place = ? ORDER BY rank, ord LIMIT ?"
FACTS = "SELECT name, value FROM facts"
HOST = "substr(name, 1, instr(name || char(10), char(10)) - 1)"
LARGEST = (
    f"SELECT {HOST}, sum(waiting) n FROM places GROUP BY 1 ORDER BY n DESC LIMIT 5"  # noqa: S608
)
HOSTS_OF_JOB = f"""
    SELECT {HOST} AS host, sum(waiting), why,
        min(coalesce(until, 0))  -- of several places the one that may be asked first tells why
    FROM places WHERE waiting > 0 GROUP BY host ORDER BY host"""  # noqa: S608
RUNNING, IN_HAND, LAST_STARTS = "running", "in hand", "last starts"


class SqliteLedger(Ledger):
    """Keeps a job, in a file that one crawl at a time may use.

    A request and its fingerprint are in it from the write that follows ``file`` until the one
    after the engine has finished with it, by which all that came of it is in the file. So after a
    kill what was taken, or answered since the last write, is sent again, and nothing is lost.
    """

    frontier: Frontier
    kept_in = "JOBDIR"
    at_hand = 64
    sheds = True

    def __init__(self, file: JobFile) -> None:
        self._file = file
        self._changes = Changes()
        self._next = 1
        self._unreadable: dict[int, str] = {}
        self._outside = 0
        self._looked_at = -1
        self._writer = Alarm(self.write)
        self._looker = Alarm(self._move_window)

    async def open(self) -> None:
        begin(self._file, self.events)
        sql = "SELECT (SELECT max(id) FROM requests), (SELECT sum(waiting) FROM places)"
        ((newest, waiting),) = self._file.rows(sql)
        self._next = (newest or 0) + 1
        self._outside = waiting or 0
        while self._outside and self.frontier.room > 0:
            self._bring(self.frontier.room, inf)
            if self._looked_at < 0:
                break
        self._look_soon()

    # Filing

    def file(
        self, place: Place, rank: int, request: Request, fingerprint: bytes | None
    ) -> str:
        if fingerprint is not None:
            fingerprint = shortened(fingerprint)
            if self._has_seen(fingerprint):
                return ""
        id_ = self._next
        self._next += 1
        order = -id_ if self.last_first[rank % 2] else id_
        body = self.packed(request, fingerprint)
        if body is None:
            self.frontier.arrive(place, (rank, order, None, request))
            return "memory"
        if self._outside and not place.count and self.frontier.room >= 0:
            with suppress(sqlite3.Error):  # what waits there comes with the window
                self._bring_place(place)
        rank = max(-MOST_RANK, min(rank, MOST_RANK))
        changes, number = self._changes, number_of(place.name)
        changes.requests.append((id_, number, rank, order, body))
        changes.names[number] = place.name
        if fingerprint is not None:
            changes.seen.add(fingerprint)
        if not self.frontier.arrive(place, (rank, order, id_, body)):
            self._outside += 1
            self._look_soon()
        if len(changes.requests) >= MOST_PER_WRITE and self.is_ready:
            self.write()
        self._write_soon()
        return self.where

    def _has_seen(self, fingerprint: bytes) -> bool:
        if fingerprint in self._changes.seen or fingerprint in self.only_here:
            return True
        sql = "SELECT 1 FROM seen WHERE fingerprint = ?"
        try:
            return bool(self._file.rows(sql, (fingerprint,)))
        except sqlite3.Error as error:
            self._tell_unreadable(error)
            return False  # rather twice than never

    def _tell_unreadable(self, error: sqlite3.Error) -> None:
        self.events.tell_failure(f"{self._file.path} cannot be read ({error})")

    # Handing out

    def fill(self, place: Place, number: int) -> None:
        place.filling = False  # it is asked again, unless they come now
        if self._changes.requests and not self.write():
            return
        gone = self._in_hand(place).union(entry[2] for entry in place.hand)
        gone |= self._changes.done
        try:
            most = number + len(gone)
            rows = self._file.rows(FIRST_OF_PLACE, (number_of(place.name), most))
        except sqlite3.Error as error:
            self._tell_unreadable(error)
            self._get_stuck()
        else:
            free = [row for row in rows if row[2] not in gone]
            self.frontier.came(place, free[:number])

    def _in_hand(self, place: Place) -> set[int | None]:
        """Return those of *place* that were taken, or cannot be read."""
        name = place.name
        taken = self.frontier.taken.values()
        found = {entry[2] for each, entry in taken if each.name == name}
        return found.union(id_ for id_, its in self._unreadable.items() if its == name)

    def note_unreadable(self, place: Place, id_: Any) -> None:
        self._unreadable[id_] = place.name

    def done(self, gone: Iterable[tuple[Place, Any]]) -> None:
        self._changes.done.update(id_ for _, id_ in gone)
        self._write_soon()

    # Beyond the frontier's window

    def pending(self) -> int:
        return self._outside

    def _move_window(self) -> None:
        frontier, now = self.frontier, monotonic()
        if frontier.room <= 0:
            for queue in frontier.latest():
                if frontier.room > WINDOW // 10 or queue.due_at < now + LONG_WAIT:
                    break
                for place in list(queue.places):
                    self._close(place, time() + queue.due_at - now)
        if frontier.room > 0:
            with suppress(sqlite3.Error):  # it is tried again
                self._bring(frontier.room, time())
            frontier.wake()
        self._look_soon()

    def _look_soon(self) -> None:
        if self._outside:
            self._looker.set(WINDOW_LOOK_SECONDS)

    def _close(self, place: Place, until: float) -> None:
        if not (place.asked or any(entry[2] is None for entry in place.hand)):
            self._outside += place.count
            self.note_wait(place, place.held_by, until)
            self.frontier.drop(place)

    def _bring(self, most: int, now: float) -> None:
        if not self._is_written():
            return
        sql = "SELECT id, name, until FROM places WHERE id > ? ORDER BY id LIMIT ?"
        rows = self._file.rows(sql, (self._looked_at, PLACES_PER_LOOK))
        self._looked_at = -1
        for number, name, until in rows:
            if not most:
                return
            self._looked_at = number
            if (until or 0.0) <= now and not self.frontier.places.has(name):
                place = self.frontier.places.named(name)
                most -= self._bring_place(place)
                if not place.count:
                    self.frontier.drop(place)

    def _bring_place(self, place: Place) -> bool:
        """Tell the frontier what waits in *place*, of which it knows nothing; return if anything."""
        if not self._is_written():
            return False
        sql = "SELECT coalesce(sum(waiting), 0) FROM places WHERE id = ?"
        ((waiting,),) = self._file.rows(sql, (number_of(place.name),))
        waiting -= len(self._in_hand(place) - {None})
        if waiting > 0:
            self.frontier.found(place, waiting)
            self._outside -= waiting
        return bool(waiting > 0)

    def note_wait(self, place: Place, cause: str, until: float | None) -> None:
        self._changes.waits[number_of(place.name)] = cause, until
        self._write_soon()

    # Writing

    def _is_written(self) -> bool:
        return not self._changes or self.write()

    def write(self) -> bool:
        """Write all changes; ``False``: they could not be written."""
        taken = self.frontier.taken.values()
        names = [place.name for place, entry in taken if entry[2]]
        in_hand = Counter(map(_host_of, [*names, *self._unreadable.values()]))
        try:
            self._file.write(self._changes.statements(in_hand))
        except sqlite3.Error as error:
            if self.is_ready:
                self.events.tell_failure(
                    f"{self._file.path} cannot be written ({error}). Until it can, no more"
                    " requests are sent. Nothing is lost"
                )
            self._get_stuck()
            return False
        self._changes = Changes()
        if not self.is_ready:
            self.is_ready = True
            self.events.tell_user(f"{self._file.path} can be written again")
            self.frontier.wake()
        return True

    def unwritten(self) -> int:
        return 0 if self._is_written() else len(self._changes.requests)

    def _get_stuck(self) -> None:
        self.is_ready = False
        self._write_soon()

    def _write_soon(self) -> None:
        self._writer.set(WRITE_AFTER_SECONDS if self.is_ready else WRITE_RETRY_SECONDS)

    note_taken = _write_soon

    # The end

    def may_end(self) -> bool:
        if not self.write():
            return False
        if self._file.lost or self._file.forgot:
            raise CloseSpider(LOST_REASON)
        return True

    async def close(self) -> None:
        self._looker.cancel()
        if self._file.lost:
            self.events.count("job/lost", self._file.lost)
        if self._file.forgot:
            self.events.count("job/forgot", self._file.forgot)
        try:
            if self.write():
                end(self._file)
            self.events.tell_user(summary(self._file))
        except sqlite3.Error as error:
            self.events.tell_failure(f"{self._file.path}: {error}")
        if self._changes:
            self.events.tell_failure(
                f"What came of the last requests is not in {self._file.path}: the next run"
                " sends those again"
            )
        if self._unreadable:
            self.events.tell_failure(
                f"{len(self._unreadable)} requests in {self._file.path} could not be read."
                " They stay there, and are tried again by the next run"
            )
        self._writer.cancel()
        self._file.close()


# What one run tells the next, and what people are told of a job


def begin(file: JobFile, events: Stream) -> None:
    """Note that a run begins, and when the last one, unless it was killed, asked each host last."""
    facts = dict(file.rows(FACTS))
    if RUNNING in facts:
        in_hand = int(sum(_numbers(facts.get(IN_HAND)).values()))
        events.warn_user(
            f"The last run of the job in {file.path.parent} did not come to its end. What it"
            f" had in hand is sent again, and nothing is lost. Requests in hand: {in_hand}"
        )
    else:
        now, last_starts = time(), _numbers(facts.get(LAST_STARTS))
        HOSTS.recall({host: now - at for host, at in last_starts.items()})
    file.write([(NEW_FACT, [(RUNNING, 1)])])
    if file.rows("SELECT 1 FROM places LIMIT 1"):
        events.tell_user(summary(file))


def end(file: JobFile) -> None:
    now = time()
    last_starts = {host: now - ago for host, ago in HOSTS.last_starts().items()}
    file.write(
        [
            (NEW_FACT, [(LAST_STARTS, json.dumps(last_starts))]),
            ("DELETE FROM facts WHERE name = ?", [(RUNNING,), (IN_HAND,)]),
        ]
    )


def _numbers(fact: str | None) -> dict[str, float]:
    """Return what *fact* says of hosts or places; nothing if it is damaged."""
    with suppress(AttributeError, TypeError, ValueError):
        return {name: float(n) for name, n in json.loads(fact or "{}").items()}
    return {}


def _host_of(name: str) -> str:
    return name.partition("\n")[0]


def summary(file: JobFile) -> str:
    ((total, places),) = file.rows(TOTAL)
    if not places:
        return f"Nothing waits in the job in {file.path.parent}"
    largest = file.rows(LARGEST)
    told = [f"{host or '(none)'} {number:,}" for host, number in largest]
    if sum(number for _, number in largest) < total:
        told.append("...")
    return (
        f"Requests that wait in the job in {file.path.parent}: {total:,}, by host:"
        f" {', '.join(told)}"
    )


class Host(NamedTuple):
    name: str
    waiting: int
    in_hand: int
    """Taken by the crawl that uses the job, or that was killed while it did."""
    why: str | None
    """One of ``events.waits``; ``None``: for their turn."""
    wait: float | None
    """Seconds; ``None``: nobody knows."""


def look(folder: Path) -> tuple[list[Host], bool]:
    """Return the hosts of the job in *folder*, most requests first, and whether a run uses it, or
    did not come to its end. Raises ``OSError`` or ``sqlite3.Error``.
    """
    path = folder / FILE_NAME
    path.stat()
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as db:
        db.execute("BEGIN")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:  # what stands there may mean something else
            raise sqlite3.DatabaseError(f"it is of a later version, {version}")
        facts, rows = dict(db.execute(FACTS)), db.execute(HOSTS_OF_JOB).fetchall()
    now, in_hand = time(), _numbers(facts.get(IN_HAND))
    hosts = []
    for name, waiting, why, until in rows:
        taken = int(in_hand.get(name, 0))
        wait = max(0.0, until - now) if until else None
        hosts.append(Host(name, waiting - taken, taken, why or None, wait))
    return sorted(hosts, key=lambda each: -each.waiting), RUNNING in facts
