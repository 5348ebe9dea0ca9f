"""Rules, their path patterns, and the rule set that judges the paths of one agent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.paths import comparable, octets

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect


class Rule(NamedTuple):
    """An Allow or Disallow line."""

    allow: bool
    path: str
    """As written, without the white space and the comment around it; may be empty."""
    line: int
    """Number of its line, from 1."""


class Pattern(NamedTuple):
    """A path pattern: text that must occur in order, the first part at the beginning."""

    parts: tuple[str, ...]
    anchored: bool
    """The last part stands at the end of the path."""
    octets: int
    """Length of the pattern in octets; the most specific match has the most."""

    def matches(self, path: str) -> bool:
        """Whether the comparable `path` matches. Linear: the first place where a part fits
        leaves most room for the parts after it, so no choice is ever taken back.
        """
        head = self.parts[0]
        if len(self.parts) == 1:
            return path == head if self.anchored else path.startswith(head)
        if not path.startswith(head):
            return False
        position = len(head)
        for part in self.parts[1:-1]:
            position = path.find(part, position)
            if position < 0:
                return False
            position += len(part)
        tail = self.parts[-1]
        if self.anchored:
            return len(path) - len(tail) >= position and path.endswith(tail)
        return path.find(tail, position) >= 0


# A path that is its own comparable form, with as many octets as characters.
PLAIN = re.compile(r"/[A-Za-z0-9._~:/#\[\]@!&'()+,;=-]*")


def pattern_of(path: str, dialect: Dialect) -> Pattern | None:
    """The pattern that a rule's path stands for, None when it can match no path at all."""
    if not path.startswith(("/", "*") if dialect.wildcards else "/"):
        return None  # RFC 9309 2.2: a path pattern begins with a slash, a wildcard may
    # RFC 9309 2.2.3: `$` is special at the end only.
    anchored = dialect.wildcards and path.endswith("$")
    text = path[:-1] if anchored else path
    pieces = text.split("*") if dialect.wildcards else [text]
    # Escapes are decoded after the split, so that %2A and %24 are literal (2.2.3).
    parts = []
    length = len(pieces) - 1 + anchored
    in_query = False
    for piece in pieces:
        part = comparable(piece, dialect, in_query=in_query)
        parts.append(part)
        length += octets(part, in_query=in_query)
        in_query = in_query or "?" in piece
    head, *others = parts
    # Wildcards next to each other are one; one at the end changes nothing but the length.
    middle = [part for part in others[:-1] if part]
    if not others:
        return Pattern((head,), anchored, length)
    if others[-1]:
        return Pattern((head, *middle, others[-1]), anchored, length)
    return Pattern((head, *middle), False, length)


def directory_of(path: str) -> str | None:
    """The pattern of the folder whose index page `path` is, or None."""
    folder, slash, page = path.rpartition("/")
    return folder + slash + "$" if page in ("index.html", "index.htm") else None


def readings(
    allow: bool, path: str, order: int, dialect: Dialect
) -> list[tuple[int, Pattern]]:
    """The patterns that a rule stands for, none or one or two, each with its score.

    Among the patterns that match, the highest score decides: it allows when it is odd.
    `order` falls from rule to rule of a rule set.
    """
    effect = allow
    pattern = pattern_of(path, dialect)
    if not path and dialect.blank_rules_count:
        pattern = Pattern(("",), False, 0)
        effect = not allow
    if pattern is None:
        return []
    # RFC 9309 2.2.2: the most octets win, and allow wins among equals.
    found = [
        (2 * (pattern.octets if dialect.most_specific else order) + effect, pattern)
    ]
    if allow and dialect.index_is_directory:
        # Beyond RFC 9309: the index page of a folder stands for the folder.
        folder = directory_of(path)
        pattern = None if folder is None else pattern_of(folder, dialect)
        if pattern is not None:
            found.append((2 * pattern.octets + allow, pattern))
    return found
