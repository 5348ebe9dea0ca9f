"""Reads the records of an audit from its files, in the order of time.

An audit is one file or more, of one worker or run each: JSON lines, one record a line,
perhaps in gzip. Nothing that stands in one makes reading fail; what cannot be read is
counted, with its file and line. Memory does not grow with the length of a file.
"""

from __future__ import annotations

import gzip
import heapq
import io
import os
import sys
import zlib
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from scrapy_rep.evidence.format import COPY, as_octets, decode, fault
from scrapy_rep.protocol.printable import without_user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

GZIP_MAGIC = b"\x1f\x8b"
MAX_LINE_BYTES = 16 * 1024 * 1024
"""Octets. A robots.txt of 512 KiB takes 3 MiB at the most, each octet as ``\\u0000``."""
PROGRESS_LINES = 2000
"""Lines after which it is told how far reading is."""
ORDER_WINDOW = 1024
"""Records among which those of one file that stand out of order are put in order."""
MAX_OPEN_FILES = 32
"""Files that stay open; of more, each is opened whenever some of it is read."""
URL_FIELDS = ("url", "page")
"""What is shown without user and password, whoever has written it."""
MAX_TROUBLES = 100
"""Broken lines that are named; of the others, the number is given."""

Record = dict[str, Any]
Dated = tuple[float, int, Record]
"""The time of a record, the number of its file, and the record."""


class AuditError(ValueError):
    """An audit that cannot be read, or a report that cannot be written."""


class Broken(NamedTuple):
    """What cannot be read; ``line`` counts from 1."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


@dataclass(slots=True)
class Source:
    """A file, and what came of reading it."""

    name: str
    lines: int = 0
    torn: bool = False
    """Its last line has no end: whoever wrote it was killed. It is left out."""
    broken: int = 0
    """Lines that cannot be read, apart from a torn one."""


@dataclass(slots=True)
class Files:
    """The files of an audit, open for reading once."""

    names: Sequence[str]
    take_body: Callable[[str, bytes], None]
    """Takes each digest with the robots.txt that it stands for: they are large."""
    progress: Callable[[int], None] = lambda octets: None
    """Takes the octets that were read since it was called last."""
    sources: list[Source] = field(default_factory=list)
    troubles: list[Broken] = field(default_factory=list)
    """The first MAX_TROUBLES broken lines."""

    def records(self) -> Iterator[Dated]:
        """Return all records in the order of time.

        Files are merged, and each is taken to be nearly in order itself: a record that
        stands ORDER_WINDOW records or more too late stays too late. Raises ``AuditError`` for a
        file that cannot be opened or read.
        """
        with ExitStack() as stack:
            few = len(self.names) <= MAX_OPEN_FILES
            opened = [
                stack.enter_context(_open(name, stays=few)) for name in self.names
            ]
            self.sources = [Source(name) for name in self.names]
            streams = [
                self._records_of(number, file) for number, file in enumerate(opened)
            ]
            merged = streams[0]
            if len(streams) > 1:
                merged = heapq.merge(*streams, key=itemgetter(0))
            yield from in_order(merged)

    def _records_of(self, number: int, raw: io.BufferedReader) -> Iterator[Dated]:
        """Return the records of one file, as they stand in it."""
        source = self.sources[number]
        try:
            for line in self._lines(source, raw):
                record = self._record(source, line)
                if record is not None:
                    yield record["time"], number, record
        except EOFError:  # of gzip, whose end is missing
            source.torn = True
        except (gzip.BadGzipFile, zlib.error) as error:
            self._note_broken(
                source, source.lines + 1, f"{error}: the rest is left out"
            )
        except OSError as error:
            raise _error_of(source.name, error) from None

    def _lines(self, source: Source, raw: io.BufferedReader) -> Iterator[bytes]:
        """Return the whole lines of a file, and a last one without an end."""
        file = raw
        if raw.peek(2)[:2] == GZIP_MAGIC:
            file = io.BufferedReader(cast("io.RawIOBase", gzip.GzipFile(fileobj=raw)))
        known = raw.seekable()  # a pipe does not tell how far it is
        reported = 0
        while line := file.readline(MAX_LINE_BYTES):
            source.lines += 1
            if known and not source.lines % PROGRESS_LINES:
                position = raw.tell()
                self.progress(position - reported)
                reported = position
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                self._note_broken(source, source.lines, "longer than 16 MiB")
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE_BYTES)
                continue
            yield line
        if known:
            self.progress(raw.tell() - reported)

    def _record(self, source: Source, line: bytes) -> Record | None:
        try:
            record = decode(line.decode())
        except (ValueError, RecursionError):
            if not line.endswith(b"\n"):
                source.torn = True
            elif not line.isspace():
                self._note_broken(source, source.lines, "not a JSON object")
            return None
        what = fault(record)
        if what:
            self._note_broken(source, source.lines, what)
            return None
        if record["type"] == COPY.name:
            body, digest = record.pop("body", None), record.get("digest")
            if body is not None and digest is not None:
                self.take_body(digest, as_octets(record.get("encoding"), body))
        for name in URL_FIELDS:
            if isinstance(record.get(name), str):
                record[name] = without_user(record[name])
        return cast("Record", record)

    def _note_broken(self, source: Source, line: int, what: str) -> None:
        source.broken += 1
        if len(self.troubles) < MAX_TROUBLES:
            self.troubles.append(Broken(source.name, line, what))


def in_order(records: Iterable[Dated], window: int = ORDER_WINDOW) -> Iterator[Dated]:
    """Return *records* in the order of time, where none is *window* places too late."""
    heap: list[tuple[float, int, int, Record]] = []
    for place, (time, file, record) in enumerate(records):
        entry = time, place, file, record
        if len(heap) < window:
            heapq.heappush(heap, entry)
        else:
            yield _without_place(heapq.heappushpop(heap, entry))
    while heap:
        yield _without_place(heapq.heappop(heap))


def _without_place(entry: tuple[float, int, int, Record]) -> Dated:
    time, _, file, record = entry
    return time, file, record


def size_of(names: Iterable[str]) -> int | None:
    """Return the octets of all files; ``None`` where nobody knows, as one is a pipe."""
    total = 0
    for name in names:
        path = Path(name)
        if not path.is_file():
            return None
        total += path.stat().st_size
    return total


class _OpenToRead(io.RawIOBase):
    """A file that is open only while some of it is read: there may be thousands."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        path.open("rb").close()  # whether that works is told at once

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            offset += self._path.stat().st_size
        elif whence == os.SEEK_CUR:
            offset += self._position
        self._position = offset
        return offset

    def readinto(self, buffer: Any) -> int:
        with self._path.open("rb", buffering=0) as file:
            file.seek(self._position)
            number: int = file.readinto(buffer) or 0
        self._position += number
        return number


def _open(name: str, *, stays: bool) -> io.BufferedReader:
    try:
        if name == "-":
            return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
        path = Path(name)
        if stays or not path.is_file():  # a pipe cannot be opened again
            return path.open("rb")
        return io.BufferedReader(_OpenToRead(path))
    except OSError as error:
        raise _error_of(name, error) from None


def _error_of(name: str, error: OSError) -> AuditError:
    reason = error.strerror or error
    return AuditError(f"audit is {name!r} ({reason}), expected a file of JSON lines")
