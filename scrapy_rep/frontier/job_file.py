"""The file of a job, in SQLite: requests that wait or are taken, and fingerprints."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy.utils.job import job_dir

from scrapy_rep.engine.tools import OneForEachCrawler
from scrapy_rep.exceptions import JobError
from scrapy_rep.store.sqlite import SqliteFile, set_aside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from scrapy.crawler import Crawler
    from typing_extensions import Self

    Statements = list[tuple[str, Iterable[Any]]]
    """Each with the rows to execute it for."""

logger = logging.getLogger(__name__)

FILE_NAME = "frontier.sqlite"
LOCK_NAME = "frontier.lock"
APPLICATION_ID = 0x5245_5046  # REPF
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
    """CREATE TRIGGER filed AFTER INSERT ON requests BEGIN
        UPDATE places SET waiting = waiting + 1 WHERE id = new.place;
    END""",
    """CREATE TRIGGER done AFTER DELETE ON requests BEGIN
        UPDATE places SET waiting = waiting - 1 WHERE id = old.place;
        DELETE FROM places WHERE id = old.place AND waiting = 0;
    END""",
    "CREATE TABLE seen (fingerprint BLOB PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value)",
)
NEW_PLACE = "INSERT OR IGNORE INTO places VALUES (?, ?, 0, NULL, NULL)"
NEW_REQUEST = "INSERT OR IGNORE INTO requests VALUES (?, ?, ?, ?, ?)"
NEW_SEEN = "INSERT OR IGNORE INTO seen VALUES (?)"
NEW_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?)"
BUSY_TIMEOUT = 10.0
"""Seconds to wait for another program's write, when the file is opened only."""
CACHE_KIB = 8192
CHECKPOINT_AFTER = 8000
"""After so many changed rows a thread copies the write-ahead log into the file."""
VFS = ""
"""SQLite's interface to the file system; "": its default."""
MOST_UNREADABLE = 20_000
"""After so many unreadable ranges of a damaged file the rest is given up."""
MOST_ID = 2**32
"""No request has this number."""


@dataclass(slots=True)
class Changes:
    """What the next transaction writes. Places go by their numbers."""

    names: dict[int, str] = field(default_factory=dict)
    requests: list[tuple[int, int, int, int, bytes]] = field(default_factory=list)
    """Number, place, rank, order and body of each."""
    seen: set[bytes] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    waits: dict[int, tuple[str, float | None]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.requests or self.done or self.seen or self.waits)

    def statements(self, in_hand: Mapping[str, int]) -> Statements:
        waits = [(*wait, number) for number, wait in self.waits.items()]
        return [
            (NEW_PLACE, self.names.items()),
            (NEW_REQUEST, self.requests),
            (NEW_SEEN, [(each,) for each in self.seen]),
            ("DELETE FROM requests WHERE id = ?", [(each,) for each in self.done]),
            ("UPDATE places SET why = ?, until = ? WHERE id = ?", waits),
            (NEW_FACT, [("in hand", json.dumps(in_hand))]),
        ]


def number_of(name: str) -> int:
    """Two places that had the same would wait for each other; each request is judged by itself."""
    digest = blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class JobFile(SqliteFile, OneForEachCrawler):
    """The file in the job directory *folder*, which no other crawl may have open (``JobError``).

    What can be read of a damaged one goes into a new one; ``lost`` and ``forgot`` tell what cannot. A
    commit ends when the operating system has the log, so a kill of the process loses none; a thread
    copies the log into the file, which syncs, and so takes time.
    """

    application_id, schema, schema_version = APPLICATION_ID, SCHEMA, SCHEMA_VERSION
    error, advice = JobError, "set another JOBDIR"
    is_closed = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / FILE_NAME)
        self._lock = _lock(folder)
        self.is_closed = False
        self._worker = ThreadPoolExecutor(1, "scrapy_rep.frontier")
        self._has_log = False
        self._copying: Future[None] | None = None
        self._copied = 0  # of the rows changed
        self.lost = 0
        """Requests that a damage has lost."""
        self.forgot = 0
        """How often nobody knows how many were lost."""
        OPEN_FILES.add(self)
        try:
            if not _has_octets(self.path) and _was_begun(self._lock):
                self._note_gone()
            self.rows("SELECT 1")
            _note_begun(self._lock)
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise JobError(f"{self.path} cannot be opened: {error}") from error

    @classmethod
    def made_for(cls, crawler: Crawler) -> Self:
        return cls(Path(job_dir(crawler.settings) or ""))

    def __del__(self) -> None:
        self.close()

    def rows(self, sql: str, args: tuple[Any, ...] = ()) -> list[Any]:
        return self._work(lambda db: db.execute(sql, args).fetchall())

    def write(self, statements: Statements) -> None:
        """Execute each for each of its rows, or raise ``sqlite3.Error`` and none."""
        changed = self._work(_transact, statements)
        is_due = self._has_log and changed - self._copied >= CHECKPOINT_AFTER
        if is_due and (self._copying is None or self._copying.done()):
            self._copied = changed
            self._copying = self._worker.submit(_copy_log, self.path)

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        OPEN_FILES.discard(self)
        self._worker.shutdown()
        self._disconnect()
        self._lock.close()

    def _connection(self) -> sqlite3.Connection:
        if self.is_closed:
            raise JobError(f"{self.path} is not open here")
        return super()._connection()

    def _connect(self) -> sqlite3.Connection:
        return _connect(self.path)

    def _prepare(self, db: sqlite3.Connection) -> None:
        (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        db.execute("PRAGMA busy_timeout = 0")  # the event loop is not held for that
        self._has_log = mode == "wal"
        if not self._has_log:
            logger.warning(
                "SQLite cannot keep a write-ahead log for %s here, as on some network"
                " file systems. Its journal is of mode %s: each write takes longer.",
                self.path,
                mode,
            )

    def _replace(self, error: sqlite3.DatabaseError) -> None:
        if self._copying is not None:
            self._copying.result()
        self._copied = 0
        aside = set_aside(self.path)
        logger.error("%s is damaged (%s). It is now %s.", self.path, error, aside.name)
        with closing(_connect(aside)) as old:
            found = _salvage(old, self._connection())
        text = "Of %s, %s requests and %s fingerprints could be read, and are in the new %s. %s"
        names = aside.name, found.requests, found.seen, self.path.name
        logger.error(text, *names, found.told_of_losses())
        self.lost += found.lost or 0
        self.forgot += found.lost is None

    def _note_gone(self) -> None:
        self.forgot += 1
        logger.error(
            "%s, the file of a job that was begun, is gone or empty. The requests that waited in it"
            " are lost, and pages that were fetched may be fetched again. To begin a job anew, use"
            " an empty JOBDIR.",
            self.path,
        )


OPEN_FILES: WeakSet[JobFile] = WeakSet()
PARENTS_FILES: list[JobFile] = []
"""Those of the process that this one was forked from: closing them here could release its locks,
and spoil its log."""


def _leave_to_parent() -> None:
    PARENTS_FILES.extend(OPEN_FILES)
    for file in PARENTS_FILES:
        file.is_closed = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def _connect(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}{f'?vfs={VFS}' if VFS else ''}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None)


