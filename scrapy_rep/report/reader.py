"""Reads the files of an audit into the tables of a database, one for each type of record.

An audit is one file or more, of one worker or run each: JSON lines, perhaps in gzip. Nothing in
one makes reading fail; what cannot be read is counted, with its file and line. What a record
consists of is declared in ``events``, what is kept of it in ``tables.sql``.
"""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from codecs import BOM_UTF8
from dataclasses import dataclass
from functools import lru_cache
from json import JSONDecoder, dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_rep.events import KINDS, as_octets, fields_of
from scrapy_rep.events.kinds import EVENTS, FORMAT
from scrapy_rep.protocol.origins import host_in, origin_of
from scrapy_rep.protocol.printable import shorten, without_user

if TYPE_CHECKING:
    import io
    import sqlite3
    from collections.abc import Callable, Container, Sequence

GZIP_MAGIC = b"\x1f\x8b"
MAX_LINE_BYTES = 16 * 1024 * 1024
"""Octets. A robots.txt of 512 KiB takes 3 MiB at the most, each octet as ``\\u0000``."""
PROGRESS_LINES = 2000
ROWS_AT_ONCE = 1000
MAX_TROUBLES = 100
HOST_START = len("https://")
AS_JSON = ("group", "settings", "unsent")
OF_ALLOWED = 8
"""Columns that a ``decision`` that allows fills."""
COLUMNS = "SELECT name FROM pragma_table_info(?)"
MAX_SITES = 65536
MAX_DIGEST_CHARACTERS = 200
END_OF_TIME = 1e11
"""In the year 5138: charts go beyond the last time, and Python's dates end with the year 9999."""
RECORDS = {each.audit: fields_of(each) for each in EVENTS if each.audit}
"""Type of record -> its fields."""
decode = JSONDecoder().decode

Record = dict[str, Any]
_origin_of = lru_cache(maxsize=MAX_SITES)(origin_of)


def fault(record: object) -> str:
    """Return what is wrong with a line of an audit; "": nothing.

    Records of an unknown type must have their time only. Keys that are no fields are no concern.
    """
    if type(record) is not dict:
        return "not a JSON object"
    name = record.get("type")
    if type(name) is not str:
        return _wrong("type", name, "the type of a record")
    time = record.get("time")
    if type(time) not in KINDS["float"].types or not 0 <= time < END_OF_TIME:  # type: ignore[operator]
        return _wrong("time", time, "seconds since 1970")
    for key, (kind, needed) in RECORDS.get(name, {}).items():
        value = record.get(key)
        if value is None:
            if needed:
                return _wrong(key, value, kind.expected)
        # Python reads NaN and infinities, too.
        elif type(value) not in kind.types or (
            int in kind.types and not 0 <= value < END_OF_TIME
        ):
            return _wrong(key, value, kind.expected)
        elif key == "digest" and len(value) > MAX_DIGEST_CHARACTERS:
            return _wrong(key, value, f"up to {MAX_DIGEST_CHARACTERS} characters")
        elif key == "format" and value != FORMAT:
            return _wrong(key, value, f"{FORMAT}, the only one known here")
    return ""


def _wrong(name: str, value: object, expected: str) -> str:
    shown = "missing" if value is None else shorten(ascii(value), 60)
    return f"{name} is {shown}, expected {expected}"


class AuditError(ValueError):
    """An audit that cannot be read, or a report that cannot be written."""

    def __init__(self, what: str, given: object, why: object, expected: str) -> None:
        super().__init__(f"{what} is {given!r} ({why}), expected {expected}")


@dataclass(slots=True)
class Source:
    name: str
    lines: int = 0
    records: int = 0
    unknown: int = 0
    broken: int = 0
    trouble: str = ""
    torn: bool = False
    """Its last line has no end: whoever wrote it was killed. It is left out."""


