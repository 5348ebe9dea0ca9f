"""Content codings of a robots.txt, decoded as far as it is read.

A request for a robots.txt accepts what those for pages accept: whatever Scrapy decodes. But a
few octets of a coding can stand for gigabytes, so it is decoded here, as far as it is needed.
"""

from __future__ import annotations

import re
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

UNDECODED_CODINGS = frozenset(
    {
        *("aes128gcm", "compress", "dcb", "dcz", "exi", "pack200-gzip"),
        *("x-compress", "x-br", "x-zstd", "bzip2", "lz4", "lzma", "sdch"),
        *("snappy", "xz"),
    }
)
"""Codings that are not decoded: the registered ones, and others in use."""
BROTLI_PACKAGES = ("brotli", "brotlicffi")
ZSTD_PACKAGES = ("compression.zstd", "backports.zstd", "zstandard")
"""What Scrapy decodes these codings with, by its version and Python's; the first that is
installed."""
ZSTD_WINDOW_LOG = 23
"""RFC 9659: a decoder needs no window of more than 8 MiB, and should refuse one."""
ZSTD_OCTETS_AT_A_TIME = 64
"""With zstandard, which has no limit: each octet may stand for 32 KiB."""
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
        if coding in DECODERS:
            body = _decode(body, coding, limit=limit, cut=cut)
        elif coding in UNDECODED_CODINGS:
            raise ValueError(f"content coding {coding!r} is not decoded")
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


def _decode(body: bytes, coding: str, *, limit: int, cut: bool) -> bytes:
    try:
        decoded, whole = DECODERS[coding](body, limit)
    except Exception as error:  # noqa: BLE001 - each package has its own
        raise ValueError(f"broken content coding {coding!r}: {error}") from None
    if not (whole or cut or len(decoded) > limit):
        raise ValueError(f"content coding {coding!r} ends too early")
    return decoded


def _inflate(body: bytes, limit: int) -> tuple[bytes, bool]:
    """Return more than *limit* octets of *body* where there are, and if it is whole."""
    try:
        return _inflate_members(body, zlib.MAX_WBITS | 32, limit)
    except zlib.error:  # "deflate" without the zlib header, as some servers send it
        return _inflate_members(body, -zlib.MAX_WBITS, limit)


def _inflate_members(body: bytes, wbits: int, limit: int) -> tuple[bytes, bool]:
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


def _unbrotli(body: bytes, limit: int) -> tuple[bytes, bool]:
    decoder = _first_of(BROTLI_PACKAGES).Decompressor()
    parts = part = decoder.process(body, output_buffer_limit=limit + 1)
    while part and len(parts) <= limit:
        part = decoder.process(b"", output_buffer_limit=limit + 1)
        parts += part
    return parts, decoder.is_finished()


def _unzstd(body: bytes, limit: int) -> tuple[bytes, bool]:
    package = _first_of(ZSTD_PACKAGES)
    if package.__name__ == "zstandard":
        return _unzstd_in_steps(package, body, limit)
    options = {package.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG}
    decoder = package.ZstdDecompressor(options=options)
    parts = decoder.decompress(body, limit + 1)
    while not (decoder.eof or decoder.needs_input) and len(parts) <= limit:
        parts += decoder.decompress(b"", limit + 1)
    return parts, decoder.eof and not decoder.unused_data


def _unzstd_in_steps(package: Any, body: bytes, limit: int) -> tuple[bytes, bool]:
    decoder = package.ZstdDecompressor(max_window_size=2**ZSTD_WINDOW_LOG)
    stream, parts, at = decoder.decompressobj(), b"", 0
    while at < len(body) and len(parts) <= limit and not stream.eof:
        parts += stream.decompress(body[at : at + ZSTD_OCTETS_AT_A_TIME])
        at += ZSTD_OCTETS_AT_A_TIME
    return parts, stream.eof and not stream.unused_data and at >= len(body)


def _first_of(names: tuple[str, ...]) -> Any:
    for name in names:
        try:
            return import_module(name)
        except ImportError:  # noqa: PERF203
            continue
    raise ValueError(f"none of {', '.join(names)} is installed")


DECODERS: dict[str, Callable[[bytes, int], tuple[bytes, bool]]] = {
    "gzip": _inflate,
    "x-gzip": _inflate,
    "deflate": _inflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}
"""Each returns more than so many octets of a body where there are, and if it is whole."""
