"""From the octets of a robots.txt to its text."""

from __future__ import annotations

import codecs
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

MAX_SIZE = 512 * 1024
"""Octets of bytes, characters of a str (RFC 9309 2.5: at least 500 KiB)."""

UTF8_BOM = codecs.BOM_UTF8
WIDE_MARK = re.compile(rb"\xff\xfe(?:\0\0)?|(?:\0\0)?\xfe\xff")
WIDE_STARTS = {
    "utf-32-le": re.compile(rb"(?:\xff\xfe|[\t-~]\0)\0\0"),
    "utf-32-be": re.compile(rb"\0\0(?:\xfe\xff|\0[\t-~])"),
    "utf-16-le": re.compile(rb"\xff\xfe|(?:[\t-~]\0){2}"),
    "utf-16-be": re.compile(rb"\xfe\xff|(?:\0[\t-~]){2}"),
}
"""How Unicode of several octets a character begins: with its mark, or with ASCII between NULs. UTF-32
comes first, as its beginning may be that of UTF-16, too."""
UTF8_MARK = re.compile(rb"\xef(?:\xbb\xbf|(?![\x80-\xbf]{2})\xbb?)")  # whole or cut
MOJIBAKE_BOM = UTF8_BOM.decode("latin-1")
BYTE_ORDER_MARKS = re.compile(rf"(?:\ufeff|{MOJIBAKE_BOM})*")
LONE_CR = re.compile(r"\r(?!\n)")

# They decode no charset, some slowly, some with warnings.
NOT_CHARSETS = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}

PRINTABLE = "".join(map(chr, range(32, 127)))

TOO_LONG = "too-long"
NOT_UTF8 = "not-utf8"
WRONG_MARK = "wrong-mark"
WRONG_CHARSET = "wrong-charset"

# Octets that are not UTF-8 are lone surrogates in the text (PEP 383); people see ISO-8859-1.
OCTETS = "surrogateescape"
ISO_8859_1 = {0xDC00 + octet: octet for octet in range(0x80, 0x100)}


@dataclass(slots=True)
class Text:
    kept: str | bytes
    problems: tuple[str, ...] = ()
    """TOO_LONG, NOT_UTF8, WRONG_MARK, WRONG_CHARSET."""
    charset: str | None = None
    """The declared one, if the octets were read in it."""

    @property
    def lines(self) -> str:
        """With a line feed as the only line end, and another one before line 1."""
        kept = self.kept
        return kept if isinstance(kept, str) else kept.decode("utf-8", OCTETS)


def narrowed(lines: str) -> str | bytes:
    """`lines` in little memory: one wide letter makes a str two or four times as large."""
    if sys.getsizeof(lines) > 2 * len(lines):
        with suppress(UnicodeEncodeError):
            return lines.encode()
        with suppress(UnicodeEncodeError):
            kept = lines.encode("utf-8", OCTETS)
            if kept.decode("utf-8", OCTETS) == lines:
                return kept
    return lines


def decode_text(body: bytes | str, encoding: str | None = None) -> Text:
    """Decode `body`, whatever is in it: as UTF-8 where it is that, UTF-16 or UTF-32 likewise, else in
    `encoding`, which the response declared, if that fits, else octet by octet.

    Raises TypeError when `body` is neither bytes nor str, or `encoding` not a str.
    """
    if not isinstance(body, (bytes, str)):
        msg = f"body must be bytes or str, not {type(body).__name__}"
        raise TypeError(msg)
    if encoding is not None and not isinstance(encoding, str):
        msg = f"encoding must be str or None, not {type(encoding).__name__}"
        raise TypeError(msg)
    problems: tuple[str, ...] = ()
    charset = None
    if len(body) > MAX_SIZE:
        body = cut_to_limit(body)
        problems += (TOO_LONG,)
    if isinstance(body, str):
        text = body
    elif body.isascii() and b"\0" not in body:  # which no charset changes
        text = body.decode()
    else:
        text, charset, found = decode(body, encoding)
        problems += found
    is_ascii = text.isascii()
    if not is_ascii:
        text = BYTE_ORDER_MARKS.sub("", text, count=1)
    if "\r" in text:  # RFC 9309 2.2: a line ends with CR, LF or CRLF, and nothing else
        if LONE_CR.search(text) is None:
            text = text.replace("\r", "")  # sooner by far
        else:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = "\n" + text
    return Text(text if is_ascii else narrowed(text), problems, charset)


