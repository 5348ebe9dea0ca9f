"""Rules, and the path patterns that they stand for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.decoding import spellings_of
from scrapy_rep.protocol.fields import ALL
from scrapy_rep.protocol.urls import (
    ORIGIN,
    RESERVED,
    count_octets,
    decode_escapes,
    encode_query,
    encode_reserved,
    make_comparable,
    origin_of,
)
from scrapy_rep.protocol.wildcards import join_pieces, parts_occur

if TYPE_CHECKING:
    from scrapy_rep.protocol.decoding import Text
    from scrapy_rep.protocol.dialect import Dialect


HEX_DIGITS = tuple("0123456789ABCDEF")


@dataclass(slots=True)
class Reading:
    """What decides, besides its own text, how a rule is read."""

    dialect: Dialect
    text: Text
    """The file that it stands in."""
    origin: str | None = None
    """That of the URLs to be judged, as `origin_of` gives it; None: of none that is named
    in a rule."""


class Rule(NamedTuple):
    """An Allow or Disallow line."""

    allow: bool
    path: str
    """As written, without the white space and the comment around it; may be empty."""
    line: int
    """Number of its line, from 1."""


class Verdict(NamedTuple):
    """Whether a URL may be fetched, and why."""

    allowed: bool
    rule: Rule | None
    """The rule that decided, None when none did."""
    group: tuple[str, ...] | None
    """User-agent lines, as written, of the groups used; ("*",) for the default groups, and
    None when no group applied."""
    reason: str
    """"rule", "no rule matches", "no group", "robots.txt itself", or what `allow_all` or
    `disallow_all` was given."""


Pattern = tuple[tuple[str, ...], bool, int, bool]
"""A path pattern: text that must occur in order, the first part at the beginning; whether the last
part stands at the end of the path; the length in octets, of which the most specific match has the
most; and whether it is compared with a path as `encode_reserved` has it, not with a comparable one.
A plain tuple, as `groups.Section`."""


def matches(pattern: Pattern, path: str, encoded_path: str) -> bool:
    """Whether a pattern matches a path, which is given in both forms."""
    parts, anchored, _, encoded = pattern
    return parts_occur(parts, anchored, encoded_path if encoded else path)


# Nearly every rule is spelt like this, and has a pattern that is its own comparable form: no
# escape, no `$` but at its end, nothing to be encoded. What begins with the first octet that
# may count for three is a group of its own.
USUAL_RULE = re.compile(
    rf"\n[ \t]{ALL}(?:[Dd]isallow|([Aa]llow))[ \t]*:[ \t]{ALL}([/*][A-Za-z0-9._~/*-]{ALL})"
    rf"((?:[:?\[\]@!&'()+,;=][A-Za-z0-9._~:/?\[\]@!&'()+,;=*-]{ALL}|)\$?)[ \t]{ALL}(?:#[^\n]*|)$",
    re.MULTILINE,
)
# Ends of usual paths whose octets all count for one.
PLAIN_TAIL = re.compile(r"(?:\?[A-Za-z0-9._~&=*-]*|)\$?")
MAX_WILDCARDS_INTO_QUERY = 8  # of one rule; nobody writes more before such an escape
WILDCARDS_SIDE_BY_SIDE = re.compile(r"\*{2,}")
INDEX_PAGES = ("/index.html", "/index.htm")

# What a comparable path does not show: a rule that breaks off within an escape, a wildcard
# that may end within one, and behind a wildcard the escape of what separates, which means
# one thing in a path and another in a query.
CUT_ESCAPE = r"%([0-9A-Fa-f]?)(?=\*|\Z)"
STAR_AND_DIGIT = re.compile(r"\*[0-9A-F]")
ESCAPED_SEPARATOR = r"%(?:2[6Ff]|3[DdFf])"


def is_path(path: str, dialect: Dialect) -> bool:
    """Whether a rule's path can match any: RFC 9309 2.2, it begins with a slash, and a
    wildcard may stand for one.
    """
    return path.startswith(("/", "*") if dialect.wildcards else "/")


def patterns_of(path: str, dialect: Dialect) -> list[Pattern]:
    """The pattern that a rule's path stands for, and others where it meets an escape.

    Empty when it can match no path at all.
    """
    if not is_path(path, dialect):
        return []
    if not dialect.wildcards:
        text = make_comparable(path, dialect)
        return [((text,), False, count_octets(text), False)]
    ends = path.endswith("$")
    between = path[:-1] if ends else path
    stars = between.count("*")
    if stars > 1:  # there may be half a million of them
        between = WILDCARDS_SIDE_BY_SIDE.sub("*", between)
    # A `$` before the end is literal. Wildcards count as octets.
    pieces = pieces_of(between, dialect)
    length = stars + ends + count_octets("".join(pieces))
    found: list[Pattern] = [(*join_pieces(pieces, ends), length, False)]
    if not dialect.compares_octets:
        return found
    behind = between.partition("*")[2]
    cut = "%" in between and re.search(CUT_ESCAPE, between + "$" * ends) is not None
    apart = "%" in behind and re.search(ESCAPED_SEPARATOR, behind)
    if apart:
        # `&` of a path would match `&` of a query, which differs from `%26` there.
        found = within_escapes(between, ends, length) if cut else []
    if apart or cut or any(piece.startswith(HEX_DIGITS) for piece in pieces[1:]):
        found += within_escapes(between, ends, length, cut=cut)
    return found


def pieces_of(between: str, dialect: Dialect) -> list[str]:
    """What stands between the wildcards of a rule's path, in comparable form."""
    if "%" not in between:
        return make_comparable(between, dialect).split("*")
    # RFC 9309 2.2.3: %2A is no wildcard. No rule has a "#", where that is kept apart.
    star = "#" if "#" in dialect.kept_apart else "*"
    return make_comparable(between.replace("*", star), dialect).split(star)


