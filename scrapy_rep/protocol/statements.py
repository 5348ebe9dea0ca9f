"""A robots.txt as it is written, for those who describe or compare it: nothing is judged by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.decoding import show_octets
from scrapy_rep.protocol.fields import sitemaps_in
from scrapy_rep.protocol.groups import (
    groups_of,
    line_numbers,
    lines_of,
    paces_among,
    rules_among,
    rules_in,
)
from scrapy_rep.protocol.rules import Rule

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.groups import Section


class Group(NamedTuple):
    """User-agent lines and the rules that follow them."""

    tokens: tuple[str, ...]
    """Values of the user-agent lines, as written."""
    rules: tuple[Rule, ...]
    """In file order, also rules without effect."""
    line: int
    """Number of the first user-agent line, from 1."""


def groups_as_written(text: str, groups: list[list[Section]]) -> tuple[Group, ...]:
    """Some groups of a text, given as their sections."""
    lines = line_numbers(text, [section.head for group in groups for section in group])
    found = []
    for sections in groups:
        numbered = [(section, next(lines)) for section in sections]
        rules = [
            Rule(allow, show_octets(path), number)
            for section, line in numbered
            for allow, path, number in rules_in(text[section.start : section.end], line)
        ]
        tokens = tuple(section.agent for section in sections)
        found.append(Group(tokens, tuple(rules), numbered[0][1]))
    return tuple(found)


def statements(text: str, dialect: Dialect) -> tuple[object, ...]:
    """All that is understood of a text, without line numbers."""
    groups = tuple(
        (
            tuple(
                (section.agent, *paces_among(text, lines_of([section])))
                for section in sections
            ),
            tuple(
                rule
                for section in sections
                for rule in rules_among(text[section.start : section.end])
            ),
        )
        for sections in groups_of(text, dialect)
    )
    return groups, tuple(sitemaps_in(text))
