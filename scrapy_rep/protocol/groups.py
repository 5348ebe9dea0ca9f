"""Groups: which lines of a robots.txt belong to which user agents.

The text is not read line by line. Its user-agent lines are found first; what lies between
them is a section, and sections are read only for an agent that is asked about.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from scrapy_rep.protocol.decoding import show_octets
from scrapy_rep.protocol.fields import (
    ALLOW,
    BLANK_CLASS,
    CONTENT_SIGNAL,
    CONTENT_USAGE,
    CRAWL_DELAY,
    DISALLOW,
    FIELD_NAMES,
    LINE_MARGIN,
    REQUEST_RATE,
    VISIT_TIME,
    field_and_value,
    split_record,
    trim,
)
from scrapy_rep.protocol.patterns import compiled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_rep.protocol.dialect import Dialect

# None of these patterns can match across a line end or overlap itself, and all begin with
# the line end before their line, so a search is one pass over the text.
USER_AGENT_LINE = re.compile(
    rf"(?ai)(\n{LINE_MARGIN}user[- ]?agent([{BLANK_CLASS}:][^\n]*))"
)
RULE_FIELD = r"(?:dis?s?all?ow|diasllow|disallaw|allow)"
RULE_LINE = rf"(?ai)\n{LINE_MARGIN}{RULE_FIELD}(?=[{BLANK_CLASS}:])[^\n]*"
RECORD_LINE = (
    rf"(?ai)\n{LINE_MARGIN}(?:{RULE_FIELD}|site[- ]?map|crawl[- ]?delay)"
    rf"(?=[{BLANK_CLASS}:])[^\n]*"
)
PACE_FIELDS = {CRAWL_DELAY, REQUEST_RATE, VISIT_TIME}
RECORDS_OF_RUNS = {*PACE_FIELDS, CONTENT_USAGE, CONTENT_SIGNAL}
RECORD_OF_RUN = re.compile(
    rf"(?ai)\n{LINE_MARGIN}(?:crawl[- ]?delay|request-rate|visit-time|content-usage"
    rf"|content-signal)(?=[{BLANK_CLASS}:])[^\n]*"
)
USUAL_RULE_START = "\nDisallow:"  # found sooner than RULE_LINE
BLANK_LINE = rf"\n{LINE_MARGIN}(?=\n|\Z)"

Lines = tuple[int, int, int]
"""Of a section that something follows: its `head`, `start` and `end`. What is kept of a policy
is plain tuples, since the garbage collector, which holds all threads, soon skips those."""


@dataclass(slots=True, repr=False)
class Section:
    """One user-agent line and what follows it, up to the next one or what ends it."""

    agent: str
    """Value of the user-agent line, as written."""
    head: int
    """Where the line end before the user-agent line stands in the text."""
    start: int
    """Where the line end after it stands; equal to `end` when nothing follows."""
    end: int


def groups_of(text: str, dialect: Dialect) -> list[list[Section]]:
    """The groups of a file in order, each as its sections: one a user-agent line.

    Only the last section of a group holds rules, since rules end a run of user-agent
    lines (RFC 9309 2.1); the sections before it may hold other records.
    """
    groups: list[list[Section]] = []
    closed = True
    blank_line_ends_group = dialect.blank_line_ends_group
    for section in sections_of(text):
        if closed:
            groups.append([section])
        else:
            groups[-1].append(section)
        blank = None
        if blank_line_ends_group:
            blank = compiled(BLANK_LINE).search(text, section.start, section.end)
            if blank is not None:
                section.end = blank.start()
        # RFC 9309 2.2.4: other records do not end the run of user-agent lines.
        closed = blank is not None or (
            section.start < section.end  # else user-agent lines follow each other
            and (
                text.find(USUAL_RULE_START, section.start, section.end) >= 0
                or has_record(text, section, any_record=dialect.any_record_ends_agents)
            )
        )
    if not dialect.empty_groups:
        groups = [group for group in groups if has_record(text, group[-1])]
    return groups


def sections_of(text: str) -> list[Section]:
    """A section for every user-agent line, up to the next one."""
    sections: list[Section] = []
    pieces = iter(USER_AGENT_LINE.split(text))
    end = len(next(pieces))
    for line, rest, lines in zip(pieces, pieces, pieces, strict=True):
        head = end
        start = head + len(line)
        end = start + len(lines)
        if rest[0] == ":" and "#" not in rest:
            value = trim(rest[1:])
        else:
            field, value = field_and_value(line)
            if not field:  # it is no record: words without a colon
                if sections:
                    sections[-1].end = end
                continue
        sections.append(Section(show_octets(value), head, start, end))
    return sections


def has_record(text: str, section: Section, *, any_record: bool = False) -> bool:
    """Whether a section holds a rule, or `any_record` of those that older dialects know."""
    lines = RECORD_LINE if any_record else RULE_LINE
    return any(
        field_and_value(found[0])[0]
        for found in compiled(lines).finditer(text, section.start, section.end)
    )


def runs_of(text: str, group: list[Section]) -> list[list[Section]]:
    """The runs of user-agent lines of a group, which share its rules, and no more.

    Beyond RFC 9309: a record that asks for a pace or states a preference is meant for the
    user-agent lines directly above it, and not for those that follow, although it does not
    end the group (2.2.4).
    """
    runs = [group[:1]]
    for before, section in pairwise(group):
        start, end = before.start, before.end
        if start < end and any(records_of_run(text, start, end)):
            runs.append([])
        runs[-1].append(section)
    return runs


def records_of_run(text: str, start: int, end: int) -> Iterator[tuple[str, str]]:
    """Field and value of what a section asks of the run of user-agent lines above it."""
    for found in RECORD_OF_RUN.finditer(text, start, end):
        record = split_record(found[0])
        if record is not None:
            name = record[0].lower()
            field = FIELD_NAMES.get(name, name)
            if field in RECORDS_OF_RUNS:
                yield field, record[1]


def lines_of(sections: Iterable[Section]) -> tuple[Lines, ...]:
    """Where those of them stand that something follows."""
    return tuple(
        [
            (section.head, section.start, section.end)
            for section in sections
            if section.start < section.end
        ]
    )


def paces_among(text: str, sections: tuple[Lines, ...]) -> list[tuple[str, str]]:
    """Those of them that ask for a pace, of several sections."""
    return [
        record
        for _, start, end in sections
        for record in records_of_run(text, start, end)
        if record[0] in PACE_FIELDS
    ]


def rules_of(text: str, sections: tuple[Lines, ...]) -> list[tuple[bool, str, int]]:
    """The rules of a group or of several: allow, path as written, line number."""
    rules: list[tuple[bool, str, int]] = []
    heads = [head for head, _, _ in sections]
    for (_, start, end), line in zip(sections, line_numbers(text, heads), strict=True):
        rules += rules_in(text[start:end], line)
    return rules


def line_numbers(text: str, heads: list[int]) -> Iterator[int]:
    """The number, from 1, of each user-agent line before which a line end stands there."""
    line = counted = 0
    for head in heads:
        line += text.count("\n", counted, head + 1)
        counted = head + 1
        yield line


def rules_in(lines: str, line: int) -> list[tuple[bool, str, int]]:
    """Rules among some lines, the first of which has the number `line`."""
    rules = []
    for number, record in enumerate(lines.split("\n"), line):
        if record and record[0] != "#":
            field, path = field_and_value(record)
            if field in (ALLOW, DISALLOW):
                rules.append((field == ALLOW, path, number))
    return rules


def rules_among(lines: str) -> list[tuple[bool, str]]:
    """As `rules_in`, without line numbers: allow, path as written."""
    rules = []
    if not lines.isspace():
        for line in compiled(RULE_LINE).findall(lines):
            field, path = field_and_value(line)
            if field:
                rules.append((field == ALLOW, path))
    return rules
