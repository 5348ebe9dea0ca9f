"""Paths of URLs, and the path patterns of rules that they are compared with.

RFC 9309 2.2.2 compares octets after percent-encoding. In the comparable form here, which the usual
path has already, what equals its escape is decoded, and what no URI may hold, or what separates, is
an escape. `encode_reserved` makes the RFC's form of it; the two only differ for a rule that ends, or
goes on behind a wildcard, within an escape.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.decoding import spellings_of
from scrapy_rep.protocol.language import ALL
from scrapy_rep.protocol.origins import origin_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.decoding import Text
    from scrapy_rep.protocol.language import Dialect

ORIGIN = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")  # as `origin_of` takes it

# RFC 3986 2.2, 2.3: reserved and unreserved. All else must be encoded.
URI_CHARACTERS = r"A-Za-z0-9._~:/?\[\]@!$&'()*+,;=-"  # and "#"
COMPARABLE_PATH = re.compile(rf"[{URI_CHARACTERS}]*")
CHARACTERS_TO_ENCODE = re.compile(rf"[^%#{URI_CHARACTERS}]+")
URI_CHARACTER = rf"[#{URI_CHARACTERS}]"

RESERVED = ":/?#[]@!$&'()*+,;="

# Reserved, and yet equal to their escapes (see `Dialect.kept_apart`).
RESERVED_IN_PATH = re.compile(r"[:\[\]@!$&'()*+,;=]")
RESERVED_IN_QUERY = re.compile(r"[:/?\[\]@!$'()*+,;]")
WITHOUT_RESERVED = re.compile(r"[A-Za-z0-9._~/-]*(?:\?[A-Za-z0-9._~&=-]*)?")


def path_of(url: str, dialect: Dialect) -> str:
    """The comparable path and query of a URL, or of a path and query.

    Without the fragment; "/" if empty. Dot segments and double slashes stay.
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
    if "%" not in path and COMPARABLE_PATH.fullmatch(path):
        return path
    before, mark, query = path.partition("?")
    before = decode_escapes(before, dialect.kept_apart)
    return before + decode_escapes(mark + query, dialect.kept_apart_in_query)


def decode_escapes(text: str, kept_apart: str) -> str:
    """In one pass, so that nothing is decoded twice. A "%" without two digits is "%25"."""
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
    """A comparable path in the form of RFC 9309 2.2.2.

    A line end marks the end of the path, where the question mark may follow: a separator equals
    other escapes in a path than in a query.
    """
    before, mark, query = path.partition("?")
    return f"{RESERVED_IN_PATH.sub(escape, before)}\n{mark}{encode_query(query)}"


def encode_query(query: str) -> str:
    return RESERVED_IN_QUERY.sub(escape, query)


def count_octets(path: str) -> int:
    """In the form of RFC 9309 2.2.2."""
    before, mark, query = path.partition("?")
    longer = len(RESERVED_IN_PATH.findall(before))
    if mark:
        longer += len(RESERVED_IN_QUERY.findall(query))
    return len(path) + 2 * longer


def escape(found: re.Match[str]) -> str:
    return "%" + found[0].encode("utf-8", OCTETS_HANDLER).hex("%").upper()


OCTETS_HANDLER = "scrapy_rep.octets"


def octets_of(error: UnicodeError) -> tuple[bytes, int]:
    """For octets that are no UTF-8 (PEP 383), which become those octets, and other lone surrogates."""
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
    """Of the two digits of an escape: an octet, or the escape in upper case."""
    octets = "".join(map(chr, range(256)))
    decoded = {*re.findall(URI_CHARACTER, octets)} - {*kept_apart}
    digits = "0123456789ABCDEFabcdef"
    table = {}
    for pair in (high + low for high in digits for low in digits):
        octet = chr(int(pair, 16))
        table[pair] = octet if octet in decoded else "%" + pair.upper()
    return table


def without_dot_segments(path: str) -> str:
    """As a server resolves it (RFC 3986 5.2.4)."""
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


HEX_DIGITS = tuple("0123456789ABCDEF")


@dataclass(slots=True)
class Reading:
    """What decides, besides its text, how a rule is read."""

    dialect: Dialect
    text: Text
    origin: str | None = None
    """Of the URLs to be judged; None: of none that a rule names."""


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
"""Parts that must occur in order, the first at the beginning; whether the last one ends the path;
the length in octets; whether the path is compared as `encode_reserved` has it. A plain tuple, as
`groups.Section`."""


def join_pieces(pieces: Sequence[str], anchored: bool) -> tuple[tuple[str, ...], bool]:
    """The parts between the wildcards of a pattern (RFC 9309 2.2.3). Wildcards side by side are
    one; one at the end is none, and undoes the `$` behind it.
    """
    if "" not in pieces or len(pieces) == 1:
        return tuple(pieces), anchored
    return (pieces[0], *filter(None, pieces[1:])), anchored and pieces[-1] != ""


def parts_occur(parts: tuple[str, ...], anchored: bool, path: str) -> bool:
    """Whether they do so in order, the first at the beginning. Linear: the first place where a
    part fits leaves the most room for the others, so no choice is taken back.
    """
    head = parts[0]
    if len(parts) == 1:
        return path == head if anchored else path.startswith(head)
    if not path.startswith(head):
        return False
    position = len(head)
    for part in parts[1:-1]:
        position = path.find(part, position)
        if position < 0:
            return False
        position += len(part)
    tail = parts[-1]
    if anchored:
        return len(path) - len(tail) >= position and path.endswith(tail)
    return path.find(tail, position) >= 0


