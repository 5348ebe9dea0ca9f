"""Text as people may be shown it: of strangers, and with passwords."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy_rep.protocol.paths import Verdict

HIDDEN = "***"
MAX_CHARACTERS = 500
"""Of a stranger's text that is kept with each request: a rule may be half a megabyte long."""
WORD = re.compile("[a-z0-9]+")


def printable(text: str) -> str:
    """Write out what cannot be seen: it must neither steer a terminal nor, by marks that turn the
    direction of writing, deceive a reader.
    """
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable()
        else " "
        if char == "\t"
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def without_user(url: str) -> str:
    """Without user and password (RFC 3986 3.2.1)."""
    if "@" not in url:
        return url
    start = url.find("//") + 2
    if start < 2 or url[: start - 2][-1:] not in {":", ""}:
        return url
    ends = (at for mark in "/?#" if (at := url.find(mark, start)) >= 0)
    at = url.rfind("@", start, min(ends, default=len(url)))
    return url if at < 0 else url[:start] + url[at + 1 :]


def mask_uri(uri: str) -> str:
    """*uri* without user, password and query, in which a password may be, too, also where it is
    ill written: whatever is before the last "@" goes.
    """
    return shown_and_secret(uri)[0]


def shown(value: object) -> str:
    """Any *value*; a URI without its password."""
    try:
        return (
            repr(mask_uri(value)) if isinstance(value, str) else mask_uri(repr(value))
        )
    except Exception:  # noqa: BLE001 - an int of 5000 digits, or whatever it may be
        return f"{type(value).__name__} that cannot be shown"


def shown_and_secret(uri: str) -> tuple[str, str]:
    """``mask_uri``, and what it hides: the password, or else the user, and the query; "": nothing."""
    user, at, rest = uri.rpartition("@")
    shown, secret = rest, ""
    if at:
        scheme, slashes, name = user.partition("://")
        start = scheme + slashes if slashes and scheme.isalnum() else ""
        if "?" in user:  # either stands in a query, or else the mark in a password
            return start + HIDDEN, f"{name or user}{at}{rest}"
        shown = f"{start}{HIDDEN}@{rest}"
        secret = (name or user).partition(":")[2] or user
    start, mark, query = shown.partition("?")
    if mark and (at or ":" in start):
        return f"{start}?{HIDDEN}", f"{secret} {query}"
    return shown, secret


def describe_error(error: Exception, uri: str) -> str:
    """What *error* says of what is at *uri*, without secrets: if it may tell a part of one, in
    whatever form, only its type.
    """
    shown, secret = shown_and_secret(uri)
    text = f"{type(error).__name__}: {error}".replace(uri, shown)
    words = WORD.findall(f"{secret} {unquote(secret)}".lower())
    if secret and (not words or any(word in text.lower() for word in words)):
        return type(error).__name__
    return text


def shorten(text: str, most: int = MAX_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def explain(verdict: Verdict) -> str:
    """With the rule and its line, if a rule decided."""
    rule = verdict.rule
    if rule is None:
        return verdict.reason
    kind = "Allow" if rule.allow else "Disallow"
    group = ", ".join(verdict.group or ())
    return f"{kind}: {rule.path} (line {rule.line}, user-agent {group})"


def lines_around(
    marked: Iterable[int], heads: Sequence[int], near: int, last: int
) -> list[int]:
    """Lines to show of a file of *last* lines: around those *marked*, and of *heads*, which begin
    groups, the one before.
    """
    shown = set()
    for line in marked:
        shown.add(max((head for head in heads if head < line), default=1))
        shown.update(range(line - near, line + near + 1))
    return [line for line in sorted(shown) if 1 <= line <= last]


def first_of(texts: Sequence[str], most: int, hint: str = "") -> list[str]:
    """And how many more there are, with a *hint*."""
    more = [f"and {len(texts) - most:,} more{hint}"] if len(texts) > most else []
    return [*texts[:most], *more]


def counted(number: int, one: str, many: str = "") -> str:
    """The number and its word: *one*, or *many* (*one* with an "s")."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def duration(seconds: float) -> str:
    """In the two largest units; below a minute, to two digits."""
    whole = round(seconds)
    for unit, name, smaller, its_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= unit:
            rest = whole % unit // smaller
            return f"{whole // unit} {name}" + (f" {rest} {its_name}" if rest else "")
    return f"{whole if whole >= 10 else float(f'{round(seconds, 3):.2g}'):g} s"
