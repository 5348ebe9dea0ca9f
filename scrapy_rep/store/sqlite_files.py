"""What SQLite files of ours have in common, whatever is in them."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from itertools import count
from pathlib import Path


class DamageError(sqlite3.DatabaseError):
    """What SQLite itself does not notice: a row that is not as it was written."""


def is_damage(error: sqlite3.DatabaseError) -> bool:
    # SQLITE_CORRUPT and SQLITE_NOTADB are the codes that Python turns into this very
    # class; the codes themselves are there from Python 3.11 on only.
    return (
        type(error) is sqlite3.DatabaseError
        or isinstance(error, DamageError)
        or "no such " in str(error)  # table or column
    )


def version_of(
    db: sqlite3.Connection,
    path: Path,
    *,
    application_id: int,
    newest: int,
    error: type[Exception],
    advice: str,
) -> int:
    """Return the version of the tables in the file at *path*; 0: it has none yet.

    Raises *error*, which ends with *advice*, if the file is another program's, or newer than
    *newest*, the last version that is known.
    """
    (application,) = db.execute("PRAGMA application_id").fetchone()
    version: int
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (objects,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != application_id and (application or objects):
        raise error(f"{path} is the database of another program: {advice}")
    if version > newest:
        raise error(
            f"{path} has schema version {version}, this version of scrapy_rep supports up"
            f" to {newest}: upgrade it, or {advice}"
        )
    return version


def sign(db: sqlite3.Connection, application_id: int, version: int) -> None:
    """Mark a file as ours."""
    db.execute(f"PRAGMA application_id = {application_id}")
    db.execute(f"PRAGMA user_version = {version}")


def set_aside(path: Path) -> Path:
    """Rename the file or folder at *path*, and return what it is called now."""
    asides = (Path(f"{path}.damaged-{n}") for n in count(1))
    aside = next(each for each in asides if not each.exists())
    # A journal that stayed behind would be taken for the new file's.
    for suffix in ("-journal", "-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
    return aside
