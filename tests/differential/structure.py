"""Which rules hold for an agent: a file is rewritten until no parser can read it otherwise.

Each step takes out one thing that parsers read differently, and writes what it means here.
Where another parser comes to our answer after some steps, those are the causes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING

from scrapy_rep.protocol import RFC9309, fields
from scrapy_rep.protocol.fields import (
    ALLOW,
    CRAWL_DELAY,
    DISALLOW,
    FIELD_NAMES,
    MISSPELLINGS,
    USER_AGENT,
    split_record,
    trim,
)
from scrapy_rep.protocol.pace_values import crawl_delay
from scrapy_rep.protocol.paths import path_of
from tests.differential.others import Case, ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AGENT, NOBODY = "zzagent", "qqbody"
NOTHING = "Disallow: /zz-none"
SEPARATORS = re.compile("[\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")  # for str.splitlines
STRIPPED = " \t\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
NOT_UTF8 = re.compile("[\udc80-\udcff]+")
RULES = (ALLOW, DISALLOW)


# A line is asked about at each step.
understood = lru_cache(maxsize=20_000)(fields.field_and_value)


def escaped(found: re.Match[str]) -> str:
    return "%" + found[0].encode("utf-8", "surrogateescape").hex("%").upper()


def by_line(rewritten: Callable[[str, str, str], str | None]) -> Callable[[Case], Case]:
    """The step that rewrites each line, given with field ("": none) and value; None: it goes."""

    def step(case: Case) -> Case:
        lines = (rewritten(line, *understood(line)) for line in case.text.split("\n"))
        return case._replace(text="\n".join(line for line in lines if line is not None))

    return step


def without_mark(case: Case) -> Case:
    first = case.text.encode("utf-8", "surrogateescape")[:1]
    marked = first in {b"\xef", b"\xff", b"\xfe"}
    return case._replace(text=str(ours(case.text))) if marked else case


def one_line_end(case: Case) -> Case:
    text = case.text.replace("\r\n", "\n").replace("\r", "\n")
    lines = (SEPARATORS.sub(escaped, line.strip(STRIPPED)) for line in text.split("\n"))
    return case._replace(text="\n".join(lines))


def only_what_is_read(case: Case) -> Case:
    return case._replace(text=str(ours(case.text)))


def octets_escaped(case: Case) -> Case:
    return case._replace(text=NOT_UTF8.sub(escaped, case.text))


@by_line
def without_comments(line: str, field: str, value: str) -> str:
    return line.partition("#")[0].rstrip(" \t")


@by_line
def without_the_invisible(line: str, field: str, value: str) -> str:
    name, colon, _ = line.partition("#")[0].partition(":")
    return (
        f"{trim(name)}: {value}"
        if field and colon and trim(name).lower() in FIELD_NAMES
        else trim(line)
    )


@by_line
def with_colons(line: str, field: str, value: str) -> str | None:
    name = (split_record(line) or ("",))[0]
    if field:
        has_one = trim(trim(line)[len(name) :]).startswith(":")
        return line if has_one else f"{name}: {value}"
    words = line.lower().split()  # to others, these may be a field
    return (
        None if {words[0] if words else "", " ".join(words[:2])} & OTHERS_KNOW else line
    )


OTHERS_KNOW = {*FIELD_NAMES, "request rate", "visit time"}


@by_line
def without_misspellings(line: str, field: str, value: str) -> str:
    name = (split_record(line) or ("",))[0].lower()
    return f"{field}: {value}" if name in MISSPELLINGS else line


@by_line
def without_other_records(line: str, field: str, value: str) -> str | None:
    blank = not trim(line)
    return line if blank or field in {*RULES, USER_AGENT, CRAWL_DELAY} else None


@by_line
def without_delays(line: str, field: str, value: str) -> str | None:
    return None if field == CRAWL_DELAY else line


@by_line
def without_blank_lines(line: str, field: str, value: str) -> str | None:
    return line if trim(line) else None


@by_line
def without_empty_rules(line: str, field: str, value: str) -> str:
    return NOTHING if field in RULES and not value else line


@by_line
def whole_delays(line: str, field: str, value: str) -> str | None:
    if field != CRAWL_DELAY:
        return line
    seconds = crawl_delay(value)
    return None if seconds is None else f"Crawl-delay: {ceil(seconds)}"


def groups(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Every group as its lines, up to the first rule, and from there on."""
    heads: list[str] = []
    rest: list[str] = []
    for line in text.split("\n"):
        field = understood(line)[0]
        if field == USER_AGENT and rest:
            yield heads, rest
            heads, rest = [], []
        (rest if rest or field in RULES else heads).append(line)
    yield heads, rest


