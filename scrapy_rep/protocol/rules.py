"""Rules, their path patterns, and the rule set that judges the paths of one agent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.paths import comparable, octets, other_in_query
from scrapy_rep.protocol.wildcards import joined, occur

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
        """Whether the comparable `path` matches."""
        return occur(self.parts, self.anchored, path)


# Nearly every rule is spelt like this, and has a pattern that is its own comparable form: no
# escape, no `$` but at its end, nothing to be encoded.
USUAL_RULE = re.compile(
    r"\n[ \t]*(?:[Dd]isallow|([Aa]llow))[ \t]*:[ \t]*"
    r"([/*][A-Za-z0-9._~:/?\[\]@!&'()+,;=*-]*\$?)"
    r"[ \t]*(?:#[^\n]*)?(?=\n|\Z)"
)
MAX_WILDCARDS_INTO_QUERY = 8  # of one rule; nobody writes more before such an escape
SIDE_BY_SIDE = re.compile(r"\*{2,}")
INDEX_PAGES = ("/index.html", "/index.htm")


def pattern_of(path: str, dialect: Dialect) -> Pattern | None:
    """The pattern that a rule's path stands for, None when it can match no path at all."""
    if not path.startswith(("/", "*") if dialect.wildcards else "/"):
        return None  # RFC 9309 2.2: a path pattern begins with a slash, a wildcard may
    if not dialect.wildcards:
        text = comparable(path, dialect)
        return Pattern((text,), False, octets(text))
    # Escapes are decoded between the wildcards, so that %2A and %24 are literal (RFC 9309
    # 2.2.3), and so is a `$` before the end. Wildcards count as octets.
    ends = path.endswith("$")
    pieces = path.removesuffix("$").split("*")
    length = len(pieces) - 1 + ends
    in_query = False
    for index, piece in enumerate(pieces):
        pieces[index] = comparable(piece, dialect, in_query=in_query)
        length += octets(pieces[index], in_query=in_query)
        in_query = in_query or "?" in piece
    parts, anchored = joined(pieces, ends)
    return Pattern(parts, anchored, length)


def usual_octets(path: str) -> int:
    """How many octets the pattern of a usual rule has; a wildcard counts as one."""
    query = path.partition("?")[2]
    return len(path) + 2 * (query.count("/") + query.count(":"))


def in_query_only(path: str, pattern: Pattern, dialect: Dialect) -> list[Pattern]:
    """Readings of `pattern` in which one of its wildcards leads into the query.

    What follows that wildcard is then a part of a query, where other escapes equal their
    octets: `/*u=https%3A` matches `/go?u=https:`. Most patterns have no such reading.
    """
    if "*" not in path or "%" not in path or not dialect.wildcards:
        return []
    escapes = other_in_query(dialect.kept_apart, dialect.kept_apart_in_query)
    if not any(escape in path for escape in escapes):
        return []
    path = SIDE_BY_SIDE.sub("*", path)  # there may be half a million of them
    ends = path.endswith("$")
    pieces = path.partition("?")[0].removesuffix("$").split("*")
    rest = path[len("*".join(pieces)) :].removesuffix("$").split("*")
    # Each piece is read once in either way: a rule may have thousands of them.
    plain = [comparable(piece, dialect) for piece in pieces]
    after = [comparable(piece, dialect, in_query=True) for piece in pieces]
    if after[1:] == plain[1:]:
        return []
    first, *others = [comparable(piece, dialect, in_query=True) for piece in rest]
    found = []
    for index in range(1, min(len(pieces), MAX_WILDCARDS_INTO_QUERY + 1)):
        if after[index:] == plain[index:]:
            break
        *inner, last = after[index:]
        parts, anchored = joined(
            [*plain[:index], "?", *inner, last + first, *others], ends
        )
        found.append(Pattern(parts, anchored, pattern.octets))
    return found


def directory_of(path: str) -> str | None:
    """The pattern of the folder whose index page `path` is, or None."""
    if not path.endswith(INDEX_PAGES):
        return None
    return path[: path.rindex("/") + 1] + "$"


def readings(
    allow: bool, path: str, order: int, dialect: Dialect
) -> list[tuple[int, Pattern]]:
    """The patterns that a rule stands for, usually one, each with its score.

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
    score = 2 * (pattern.octets if dialect.most_specific else order) + effect
    found = [(score, pattern)]
    found += [(score, reading) for reading in in_query_only(path, pattern, dialect)]
    if allow and dialect.index_is_directory:
        # Beyond RFC 9309: the index page of a folder stands for the folder.
        folder = directory_of(path)
        pattern = None if folder is None else pattern_of(folder, dialect)
        if pattern is not None:
            found.append((2 * pattern.octets + allow, pattern))
    return found