def matches(pattern: Pattern, path: str, encoded_path: str) -> bool:
    parts, anchored, _, encoded = pattern
    return parts_occur(parts, anchored, encoded_path if encoded else path)


# Nearly every rule is spelt so, and is its own comparable form: no escape, `$` only at its end. The
# first octet that may count for three begins a group of its own.
USUAL_RULE = re.compile(
    rf"\n[ \t]{ALL}(?:[Dd]isallow|([Aa]llow))[ \t]*:[ \t]{ALL}([/*][A-Za-z0-9._~/*-]{ALL})"
    rf"((?:[:?\[\]@!&'()+,;=][A-Za-z0-9._~:/?\[\]@!&'()+,;=*-]{ALL}|)\$?)[ \t]{ALL}(?:#[^\n]*|)$",
    re.MULTILINE,
)
# What counts for three there.
USUAL_RESERVED_IN_PATH = re.compile(r"[:\[\]@!&'()+,;=]")
USUAL_RESERVED_IN_QUERY = re.compile(r"[:/?\[\]@!'()+,;]")
MAX_WILDCARDS_INTO_QUERY = 8  # of one rule; nobody writes more before such an escape
WILDCARDS_SIDE_BY_SIDE = re.compile(r"\*{2,}")
INDEX_PAGES = ("/index.html", "/index.htm")

# What a comparable path does not show: a rule that breaks off within an escape, a wildcard that
# may end within one, and behind a wildcard the escape of a separator, which means one thing in a
# path and another in a query.
CUT_ESCAPE = re.compile(r"%([0-9A-Fa-f]?)(?=\*|\Z)")
STAR_AND_DIGIT = re.compile(r"\*[0-9A-F]")
ESCAPED_SEPARATOR = re.compile(r"%(?:2[6Ff]|3[DdFf])")


def is_path(path: str, dialect: Dialect) -> bool:
    """RFC 9309 2.2: it begins with a slash, for which a wildcard may stand."""
    return path.startswith(("/", "*") if dialect.wildcards else "/")


def patterns_of(path: str, dialect: Dialect) -> list[Pattern]:
    """The pattern of a rule's path, and others where it meets an escape; none when nothing matches."""
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
    cut = "%" in between and CUT_ESCAPE.search(between + "$" * ends) is not None
    apart = "%" in behind and ESCAPED_SEPARATOR.search(behind)
    if apart:
        # `&` of a path would match `&` of a query, which differs from `%26` there.
        found = patterns_within_escapes(between, ends, length) if cut else []
    if apart or cut or any(piece.startswith(HEX_DIGITS) for piece in pieces[1:]):
        found += patterns_within_escapes(between, ends, length, cut=cut)
    return found


def pieces_of(between: str, dialect: Dialect) -> list[str]:
    """What stands between the wildcards, comparable."""
    if "%" not in between:
        return make_comparable(between, dialect).split("*")
    # RFC 9309 2.2.3: %2A is no wildcard. No rule has a "#", where that is kept apart.
    star = "#" if "#" in dialect.kept_apart else "*"
    return make_comparable(between.replace("*", star), dialect).split(star)


def usual_octets(tail: str) -> int:
    """How many octets the end of a usual path counts: `*`, and `$` at the end, are one."""
    before, _, query = tail.partition("?")
    found: list[str] = USUAL_RESERVED_IN_PATH.findall(before) if before else []
    if query:
        found += USUAL_RESERVED_IN_QUERY.findall(query)
    return len(tail) + 2 * len(found)


def patterns_within_escapes(
    between: str, ends: bool, length: int, *, cut: bool = False
) -> list[Pattern]:
    """Patterns to be compared with `encode_reserved`: where a part means one thing in a path and
    another in a query, one for the path, and one for every wildcard that leads into the query.

    `cut`: of an escape that breaks off the rest may follow. Else it is literal.
    """
    if cut:
        # No rule has a "#" of its own.
        between = CUT_ESCAPE.sub(lambda its: "#" + its[1].upper(), between + "$" * ends)
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
    """A rule's path; of a whole URL the path in it, "" for that of another origin."""
    if path.startswith(("/", "*")) or origin_in(path, reading.dialect) is None:
        return path
    # Beyond RFC 9309: sites write whole URLs, and mean their own.
    if origin_of(path) != reading.origin:
        return ""
    rest = path[ORIGIN.match(path).end() :]  # type: ignore[union-attr]
    return rest if rest.startswith("/") else f"/{rest}"


def origin_in(path: str, dialect: Dialect) -> str | None:
    """Of a rule that is a whole URL; None: it is none."""
    if not dialect.absolute_rules:
        return None
    found = ORIGIN.match(path)
    return None if found is None or "\\" in found[0] else origin_of(found[0])


def readings_of(
    allow: bool, path: str, order: int, reading: Reading
) -> list[tuple[int, Pattern]]:
    """The patterns of a rule, usually one, each with its score: the highest that matches decides,
    and allows when it is odd. `order` falls from rule to rule.
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
