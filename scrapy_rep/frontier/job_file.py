"""The file of a job, in SQLite: requests that wait or are taken, and fingerprints."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet, finalize

from scrapy.utils.job import job_dir

from scrapy_rep.downloader import OneForEachCrawler
from scrapy_rep.exceptions import JobError
from scrapy_rep.frontier.salvage import salvage
from scrapy_rep.store.sqlite import is_damage, set_aside, sign, version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy.crawler import Crawler

T = TypeVar("T")
logger = logging.getLogger(__name__)

FILE_NAME = "frontier.sqlite"
LOCK_NAME = "frontier.lock"
APPLICATION_ID = 0x5245_5046  # REPF
"""Tells our files from those of other programs, which are never written to."""
SCHEMA_VERSION = 1
SCHEMA = (
    """CREATE TABLE places (
        id INTEGER PRIMARY KEY,    -- a hash of the name
        name TEXT NOT NULL,        -- its first line is the host
        waiting INTEGER NOT NULL,  -- how many of its requests there are, those in hand too
        why TEXT,                  -- they wait, when that was noted last
        until REAL                 -- in seconds since 1970
    )""",
    """CREATE TABLE requests (
        id INTEGER PRIMARY KEY,    -- in the order in which they were filed
        place INTEGER NOT NULL,
        rank INTEGER NOT NULL,     -- -2 * priority; + 1 for a start request
        ord INTEGER NOT NULL,      -- id, or -id where the last one goes first
        body BLOB NOT NULL         -- the pickle of Request.to_dict()
    )""",
    "CREATE INDEX waiting ON requests (place, rank, ord)",
    "CREATE TABLE seen (fingerprint BLOB PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value)",
)
BUSY_TIMEOUT = 10.0
"""Seconds to wait for another program's write when the file is opened; never later."""
MORE = (
    "INSERT INTO places (id, name, waiting) VALUES (?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET waiting = waiting + excluded.waiting"
)
LESS = "UPDATE places SET waiting = waiting - ? WHERE id = ?"
CACHE_KIB = 8192
CHECKPOINT_AFTER = 4000
"""After so many changed rows, a thread copies the write-ahead log into the file."""
VFS = ""
"""SQLite's interface to the file system; its default."""


@dataclass(slots=True)
class Changes:
    """What the next transaction writes. Places go by their numbers."""

    names: dict[int, str] = field(default_factory=dict)
    """Place -> its name, for each place of ``requests``."""
    requests: dict[int, tuple[int, int, int, bytes]] = field(default_factory=dict)
    """Number of a request -> its place, rank, order and body."""
    seen: set[bytes] = field(default_factory=set)
    done: dict[int, int] = field(default_factory=dict)
    """Number of a request that is to be deleted -> its place."""
    waits: dict[int, tuple[str, float | None]] = field(default_factory=dict)
    """Place -> why it waits, until when."""
    in_hand: dict[int, int] | None = None
    """Place -> how many of its requests the crawl has taken; ``None``: as before."""

    def __bool__(self) -> bool:
        return bool(
            self.requests
            or self.done
            or self.seen
            or self.waits
            or self.in_hand is not None
        )

    def split(self, most: int) -> Changes:
        """Leave no more than *most* requests to be deleted here; return the others."""
        others = self.done
        self.done = dict(others.popitem() for _ in range(min(most, len(others))))
        return Changes(done=others)

    def more_in(self, place: int) -> int:
        """Return how many more requests than before wait in *place* after this."""
        return sum(each[0] == place for each in self.requests.values()) - sum(
            each == place for each in self.done.values()
        )

    def statements(self) -> Iterator[tuple[str, Iterable[Any]]]:
        """Yield each statement, and the rows to execute it for."""
        more = Counter(each[0] for each in self.requests.values())
        yield MORE, ((number, self.names[number], n) for number, n in more.items())
        yield (
            "INSERT INTO requests VALUES (?, ?, ?, ?, ?)",
            ((number, *request) for number, request in self.requests.items()),
        )
        yield "INSERT OR IGNORE INTO seen VALUES (?)", ((each,) for each in self.seen)
        yield "DELETE FROM requests WHERE id = ?", ((each,) for each in self.done)
        less = Counter(self.done.values())
        yield LESS, ((n, number) for number, n in less.items())
        yield (
            "UPDATE places SET why = ?, until = ? WHERE id = ?",
            ((*wait, number) for number, wait in self.waits.items()),
        )
        yield "DELETE FROM places WHERE id = ? AND waiting <= 0", ((n,) for n in less)
        if self.in_hand is not None:
            yield (
                "INSERT OR REPLACE INTO facts VALUES ('in hand', ?)",
                [(json.dumps(self.in_hand),)],
            )


