"""User agents: product tokens, and the groups that are theirs (RFC 9309 2.2.1)."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.groups import groups_of, runs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.groups import Section

Agent = str | tuple[str, ...]
"""A product token or a whole User-Agent header, or several tokens, most wanted first."""

IDENTIFIER = re.compile(r"[A-Za-z_-]*")  # RFC 9309 2.2; octets outside it end the token

# A header is product tokens and comments (RFC 9110 10.1.5). A word names a product when it
# has a letter, or a version behind it ("008/0.83"), and is no part of a host name or URL. With
# dots in it, it is a product's that has a version, or no host's ("archive.org_bot").
PUNCTUATION = re.compile(r"[;,()\[\]<>\"'{}|]+")
PRODUCT_NAME = re.compile(r"[\w-]+")
DOTTED_NAME = re.compile(
    r"(?=[\w.-]*[^\W\d_])[\w-]+(?:(?:\.[\w-]+)+(?=/v?\d)|(?:\.[\w-]+)*\.[\w-]*_[\w-]*)"
)
LETTER = re.compile(r"[^\W\d_]")
AFTER_NAME = ("", "/", ":", "!", "*", "+")

# Beyond RFC 9309: what browsers carry by custom, and crawlers that want to be served like
# one. Where a user-agent line has such a word, no crawler is meant by it.
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
    """Every name, in lower case, by which agents may be found; 0 is the most wanted."""
    names: dict[str, int] = {}
    for agent in agents:
        whole = agent.strip()
        for name in (whole, *product_tokens(whole)):
            names.setdefault(name.lower(), len(names))
    names.pop("", None)
    return names


def agents_given(agent: str | Sequence[str]) -> tuple[str, ...]:
    """The argument `agent` of the public methods as a tuple, checked."""
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
    """Of its groups: all rules in them are its own."""
    asked: tuple[Section, ...]
    """Those of them that have its own records of pace and preferences: see `runs_of`."""
    tokens: tuple[str, ...] | None
    """The user-agent lines of the groups, or ("*",) by default; None: there is no group."""


def chosen_for(agents: tuple[str, ...], text: str, dialect: Dialect) -> Chosen:
    """What of a text is meant for `agents`, most wanted first."""
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
    """The groups that hold for `agents`, most wanted first, and whether by default.

    The groups are those of one agent, the most wanted that has any, else those of `*`.
    """
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
                # Beyond RFC 9309: many lines leave the grammar. They match as a whole
                # ("MJ12bot"), or up to the first octet outside it ("foo/1.0", "foo*"). The
                # header of a browser is no "mozilla", which would be nearly everybody.
                token = IDENTIFIER.match(line)[0]  # type: ignore[index]  # never None
                alike = (line,) if line.startswith(WHOLE_HEADER) else (line, token)
                ranks += [wanted[name] for name in alike if name in wanted]
        if is_default:
            default.append(group)
        if ranks and not (is_default and headers):
            named.setdefault(min(ranks), []).append(group)
    # RFC 9309 2.2.1: groups of one token are merged; `*` only stands in for a missing one.
    chosen = named[min(named)] if named else default
    return chosen if dialect.merges_groups else chosen[:1], not named


def name_of(agent: Agent) -> str:
    """Return the name of an agent in an audit: its tokens, separated by commas."""
    return agent if isinstance(agent, str) else ", ".join(agent)
