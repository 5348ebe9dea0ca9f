"""Snapshots in an SQLite file, which outlives the crawl and may be shared by several."""

from __future__ import annotations

import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy.exceptions import NotConfigured
from scrapy.utils.job import job_dir
from scrapy.utils.project import data_path

from scrapy_rep.engine.tools import wait_for
from scrapy_rep.exceptions import SettingError
from scrapy_rep.protocol.language import DAY
from scrapy_rep.protocol.printable import describe_error
from scrapy_rep.settings import DEFAULTS, Settings
from scrapy_rep.store import Store, pack, unpack

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

    from scrapy_rep.store import Snapshot

T = TypeVar("T")
logger = logging.getLogger(__name__)

FILE_NAME = "robots.sqlite"
APPLICATION_ID = 0x5245_5039  # REP9
SCHEMA_VERSION = 3
BUSY_SECONDS = 10.0
"""Seconds that another program's lock is waited for; ``BUSY_AGAIN_SECONDS`` after it was in vain."""
BUSY_AGAIN_SECONDS = 0.05
FILE_START = b"SQLite format 3\0"
SUFFIXES = frozenset({".sqlite", ".sqlite3", ".db"})
"""Of files that nothing else is in, so that one that does not begin as SQLite is damaged."""
SCHEMA = (
    "DROP TABLE IF EXISTS robots",  # of an earlier version: it is fetched again
    """CREATE TABLE robots (
        origin TEXT NOT NULL PRIMARY KEY,
        used_until REAL NOT NULL,  -- as long as it decides anything by itself
        snapshot BLOB NOT NULL     -- which has a checksum
    )""",
    "CREATE INDEX by_use ON robots (used_until)",
)
SELECT = "SELECT CAST(snapshot AS BLOB) FROM robots WHERE origin = ?"  # text is damage
REPLACE = "REPLACE INTO robots (origin, used_until, snapshot) VALUES (?, ?, ?)"
FORGET = "DELETE FROM robots WHERE used_until < ?"
WRITES_PER_LOOK = 16
"""For useless rows."""


class StoreError(ValueError):
    """The file is not one that this version can keep snapshots in."""


class DamageError(sqlite3.DatabaseError):
    """What SQLite itself does not notice: a row that is not as it was written."""