class Reader:
    """Reads files into *database*, which has the tables of ``tables.sql``."""

    def __init__(
        self, database: sqlite3.Connection, progress: Callable[[int], None]
    ) -> None:
        self._database = database
        self._progress = progress
        self._columns = {
            kind: [name for name, *_ in database.execute(COLUMNS, (kind,))]
            for kind in RECORDS
        }
        self._rows: dict[str, list[list[Any]]] = {kind: [] for kind in RECORDS}
        self.sources: list[Source] = []
        self.troubles: list[str] = []
        """File, line, and what is wrong, of the first MAX_TROUBLES broken lines."""

    def read(self, names: Sequence[str]) -> None:
        """Raises ``AuditError`` where one cannot be read, is no audit, or is named twice."""
        paths = {Path(name).resolve(): name for name in names}
        for name in names:
            if paths.pop(Path(name).resolve(), None) is None:
                raise AuditError("audit", name, "given twice", "each file once")
            self.sources.append(Source(name))
            self._told = 0
            try:
                with _open(name) as file:
                    self._read_one(self.sources[-1], file)
            except OSError as error:
                why = error.strerror or error
                raise AuditError("audit", name, why, "a file of JSON lines") from None
        for kind in RECORDS:
            self._flush(kind)
        for source in self.sources:
            # A file that is empty, or has but a torn line, is a worker's that was killed at once.
            if not source.records and (source.lines > source.torn or len(names) == 1):
                why = source.trouble or "no record of an audit in it"
                expected = "a file that a crawl with REP_AUDIT_URI has written"
                raise AuditError("audit", source.name, why, expected)

    def _read_one(self, source: Source, raw: io.BufferedReader) -> None:
        packed = raw.peek(2)[:2] == GZIP_MAGIC
        file: Any = gzip.GzipFile(fileobj=raw) if packed else raw
        try:
            while line := file.readline(MAX_LINE_BYTES):
                source.lines += 1
                if source.lines == 1:
                    line = line.removeprefix(BOM_UTF8)  # of an editor
                if len(line) < MAX_LINE_BYTES or line.endswith(b"\n"):
                    self._take(source, line)
                else:
                    self._note_broken(source, "longer than 16 MiB")
                    while line and not line.endswith(b"\n"):
                        line = file.readline(MAX_LINE_BYTES)
                if not source.lines % PROGRESS_LINES:
                    self._tell(raw)
        except EOFError:  # of gzip, whose end is missing
            source.torn = True
        except (gzip.BadGzipFile, zlib.error) as error:
            source.lines += 1
            self._note_broken(source, f"{error}: the rest is left out")
        self._tell(raw)

    def _tell(self, raw: io.BufferedReader) -> None:
        if raw.seekable():  # a pipe does not say
            self._progress(raw.tell() - self._told)
            self._told = raw.tell()

    def _take(self, source: Source, line: bytes) -> None:
        try:
            record = decode(line.decode())
        except (ValueError, RecursionError):
            if not line.endswith(b"\n"):
                source.torn = True
            elif not line.isspace():
                self._note_broken(source, "not a JSON object")
            return
        if what := fault(record):
            self._note_broken(source, what)
            return
        kind = record["type"]
        if kind not in RECORDS:
            source.unknown += 1
            return
        source.records += 1
        if kind == "copy":
            self._keep_body(record)
        if b"\\u" in line:
            _write_out_surrogates(record)
        _locate(record, RECORDS[kind])
        record["file"], record["place"] = len(self.sources), source.lines
        names = self._columns[kind]
        if kind == "decision" and record["allowed"]:
            left_out = dict.fromkeys(names[OF_ALLOWED:])
            record.update(left_out)
        for name in AS_JSON:
            if record.get(name) is not None:
                record[name] = dumps(record[name])
        self._rows[kind].append([*map(record.get, names)])
        if len(self._rows[kind]) >= ROWS_AT_ONCE:
            self._flush(kind)

    def _flush(self, kind: str) -> None:
        marks = ", ".join("?" * len(self._columns[kind]))
        sql = f'INSERT INTO "{kind}" VALUES ({marks})'  # noqa: S608
        self._database.executemany(sql, self._rows[kind])
        self._rows[kind].clear()

    def _keep_body(self, record: Record) -> None:
        body, digest = record.pop("body", None), record.get("digest")
        if body is not None and digest is not None:
            packed = zlib.compress(as_octets(record.get("encoding"), body), 1)
            sql = "INSERT OR IGNORE INTO body VALUES (?, ?)"
            self._database.execute(sql, (digest, packed))

    def _note_broken(self, source: Source, what: str) -> None:
        source.trouble = source.trouble or what
        source.broken += 1
        if len(self.troubles) < MAX_TROUBLES:
            self.troubles.append(f"{source.name}:{source.lines}: {what}")


def _locate(record: Record, fields: Container[str]) -> None:
    """Add whose origin and host a record is about, and the key of the URL that was judged."""
    # A record may have keys that are no fields of its type: nobody has checked these.
    url, origin, host, judged = (
        record.get(name) if name in fields else None
        for name in ("url", "origin", "host", "judged")
    )
    url = judged or url
    if url is not None:
        record["url"] = url = without_user(url)
        record["url_key"] = hash(url)
    if origin is None and url is not None:
        # What is before the first slash tells, which is the same for many.
        end = url.find("/", HOST_START)
        origin = _origin_of(url[:end] if end > 0 else url)
    record["origin"] = origin
    record["host"] = host or host_in(origin or "") or origin or ""


def size_of(names: Sequence[str]) -> int | None:
    """Return the octets of all files; ``None`` where nobody knows, as one is a pipe."""
    paths = [Path(name) for name in names]
    are_files = all(path.is_file() for path in paths)
    return sum(path.stat().st_size for path in paths) if are_files else None


def _open(name: str) -> io.BufferedReader:
    if name == "-":
        if sys.stdin is None:
            raise OSError("standard input is closed")
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    return Path(name).open("rb")


def _write_out_surrogates(record: Record) -> None:
    """Write out halves of characters, which JSON may have and a database may not."""
    for name, value in record.items():
        if isinstance(value, str):
            record[name] = value.encode("utf-8", "backslashreplace").decode()
