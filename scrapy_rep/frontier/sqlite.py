"""The ledger of a job: what waits and what was seen, in one SQLite file in JOBDIR."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import suppress
from hashlib import blake2b
from math import inf
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from scrapy.utils.asyncio import call_later

from scrapy_rep.frontier.job_file import Changes
from scrapy_rep.frontier.last_run import begin, end, summary
from scrapy_rep.frontier.ledger import Ledger, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_rep.frontier.job_file import Job
    from scrapy_rep.frontier.ledger import Entry
    from scrapy_rep.frontier.places import Place

logger = logging.getLogger(__name__)

WRITE_AFTER_SECONDS = 0.05
"""Seconds for which changes are gathered, to be written in one transaction."""
WRITE_RETRY_SECONDS = 1.0
"""The same where the last one failed."""
LEAST_PER_WRITE, MOST_PER_WRITE = 64, 512
"""Of new requests, and of those that are deleted, in one transaction, by how long that takes."""
SHORT_WRITE_SECONDS, LONG_WRITE_SECONDS = 0.003, 0.006
MOST_RANK = 2**62
PLACES_PER_LOOK = 2000
"""Places in the file that are looked at for those that may come into the window."""
NO_IDS: frozenset[int] = frozenset()


class SqliteLedger(Ledger):
    """Keeps a job, in a file that one crawl at a time may use.

    A request is in the file, with its fingerprint, from the write that follows ``file`` until
    the engine has finished with it. All that came of it is in the file by the write that
    deletes it, or by an earlier one. At whatever moment the process is killed, the file is as
    the last write has left it: requests that were taken then, or answered since, are sent
    again by the next run, and none is lost.

    While the file cannot be written, no more requests are handed out.
    """

    at_hand = 64
    sheds = True

    def __init__(self, job: Job) -> None:
        self._job = job
        self._file = job.file
        self._is_open = False
        self._changes = Changes()
        self._next = 1
        self._busy: dict[int, set[int]] = {}
        """Number of a place -> its requests that were taken, or cannot be read."""
        self._has_taken = False
        """Whether that is not as it was written last."""
        self._unreadable = 0
        self._outside = 0
        self._looked_at = -1
        """The number of the last place that was looked at for the window."""
        self._wishes: dict[Place, int] = {}
        self._per_write = LEAST_PER_WRITE
        self._timer: CallLaterResult | None = None
        self._is_closed = False

    async def open(self) -> None:
        self._is_open = True
        begin(self._file)
        ((newest, waiting),) = self._file.rows(
            "SELECT (SELECT max(id) FROM requests), (SELECT sum(waiting) FROM places)"
        )
        self._next = (newest or 0) + 1
        self._outside = waiting or 0
        while self._outside and self.frontier.room > 0:
            self._bring(self.frontier.room, inf)
            if self._looked_at < 0:
                break

    # Filing

    def file(
        self,
        place: Place,
        rank: int,
        request: Request,
        fingerprint: bytes | None,
        *,
        last_first: bool,
    ) -> str:
        if fingerprint is not None:
            fingerprint = shortened(fingerprint)
            if self._has_seen(fingerprint):
                return ""
        id_ = self._next
        self._next += 1
        order = -id_ if last_first else id_
        body = self.packed(request, fingerprint)
        if body is None:
            self.frontier.arrive(place, (rank, order, None, request))
            return "memory"
        number = self._number_of(place)
        if place.tag is None:
            place.tag = number
            if self._outside and self.frontier.room >= 0:
                self._bring_place(place, number)
        rank = max(-MOST_RANK, min(rank, MOST_RANK))
        changes = self._changes
        changes.requests[id_] = number, rank, order, body
        changes.names[number] = place.name
        if fingerprint is not None:
            changes.seen.add(fingerprint)
        if not self.frontier.filed(place, (rank, order, id_, body)):
            self._outside += 1
        if len(changes.requests) >= self._per_write and self.is_ready:
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
            logger.error("%s cannot be read (%s)", self._file.path, error)
            return False  # rather twice than never

    @staticmethod
    def _number_of(place: Place) -> int:
        """Return the number of *place*: two have the same as good as never.

        If they had, requests of both would wait for the same; judged is each by itself.
        """
        if place.tag is not None:
            return place.tag  # type: ignore[no-any-return]
        digest = blake2b(place.name.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1

    # Handing out

    def fill(self, place: Place, number: int) -> None:
        if self._changes.requests and not self.write():
            self._wishes[place] = number
            return
        try:
            self._answer(place, number)
        except sqlite3.Error as error:
            logger.error("%s cannot be read (%s)", self._file.path, error)
            self._wishes[place] = number
            self._get_stuck()

    def _answer(self, place: Place, number: int) -> None:
        at = self._number_of(place)
        had = {*self._busy.get(at, NO_IDS), *(entry[2] for entry in place.hand)}
        sql = (
            "SELECT rank, ord, id, body FROM requests WHERE place = ?"
            " ORDER BY rank, ord LIMIT ?"
        )
        done = self._changes.done
        rows = self._file.rows(sql, (at, number + len(had) + len(done)))
        free: list[Entry] = [r for r in rows if r[2] not in had and r[2] not in done]
        self.frontier.came(place, free[:number])

    def take(self, place: Place, id_: Any) -> None:
        self._busy.setdefault(self._number_of(place), set()).add(id_)
        self._has_taken = True
        self._write_soon()

    def put_back(self, place: Place, id_: Any) -> None:
        self._let_go(self._number_of(place), id_)

    def note_unreadable(self, place: Place, id_: Any) -> None:
        self.take(place, id_)
        self._unreadable += 1

    def done(self, gone: Iterable[tuple[Place, Any]]) -> None:
        changes = self._changes
        for place, id_ in gone:
            number = self._number_of(place)
            if not self._let_go(number, id_):
                continue
            if changes.requests.pop(id_, None) is None:
                changes.done[id_] = number
        self._write_soon()

    def _let_go(self, number: int, id_: int) -> bool:
        busy = self._busy.get(number, NO_IDS)
        if id_ not in busy:
            return False
        busy.discard(id_)  # type: ignore[union-attr]
        self._has_taken = True
        if not busy:
            del self._busy[number]
        return True

    # Beyond the frontier's window

    def pending(self) -> int:
        return self._outside

    def more(self, number: int) -> None:
        with suppress(sqlite3.Error):  # it is tried again
            if self.write_all():
                self._bring(number, time())

    def let_go(self, place: Place, until: float) -> None:
        self._outside += place.count
        self._changes.waits[self._number_of(place)] = place.held_by, until

    def _bring(self, most: int, now: float) -> None:
        """Tell the frontier of up to *most* places that are due *now* and not known to it."""
        rows = self._file.rows(
            "SELECT id, name, until FROM places WHERE id > ? ORDER BY id LIMIT ?",
            (self._looked_at, PLACES_PER_LOOK),
        )
        self._looked_at = -1
        for number, name, until in rows:
            if not most:
                return
            self._looked_at = number
            if (until or 0.0) <= now and not self.frontier.places.has(name):
                place = self.frontier.places.named(name)
                place.tag = number
                most -= self._bring_place(place, number)
                if not place.count:
                    self.frontier.drop(place)

    def _bring_place(self, place: Place, number: int) -> bool:
        """Tell the frontier what waits in *place*, of which it knows nothing; if anything."""
        rows = self._file.rows("SELECT waiting FROM places WHERE id = ?", (number,))
        waiting = rows[0][0] if rows else 0
        waiting += self._changes.more_in(number) - len(self._busy.get(number, NO_IDS))
        if waiting > 0:
            self.frontier.found(place, waiting)
            self._outside -= waiting
        return waiting > 0

    def note_wait(self, place: Place, cause: str, until: float | None) -> None:
        self._changes.waits[self._number_of(place)] = cause, until
        self._write_soon()

    # Writing

    def write_all(self) -> bool:
        """Write all changes; ``False``: they could not be written."""
        while self.write() and self._changes:
            pass
        return self.is_ready

    def write(self) -> bool:
        """Write what is new, and some of what is done; ``False``: it could not be written."""
        if self._has_taken:
            self._changes.in_hand = {at: len(ids) for at, ids in self._busy.items()}
            self._has_taken = False
        if not self._changes:
            return True
        changes = self._changes
        left = changes.split(self._per_write)
        began = perf_counter()
        try:
            self._file.write(changes)
        except sqlite3.Error as error:
            if self.is_ready:
                logger.error(
                    "%s cannot be written (%s). Until it can, no more requests are"
                    " sent. Nothing is lost",
                    self._file.path,
                    error,
                )
            left.done |= changes.done
            changes.done = left.done
            self._get_stuck()
            return False
        self._changes = left
        self._look_at_time(
            perf_counter() - began, max(len(changes.requests), len(changes.done))
        )
        if not self.is_ready:
            self.is_ready = True
            logger.info("%s can be written again", self._file.path)
            wishes, self._wishes = self._wishes, {}
            for place, number in wishes.items():
                self.fill(place, number)
            self.frontier.wake()
        return True

    def _look_at_time(self, took: float, requests: int) -> None:
        """Write as many requests at a time as may be: a write holds up all else."""
        if took > LONG_WRITE_SECONDS:
            self._per_write = max(LEAST_PER_WRITE, self._per_write // 2)
        elif took < SHORT_WRITE_SECONDS and requests >= self._per_write:
            self._per_write = min(MOST_PER_WRITE, 2 * self._per_write)

    def _get_stuck(self) -> None:
        self.is_ready = False
        self._write_soon()

    def _write_soon(self) -> None:
        if self._timer is None and not self._is_closed:
            wait = WRITE_AFTER_SECONDS if self.is_ready else WRITE_RETRY_SECONDS
            self._timer = call_later(wait, self._write_now)

    def _write_now(self) -> None:
        self._timer = None
        if self.write() and self._changes:  # soon, but others go on meanwhile
            self._timer = call_later(0, self._write_now)
        elif not self.is_ready:
            self._write_soon()

    # The end

    def may_end(self) -> bool:
        return self.write_all()

    async def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_open:
            return
        try:
            if self.write_all():
                end(self._file)
            logger.info(summary(self._file))
        except sqlite3.Error as error:
            logger.error("%s: %s", self._file.path, error)
        if self._changes:
            logger.error(
                "What came of the last requests is not in %s: the next run sends those"
                " again",
                self._file.path,
            )
        if self._unreadable:
            logger.error(
                "%d requests in %s could not be read. They stay there, and are tried"
                " again by the next run",
                self._unreadable,
                self._file.path,
            )
        self._file.close()
