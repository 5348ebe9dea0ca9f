"""What is read: URLs, lists of them, files, standard input."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from scrapy.exceptions import UsageError

from scrapy_rep.protocol.decoding import MAX_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STDIN_NAME = "-"
URL_WANTED = "an absolute http or https URL such as https://example.com/page"
BARE_HOST = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+\.?)(?::\d+)?(?=[/?#]|\Z)")
"""The begin of a URL as people type it, without its scheme."""


def with_scheme(url: str) -> str:
    """Return *url* with https:// before it where it begins with a host instead."""
    return f"https://{url}" if BARE_HOST.match(url) else url


@contextmanager
def open_named(name: str, what: str = "robots.txt") -> Iterator[BinaryIO]:
    """Open *name*, which should be a *what*; raise ``UsageError`` where that fails."""
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
        raise UsageError(
            f"The file {name!r} cannot be read ({reason}). Type the name of a {what}, "
            "or - for standard input."
        ) from None


def robots_txt(name: str) -> bytes:
    """Return the content of a robots.txt; what no crawler reads is not read."""
    with open_named(name) as file:
        return file.read(MAX_SIZE + 1)


def url_of(line: bytes) -> str:
    """Return the URL in a line of a list, "" where there is none.

    Octets that are not UTF-8 are percent-encoded, as a client would send them.
    """
    line = line.strip()
    try:
        return with_scheme(line.decode())
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
            yield with_scheme(url)
