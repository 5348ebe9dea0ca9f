"""What is read: URLs, lists of them, files, standard input."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from string import printable as ASCII
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote_from_bytes

from scrapy.exceptions import UsageError

from scrapy_rep.protocol import parse
from scrapy_rep.protocol.decoding import MAX_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_rep.protocol import Policy
    from scrapy_rep.settings import Settings

STDIN_NAME = "-"
URL_WANTED = "an absolute http or https URL such as https://example.com/page"
BARE_HOST = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+\.?)(?::\d+)?(?=[/?#]|\Z)")
"""The begin of a URL as people type it, without its scheme."""


def with_scheme(url: str) -> str:
    """Return *url* with https:// before it where it begins with a host instead."""
    return f"https://{url}" if BARE_HOST.match(url) else url


def open_named(name: str, what: str = "robots.txt") -> BinaryIO:
    """Open *name*, which should be a *what*; raise ``UsageError`` where that fails."""
    try:
        return sys.stdin.buffer if name == STDIN_NAME else Path(name).open("rb")
    except OSError as error:
        why = f"The file {name!r} cannot be read ({error.strerror or error})"
        raise UsageError(f"{why}. Type the name of a {what}, or -.") from None


def policy_in(name: str, settings: Settings) -> Policy:
    """Return the policy in a robots.txt; what no crawler reads is not read."""
    with open_named(name) as file:
        return parse(file.read(MAX_SIZE + 1), dialect=settings.dialect)


def url_of(line: bytes) -> str:
    """Return the URL in a line of a list, "" where there is none.

    Octets that are not UTF-8 are percent-encoded, as a client would send them.
    """
    try:
        return with_scheme(line.strip().decode())
    except UnicodeDecodeError:
        return quote_from_bytes(line.strip(), safe=ASCII)


def all_urls(given: Iterable[str]) -> Iterator[str]:
    """Return the URLs of the command line, with those of standard input in their place."""
    for url in given:
        if url == STDIN_NAME:
            yield from filter(None, map(url_of, sys.stdin.buffer))
        else:
            yield with_scheme(url)
