"""Groups: which lines of a robots.txt are for which user agents (RFC 9309 2.2.1).

The text is not read line by line: its user-agent lines are found first, and the sections between
them read only for an agent that is asked about.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.decoding import show_octets
from scrapy_rep.protocol.language import (
    ALLOW,
    BLANK_CLASS,
    BLANKS_OF_ASCII,
    CONTENT_SIGNAL,
    CONTENT_USAGE,
    FIELD_NAMES,
    LINE_MARGIN,
    PACE_VALUES,
    field_and_value,
    sitemaps_in,
    split_record,
    trim,
)
from scrapy_rep.protocol.paths import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_rep.protocol.language import Dialect

# None of these can match across a line end or overlap itself: a search is one pass.
USER_AGENT_LINE = re.compile(
    rf"(?ai)(\n{LINE_MARGIN}user[- ]?agent([{BLANK_CLASS}:][^\n]*))"
)
RULE_FIELD = r"(?:dis?s?all?ow|diasllow|disallaw|allow)"
RULE_LINE = re.compile(rf"(?ai)\n{LINE_MARGIN}{RULE_FIELD}(?=[{BLANK_CLASS}:])[^\n]*")
RECORD_LINE = (
    rf"(?ai)\n{LINE_MARGIN}(?:{RULE_FIELD}|site[- ]?map|crawl[- ]?delay)"
    rf"(?=[{BLANK_CLASS}:])[^\n]*"
)
RECORDS_OF_RUNS = {*PACE_VALUES, CONTENT_USAGE, CONTENT_SIGNAL}
RECORD_OF_RUN = re.compile(
    rf"(?ai)\n{LINE_MARGIN}(?:crawl[- ]?delay|request-rate|visit-time|content-usage"
    rf"|content-signal)(?=[{BLANK_CLASS}:])[^\n]*"
)
USUAL_RULE_START = "\nDisallow:"  # found sooner than RULE_LINE
BLANK_LINE = rf"\n{LINE_MARGIN}(?=\n|\Z)"


Section = tuple[str, int, int, int]
"""A user-agent line and what follows it, up to the next one or what ends it: its value, and where
in the text the line end before it, the one after it, and the end stand. A plain tuple, since the
garbage collector, which holds all threads, soon skips those."""


class Group(NamedTuple):
    """User-agent lines and the rules that follow them."""

    tokens: tuple[str, ...]
    """Values of the user-agent lines, as written."""
    rules: tuple[Rule, ...]
    """In file order, also rules without effect."""
    line: int
    """Number of the first user-agent line, from 1."""


def groups_of(text: str, dialect: Dialect) -> list[list[Section]]:
    """Each group as its sections, one a user-agent line; only the last one has rules, which end
    a run of user-agent lines (RFC 9309 2.1).
    """
    groups: list[list[Section]] = []
    closed = True
    for section in sections_of(text):
        agent, head, start, end = section
        blank = None
        if dialect.blank_line_ends_group:
            blank = re.compile(BLANK_LINE).search(text, start, end)
            if blank is not None:
                section = agent, head, start, blank.start()  # noqa: PLW2901
        if closed:
            groups.append([])
        groups[-1].append(section)
        # RFC 9309 2.2.4: other records do not end the run.
        closed = blank is not None or (
            start < end  # else user-agent lines follow each other
            and (
                text.find(USUAL_RULE_START, start, end) >= 0
                or has_record(text, section, any_record=dialect.any_record_ends_agents)
            )
        )
    if not dialect.empty_groups:
        groups = [group for group in groups if has_record(text, group[-1])]
    return groups


def sections_of(text: str) -> list[Section]:
    sections: list[Section] = []
    pieces = iter(USER_AGENT_LINE.split(text))
    end = len(next(pieces))
    for line, rest, lines in zip(pieces, pieces, pieces, strict=True):
        head = end
        start = head + len(line)
        end = start + len(lines)
        if rest[0] == ":" and "#" not in rest:
            value = rest[1:].strip(BLANKS_OF_ASCII)
            if not value.isascii():
                value = show_octets(trim(value))
        else:
            field, value = field_and_value(line)
            if not field:  # it is no record: words without a colon
                if sections:
                    sections[-1] = *sections[-1][:3], end
                continue
            value = show_octets(value)
        sections.append((value, head, start, end))
    return sections


def has_record(text: str, section: Section, *, any_record: bool = False) -> bool:
    """A rule, or `any_record` of those that older dialects know."""
    _, _, start, end = section
    lines = re.compile(RECORD_LINE) if any_record else RULE_LINE
    for found in lines.finditer(text, start, end):
        if field_and_value(found[0])[0]:
            return True
    return False


def runs_of(text: str, group: list[Section]) -> list[list[Section]]:
    """The runs of user-agent lines of a group.

    Beyond RFC 9309: a pace or a preference is meant for the user-agent lines directly above it,
    not for those that follow, although it does not end the group (2.2.4).
    """
    runs = [group[:1]]
    for before, section in pairwise(group):
        _, _, start, end = before
        if start < end and any(records_of_run(text, before)):
            runs.append([])
        runs[-1].append(section)
    return runs


def records_of_run(text: str, section: Section) -> Iterator[tuple[str, str]]:
    """Field and value."""
    for found in RECORD_OF_RUN.finditer(text, *section[2:]):
        record = split_record(found[0])
        if record is not None:
            name = record[0].lower()
            field = FIELD_NAMES.get(name, name)
            if field in RECORDS_OF_RUNS:
                yield field, record[1]


def paces_among(text: str, sections: Iterable[Section]) -> list[tuple[str, str]]:
    return [
        record
        for section in sections
        for record in records_of_run(text, section)
        if record[0] in PACE_VALUES
    ]


def rules_of(
    text: str, sections: Iterable[Section], counted: int = 0, line: int = 0
) -> Iterator[tuple[bool, str, int]]:
    """Allow, path as written, line number; `line` is the line ends in the first `counted` characters."""
    for _, _, start, end in sections:
        for found in RULE_LINE.finditer(text, start, end):
            field, path = field_and_value(found[0])
            if field:
                line += text.count("\n", counted, found.start() + 1)
                counted = found.start() + 1
                yield field == ALLOW, path, line


def rules_among(lines: str) -> Iterator[tuple[bool, str]]:
    """As `rules_of`, without line numbers."""
    if lines and not lines.isspace():  # as most are that `RuleSet.cut_out` leaves
        for line in RULE_LINE.findall(lines):
            field, path = field_and_value(line)
            if field:
                yield field == ALLOW, path


def groups_as_written(text: str, groups: list[list[Section]]) -> tuple[Group, ...]:
    written = []
    line = counted = 0
    for group in groups:
        line += text.count("\n", counted, group[0][1] + 1)
        counted = group[0][1] + 1
        rules = [
            Rule(allow, show_octets(path), number)
            for allow, path, number in rules_of(text, group, counted, line)
        ]
        tokens = tuple([agent for agent, *_ in group])
        written.append(Group(tokens, tuple(rules), line))
    return tuple(written)


Asked = tuple[str, tuple[tuple[str, str], ...]]
"""A user-agent line, and field and value of each pace that is asked of it."""
Statement = tuple[tuple[Asked, ...], tuple[tuple[bool, str], ...]]
"""User-agent lines and rules of a group."""


def statements(
    text: str, dialect: Dialect
) -> tuple[tuple[Statement, ...], tuple[str, ...]]:
    """All that is understood of a text: groups and sitemaps."""
    groups = tuple(
        (
            tuple((each[0], tuple(paces_among(text, [each]))) for each in group),
            tuple((allow, path) for allow, path, _ in rules_of(text, group)),
        )
        for group in groups_of(text, dialect)
    )
    return groups, tuple(sitemaps_in(text))


Agent = str | tuple[str, ...]
"""A product token or a whole User-Agent header, or several, most wanted first."""

IDENTIFIER = re.compile(r"[A-Za-z_-]*")  # RFC 9309 2.2; octets outside it end the token

# A header is product tokens and comments (RFC 9110 10.1.5). A word names a product when it has a
# letter, or a version ("008/0.83"), and is no part of a host name or URL: with dots it needs a
# version, or what no host has ("archive.org_bot").
PUNCTUATION = re.compile(r"[;,()\[\]<>\"'{}|]+")
PRODUCT_NAME = re.compile(r"[\w-]+")
DOTTED_NAME = re.compile(
    r"(?=[\w.-]*[^\W\d_])[\w-]+(?:(?:\.[\w-]+)+(?=/v?\d)|(?:\.[\w-]+)*\.[\w-]*_[\w-]*)"
)
LETTER = re.compile(r"[^\W\d_]")
AFTER_NAME = ("", "/", ":", "!", "*", "+")

# Beyond RFC 9309: what browsers carry by custom, and crawlers that want to be served like one. In a
# user-agent line they mean no crawler.
BROWSER_WORD_LIST = """
mozilla compatible applewebkit webkit khtml like gecko version mobile safari chrome chromium
crios firefox fxios msie trident edg edge edga edgios opr opera presto windows nt win32 win64
wow64 x64 x86 x86_64 macintosh mac os x intel ppc linux x11 i386 i586 i686 amd64 arm arm64
armv7l armv8l aarch64 ubuntu debian fedora cros android wv build iphone ipad ipod cpu tablet
phone touch u rv
"""
BROWSER_WORDS = frozenset(BROWSER_WORD_LIST.split())
WHOLE_HEADER = "mozilla/"  # how a user-agent line begins that is never cut


def product_tokens(header: str) -> tuple[str, ...]:
    """The product tokens of a User-Agent header, the longest first.

    Comments count, since crawlers name themselves there: "Mozilla/5.0 (compatible;
    ExampleBot/0.1; https://www.example.com/bot.html)" has the one token ExampleBot. What
    browsers carry by custom does not count, nor do URLs, host names, e-mail addresses and
    versions. A bare product token is its own only token. Tokens of equal length stay in
    the order of the header; what differs only in case is given once.

    Raises TypeError when `header` is not a str.
    """
    if not isinstance(header, str):
        msg = f"header must be str, not {type(header).__name__}"
        raise TypeError(msg)
    if PRODUCT_NAME.fullmatch(header.strip()) and LETTER.search(header):
        return (header.strip(),)
    tokens: dict[str, str] = {}
    for word in header.split():
        before_url, scheme_end, _ = word.partition("://")
        parts = PUNCTUATION.split(before_url)
        if scheme_end:
            parts.pop()  # the scheme; what follows it in this word is the URL
        for part in parts:
            if "@" in part or part[:1] == "+" or part[:4].lower() == "www.":
                continue
            name = DOTTED_NAME.match(part) or PRODUCT_NAME.match(part)
            if name is None:
                continue
            after = part[name.end() : name.end() + 1]
            if name[0].lower() not in BROWSER_WORDS and (
                after == "/" or (after in AFTER_NAME and LETTER.search(name[0]))
            ):
                tokens.setdefault(name[0].lower(), name[0])
    return tuple(sorted(tokens.values(), key=len, reverse=True))


@lru_cache(maxsize=256)  # few agents ask about many sites
def names_of(agents: tuple[str, ...]) -> dict[str, int]:
    """Lower-case names by which agents may be found; 0 is the most wanted."""
    names: dict[str, int] = {}
    for agent in agents:
        whole = agent.strip()
        for name in (whole, *product_tokens(whole)):
            names.setdefault(name.lower(), len(names))
    names.pop("", None)
    return names


def agents_given(agent: str | Sequence[str]) -> tuple[str, ...]:
    """Raises TypeError for what is no agent."""
    if isinstance(agent, str):
        return (agent,)
    try:
        if isinstance(agent, (bytes, bytearray)):
            raise TypeError
        agents = tuple(agent)
    except TypeError:
        msg = f"agent must be str or a sequence of str, not {type(agent).__name__}"
        raise TypeError(msg) from None
    for one in agents:
        if not isinstance(one, str):
            msg = f"agent must be str or a sequence of str, not of {type(one).__name__}"
            raise TypeError(msg)
    return agents


class Chosen(NamedTuple):
    """What of a file is meant for an agent."""

    sections: tuple[Section, ...]
    """Of its groups."""
    asked: tuple[Section, ...]
    """Those whose paces and preferences are its own: see `runs_of`."""
    tokens: tuple[str, ...] | None
    """Of the groups, or ("*",) by default; None: there is no group."""


def chosen_for(agents: tuple[str, ...], text: str, dialect: Dialect) -> Chosen:
    groups, by_default = groups_for(agents, groups_of(text, dialect), dialect)
    if not groups:
        return Chosen((), (), None)
    asked = sections = tuple(chain.from_iterable(groups))
    if len(sections) > len(groups):
        runs = [run for group in groups for run in runs_of(text, group)]
        if len(runs) > len(groups):
            runs, _ = groups_for(agents, runs, dialect)
            asked = tuple(chain.from_iterable(runs))
    if by_default:
        return Chosen(sections, asked, ("*",))
    tokens = dict.fromkeys([section[0] for section in sections])
    return Chosen(sections, asked, tuple(tokens))


def groups_for(
    agents: tuple[str, ...], groups: list[list[Section]], dialect: Dialect
) -> tuple[list[list[Section]], bool]:
    """Those of the most wanted agent that has any, else those of `*`; and whether by default."""
    wanted = names_of(agents)
    names = tuple(wanted)
    headers = [agent.lower() for agent in agents] * dialect.agents_as_substrings
    named: dict[int, list[list[Section]]] = {}
    default = []
    for group in groups:
        is_default = False
        ranks: list[int] = []
        for section in group:
            line = section[0].lower()
            # Beyond RFC 9309: junk after "* " is ignored.
            if line == "*" or (not headers and line[:1] == "*" and line[1].isspace()):
                is_default = True
            elif headers:
                ranks += [
                    rank for rank, its in enumerate(headers) if line and line in its
                ]
            elif line.startswith(names):
                # Beyond RFC 9309: many lines leave the grammar. They match as a whole ("MJ12bot"),
                # or up to the first octet outside it ("foo/1.0"). The header of a browser is no
                # "mozilla", which would be nearly everybody.
                token = IDENTIFIER.match(line)[0]  # type: ignore[index]  # never None
                alike = (line,) if line.startswith(WHOLE_HEADER) else (line, token)
                ranks += [wanted[name] for name in alike if name in wanted]
        if is_default:
            default.append(group)
        if ranks and not (is_default and headers):
            named.setdefault(min(ranks), []).append(group)
    # RFC 9309 2.2.1: groups of one token are merged; `*` stands in for a missing one.
    chosen = named[min(named)] if named else default
    return chosen if dialect.merges_groups else chosen[:1], not named


def name_of(agent: Agent) -> str:
    """As audits have it."""
    return agent if isinstance(agent, str) else ", ".join(agent)