class SqliteFile:
    """A file of ours, made where there is none; a damaged one is replaced."""

    application_id: int
    """Files of other programs are never written to."""
    schema: tuple[str, ...]
    schema_version: int
    error: type[Exception]
    """For a file that is another program's, or newer; it ends with ``advice``."""
    advice: str

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db: sqlite3.Connection | None = None

    def _connect(self) -> sqlite3.Connection:
        raise NotImplementedError

    def _prepare(self, db: sqlite3.Connection) -> None:
        raise NotImplementedError

    def _replace(self, error: sqlite3.DatabaseError) -> None:
        """It is damaged, and closed."""

    def _work(self, work: Callable[..., T], *args: Any) -> T:
        try:
            return work(self._connection(), *args)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self._disconnect()
            self._replace(error)
            return work(self._connection(), *args)

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=0o600)  # and so are the files beside it
            db = self._connect()
            try:
                self._make_tables(db)
                self._prepare(db)
            except BaseException:
                db.close()
                raise
            self._db = db
        return self._db

    def _make_tables(self, db: sqlite3.Connection) -> None:
        db.execute("BEGIN IMMEDIATE")  # another crawl may just be making the file
        if self._version(db) < self.schema_version:
            for statement in self.schema:
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {self.application_id}")
            db.execute(f"PRAGMA user_version = {self.schema_version}")
        db.execute("COMMIT")

    def _version(self, db: sqlite3.Connection) -> int:
        """0: there are no tables yet."""
        (application,) = db.execute("PRAGMA application_id").fetchone()
        version: int
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (objects,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != self.application_id and (application or objects):
            raise self.error(
                f"{self.path} is the database of another program: {self.advice}"
            )
        if version > self.schema_version:
            raise self.error(
                f"{self.path} has schema version {version}, this version of scrapy_rep"
                f" supports up to {self.schema_version}: upgrade it, or {self.advice}"
            )
        return version

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()


class SqliteStore(Store, SqliteFile):
    """Keeps snapshots in the file at *path*. Raises ``StoreError``.

    One thread does all the work, as a slow disk or another crawl's lock may hold it for long.
    Each write is a transaction, which takes some 20 µs with a write-ahead log. A kill loses none
    of them; a power cut may lose the last ones, never the file.

    An origin is forgotten when its answer has been out of date, and its retry due, for
    *unreachable_max* seconds and a day: until then the answer may be held, and failures count.
    """

    application_id, schema, schema_version = APPLICATION_ID, SCHEMA, SCHEMA_VERSION
    error, advice = StoreError, "have REP_STORE_PATH name another file"

    def __init__(
        self,
        path: str | os.PathLike[str],
        unreachable_max: float = DEFAULTS["REP_UNREACHABLE_MAX"],
    ) -> None:
        SqliteFile.__init__(self, Path(path).absolute())
        self._kept_for = unreachable_max + DAY
        # By a clock that never steps.
        self._wall_at_zero = time() - monotonic()
        self._writes = 0
        self._file: tuple[int, int] | None = None  # what the path was when opened
        self._closed = self._was_usable = False
        self._busy_seconds = BUSY_SECONDS
        self._worker = ThreadPoolExecutor(1, "scrapy_rep.store")
        try:
            self._worker.submit(self._work, lambda db: None).result()
        except BaseException:
            self._worker.shutdown()
            raise
        self._was_usable = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = Settings.of(crawler)
        path, job = settings.store_path, crawler.settings["JOBDIR"]
        try:
            return cls(path or _path(crawler.settings), settings.unreachable_max)
        # ValueError: of a name that no file can have.
        except (OSError, ValueError, StoreError, sqlite3.Error) as error:
            if path:
                expected = f"a file to keep policies in ({describe_error(error, path)})"
                raise SettingError("REP_STORE_PATH", path, expected) from error
            if job:
                expected = (
                    f"a folder to keep the crawl in ({describe_error(error, job)})"
                )
                raise SettingError("JOBDIR", job, expected) from error
            raise

    async def get(self, origin: str) -> Snapshot | None:
        return await self._do(_get, origin)

    async def put(self, origin: str, snapshot: Snapshot) -> None:
        await self._do(self._put, origin, snapshot)

    async def touch(self, origin: str, snapshot: Snapshot) -> None:
        await self._do(self._touch, origin, snapshot)

    async def _do(self, work: Callable[..., T], *args: Any) -> T:
        return await wait_for(self._worker.submit(self._work, work, *args))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await wait_for(self._worker.submit(self._disconnect))
        self._worker.shutdown()  # the thread is idle: this does not wait

    # What follows runs in the worker.

    def _work(self, work: Callable[..., T], *args: Any) -> T:
        try:
            return super()._work(work, *args)
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                self._wait_for_locks(BUSY_AGAIN_SECONDS)  # else each origin waits
            raise

    def _wait_for_locks(self, seconds: float) -> None:
        if self._db is not None and seconds != self._busy_seconds:
            self._busy_seconds = seconds
            self._db.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")

    def _put(self, db: sqlite3.Connection, origin: str, snapshot: Snapshot) -> None:
        db.execute(REPLACE, (origin, _used_until(snapshot), pack(origin, snapshot)))
        self._wait_for_locks(BUSY_SECONDS)
        self._writes += 1
        if not self._writes % WRITES_PER_LOOK:
            now = self._wall_at_zero + monotonic()
            db.execute(FORGET, (now - self._kept_for,))

    def _touch(self, db: sqlite3.Connection, origin: str, snapshot: Snapshot) -> None:
        db.execute("BEGIN IMMEDIATE")  # another crawl may put another answer here
        with db:
            touched = snapshot.touching(_get(db, origin))
            if touched is not None:
                self._put(db, origin, touched)

    def _connection(self) -> sqlite3.Connection:
        if self._db is not None and _identity(self.path) != self._file:
            self._disconnect()  # removed or moved: what it is told would be lost
        try:
            return super()._connection()
        except sqlite3.OperationalError as error:
            raise StoreError(f"{self.path} cannot be opened: {error}") from error

    def _connect(self) -> sqlite3.Connection:
        self._file = _identity(self.path)
        self._busy_seconds = BUSY_SECONDS
        return sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)

    def _prepare(self, db: sqlite3.Connection) -> None:
        # SQLite fails one of two crawls that ask for it at once; the file has it then.
        with suppress(sqlite3.OperationalError):
            db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")

    def _replace(self, error: sqlite3.DatabaseError) -> None:
        if _identity(self.path) != self._file:
            return  # another crawl was faster: what is there now is its new file
        if not self._was_usable and not _may_be_a_database(self.path):
            raise StoreError(f"{self.path} is no database: {self.advice}") from error
        aside = set_aside(self.path)
        logger.warning(
            "%s is damaged (%s). It is now %s; what it knew will be fetched again.",
            self.path,
            error,
            aside.name,
        )


def _get(db: sqlite3.Connection, origin: str) -> Snapshot | None:
    row = db.execute(SELECT, (origin,)).fetchone()
    try:
        return None if row is None else unpack(origin, row[0])
    except ValueError as error:
        raise DamageError(f"what is known of an origin: {error}") from error


def _used_until(snapshot: Snapshot) -> float:
    """Until when it decides something, were it not for failures to come."""
    answer, failures, varies_at = snapshot
    return max(
        varies_at,
        0.0 if answer is None else answer.checked + max(answer.lifetime, answer.grace),
        0.0 if failures is None else failures.retry_at,
    )


def _may_be_a_database(path: Path) -> bool:
    with path.open("rb") as file:
        return path.suffix in SUFFIXES or file.read(len(FILE_START)) == FILE_START


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


def _path(settings: BaseSettings) -> Path:
    folder = job_dir(settings)
    if folder:
        return Path(folder, FILE_NAME)
    try:
        return Path(data_path(FILE_NAME))
    except NotConfigured:  # a settings module without a scrapy.cfg
        return Path(".scrapy", FILE_NAME)


# What the file of a job has in common with it


def is_damage(error: sqlite3.DatabaseError) -> bool:
    # Python turns SQLITE_CORRUPT and SQLITE_NOTADB into this very class.
    return (
        type(error) is sqlite3.DatabaseError
        or isinstance(error, DamageError)
        or "no such " in str(error)  # table or column
    )


def set_aside(path: Path) -> Path:
    """Rename the file or folder at *path*."""
    asides = (Path(f"{path}.damaged-{n}") for n in count(1))
    aside = next(each for each in asides if not each.exists())
    # A journal that stayed behind would be taken for the new file's.
    for suffix in ("-journal", "-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
    return aside