def usual_octets(tail: str) -> int:
    """How many octets the end of a usual rule's path has: `*`, and `$` at the end, are one."""
    if PLAIN_TAIL.fullmatch(tail):
        return len(tail)
    return count_octets(tail) - 2 * (tail.count("*") + tail.count("$"))


def within_escapes(
    between: str, ends: bool, length: int, *, cut: bool = False
) -> list[Pattern]:
    """The patterns of a rule's path to be compared with `encode_reserved`.

    Where a part means one thing in a path and another in a query, there is one for the path
    alone, and one for every wildcard that leads into the query.

    `cut`: an escape that breaks off is one of which the rest may follow. Else it is literal.
    """
    if cut:
        # No rule has a "#" of its own.
        between = re.sub(
            CUT_ESCAPE, lambda its: "#" + its[1].upper(), between + "$" * ends
        )
        between = between.removesuffix("$") if ends else between
    ends = ends and not between.endswith("*")
    text = decode_escapes(between, RESERVED).replace("*", "\r")
    path = encode_reserved(text).removesuffix("\n").replace("#", "%").split("\r")
    query = encode_query(text.partition("\r")[2]).replace("#", "%").split("\r")
    whole = [*path[:-1], path[-1] + "\n"] if ends else [*path, "\n"]
    if path[1:] == query[: len(path) - 1]:
        found = [path, whole] if ends else [path]
    else:
        wildcards = range(1, min(len(path), MAX_WILDCARDS_INTO_QUERY + 1))
        found = [path if "?" in text else whole]
        found += [[*path[:at], "\n?", *query[at - 1 :]] for at in wildcards]
    return [(*join_pieces(pieces, ends), length, True) for pieces in found]


def path_in(path: str, reading: Reading) -> str:
    """A rule's path, and of a rule that is a whole URL the path that it has there, or "" when
    that is the URL of another origin.
    """
    if path.startswith(("/", "*")) or origin_in(path, reading.dialect) is None:
        return path
    # Beyond RFC 9309: sites write whole URLs, and mean their own.
    if origin_of(path) != reading.origin:
        return ""
    rest = path[ORIGIN.match(path).end() :]  # type: ignore[union-attr]
    return rest if rest.startswith("/") else f"/{rest}"


def origin_in(path: str, dialect: Dialect) -> str | None:
    """The origin for whose URLs a rule counts that is a whole URL; None: it is none."""
    if not dialect.absolute_rules:
        return None
    found = ORIGIN.match(path)
    return None if found is None or "\\" in found[0] else origin_of(found[0])


def readings_of(
    allow: bool, path: str, order: int, reading: Reading
) -> list[tuple[int, Pattern]]:
    """The patterns that a rule stands for, usually one, each with its score.

    Among the patterns that match, the highest score decides: it allows when it is odd.
    `order` falls from rule to rule of a rule set.
    """
    dialect = reading.dialect
    effect = allow
    if not path and dialect.blank_rules_count:
        patterns: list[Pattern] = [(("",), False, 0, False)]
        effect = not allow
    else:
        path = path_in(path, reading)
        patterns = [
            pattern
            for spelling in spellings_of(path, reading.text.charset)
            for pattern in patterns_of(spelling, dialect)
        ]
    if not patterns:
        return []
    # RFC 9309 2.2.2: the most octets win, and allow wins among equals.
    score = 2 * (patterns[0][2] if dialect.most_specific else order) + effect
    found = [(score, pattern) for pattern in patterns]
    if allow and dialect.index_is_directory and path.endswith(INDEX_PAGES):
        # Beyond RFC 9309: the index page of a folder stands for the folder.
        pattern = patterns_of(path[: path.rindex("/") + 1] + "$", dialect)[0]
        found.append((2 * pattern[2] + allow, pattern))
    return found
