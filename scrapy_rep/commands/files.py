"""Files and standard input."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from scrapy.exceptions import UsageError

from scrapy_rep.commands.options import STDIN_NAME
from scrapy_rep.protocol.decoding import MAX_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@contextmanager
def open_named(name: str, what: str) -> Iterator[BinaryIO]:
    """Open *name* for reading; raise ``UsageError`` where that fails."""
    if name == STDIN_NAME:
        yield sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as file:
            yield file
    except OSError as error:
        if error.filename is None:  # of what is done with it, a broken pipe perhaps
            raise
        reason = error.strerror or error
        raise UsageError(f"{what} is {name!r} ({reason}), expected a file") from None


def robots_txt(name: str, what: str) -> bytes:
    """Return the content of a robots.txt; what no crawler reads is not read."""
    with open_named(name, what) as file:
        return file.read(MAX_SIZE + 1)


def size(file: BinaryIO) -> int | None:
    """Return the octets that *file* has; ``None``: nobody knows, as it is a pipe."""
    try:
        facts = os.fstat(file.fileno())
    except (OSError, ValueError):
        return None
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None


def url_of(line: bytes) -> str:
    """Return the URL in a line of a list, "" where there is none.

    Octets that are not UTF-8 are percent-encoded, as a client would send them.
    """
    line = line.strip()
    try:
        return line.decode()
    except UnicodeDecodeError:
        return "".join(
            chr(octet) if octet < 0x80 else f"%{octet:02X}" for octet in line
        )


def all_urls(given: Iterable[str]) -> Iterator[str]:
    """Return the URLs of the command line, with those of standard input in their place."""
    for url in given:
        if url == STDIN_NAME:
            yield from filter(None, map(url_of, sys.stdin.buffer))
        else:
            yield url
