"""Paths of URLs and of rules, in the one form in which they are compared.

RFC 9309 2.2.2 compares octets after percent-encoding. Here the comparison runs over text in
which every escape that may be decoded is decoded, so that the usual path, which holds
neither an escape nor a character beyond ASCII, is already in its final form. Both forms
tell the same paths apart; `octets` counts in the RFC's.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect

ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
BEYOND_ASCII = re.compile(r"[^\0-\x7f]+")

# What takes three octets in the RFC's form and one in ours: everything that RFC 3986
# neither reserves nor leaves unreserved, a literal * or $ (2.2.3), and in a query the
# colon and the slash (second row of the table in 2.2.2).
ENCODED = re.compile(r"[^A-Za-z0-9._~%:/?#\[\]@!&'()+,;=-]")
ENCODED_IN_QUERY = re.compile(r"[^A-Za-z0-9._~%?#\[\]@!&'()+,;=-]")


def path_of(url: str, dialect: Dialect) -> str:
    """Path and query of a URL, or of a path and query, ready to be compared.

    The fragment never counts; an empty path is "/". Dot segments and double slashes stay.
    """
    url = url.partition("#")[0]
    if not url.startswith("/"):
        origin = ORIGIN.match(url)
        if origin is not None:
            url = url[origin.end() :]
        if not url.startswith("/"):
            url = "/" + url
    return comparable(url, dialect)


def comparable(path: str, dialect: Dialect, *, in_query: bool = False) -> str:
    """`path` with its escapes decoded where the dialect lets them equal the octet.

    `in_query`: it continues a path whose question mark has been passed already.
    """
    if "%" not in path and path.isascii():
        return path
    before, mark, query = ("", "", path) if in_query else path.partition("?")
    return unescaped(before, dialect.kept_apart) + unescaped(
        mark + query, dialect.kept_apart_in_query
    )


def unescaped(text: str, kept_apart: str) -> str:
    """Decode all escapes of ASCII but `kept_apart`, and encode what is not ASCII.

    One pass, so that nothing is decoded twice. A "%" without two hexadecimal digits stays.
    """
    if not text.isascii():
        text = BEYOND_ASCII.sub(encoded, text)
    if "%" not in text:
        return text
    table = escapes(kept_apart)
    first, *rest = text.split("%")
    parts = [first]
    for part in rest:
        decoded = table.get(part[:2])
        parts.append("%" + part if decoded is None else decoded + part[2:])
    return "".join(parts)


def encoded(found: re.Match[str]) -> str:
    return quote(found[0].encode("utf-8", "surrogatepass"), safe="")


@lru_cache(maxsize=8)
def escapes(kept_apart: str) -> dict[str, str]:
    """What the two digits of an escape stand for; escapes that stay do so in upper case."""
    digits = "0123456789ABCDEFabcdef"
    table = {}
    for pair in (high + low for high in digits for low in digits):
        octet = chr(int(pair, 16))
        stays = octet in kept_apart or not octet.isascii()
        table[pair] = "%" + pair.upper() if stays else octet
    return table


def octets(path: str, *, in_query: bool = False) -> int:
    """How many octets a comparable path has in the form of RFC 9309 2.2.2."""
    before, mark, query = ("", "", path) if in_query else path.partition("?")
    longer = len(ENCODED.findall(before)) + len(ENCODED_IN_QUERY.findall(mark + query))
    return len(path) + 2 * longer
