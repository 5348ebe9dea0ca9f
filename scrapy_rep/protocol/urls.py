"""Origins of URLs in their normal form (RFC 6454 4), and paths in the forms that are compared.

RFC 9309 2.2.2 compares octets after percent-encoding. Here what equals its escape stands as
it is, and what may not stand in a URI, or separates, as an escape: the usual path is in that
comparable form already. `encode_reserved` makes it the form of the RFC, which only differs for a
rule that ends, or goes on behind a wildcard, within an escape.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect

DEFAULT_PORTS = {"http": "80", "https": "443"}
MAX_NAME_CHARACTERS = 253  # characters of a host name (RFC 1035 2.3.4)
ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")

# RFC 3986 2.2 and 2.3, reserved and unreserved; all else must be encoded in a URI.
URI_CHARACTERS = r"A-Za-z0-9._~:/?\[\]@!$&'()*+,;=-"  # and "#"
# A path without an escape or a fragment.
COMPARABLE_PATH = re.compile(rf"[{URI_CHARACTERS}]*")
CHARACTERS_TO_ENCODE = re.compile(rf"[^%#{URI_CHARACTERS}]+")
URI_CHARACTER = rf"[#{URI_CHARACTERS}]"

RESERVED = ":/?#[]@!$&'()*+,;="

# What is reserved and yet equals its escape (see `Dialect.kept_apart`), in a path and in a
# query; and the paths that have none of it, nor an escape.
RESERVED_IN_PATH = re.compile(r"[:\[\]@!$&'()*+,;=]")
RESERVED_IN_QUERY = re.compile(r"[:/?\[\]@!$'()*+,;]")
WITHOUT_RESERVED = re.compile(r"[A-Za-z0-9._~/-]*(?:\?[A-Za-z0-9._~&=-]*)?")


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
    return make_comparable(url, dialect)


def make_comparable(path: str, dialect: Dialect) -> str:
    """`path` with decoded what equals its escape, and encoded what no URI may hold."""
    if "%" not in path and COMPARABLE_PATH.fullmatch(path):
        return path
    before, mark, query = path.partition("?")
    before = decode_escapes(before, dialect.kept_apart)
    return before + decode_escapes(mark + query, dialect.kept_apart_in_query)


def decode_escapes(text: str, kept_apart: str) -> str:
    """One pass, so that nothing is decoded twice.

    A "%" that two hexadecimal digits do not follow is literal, as "%25" is.
    """
    if "%" in text:
        table = escape_table(kept_apart)
        first, *rest = text.split("%")
        parts = [first]
        for part in rest:
            octet = table.get(part[:2])
            parts.append("%25" + part if octet is None else octet + part[2:])
        text = "".join(parts)
    return CHARACTERS_TO_ENCODE.sub(escape, text)


def encode_reserved(path: str) -> str:
    """A comparable path in the form of RFC 9309 2.2.2, with reserved characters encoded.

    A line end stands behind the path and before the question mark, if there is one: what
    separates equals other escapes in a path than in a query.
    """
    before, mark, query = path.partition("?")
    return f"{RESERVED_IN_PATH.sub(escape, before)}\n{mark}{encode_query(query)}"


def encode_query(query: str) -> str:
    return RESERVED_IN_QUERY.sub(escape, query)


def count_octets(path: str) -> int:
    """How many octets a comparable path has in the form of RFC 9309 2.2.2."""
    before, mark, query = path.partition("?")
    longer = len(RESERVED_IN_PATH.findall(before))
    if mark:
        longer += len(RESERVED_IN_QUERY.findall(query))
    return len(path) + 2 * longer


def escape(found: re.Match[str]) -> str:
    return "%" + found[0].encode("utf-8", OCTETS_HANDLER).hex("%").upper()


OCTETS_HANDLER = "scrapy_rep.octets"


def octets_of(error: UnicodeError) -> tuple[bytes, int]:
    """What UTF-8 does not encode: octets that it could not decode (PEP 383), which become
    those octets, and other lone surrogates.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return b"".join(
        bytes([ord(char) - 0xDC00])
        if 0xDC80 <= ord(char) <= 0xDCFF
        else char.encode("utf-8", "surrogatepass")
        for char in found
    ), error.end


codecs.register_error(OCTETS_HANDLER, octets_of)


@lru_cache(maxsize=8)
def escape_table(kept_apart: str) -> dict[str, str]:
    """What the two digits of an escape become: an octet, or the escape in upper case."""
    octets = "".join(map(chr, range(256)))
    decoded = {*re.findall(URI_CHARACTER, octets)} - {*kept_apart}
    digits = "0123456789ABCDEFabcdef"
    table = {}
    for pair in (high + low for high in digits for low in digits):
        octet = chr(int(pair, 16))
        table[pair] = octet if octet in decoded else "%" + pair.upper()
    return table


def without_dot_segments(path: str) -> str:
    """A comparable path as a server resolves it (RFC 3986 5.2.4)."""
    before, mark, query = path.partition("?")
    names = before.split("/")[1:]
    kept: list[str] = []
    for name in names:
        if name == "..":
            kept[-1:] = []
        elif name != ".":
            kept.append(name)
    if names[-1] in {".", ".."}:
        kept.append("")
    return f"/{'/'.join(kept)}{mark}{query}"


def origin_of(url: str) -> str | None:
    """Return the origin of *url* in its normal form, such as ``https://example.com``.

    Scheme and host are in lower case, an international host is in punycode, user and
    password are dropped, and so is the port where it is the scheme's own (RFC 6454 4).
    ``None`` where *url* is not an absolute http or https URL: robots.txt says nothing
    about it.
    """
    scheme, colon, rest = url.partition("://")
    if not colon:
        return None
    end = min((at for mark in "/?#\\" if (at := rest.find(mark)) >= 0), default=None)
    return origin_from(scheme, rest[:end])


def normal_origin(scheme: str, netloc: str) -> str | None:
    """Return the origin of a URL with this scheme and netloc, as ``origin_of`` does."""
    scheme = scheme.strip().lower()
    if scheme not in DEFAULT_PORTS:
        return None
    host, port = split_port(netloc.rpartition("@")[2])
    host = normal_host(host)
    if not host:
        return None
    if port in {"", DEFAULT_PORTS[scheme]}:
        return f"{scheme}://{host}"
    return f"{scheme}://{host}:{port}"


origin_from = lru_cache(maxsize=4096)(normal_origin)


def split_port(authority: str) -> tuple[str, str]:
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port:  # no port; or a colon of an IPv6 address
        return authority, ""
    if port.isascii() and port.isdigit():
        port = port.lstrip("0") or "0"
    return host, port


def normal_host(host: str) -> str:
    host = host.lower()
    if not host.isascii() and len(host) <= MAX_NAME_CHARACTERS:  # or the codec is busy
        with suppress(UnicodeError):  # nobody can be asked there; an origin of its own
            return host.encode("idna").decode("ascii")
    return host
