"""Paths of URLs and of rules, in the one form in which they are compared.

RFC 9309 2.2.2 compares octets after percent-encoding. The form here is the same, but that a
literal `*` or `$`, and in a query `:` and `/`, are left as they are: the usual path is then
in its final form already. `octets` counts as the RFC's form does.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect

ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")

# RFC 3986 2.2 and 2.3, reserved and unreserved; all else must be encoded in a URI.
URI_CHARACTERS = r"A-Za-z0-9._~:/?\[\]@!$&'()*+,;=-"  # and "#"
FINAL = re.compile(rf"[{URI_CHARACTERS}]*")  # a path without an escape or a fragment
TO_ENCODE = re.compile(rf"[^%#{URI_CHARACTERS}]+")
URI_CHARACTER = re.compile(rf"[#{URI_CHARACTERS}]")

# RFC 9309 2.2.3 writes a literal * or $ as %2A and %24; the second row of the table in
# 2.2.2 does the like with a colon and a slash of the query.
ENCODED = "*$"
ENCODED_IN_QUERY = "*$:/"


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
    """`path` with decoded what equals its escape, and encoded what no URI may hold.

    `in_query`: it continues a path whose question mark has been passed already.
    """
    if "%" not in path and FINAL.fullmatch(path):
        return path
    if in_query:
        return normal(path, dialect.kept_apart_in_query)
    before, mark, query = path.partition("?")
    before = normal(before, dialect.kept_apart)
    return (
        before + normal(mark + query, dialect.kept_apart_in_query) if mark else before
    )


def normal(text: str, kept_apart: str) -> str:
    """One pass, so that nothing is decoded twice.

    A "%" that two hexadecimal digits do not follow is literal.
    """
    if "%" in text:
        table = escapes(kept_apart)
        first, *rest = text.split("%")
        parts = [first]
        for part in rest:
            octet = table.get(part[:2])
            parts.append("%" + part if octet is None else octet + part[2:])
        text = "".join(parts)
    return TO_ENCODE.sub(encoded, text)


def encoded(found: re.Match[str]) -> str:
    return "%" + found[0].encode("utf-8", "surrogatepass").hex("%").upper()


@lru_cache(maxsize=8)
def escapes(kept_apart: str) -> dict[str, str]:
    """What the two digits of an escape become: an octet, or the escape in upper case."""
    digits = "0123456789ABCDEFabcdef"
    table = {}
    for pair in (high + low for high in digits for low in digits):
        octet = chr(int(pair, 16))
        decoded = URI_CHARACTER.match(octet) and octet not in kept_apart
        table[pair] = octet if decoded else "%" + pair.upper()
    return table


def octets(path: str, *, in_query: bool = False) -> int:
    """How many octets a comparable path has in the form of RFC 9309 2.2.2."""
    before, mark, query = ("", "", path) if in_query else path.partition("?")
    longer = sum(map(before.count, ENCODED))
    if mark or in_query:
        longer += sum(map(query.count, ENCODED_IN_QUERY))
    return len(path) + 2 * longer
