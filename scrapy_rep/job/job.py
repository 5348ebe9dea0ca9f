"""The job of one crawl: what waits, what is taken, what is done, and what was seen."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import finalize

from scrapy import signals
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.asyncio import call_later
from scrapy.utils.job import job_dir

from scrapy_rep.crawl import Crawl
from scrapy_rep.downloader import OneForEachCrawler
from scrapy_rep.exceptions import JobError
from scrapy_rep.job.file import Changes, JobFile
from scrapy_rep.job.fingerprints import shorten
from scrapy_rep.job.folders import folder_of
from scrapy_rep.job.last_run import begin, finish, summary
from scrapy_rep.pacing import HOSTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_rep.job.queues import JobQueue

    Place = tuple[str, str]
    """The folder and the file by which a priority queue calls one of its queues."""

logger = logging.getLogger(__name__)

WRITE_AFTER_SECONDS = 0.05
"""Seconds for which changes are gathered, to be written in one transaction."""
WRITE_RETRY_SECONDS = 1.0
"""The same where the last one failed."""
MOST_UNWRITTEN_REQUESTS = 128
"""With so many new requests the job is written at once: a write must not take long."""
MOST_HELD_OCTETS = 16 * 2**20
"""Octets of waiting requests that are held in memory as well as in the file."""


class Job(OneForEachCrawler):
    """One for each crawler with JOBDIR; its queues and its filter are views of it.

    A request is in the file from the write that follows its push, with its fingerprint, until
    the engine has finished with it. All that came of it is in the file by the write that
    deletes it, or by an earlier one. At whatever moment the process is killed, the file is as
    the last write has left it: requests that were taken then, or answered since, are sent
    again by the next run, and none is lost.

    While the file cannot be written, no more requests are handed out. Raises ``JobError`` if
    it cannot be opened.
    """

    def __init__(self, crawler: Crawler) -> None:
        folder = job_dir(crawler.settings)
        if not folder:
            raise JobError("The queues of a job need JOBDIR, which is not set")
        self.crawl = Crawl.of(crawler)
        self._crawler = crawler
        self._root = str(Path(folder, "requests.queue"))
        self._file = JobFile(Path(folder))
        finalize(self, self._file.close)
        self._names_of: Callable[[Request], Iterable[str]] = lambda request: (
            self.crawl.engine.slot_of(request),
        )
        self.busy: set[int] = set()
        """Numbers of requests that were handed out, or cannot be read."""
        self.unreadable = 0
        self.is_stuck = False
        """Whether the file cannot be written now."""
        self._is_broken = False
        """Whether what came of a request may not be in the job."""
        self._changes = Changes()
        self._taken: dict[Request, int] = {}
        self._marked: set[int] = set()
        """Numbers of requests that the file calls taken."""
        self._new_queues: dict[Place, int] = {}
        self._unclaimed: tuple[Request, bytes] | None = None
        self._only_here: set[bytes] = set()
        """Fingerprints of requests that are not in the job."""
        self._held = 0
        self._holders: dict[JobQueue, None] = {}
        self._timer: CallLaterResult | None = None
        self._closed = False
        last = begin(self._file, self.crawl.engine, crawler.spider, self._root)
        self.next_number = last.next_number
        self._next_queue = last.next_queue
        self._counts = last.counts
        HOSTS.recall(last.last_starts)
        crawler.signals.connect(self._spider_idle, signals.spider_idle)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    # Queues

    def place_of(self, key: str) -> Place:
        """Return folder and name of the queue at the path *key*, without JOBDIR."""
        folder, _, leaf = key.removeprefix(self._root).strip("/").rpartition("/")
        return folder, leaf

    def find(self, place: Place) -> tuple[int | None, int]:
        """Return the number of a queue, and how many requests the last run left in it.

        ``None``: there is no such queue yet.
        """
        number = self._new_queues.get(place)
        if number is None:
            sql = "SELECT id FROM queues WHERE folder = ? AND leaf = ?"
            try:
                rows = self._file.rows(sql, place)
            except sqlite3.Error:
                self._is_broken = (
                    True  # the request is lost, but its parent must not be
                )
                raise
            if not rows:
                return None, 0
            number = rows[0][0]
        return number, self._counts.pop(number, 0)

    def name_by(self, names_of: Callable[[Request], Iterable[str]]) -> None:
        """Let *names_of* return the names that the queue of a request may have."""
        self._names_of = names_of

    def add_queue(self, place: Place, request: Request) -> int:
        """Return the number of a new queue, whose first request is *request*."""
        if place in self._new_queues:  # it was closed in the meantime
            return self._new_queues[place]
        slot = self.crawl.engine.slot_of(request)
        folder, leaf = place
        name = None
        if folder:
            names = (
                each for each in self._names_of(request) if folder_of(each) == folder
            )
            name = next(names, None)
        number = self._new_queues[place] = self._next_queue
        self._next_queue += 1
        self._changes.queues[number] = folder, leaf, slot, name
        return number

    def read(
        self, sql: str, queue: int, edge: int, most: int
    ) -> list[tuple[int, bytes]] | None:
        """Return the first *most* requests beyond *edge* that are not handed out.

        *sql* selects them, upwards or downwards. As number and body; ``None``: the file cannot be
        written now.
        """
        if self._changes.requests and not self.write():
            return None
        free: list[tuple[int, bytes]] = []
        while True:
            rows = self._file.rows(sql, (queue, edge, most))
            free += [
                row
                for row in rows
                if row[0] not in self.busy and row[0] not in self._changes.done
            ]
            if len(rows) < most or len(free) >= most:
                return free[:most]
            edge = rows[-1][0]

    def hold(self, queue: JobQueue, size: int) -> None:
        """Note that *queue* has *size* octets more in memory."""
        self._held += size
        self._holders[queue] = None

    def leave_memory(self, queue: JobQueue, size: int) -> None:
        """Note that *queue* has *size* octets less in memory."""
        self._held -= size
        if not queue.near:
            self._holders.pop(queue, None)

    # Requests

    def add(self, queue: int, body: bytes, request: Request) -> int:
        """Add *request*, in the form *body*, to a queue; return its number."""
        number = self.next_number
        self.next_number += 1
        changes = self._changes
        changes.requests[number] = queue, body
        if request in self._taken:  # it goes back as it was handed out
            self._let_go(request)
        if self._unclaimed is not None and self._unclaimed[0] is request:
            changes.seen.add(self._unclaimed[1])
            self._unclaimed = None
        if len(changes.requests) >= MOST_UNWRITTEN_REQUESTS and not self.is_stuck:
            self.write()
        self._write_soon()
        return number

    def hand_out(self, request: Request, number: int) -> None:
        self._taken[request] = number
        self._write_soon()

    def keep_in_memory(self, request: Request, why: Exception) -> None:
        """Note that *request* is not in the job: it waits in Scrapy's queue in memory."""
        stats = self._crawler.stats
        assert stats is not None
        if not stats.get_value("rep/job/in_memory"):
            logger.warning(
                "%s cannot be serialised (%s). It waits in memory, as do others of the"
                " kind, and is lost when the crawl ends or is killed before it is sent."
                " rep/job/in_memory counts them",
                request,
                why,
            )
        stats.inc_value("rep/job/in_memory")

    def has_seen(self, request: Request, fingerprint: bytes) -> bool:
        """Tell whether a request like *request* was seen; it counts as seen once pushed."""
        if self._unclaimed is not None:
            self._only_here.add(self._unclaimed[1])
            self._unclaimed = None
        fingerprint = shorten(fingerprint)
        if (
            fingerprint in self._changes.seen
            or fingerprint in self._only_here
            or self._is_in_file(fingerprint)
        ):
            return True
        self._unclaimed = request, fingerprint
        return False

    def _is_in_file(self, fingerprint: bytes) -> bool:
        sql = "SELECT 1 FROM seen WHERE fingerprint = ?"
        try:
            return bool(self._file.rows(sql, (fingerprint,)))
        except sqlite3.Error as error:
            logger.error("%s cannot be read (%s)", self._file.path, error)
            return False  # rather twice than never

    # Writing

    def write(self) -> bool:
        """Write all changes; ``False``: they could not be written."""
        if not self._changes:
            return True
        try:
            self._file.write(self._changes)
        except sqlite3.Error as error:
            if not self.is_stuck:
                logger.error(
                    "%s cannot be written (%s). Until it can, no more requests are"
                    " sent. Nothing is lost",
                    self._file.path,
                    error,
                )
            self.is_stuck = True
            return False
        if self.is_stuck:
            self.is_stuck = False
            logger.info("%s can be written again", self._file.path)
            self.crawl.engine.wake()
        self._marked = (self._marked | self._changes.taken) - self._changes.done
        self._changes = Changes()
        self._new_queues.clear()
        if self._held > MOST_HELD_OCTETS:
            self.shed()
        return True

    def shed(self) -> None:
        """Forget the requests in memory that are in the file as well."""
        for queue in self._holders:
            queue.shed()
        self._holders.clear()
        self._held = 0

    def _write_soon(self) -> None:
        if self._timer is None and not self._closed:
            wait = WRITE_RETRY_SECONDS if self.is_stuck else WRITE_AFTER_SECONDS
            self._timer = call_later(wait, self._write_now)

    def _write_now(self) -> None:
        self._timer = None
        self.note_done()
        self.write()
        if self._taken or self._changes:
            self._write_soon()

    def note_done(self) -> None:
        """Delete the requests that the engine has finished with, and mark the others as taken.

        All that came of them is in the job already, or is written together with this.
        """
        if self._is_broken:
            return
        for request in self.crawl.engine.done_with(self._taken):
            self._let_go(request)
        self._changes.taken = {
            number for number in self._taken.values() if number not in self._marked
        }

    def _let_go(self, request: Request) -> None:
        number = self._taken.pop(request)
        self.busy.discard(number)
        if self._changes.requests.pop(number, None) is None:
            self._changes.done.add(number)
            self._changes.taken.discard(number)

    # The end

    def _spider_idle(self) -> None:
        if self.is_stuck and not self.write():
            raise DontCloseSpider

    def _spider_closed(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.note_done()
        try:
            if self.write():
                finish(self._file, HOSTS.last_starts())
            logger.info(summary(self._file))
        except sqlite3.Error as error:
            logger.error("%s: %s", self._file.path, error)
        if self._changes:
            logger.error(
                "What came of the last requests is not in %s: the next run sends those"
                " again",
                self._file.path,
            )
        if self.unreadable:
            logger.error(
                "%d requests in %s could not be read. They stay there, and are tried"
                " again by the next run",
                self.unreadable,
                self._file.path,
            )
        self._file.close()
