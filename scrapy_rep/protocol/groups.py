"""Groups: which lines of a robots.txt belong to which user agents.

The text is not read line by line. Its user-agent lines are found first; what lies between
them is a section, and sections are read only for an agent that is asked about.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.records import ALLOW, DISALLOW, MARGIN, TRIMMED, understood

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.dialect import Dialect

# None of these patterns can match across a line end or overlap itself, and all begin with
# the line end before their line, so a search is one pass over the text.
CASELESS = re.IGNORECASE | re.ASCII

USER_AGENT_LINE = re.compile(
    rf"\n{MARGIN}user[- ]?agent(?=[\0-\x20\x7f:#])([^\n]*)", CASELESS
)
RULE_FIELD = r"(?:dis?s?all?ow|diasllow|disallaw|allow)"
RULE_LINE = re.compile(rf"\n{MARGIN}{RULE_FIELD}(?=[\0-\x20\x7f:])[^\n]*", CASELESS)
RECORD_LINE = re.compile(
    rf"\n{MARGIN}(?:{RULE_FIELD}|site[- ]?map|crawl[- ]?delay)(?=[\0-\x20\x7f:])[^\n]*",
    CASELESS,
)
BLANK_LINE = re.compile(rf"\n{MARGIN}(?=\n|\Z)")


class Section(NamedTuple):
    """One user-agent line and what follows it, up to the next one or what ends it."""

    agent: str
    """Value of the user-agent line, as written."""
    line: int
    """Number of the user-agent line, from 1."""
    start: int
    """Where the line end after it stands; equal to `end` when nothing follows."""
    end: int


def groups_of(text: str, dialect: Dialect) -> list[list[Section]]:
    """The groups of a file in order, each as its sections: one a user-agent line.

    Only the last section of a group holds rules, since rules end a run of user-agent
    lines (RFC 9309 2.1); the sections before it may hold other records.
    """
    groups: list[list[Section]] = []
    heads = list(user_agent_lines(text))
    line = counted = 0
    closed = True
    for index, (agent, head, start) in enumerate(heads, 1):
        end = following = heads[index][1] if index < len(heads) else len(text)
        line += text.count("\n", counted, head + 1)
        counted = head + 1
        blank = (
            BLANK_LINE.search(text, start, end)
            if dialect.blank_line_ends_group
            else None
        )
        if blank is not None:
            end = blank.start()
        section = Section(agent, line, start, end)
        if closed:
            groups.append([section])
        else:
            groups[-1].append(section)
        # RFC 9309 2.2.4: other records do not end the run of user-agent lines.
        closed = following < len(text) and (
            blank is not None
            or has_record(text, section, any_record=dialect.any_record_ends_agents)
        )
    if not dialect.empty_groups:
        groups = [group for group in groups if has_record(text, group[-1])]
    return groups


def user_agent_lines(text: str) -> Iterator[tuple[str, int, int]]:
    """Value, start and end of every user-agent line."""
    for found in USER_AGENT_LINE.finditer(text):
        rest = found[1]
        if rest.startswith(":") and "#" not in rest:
            yield rest[1:].strip(TRIMMED), found.start(), found.end()
        else:
            field, value = understood(found[0])
            if field:  # else it is no record: words, and no colon
                yield value, found.start(), found.end()


def has_record(text: str, section: Section, *, any_record: bool = False) -> bool:
    """Whether a section holds a rule, or `any_record` of those that older dialects know."""
    lines = RECORD_LINE if any_record else RULE_LINE
    return any(
        understood(found[0])[0]
        for found in lines.finditer(text, section.start, section.end)
    )


def rules_of(text: str, sections: list[Section]) -> list[tuple[bool, str, int]]:
    """The rules of a group or of several: allow, path as written, line number."""
    rules: list[tuple[bool, str, int]] = []
    for section in sections:
        lines = text[section.start : section.end].split("\n")
        for number, line in enumerate(lines, section.line):
            if line.startswith("Disallow: "):  # nearly every rule is spelt like this
                allow, path = False, line[10:]
                if "#" in path:
                    path = path[: path.index("#")]
                path = path.strip(TRIMMED)
            elif line:
                field, path = understood(line)
                if field == DISALLOW:
                    allow = False
                elif field == ALLOW:
                    allow = True
                else:
                    continue
            else:
                continue
            rules.append((allow, path, number))
    return rules


def records_of(text: str, sections: list[Section]) -> Iterator[tuple[str, str]]:
    """Field and value of every record in the sections that is understood."""
    for section in sections:
        for line in text[section.start : section.end].split("\n"):
            record = understood(line)
            if record[0]:
                yield record
