"""From the octets of a robots.txt to its text."""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from sys import getsizeof

MAX_SIZE = 512 * 1024
"""Octets (characters, of a str) that are read. RFC 9309 2.5 demands at least 500 KiB."""

UTF8_BOM = codecs.BOM_UTF8
MOJIBAKE_BOM = UTF8_BOM.decode("latin-1")
BYTE_ORDER_MARKS = re.compile(rf"\A(?:\ufeff|{MOJIBAKE_BOM})+")

# Codecs of Python that decode no charset, some of them slowly, some with warnings.
NOT_CHARSETS = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}

PRINTABLE = "".join(map(chr, range(32, 127)))

TOO_LONG = "too-long"
NOT_UTF8 = "not-utf8"


class Text:
    """What is read of a file."""

    __slots__ = ("_kept", "problems")

    problems: tuple[str, ...]
    """TOO_LONG, NOT_UTF8: what the lines no longer show."""

    def __init__(self, lines: str, problems: tuple[str, ...] = ()) -> None:
        self.problems = problems
        self._kept: str | bytes = lines
        if not lines.isascii():
            try:
                lines.encode("latin-1")
            except UnicodeEncodeError:
                # As a str, one such character makes all of them take two or four octets.
                self._kept = lines.encode("utf-8", "surrogatepass")

    @property
    def lines(self) -> str:
        """The text: a line feed is its only line end, and also stands before line 1."""
        kept = self._kept
        return kept if isinstance(kept, str) else kept.decode("utf-8", "surrogatepass")

    def size_bytes(self) -> int:
        """Octets of memory."""
        return getsizeof(self) + getsizeof(self._kept)


def read(body: bytes | str, encoding: str | None = None) -> Text:
    """Decode `body` without ever failing on its content.

    A byte order mark of UTF-16 decides; else `encoding`, which the response declared, if
    it is known and fits the octets; else UTF-8; and a line that is not UTF-8 is ISO-8859-1.

    Raises TypeError when `body` is neither bytes nor str, or `encoding` not a str.
    """
    if not isinstance(body, (bytes, str)):
        msg = f"body must be bytes or str, not {type(body).__name__}"
        raise TypeError(msg)
    if encoding is not None and not isinstance(encoding, str):
        msg = f"encoding must be str or None, not {type(encoding).__name__}"
        raise TypeError(msg)
    problems: tuple[str, ...] = ()
    if len(body) > MAX_SIZE:
        body = cut(body)
        problems += (TOO_LONG,)
    if isinstance(body, str):
        text = body
    else:
        text, is_utf8 = decode(body, encoding)
        if not is_utf8:
            problems += (NOT_UTF8,)
    if text.startswith(("\ufeff", MOJIBAKE_BOM)):
        text = BYTE_ORDER_MARKS.sub("", text, count=1)
    if "\r" in text:  # RFC 9309 2.2: a line ends with CR, LF or CRLF, and nothing else
        text = text.replace("\r\n", "\n")
        if "\r" in text:
            text = text.replace("\r", "\n")
    return Text("\n" + text, problems)


def cut(body: bytes | str) -> bytes | str:
    """The whole lines among the first MAX_SIZE octets: half a path is another path."""
    if isinstance(body, str):
        end = max(body.rfind("\n", 0, MAX_SIZE + 1), body.rfind("\r", 0, MAX_SIZE + 1))
    else:
        end = max(
            body.rfind(b"\n", 0, MAX_SIZE + 1), body.rfind(b"\r", 0, MAX_SIZE + 1)
        )
    return body[: max(end, 0)]


def decode(body: bytes, encoding: str | None) -> tuple[str, bool]:
    """Text, and whether it was UTF-8, as RFC 9309 2.3 demands."""
    # Beyond RFC 9309: 2.2.2 lets us bridge encodings, so we do.
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return body.decode("utf-16", "replace"), False
    # Beyond RFC 9309: a byte order mark is skipped, also when it lost its last octets.
    if body.startswith(UTF8_BOM[:1]):
        length = (
            3
            if body.startswith(UTF8_BOM)
            else 2
            if body.startswith(UTF8_BOM[:2])
            else 1
        )
        body = body[length:]
    if encoding is not None:
        try:
            charset = codecs.lookup(encoding).name
            if charset not in NOT_CHARSETS and may_be(charset, body):
                return body.decode(charset), charset == "utf-8" or body.isascii()
        except (LookupError, ValueError):
            pass  # an unknown name, or octets that it has no use for
    try:
        return body.decode("utf-8"), True
    except UnicodeDecodeError:
        # Line by line, lest one bad octet in a comment change what the rules say.
        return "".join(map(decode_line, body.splitlines(keepends=True))), False


def may_be(charset: str, body: bytes) -> bool:
    """Whether `body` can be meant in `charset`.

    In one that does not contain ASCII, such as UTF-16, a text of plain ASCII is nonsense:
    its label is wrong, and taken at its word it would lose every rule.
    """
    return contains_ascii(charset) or not body.isascii() or b"\0" in body


@lru_cache(maxsize=64)
def contains_ascii(charset: str) -> bool:
    try:
        return PRINTABLE.encode("ascii").decode(charset) == PRINTABLE
    except (LookupError, ValueError):
        return False


def decode_line(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")