def _lock(folder: Path) -> sqlite3.Connection:
    """Keep other crawls away from *folder* for as long as the result is open.

    SQLite's locks end with the process, and work between crawls of one process, too.
    """
    lock = None
    try:
        (folder / LOCK_NAME).touch(mode=0o600)
        lock = sqlite3.connect(folder / LOCK_NAME, timeout=0, isolation_level=None)
        lock.execute("PRAGMA locking_mode = EXCLUSIVE")  # a commit does not end it
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


def _was_begun(lock: sqlite3.Connection) -> bool:
    """Tell whether the job ever had a file, for one that was removed tells nothing."""
    (begun,) = lock.execute("PRAGMA user_version").fetchone()
    return bool(begun)


def _note_begun(lock: sqlite3.Connection) -> None:
    if not _was_begun(lock):
        lock.execute("PRAGMA user_version = 1")
        lock.execute("COMMIT")


def _has_octets(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _transact(db: sqlite3.Connection, statements: Statements) -> int:
    """Return how many rows have changed since *db* was opened."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        for statement, rows in statements:
            db.executemany(statement, rows)
    return db.total_changes


def _copy_log(path: Path) -> None:
    try:
        with closing(_connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    except sqlite3.Error as error:  # the disk is full: the log stays, and the next may
        logger.debug("The log of %s was not copied: %s", path, error)


# What can be read of a damaged file


@dataclass(slots=True)
class Salvage:
    """What could be read of a damaged file."""

    requests: int = 0
    seen: int = 0
    lost: int | None = None
    """How many requests could not; ``None``: nobody knows."""
    lost_seen: bool = False

    def told_of_losses(self) -> str:
        told = "How many more requests there were is not known."
        if self.lost is not None:
            told = f"{self.lost or 'No'} request{'s are' if self.lost > 1 else ' is'} lost."
        if self.lost_seen:
            told += " Fingerprints are: pages that were fetched may be fetched again."
        return told


def _salvage(old: sqlite3.Connection, new: sqlite3.Connection) -> Salvage:
    """Copy what can be read of *old* into the empty *new*."""
    found = Salvage()
    names: dict[int, str] = {}
    with suppress(sqlite3.DatabaseError):
        sql = "SELECT id, name FROM places WHERE typeof(name) = 'text'"
        names.update(old.execute(sql))
    new.execute("BEGIN IMMEDIATE")
    requests = Readable(old, "requests WHERE id >= ? AND id < ?", MOST_ID, int)
    for id_, place, *others in requests:
        # Without a name, it is filed anew, where it belongs, when it is handed out.
        name = names.get(place, f"a damaged file {place}")
        number = number_of(name)
        new.execute(NEW_PLACE, (number, name))
        found.requests += new.execute(NEW_REQUEST, (id_, number, *others)).rowcount
    seen_from = "seen WHERE fingerprint >= ? AND fingerprint < ?"
    seen = Readable(old, seen_from, 2**48 - 1, lambda n: n.to_bytes(6, "big"))
    for row in seen:
        found.seen += new.execute(NEW_SEEN, row).rowcount
    new.execute("COMMIT")
    found.lost_seen = seen.failures > 0
    if not requests.failures:
        found.lost = 0
    with suppress(sqlite3.DatabaseError):
        sql = "SELECT count(*) FROM requests INDEXED BY waiting"
        ((listed,),) = old.execute(sql)
        found.lost = max(0, listed - found.requests)
    return found


@dataclass(slots=True)
class Readable:
    """The rows of a table of *old* up to *last* that can be read, some of them twice.

    *key* makes the key of a row of a number. A range that cannot be read is cut into two.
    """

    old: sqlite3.Connection
    table: str
    last: int
    key: Callable[[int], object]
    failures: int = 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        ranges = [(0, self.last)]
        sql = f"SELECT * FROM {self.table}"  # noqa: S608
        while ranges and self.failures < MOST_UNREADABLE:
            first, last = ranges.pop()
            try:
                yield from self.old.execute(sql, (self.key(first), self.key(last)))
            except sqlite3.DatabaseError:
                self.failures += 1
                middle = (first + last) // 2
                if middle > first:
                    ranges += [(middle, last), (first, middle)]
