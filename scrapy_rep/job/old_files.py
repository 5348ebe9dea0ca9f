"""Reads what Scrapy's disk queues and its filter have left in JOBDIR.

The file queues of queuelib write down their number of requests when they are closed. A kill
leaves old numbers, and only a part of the last requests.
"""

from __future__ import annotations

import io
import json
import marshal
import pickle
import pickletools
import re
import sqlite3
import struct
from contextlib import closing, suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE_FORMAT = struct.Struct(">L")
"""Of the size of a request, and of the number of requests in a file."""
SQLITE_MAGIC = b"SQLite format 3\0"
HEX_LINE = re.compile(rb"[0-9a-f]{40}\r?\n")
"""A fingerprint, as Scrapy before 2.19 wrote it."""


class Old(NamedTuple):
    """A queue of an earlier run."""

    bodies: list[bytes]
    """Pickles of requests, in the order in which they were pushed."""
    whole: bool
    """Whether these are all that it had."""


def read_queue(path: Path) -> Old:
    """Return what is in the queue at *path*, as far as it can be read."""
    if path.is_dir():
        old = _fifo(path)
    elif path.read_bytes()[: len(SQLITE_MAGIC)] == SQLITE_MAGIC:
        old = _sqlite(path)
    else:
        old = _lifo(path.read_bytes())
    return Old([_as_pickle(body) for body in old.bodies], old.whole)


def read_seen(path: Path) -> Iterator[bytes]:
    """Yield the fingerprints of Scrapy's filter in the file at *path*."""
    data = path.read_bytes()
    if HEX_LINE.match(data):
        for line in HEX_LINE.findall(data):
            yield bytes.fromhex(line.decode())
        return
    place = 0
    while place + 2 <= len(data):
        size = int.from_bytes(data[place : place + 2], "big")
        place += 2 + size
        if place <= len(data):
            yield data[place - size : place]


def _as_pickle(body: bytes) -> bytes:
    if body.startswith(b"\x80"):
        return body
    try:  # what the Marshal queues wrote
        return pickle.dumps(marshal.loads(body), protocol=4)  # noqa: S302 - our own file
    except (ValueError, EOFError, TypeError):
        return body  # it says itself that it cannot be read


def _lifo(data: bytes) -> Old:
    """Read a LIFO file: the number of requests, then each body followed by its size."""
    if len(data) < SIZE_FORMAT.size:
        return Old([], whole=not data)
    (count,) = SIZE_FORMAT.unpack_from(data)
    bodies = []
    end = len(data)
    while end >= 2 * SIZE_FORMAT.size:
        (size,) = SIZE_FORMAT.unpack_from(data, end - SIZE_FORMAT.size)
        start = end - SIZE_FORMAT.size - size
        if start < SIZE_FORMAT.size:
            break
        bodies.append(data[start : end - SIZE_FORMAT.size])
        end = start
    if end == SIZE_FORMAT.size:
        return Old(bodies[::-1], whole=len(bodies) == count)
    return Old(_pickles(data[SIZE_FORMAT.size :]), whole=False)


def _pickles(data: bytes) -> list[bytes]:
    """Return the pickles before the place where *data* is torn."""
    found = []
    stream = io.BytesIO(data)
    with suppress(ValueError, IndexError, UnicodeDecodeError):
        while stream.tell() < len(data):
            first = stream.tell()
            for _ in pickletools.genops(stream):
                pass
            found.append(data[first : stream.tell()])
            stream.seek(SIZE_FORMAT.size, io.SEEK_CUR)
    return found


def _fifo(path: Path) -> Old:
    """Read a FIFO folder: numbered files of sizes and bodies; info.json says where to begin."""
    chunk, offset, count = 0, 0, -1
    with suppress(OSError, ValueError, LookupError, TypeError):
        info = json.loads((path / "info.json").read_text())
        chunk, _, offset = info["tail"]
        count = info["size"]
    bodies = []
    for file in sorted(path.glob("q*")):
        if file.name < f"q{chunk:05d}":
            continue
        data = file.read_bytes()
        place = offset if file.name == f"q{chunk:05d}" else 0
        while place + SIZE_FORMAT.size <= len(data):
            (size,) = SIZE_FORMAT.unpack_from(data, place)
            place += SIZE_FORMAT.size + size
            if place <= len(data):
                bodies.append(data[place - size : place])
    return Old(bodies, whole=len(bodies) == count)


def _sqlite(path: Path) -> Old:
    try:
        with closing(sqlite3.connect(path)) as db:
            rows = db.execute("SELECT item FROM queue ORDER BY id").fetchall()
    except sqlite3.Error:
        return Old([], whole=False)
    return Old([row[0] for row in rows], whole=True)
