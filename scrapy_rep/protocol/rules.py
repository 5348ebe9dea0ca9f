"""Rules, their path patterns, and the rule set that judges the paths of one agent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.paths import FINAL, comparable, octets
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


def is_path(path: str, dialect: Dialect) -> bool:
    """Whether a rule's path can match any: RFC 9309 2.2, it begins with a slash, and a
    wildcard may stand for one.
    """
    return path.startswith(("/", "*") if dialect.wildcards else "/")


def patterns_of(path: str, dialect: Dialect) -> list[Pattern]:
    """The pattern that a rule's path stands for, and its readings in the query, if any.

    Empty when it can match no path at all.
    """
    if not is_path(path, dialect):
        return []
    if not dialect.wildcards:
        text = comparable(path, dialect)
        return [Pattern((text,), False, octets(text))]
    ends = path.endswith("$")
    between = path[:-1] if ends else path
    stars = between.count("*")
    if "%" not in path and FINAL.fullmatch(path):
        parts, anchored = joined(between.split("*"), ends)
        length = usual_octets(path) + 2 * between.count("$")
        return [Pattern(parts, anchored, length)]
    if stars > 1:  # there may be half a million of them
        between = SIDE_BY_SIDE.sub("*", between)
    # A `$` before the end is literal. Wildcards count as octets.
    pieces = between_wildcards(between, dialect)
    length = stars + ends + octets("".join(pieces))
    parts, anchored = joined(pieces, ends)
    found = [Pattern(parts, anchored, length)]
    if stars and "%" in path:
        found += in_query_only(between, pieces, ends, length, dialect)
    return found


def between_wildcards(
    path: str, dialect: Dialect, *, in_query: bool = False
) -> list[str]:
    """What stands between the wildcards of a rule's path, in comparable form."""
    # RFC 9309 2.2.3: %2A stays as it is, and is literal.
    if "*" in dialect.kept_apart and "*" in dialect.kept_apart_in_query:
        return comparable(path, dialect, in_query=in_query).split("*")
    pieces = []
    for piece in path.split("*"):
        pieces.append(comparable(piece, dialect, in_query=in_query))
        in_query = in_query or "?" in piece
    return pieces


def usual_octets(path: str) -> int:
    """How many octets the pattern of a usual rule has, in which a `$` is the end."""
    query = path.partition("?")[2]
    return len(path) + 2 * sum(map(query.count, ":/"))


def in_query_only(
    between: str, pieces: list[str], ends: bool, length: int, dialect: Dialect
) -> list[Pattern]:
    """Readings in which a wildcard leads into the query; most patterns have none.

    What follows that wildcard is then a part of a query, where other escapes equal their
    octets: `/*u=https%3A` matches `/go?u=https:`.
    """
    after = between_wildcards(between, dialect, in_query=True)
    if after[1:] == pieces[1:]:
        return []
    last = max(index for index, piece in enumerate(pieces) if after[index] != piece)
    found = []
    for index in range(1, min(last, MAX_WILDCARDS_INTO_QUERY) + 1):
        parts, anchored = joined([*pieces[:index], "?", *after[index:]], ends)
        found.append(Pattern(parts, anchored, length))
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
    patterns = patterns_of(path, dialect)
    if not path and dialect.blank_rules_count:
        patterns = [Pattern(("",), False, 0)]
        effect = not allow
    if not patterns:
        return []
    # RFC 9309 2.2.2: the most octets win, and allow wins among equals.
    score = 2 * (patterns[0].octets if dialect.most_specific else order) + effect
    found = [(score, pattern) for pattern in patterns]
    if allow and dialect.index_is_directory:
        # Beyond RFC 9309: the index page of a folder stands for the folder.
        folder = directory_of(path)
        if folder is not None:
            pattern = patterns_of(folder, dialect)[0]
            found.append((2 * pattern.octets + allow, pattern))
    return found
