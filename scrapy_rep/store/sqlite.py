"""Snapshots in an SQLite file, which outlives the crawl and may be shared by several."""

from __future__ import annotations

import logging
import sqlite3
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import randrange
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy.exceptions import NotConfigured
from scrapy.utils.job import job_dir
from scrapy.utils.project import data_path

from scrapy_rep.downloader import wait_for
from scrapy_rep.settings import DAY, DEFAULTS, Settings
from scrapy_rep.store import Store
from scrapy_rep.store.rows import FACTS, flatten, pack_body, read_row
from scrapy_rep.store.sqlite_files import (
    DamageError,
    is_damage,
    set_aside,
    sign,
    version_of,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

    from scrapy_rep.store import Snapshot

T = TypeVar("T")
logger = logging.getLogger(__name__)

FILE_NAME = "robots.sqlite"
APPLICATION_ID = 0x5245_5039  # REP9
"""Marks a file as ours; the files of other programs are never written to."""
SCHEMA_VERSION = 2
BUSY_SECONDS = 10.0
"""Seconds to wait for another crawl's write; one takes a millisecond."""
COLUMNS_SINCE_2 = ("cache_control", "expires")
"""Those that files of schema version 1 do not have."""
CREATE_TABLE = """CREATE TABLE IF NOT EXISTS robots (
    origin TEXT NOT NULL PRIMARY KEY,
    status INTEGER,
    url TEXT NOT NULL,
    etag TEXT NOT NULL,
    last_modified TEXT NOT NULL,
    checked REAL NOT NULL,
    lifetime REAL NOT NULL,
    grace REAL NOT NULL,
    failures INTEGER NOT NULL,
    failing_since REAL NOT NULL,
    retry_at REAL NOT NULL,
    failure TEXT NOT NULL,
    crc INTEGER NOT NULL,   -- of the columns but the next two
    encoding TEXT,
    body BLOB NOT NULL,     -- in the zlib format, which has a checksum of its own
    cache_control TEXT NOT NULL DEFAULT '',
    expires TEXT NOT NULL DEFAULT ''
)"""
ADD_COLUMN = "ALTER TABLE robots ADD COLUMN {} TEXT NOT NULL DEFAULT ''"
COLUMNS = f"{', '.join(FACTS)}, crc, encoding, body"
SELECT_ROW = f"SELECT {COLUMNS} FROM robots WHERE origin = ?"  # noqa: S608
INTO_ROBOTS = f"INTO robots ({COLUMNS}, origin) VALUES ({'?, ' * (len(FACTS) + 3)}?)"
SELECT_NEXT_ROWS = (
    "SELECT count(*), max(rowid)"
    " FROM (SELECT rowid FROM robots WHERE rowid > ? ORDER BY rowid LIMIT ?)"
)
DELETE_USELESS_ROWS = (
    "DELETE FROM robots WHERE rowid > ? AND rowid <= ?"
    " AND max(checked + max(lifetime, grace), retry_at) < ?"
)
WRITES_PER_LOOK, ROWS_PER_LOOK = 16, 160
"""How many writes come between two looks for useless rows, and how many rows a look is at. It
takes as long as a few writes. Every row has been looked at by the time that a tenth of their
number have been written."""
UPDATE_FACTS = (
    f"UPDATE robots SET {' = ?, '.join(FACTS)} = ?, crc = ?"  # noqa: S608
    " WHERE origin = ? AND status IS ?"
)


class StoreError(ValueError):
    """The file is not one that this version can keep snapshots in."""


class SqliteStore(Store):
    """Keeps snapshots in the file at *path*, which is made where there is none.

    Raises ``StoreError`` if the file is a newer version's or another program's.

    One thread does all the work, as a checkpoint, a slow disk or another crawl's lock can
    take far longer than the event loop may be held. Each write is a transaction of its own,
    and has ended when ``put`` or ``touch`` returns. With a write-ahead log that is not synced
    at each commit it takes some 20 µs, so gathering several would gain nothing. A kill of the
    process loses none of them; a power cut may lose the last ones, never the file.

    An origin is forgotten when its answer has been out of date, and its retry due, for
    *unreachable_max* seconds and a day: until then the answer may be held while the origin is
    unreachable, and its failures count. Each write looks for such origins among some rows,
    and reuses their space; the file itself never shrinks.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        unreachable_max: float = DEFAULTS["REP_UNREACHABLE_MAX"],
    ) -> None:
        self._path = Path(path).absolute()
        self._kept_for = unreachable_max + DAY
        # Snapshots are dated by a clock that never steps, as the wall clock may.
        self._wall_at_zero = time() - monotonic()
        self._writes = 0
        self._looked_at: int | None = None  # up to this row
        self._db: sqlite3.Connection | None = None  # the worker's
        self._file: tuple[int, int] | None = None  # what the path was when opened
        self._closed = False
        self._worker = ThreadPoolExecutor(1, "scrapy_rep.store")
        try:
            self._worker.submit(self._work, lambda db: None).result()
        except BaseException:
            self._worker.shutdown()
            raise

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = Settings.of(crawler)
        path = settings.store_path or _path(crawler.settings)
        return cls(path, settings.unreachable_max)

    async def get(self, origin: str) -> Snapshot | None:
        return await self._do(_get, origin)

    async def put(self, origin: str, snapshot: Snapshot) -> None:
        await self._do(self._write, _put, origin, snapshot)

    async def touch(self, origin: str, snapshot: Snapshot) -> None:
        await self._do(self._write, _touch, origin, snapshot)

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
        """Do *work* on the database; if that is damaged, on a new one."""
        try:
            return work(self._connection(), *args)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self._disconnect()
            self._move_aside(error)
            return work(self._connection(), *args)

    def _write(
        self,
        db: sqlite3.Connection,
        write: Callable[[sqlite3.Connection, str, Snapshot], None],
        origin: str,
        snapshot: Snapshot,
    ) -> None:
        write(db, origin, snapshot)
        self._writes += 1
        if not self._writes % WRITES_PER_LOOK:
            self._forget(db)

    def _forget(self, db: sqlite3.Connection) -> None:
        """Look at some rows, and delete those that are of no use any more."""
        after = self._looked_at
        if (
            after is None
        ):  # at random, so that short crawls do not all look at the same rows
            (rows,) = db.execute("SELECT max(rowid) FROM robots").fetchone()
            after = randrange(rows or 1)  # noqa: S311
        found, last = db.execute(SELECT_NEXT_ROWS, (after, ROWS_PER_LOOK)).fetchone()
        # After the last row the first one is next.
        self._looked_at = last if found == ROWS_PER_LOOK else 0
        now = self._wall_at_zero + monotonic()
        db.execute(DELETE_USELESS_ROWS, (after, last, now - self._kept_for))

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=0o600)  # and so are the files beside it
            self._file = _identity(self._path)
            try:
                self._db = self._open()
            except sqlite3.OperationalError as error:
                raise StoreError(f"{self._path} cannot be opened: {error}") from error
        return self._db

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        # Text that is no longer UTF-8 is damage, which the checksum finds.
        db.text_factory = lambda data: data.decode(errors="replace")
        db.execute("BEGIN IMMEDIATE")  # another crawl may just be making the file
        version = version_of(
            db,
            self._path,
            application_id=APPLICATION_ID,
            newest=SCHEMA_VERSION,
            error=StoreError,
            advice="have REP_STORE_PATH name another file",
        )
        if version == 0:
            db.execute(CREATE_TABLE)
        elif version == 1:
            for name in COLUMNS_SINCE_2:  # no row is written for that
                db.execute(ADD_COLUMN.format(name))
        if version < SCHEMA_VERSION:
            sign(db, APPLICATION_ID, SCHEMA_VERSION)
        db.execute("COMMIT")
        _write_ahead(db)
        db.execute("PRAGMA synchronous = NORMAL")

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def _move_aside(self, error: sqlite3.DatabaseError) -> None:
        if _identity(self._path) != self._file:
            return  # another crawl was faster: what is there now is its new file
        aside = set_aside(self._path)
        logger.warning(
            "%s is damaged (%s). It is now %s; what it knew will be fetched again.",
            self._path,
            error,
            aside.name,
        )


def _get(db: sqlite3.Connection, origin: str) -> Snapshot | None:
    row = db.execute(SELECT_ROW, (origin,)).fetchone()
    if row is None:
        return None
    *facts, crc, encoding, body = row
    if crc != _checksum(origin, facts):
        raise DamageError("a row does not match its checksum")
    try:
        return read_row(dict(zip(FACTS, facts, strict=True)), encoding, body)
    except ValueError as error:
        raise DamageError(f"a row: {error}") from error


def _put(
    db: sqlite3.Connection, origin: str, snapshot: Snapshot, verb: str = "REPLACE"
) -> None:
    facts, encoding, body = flatten(snapshot)
    crc = _checksum(origin, facts.values())
    row = (*facts.values(), crc, encoding, pack_body(body), origin)
    db.execute(f"{verb} {INTO_ROBOTS}", row)


def _touch(db: sqlite3.Connection, origin: str, snapshot: Snapshot) -> None:
    facts, _, _ = flatten(snapshot)
    crc = _checksum(origin, facts.values())
    # Another crawl may have put another answer here. It is left alone: of two answers
    # the later one holds, and a status must not be joined to the other's body.
    row = (*facts.values(), crc, origin, snapshot.status)
    if not db.execute(UPDATE_FACTS, row).rowcount and snapshot.stands_alone:
        _put(db, origin, snapshot, "INSERT OR IGNORE")


def _checksum(origin: str, facts: Iterable[object]) -> int:
    # A row that was written before there were these facts has a checksum without them.
    named = zip(FACTS, facts, strict=True)
    facts = [fact for name, fact in named if fact or name not in COLUMNS_SINCE_2]
    # SQLite gives back a float where an int was put for a time, and 0.0 for -0.0.
    plain = [float(f) or 0.0 if isinstance(f, (int, float)) else f for f in facts]
    return zlib.crc32(ascii((origin, *plain)).encode())


def _write_ahead(db: sqlite3.Connection) -> None:
    # Where two crawls switch at once, SQLite fails one of them without waiting.
    deadline = monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:  # noqa: PERF203 - it is rare
            if "locked" not in str(error) or monotonic() > deadline:
                raise
            sleep(0.01)
        else:
            return


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(FileNotFoundError):
        stat = path.stat()
        return stat.st_dev, stat.st_ino
    return None


def _path(settings: BaseSettings) -> Path:
    folder = job_dir(settings)
    if folder:
        return Path(folder, FILE_NAME)
    try:
        return Path(data_path(FILE_NAME))
    except NotConfigured:  # a settings module without a scrapy.cfg
        return Path(".scrapy", FILE_NAME)