class JobFile:
    """The file in the job directory *folder*, which no other crawl may have open.

    Raises ``JobError``, which says why, if it cannot be opened. A file that is damaged, now or
    later, is set aside, and what can be read of it goes into a new one.

    A commit is over when the operating system has the log, without a sync, so a kill of the
    process loses none. Copying the log into the file syncs, which takes time, so a thread
    does it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._lock: sqlite3.Connection | None = _lock(folder)
        self._is_closed = False
        self._db: sqlite3.Connection | None = None
        self._worker: ThreadPoolExecutor | None = None
        self._checkpoint: Future[None] | None = None
        self._copied = 0  # of the rows changed
        try:
            self._try(lambda db: None)
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise JobError(f"{self.path} cannot be opened: {error}") from error
        except BaseException:
            self.close()
            raise
        OPEN_FILES.add(self)

    def rows(self, sql: str, args: tuple[Any, ...] = ()) -> list[Any]:
        """Return what *sql* selects. Raises ``sqlite3.Error``."""
        return self._try(lambda db: db.execute(sql, args).fetchall())

    def fill(self, statements: Iterable[tuple[str, Iterable[Any]]]) -> None:
        """Execute each of *statements* for each of its rows, all of it or nothing."""
        self._try(lambda db: _transact(db, statements))

    def write(self, changes: Changes) -> None:
        """Write all of *changes*, or raise ``sqlite3.Error`` and write none."""
        self._try(lambda db: _transact(db, changes.statements()))
        if self._worker is not None:
            assert self._db is not None
            changed = self._db.total_changes
            if changed - self._copied > CHECKPOINT_AFTER and not self._is_copying():
                self._copied = changed
                self._checkpoint = self._worker.submit(_copy_log, self.path)

    def close(self) -> None:
        """Close the file; without that, it is left as a kill would leave it."""
        self._is_closed = True
        OPEN_FILES.discard(self)
        if self._worker is not None:
            self._worker.shutdown()
            self._worker = None
        for connection in (self._db, self._lock):
            if connection is not None:
                connection.close()
        self._db = self._lock = None

    def leave_to_parent(self) -> list[object]:
        """Return what must never be closed in this process, which was forked."""
        kept: list[object] = [self._db, self._lock, self._worker]
        self._db = self._lock = self._worker = None
        self._is_closed = True
        return kept

    def _is_copying(self) -> bool:
        return self._checkpoint is not None and not self._checkpoint.done()

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do *work* on the database; on a new one, where this one is damaged."""
        try:
            return work(self._connection())
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self._replace(error)
            return work(self._connection())

    def _connection(self) -> sqlite3.Connection:
        if self._is_closed:
            raise JobError(f"{self.path} is not open here")
        if self._db is None:
            self.path.touch(mode=0o600)  # and so are the files beside it
            self._db = self._open()
        return self._db

    def _open(self) -> sqlite3.Connection:
        db = _connect(self.path)
        try:
            mode = self._prepare(db)
        except BaseException:
            db.close()
            raise
        if mode == "wal":
            self._worker = ThreadPoolExecutor(1, "scrapy_rep.frontier")
        else:
            logger.warning(
                "SQLite cannot keep a write-ahead log for %s here, as on some network"
                " file systems. Its journal is of mode %s: each write takes longer.",
                self.path,
                mode,
            )
        return db

    def _prepare(self, db: sqlite3.Connection) -> str:
        """Check the file, and return the mode of its journal."""
        db.execute("BEGIN IMMEDIATE")
        version = version_of(
            db,
            self.path,
            application_id=APPLICATION_ID,
            newest=SCHEMA_VERSION,
            error=JobError,
            advice="set another JOBDIR",
        )
        if version == 0:
            for statement in SCHEMA:
                db.execute(statement)
            sign(db, APPLICATION_ID, SCHEMA_VERSION)
        db.execute("COMMIT")
        mode: str
        (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        db.execute("PRAGMA busy_timeout = 0")  # the event loop is not held for that
        return mode

    def _replace(self, error: sqlite3.DatabaseError) -> None:
        """Set the file aside, and carry what can be read over to a new one."""
        if self._worker is not None:
            self._worker.shutdown()
            self._worker = None
        if self._db is not None:
            self._db.close()
            self._db = None
        aside = set_aside(self.path)
        logger.error("%s is damaged (%s). It is now %s.", self.path, error, aside.name)
        with closing(_connect(aside)) as old:
            found = salvage(old, self._connection())
        logger.error(
            "Of %s, %d requests and %d fingerprints could be read, and are in the new %s."
            " %s",
            aside.name,
            found.requests,
            found.seen,
            self.path.name,
            found.what_is_lost(),
        )


class Job(OneForEachCrawler):
    """The job in JOBDIR, open for one crawler. Raises ``JobError`` if it cannot be opened."""

    def __init__(self, crawler: Crawler) -> None:
        self.file = JobFile(Path(job_dir(crawler.settings) or ""))
        finalize(self, self.file.close)


OPEN_FILES: WeakSet[JobFile] = WeakSet()
PARENTS_CONNECTIONS: list[object] = []
"""Connections of the process that this one was forked from: closing them here could release its
locks, and spoil its log."""


def _leave_to_parent() -> None:
    for file in list(OPEN_FILES):
        PARENTS_CONNECTIONS.extend(file.leave_to_parent())
    OPEN_FILES.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def _connect(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}{f'?vfs={VFS}' if VFS else ''}"
    return sqlite3.connect(
        uri, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None, cached_statements=64
    )


def _lock(folder: Path) -> sqlite3.Connection:
    """Return a lock that keeps other crawls away from *folder* for as long as it is open.

    SQLite's locks end with the process, and work between crawls of one process, too.
    """
    path = folder / LOCK_NAME
    lock = None
    try:
        path.touch(mode=0o600)
        lock = sqlite3.connect(path, timeout=0, isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
    except (sqlite3.Error, OSError) as error:
        if lock is not None:
            lock.close()
        if "locked" in str(error):
            raise JobError(
                f"Another crawl is at the job in {folder}: two at a time would send its"
                " requests twice. Give this one a JOBDIR of its own"
            ) from None
        raise JobError(f"The job in {folder} cannot be begun: {error}") from error
    return lock


def _transact(
    db: sqlite3.Connection, statements: Iterable[tuple[str, Iterable[Any]]]
) -> None:
    try:
        db.execute("BEGIN IMMEDIATE")
        for statement, rows in statements:
            db.executemany(statement, rows)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _copy_log(path: Path) -> None:
    try:
        with closing(_connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    except sqlite3.Error as error:  # the disk is full: the log stays, and the next may
        logger.debug("The log of %s was not copied: %s", path, error)