def cut_to_limit(body: bytes | str) -> bytes | str:
    """Whole lines only: half a path is another path."""
    body = body[: MAX_SIZE + 1]
    if isinstance(body, str):
        return body[: max(body.rfind("\n"), body.rfind("\r"), 0)]
    return body[: max(body.rfind(b"\n"), body.rfind(b"\r"), 0)]


def decode(
    body: bytes, encoding: str | None
) -> tuple[str, str | None, tuple[str, ...]]:
    """Text, the charset if it is no Unicode, and problems."""
    problems: tuple[str, ...] = ()
    # Beyond RFC 9309: 2.2.2 lets us bridge encodings.
    if b"\0" in body and not speaks_ascii(body):
        wide = decode_wide(body)
        if wide is not None:
            return wide, None, (NOT_UTF8,)
    wide_mark = WIDE_MARK.match(body)
    if wide_mark is not None:
        body = body[wide_mark.end() :]
        problems = (WRONG_MARK,)
    # Beyond RFC 9309: a byte order mark is skipped, also when its end is lost.
    mark = UTF8_MARK.match(body)
    if mark is not None:
        body = body[mark.end() :]
        if mark[0] != UTF8_BOM:
            problems = (WRONG_MARK,)
    charset = None if encoding is None else charset_of(encoding)
    foreign = charset is not None and not contains_ascii(charset)
    if foreign and speaks_ascii(body):  # it would lose every rule
        charset = None
    if charset is None or not (foreign and b"\0" in body):
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            pass
        else:
            if not (body.isascii() or charset in {None, "utf-8", "utf-8-sig"}):
                problems += (WRONG_CHARSET,)
            return text, None, problems
    problems += (NOT_UTF8,)
    if charset is not None:
        try:
            return (
                decode_whole_characters(body, charset),
                None if foreign else charset,
                problems,
            )
        except ValueError:
            pass  # it does not fit
    return body.decode("utf-8", OCTETS), None, problems


def decode_wide(body: bytes) -> str | None:
    """UTF-16 and UTF-32, whatever charset is declared; None: it begins like neither."""
    for charset, start in WIDE_STARTS.items():
        if start.match(body):
            # Only what cannot be UTF-32 may be UTF-16.
            errors = "strict" if charset.startswith("utf-32") else "replace"
            with suppress(UnicodeDecodeError):
                return decode_whole_characters(body, charset, errors)
    return None


def decode_whole_characters(body: bytes, charset: str, errors: str = "strict") -> str:
    """Without a character that is cut at the end."""
    try:
        return body.decode(charset)
    except UnicodeDecodeError as error:
        end = error.start if error.end == len(body) else None
        return body[:end].decode(charset, errors)


def speaks_ascii(body: bytes) -> bool:
    """UTF-16 and UTF-32 would have NULs between."""
    return b"agent" in body.lower()


@lru_cache(maxsize=64)
def charset_of(encoding: str) -> str | None:
    """None: `encoding` is none that can be decoded."""
    try:
        charset = codecs.lookup(encoding).name
        b" ".decode(charset)
    except UnicodeDecodeError:
        pass  # half a character
    except (LookupError, ValueError):
        return None
    return None if charset in NOT_CHARSETS else charset


@lru_cache(maxsize=64)
def contains_ascii(charset: str) -> bool:
    try:
        return PRINTABLE.encode("ascii").decode(charset) == PRINTABLE
    except ValueError:
        return False


def show_octets(text: str) -> str:
    """With octets that are not UTF-8 read as ISO-8859-1."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return text.translate(ISO_8859_1)
    return text


def spellings_of(path: str, charset: str | None) -> tuple[str, ...]:
    """A rule's path; if it is not UTF-8, its octets, and what they spell in `charset`, in which
    they were read, or else in ISO-8859-1.
    """
    if path.isascii():
        return (path,)
    spelt = show_octets(path)
    if charset is not None:
        octets = path.encode(charset, "ignore")
        path = octets.decode("utf-8", OCTETS)
    return (path,) if path == spelt else (path, spelt)
