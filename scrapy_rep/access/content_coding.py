"""Content codings of a robots.txt, decoded as far as it is read.

None is asked for, but some servers send them all the same, and a few octets of gzip can
stand for gigabytes.
"""

from __future__ import annotations

import re
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE

UNDECODED_CODINGS = frozenset(
    {
        *("aes128gcm", "br", "compress", "dcb", "dcz", "exi", "pack200-gzip", "zstd"),
        *("x-compress", "x-br", "x-zstd", "bzip2", "lz4", "lzma", "sdch"),
        *("snappy", "xz"),
    }
)
"""Codings that were not asked for and are not decoded: the registered ones, and others in use."""
NON_TEXT_OCTETS = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
"""Octets that no text has, but for UTF-16 (WHATWG MIME Sniffing 3)."""
MAX_CODINGS = 4  # one in the other; more are a trap
MAX_GZIP_MEMBERS = 1000  # of a file: to find the next one copies the rest


def decode_body(body: bytes, content_encoding: str, *, limit: int, cut: bool) -> bytes:
    """Return at most *limit* octets of *body*, whole lines only where it is longer.

    *cut* tells that the download was stopped at the limit. What is no coding, such as
    ``UTF-8`` or ``text/plain``, changes nothing, as long as the body is text. Raises
    ``ValueError`` where a coding is not decoded here or broken, ends too early, or is one
    of too many.
    """
    codings = [name.strip().lower() for name in content_encoding.split(",")]
    if len(codings) > MAX_CODINGS:
        raise ValueError(f"{len(codings)} content codings")
    unknown = ""
    for coding in reversed(codings):
        if coding in {"gzip", "x-gzip", "deflate"}:
            body = _inflate(body, limit=limit, cut=cut)
        elif coding in UNDECODED_CODINGS:
            raise ValueError(f"content coding {coding!r} was not asked for")
        elif coding not in {"", "identity"}:
            unknown = coding
    if unknown and not _is_text(body):
        raise ValueError(f"unknown content coding {unknown[:40]!r} of what is no text")
    if len(body) <= limit:
        return body
    body = body[:limit]
    return body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]


def _is_text(body: bytes) -> bool:
    is_utf16 = body.startswith((BOM_UTF16_BE, BOM_UTF16_LE))
    return is_utf16 or NON_TEXT_OCTETS.search(body) is None


def _inflate(body: bytes, *, limit: int, cut: bool) -> bytes:
    try:
        inflated, whole = _inflate_members(body, zlib.MAX_WBITS | 32, limit)
    except zlib.error:
        try:  # "deflate" without the zlib header, as some servers send it
            inflated, whole = _inflate_members(body, -zlib.MAX_WBITS, limit)
        except zlib.error as error:
            raise ValueError(f"broken content coding: {error}") from None
    if not (whole or cut or len(inflated) > limit):
        raise ValueError("content coding ends too early")
    return inflated


def _inflate_members(body: bytes, wbits: int, limit: int) -> tuple[bytes, bool]:
    """Return more than *limit* octets of *body* where there are, and if it is whole."""
    parts = b""
    members = 0
    while body and len(parts) <= limit:  # gzip: several members may follow each other
        members += 1
        if members > MAX_GZIP_MEMBERS:
            raise zlib.error("too many members")
        inflater = zlib.decompressobj(wbits)
        parts += inflater.decompress(body, limit + 1 - len(parts))
        if not inflater.eof:
            return parts, False
        body = inflater.unused_data
    return parts, True