def only_groups_with_rules(case: Case) -> Case:
    kept = []
    for heads, rest in groups(case.text):
        if any(understood(line)[0] == USER_AGENT for line in heads):
            kept += [*heads, *rest] if rest else [*filter(trim, heads), NOTHING]
    return case._replace(text="\n".join(kept))


def plain_agents(case: Case) -> Case:
    chosen = ours(case.text).verdict("/", case.agent).group or ()

    def name(value: str) -> str:
        if ours(f"User-agent: {value}").verdict("/", "nobody").group:
            return "*"
        named = ours(f"User-agent: {value}").verdict("/", case.agent).group
        return AGENT if named and value in chosen else NOBODY

    @by_line
    def renamed(line: str, field: str, value: str) -> str:
        return f"User-agent: {name(value)}" if field == USER_AGENT else line

    return renamed(case)._replace(agent=AGENT)


def one_group(case: Case) -> Case:
    tokens = ours(case.text).verdict("/", case.agent).group or ("*",)
    lines = [f"User-agent: {token}" for token in tokens]
    heads = {(USER_AGENT, token) for token in tokens}
    for above, below in groups(case.text):
        if not heads.isdisjoint(map(understood, above)):
            lines += [line for line in above if understood(line)[0] != USER_AGENT]
            lines += below
    return case._replace(text="\n".join(lines))


def own_delay(case: Case) -> Case:
    delay = ours(case.text).crawl_delay(case.agent)
    line = [] if delay is None else [f"Crawl-delay: {ceil(delay)}"]
    return case._replace(text="\n".join(["User-agent: *", *line, NOTHING]))


def robots_txt(case: Case) -> Case:
    path = path_of(case.url, RFC9309)
    if path == "/robots.txt":
        lines = []
        for heads, rest in groups(case.text):
            lines += [*heads, "Allow: /robots.txt", *rest]
        return case._replace(text="\n".join(lines))
    if path.startswith("/robots.txt?"):
        text, url = (it.replace("robots.txt", "zz") for it in (case.text, case.url))
        return case._replace(text=text, url=url)
    return case


AGENTS = "names"
STEPS: dict[str, Callable[[Case], Case]] = {
    "D17: a byte order mark": without_mark,
    "D24: line ends, CR, LF and CRLF and no others": one_line_end,
    "D26: how much is read": only_what_is_read,
    "D29: octets that are not UTF-8": octets_escaped,
    "RFC 9309 2.2: a comment": without_comments,
    "D28: characters that cannot be seen": without_the_invisible,
    "D13: a field without a colon": with_colons,
    "D12: a misspelt field": without_misspellings,
    "D14: another record among user-agent lines or rules": without_other_records,
    "D14, D25: a Crawl-delay between user-agent lines": without_delays,
    "D14: a blank line": without_blank_lines,
    "D15: a rule without a value": without_empty_rules,
    "D19, RFC 9309 2.1: rules without a group, a group without rules": only_groups_with_rules,
    AGENTS: plain_agents,
    "D18: several groups": one_group,
    "D4: /robots.txt, and with a query": robots_txt,
}
DELAY_STEPS = {
    **{cause: step for cause, step in STEPS.items() if step is not without_delays},
    "D25: a value that is no whole number of seconds": whole_delays,
    "D25: several delays, and whose they are": own_delay,
}
