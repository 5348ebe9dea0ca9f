"""Preferences: what a site says about the use of what it lets be fetched.

Four conventions, none of them a standard yet. What they may say later is ignored here:

- Content-Usage, a rule of robots.txt and a header: draft-ietf-aipref-attach-05, with the
  labels of draft-ietf-aipref-vocab-08 (2026-09). Of these, ai-use was in its version 02, and
  not in 03 to 07; labels that only older versions had, such as bots, are ignored (6.4).
- Content-Signal, Cloudflare's (contentsignals.org, 2025, with ``use=`` of 2026).
- License, which points to a licence: RSL 1.0 (2025). It is recorded, not fetched.
- tdm-reservation and tdm-policy, headers: TDMRep, W3C community group report of 2024-05.

Beyond RFC 9309, all of it: 2.2.4 lets other records be read. They part no groups, where
attach-05 would end one at a Content-Usage: what stands between two user-agent lines is said
to the upper one alone, but the rules below hold for both.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.decoding import show_octets
from scrapy_rep.protocol.fields import CONTENT_SIGNAL, CONTENT_USAGE, LINE_MARGIN, trim
from scrapy_rep.protocol.paths import encode_reserved
from scrapy_rep.protocol.patterns import compiled
from scrapy_rep.protocol.rules import patterns_of
from scrapy_rep.protocol.structured_fields import dictionary
from scrapy_rep.protocol.wildcards import parts_occur

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.groups import Lines

YES, NO, UNSTATED = "yes", "no", "unstated"

LICENSE = "license"
TDM_RESERVATION, TDM_POLICY = "tdm-reservation", "tdm-policy"
RECORD_NAMES = frozenset({CONTENT_USAGE, CONTENT_SIGNAL, LICENSE})
PREFERENCE_HEADERS = frozenset(
    {CONTENT_USAGE, CONTENT_SIGNAL, TDM_RESERVATION, TDM_POLICY}
)

CATEGORIES = ("train-ai", "ai-input", "search", "tdm")
USES = ("immediate", "reference", "full")
"""Of Content-Signal's ``use``, the least first: how far content may be used."""

# They differ in names only: both mean a model's training and its input.
USAGE_LABELS = {"train-ai": "train-ai", "ai-use": "ai-input", "search": "search"}
SIGNAL_LABELS = {"ai-train": "train-ai", "ai-input": "ai-input", "search": "search"}
PURPOSES = {
    **{name: name for name in CATEGORIES},
    **USAGE_LABELS,
    **SIGNAL_LABELS,
    **{f"use={level}": f"use={level}" for level in USES},
}
"""Every name of something that content may be used for, and the name it has here."""

PREFERENCE_LINE = rf"(?ai)\n{LINE_MARGIN}({CONTENT_USAGE}|{CONTENT_SIGNAL}|{LICENSE}){LINE_MARGIN}:([^\n]*)"
ABSOLUTE_URL = r"[A-Za-z][A-Za-z0-9+.-]*:"


class Preference(NamedTuple):
    """An answer, and what gives it."""

    answer: str
    """"yes", "no" or "unstated"; of `use`, its value or "unstated"."""
    said: str = ""
    """The record or header as written, such as ``Content-Usage: train-ai=n``."""
    line: int = 0
    """Number of its line in robots.txt, from 1; 0 for a header, and when unstated."""


class License(NamedTuple):
    """A pointer to a licence, or to a policy for text and data mining."""

    url: str
    """As written."""
    line: int
    """Number of its line in robots.txt, from 1; 0 for a header."""


NO_PREFERENCE = Preference(UNSTATED)


class Preferences(NamedTuple):
    """What a site prefers, for one URL and one agent."""

    categories: dict[str, Preference] = {}
    """By the names in `CATEGORIES`, without those that are unstated."""
    use: Preference = NO_PREFERENCE
    grants_use: bool = False
    """Whether `use` also says yes to uses that go no further. False: it stands in groups of
    other agents, and only says no to uses that go further."""
    licenses: tuple[License, ...] = ()
    """The values of all License records, in file order, in whatever group they stand."""
    tdm_policies: tuple[License, ...] = ()

    def of(self, purpose: str) -> Preference:
        """The answer to a purpose: "yes", "no" or "unstated".

        `purpose` is a key of `PURPOSES`; KeyError when it is not. The answer to ``use=full``
        and the like is "no" when the site wants less use than that.
        """
        name = PURPOSES[purpose]
        kind, equals, level = name.partition("=")
        if not equals:
            return self.categories.get(kind, NO_PREFERENCE)
        if self.use.answer == UNSTATED:
            return NO_PREFERENCE
        if USES.index(level) > USES.index(self.use.answer):
            return self.use._replace(answer=NO)
        return self.use._replace(answer=YES) if self.grants_use else NO_PREFERENCE


EVERYTHING_UNSTATED = Preferences()


def combine(first: Preferences, second: Preferences) -> Preferences:
    """Both, the more restrictive answer of each: draft-ietf-aipref-vocab-08, 5.1."""
    return Preferences(
        strictest_of(first.categories, second.categories),
        lowest_use(first.use, second.use),
        first.grants_use or second.grants_use,
        first.licenses + second.licenses,
        first.tdm_policies + second.tdm_policies,
    )


def strictest_of(*several: dict[str, Preference]) -> dict[str, Preference]:
    """Per category "no" where any says so, else "yes" where any says so."""
    best: dict[str, Preference] = {}
    for one in several:
        for category, preference in one.items():
            if category not in best or (
                preference.answer == NO != best[category].answer
            ):
                best[category] = preference
    return best


def lowest_use(*uses: Preference) -> Preference:
    """The lowest `use` that is stated."""
    stated = [use for use in uses if use.answer != UNSTATED]
    return min(stated, key=lambda use: USES.index(use.answer), default=NO_PREFERENCE)


def parse_usage(value: str, line: int = 0) -> dict[str, Preference]:
    """What a Content-Usage value says, its path cut off."""
    members = dictionary(value) or {}  # vocab 6.5.1: what does not parse says nothing
    return {
        category: Preference(
            YES if members[label] == "y" else NO,
            quote_record("Content-Usage", value),
            line,
        )
        for label, category in USAGE_LABELS.items()
        if members.get(label) in {"y", "n"}
    }


def parse_signal(value: str, line: int = 0) -> tuple[dict[str, Preference], Preference]:
    """What a Content-Signal value says of categories, and of `use`."""
    said = quote_record("Content-Signal", value)
    found = []
    uses = []
    for member in signal_members(value):
        plain = all(is_signal(*pair) for pair in member)
        for label, answer in member:
            if not is_signal(label, answer) or (answer == YES and not plain):
                continue  # what stands beside a yes may be a condition
            preference = Preference(answer, said, line)
            if label == "use":
                uses.append(preference)
            else:
                found.append({SIGNAL_LABELS[label]: preference})
    return strictest_of(*found), lowest_use(*uses)


def quote_record(name: str, value: str) -> str:
    return f"{name}: {value}" if len(value) <= 100 else f"{name}: {value[:97]}..."


def signal_members(value: str) -> Iterator[list[tuple[str, str]]]:
    """The labels and answers between two commas; of several, semicolons part them.

    The convention has commas alone. No signal has anything behind a semicolon, so that
    another signal there can only be meant as one.
    """
    for member in value.lower().split(","):
        parts = [part for part in member.split(";") if trim(part)]
        pairs = [part.partition("=") for part in parts or [member]]
        yield [(trim(label), trim(said)) for label, _, said in pairs]


def is_signal(label: str, answer: str) -> bool:
    if label == "use":
        return answer in USES
    return label in SIGNAL_LABELS and answer in {YES, NO}


def path_and_usage(value: str) -> tuple[str, str]:
    """The path of a Content-Usage rule, "" without one, and what follows it (attach 3.2)."""
    if not value.startswith("/"):
        return "", value
    path = re.split(r"[ \t]", value, maxsplit=1)[0]
    return path, trim(value[len(path) :])


def header_preferences(headers: Iterable[tuple[str, str]]) -> Preferences:
    """What the headers of a response say about its content; others are ignored."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value.strip())
    found = []
    uses = []
    if CONTENT_USAGE in values:  # RFC 9651 4.2: one dictionary, however many lines
        found.append(parse_usage(", ".join(values[CONTENT_USAGE])))
    for value in values.get(CONTENT_SIGNAL, ()):
        categories, use = parse_signal(value)
        found.append(categories)
        uses.append(use)
    for value in values.get(TDM_RESERVATION, ()):
        if value in {"0", "1"}:
            answer = NO if value == "1" else YES
            found.append(
                {"tdm": Preference(answer, quote_record("TDM-Reservation", value))}
            )
    policies = tuple(License(url, 0) for url in values.get(TDM_POLICY, ()))
    use = lowest_use(*uses)
    stated = use.answer != UNSTATED
    return Preferences(strictest_of(*found), use, stated, (), policies)


UsagePattern = tuple[tuple[str, ...], bool, bool]
"""Of a `Pattern`: parts, anchored, encoded."""
Said = tuple[str, tuple[str, str, int]]
"""A category, and what makes the `Preference`."""
UsageRule = tuple[int, tuple[UsagePattern, ...], tuple[Said, ...]]
"""A Content-Usage rule of robots.txt: the octets of its path, as `Pattern.octets`, the patterns
that it stands for, 0 and none without a path, and what it says. As for `groups.Lines`, tuples."""


class Stated:
    """The preferences that a robots.txt states for one agent."""

    __slots__ = ("everywhere", "rules")

    def __init__(
        self, text: str, sections: tuple[Lines, ...], dialect: Dialect
    ) -> None:
        """Read the whole `text`, of which `sections` are said to the agent."""
        rules: list[UsageRule] = []
        licenses: list[License] = []
        # What signals anywhere in the file say, and those that are said to the agent.
        whole: dict[str, Preference] = {}
        group: dict[str, Preference] = {}
        use, granted = NO_PREFERENCE, False
        starts = [start for _, start, _ in sections]  # they stand in file order
        for field, value, line, position in statements(text):
            before = bisect_right(starts, position)
            own = before > 0 and position < sections[before - 1][2]
            if field == LICENSE:
                licenses.append(License(value, line))
            elif field == CONTENT_SIGNAL:
                categories, its_use = parse_signal(value, line)
                whole = strictest_of(whole, categories)
                use = lowest_use(use, its_use)
                if own:
                    group = strictest_of(group, categories)
                    granted = granted or its_use.answer != UNSTATED
            elif own:
                rules.append(usage_rule(value, line, dialect))
        self.rules = tuple(sorted(rules, key=itemgetter(0), reverse=True))
        """The most specific first."""
        # Sites and tools disagree whether a signal is of a group or of the file. Either
        # reading may say no; yes is what both of them say.
        if use.answer == USES[-1] and not granted:  # it restricts nothing
            use = NO_PREFERENCE
        self.everywhere = Preferences(
            {
                category: preference
                for category, preference in whole.items()
                if preference.answer == NO or category in group
            },
            use,
            granted,
            tuple(licenses),
        )

    def at(self, path: str) -> Preferences:
        """What is stated for a comparable path that the agent may fetch.

        The most specific Content-Usage rule decides, as Allow and Disallow do; of equals
        the more restrictive one (attach 3.1).
        """
        if not self.rules:
            return self.everywhere
        encoded_path = encode_reserved(path)
        found: dict[str, Preference] = {}
        least = 0  # octets of the rules that match, if there are any
        for octets, patterns, says in self.rules:
            if octets < least:
                break
            if not patterns or any(
                parts_occur(parts, ends, encoded_path if is_encoded else path)
                for parts, ends, is_encoded in patterns
            ):
                least = octets
                found = strictest_of(
                    found, {category: Preference(*said) for category, said in says}
                )
        found = strictest_of(found, self.everywhere.categories)
        return self.everywhere._replace(categories=found)


def usage_rule(value: str, line: int, dialect: Dialect) -> UsageRule:
    path, preference = path_and_usage(value)
    says = tuple(
        [
            (category, (its.answer, its.said, its.line))
            for category, its in parse_usage(preference, line).items()
        ]
    )
    if not path:
        return 0, (), says
    patterns = patterns_of(path, dialect)  # some, as it begins with a slash
    return (
        patterns[0].octets,
        tuple([(its.parts, its.anchored, its.encoded) for its in patterns]),
        says,
    )


def statements(text: str) -> Iterator[tuple[str, str, int, int]]:
    """Field, value, line number and position of every record that states a preference."""
    line = counted = 0
    for found in compiled(PREFERENCE_LINE).finditer(text):
        line += text.count("\n", counted, found.start() + 1)
        counted = found.start() + 1
        value = show_octets(trim(found[2].partition("#")[0]))
        yield found[1].lower(), value, line, found.start()


def faults(field: str, value: str) -> Iterator[tuple[str, str]]:
    """Code and detail of every note on a record of this `field`, one of `RECORD_NAMES`."""
    if field == LICENSE:
        if not compiled(ABSOLUTE_URL).match(value):
            yield "relative-license", value
    elif field == CONTENT_USAGE:
        preference = path_and_usage(value)[1]
        members = dictionary(preference)
        if members is None:
            yield "bad-content-usage", preference
        else:
            for label, answer in members.items():
                if label not in USAGE_LABELS or answer not in {"y", "n"}:
                    yield "unknown-preference", label
    else:
        if ";" in value:
            yield "signal-semicolon", value
        for label, answer in chain.from_iterable(signal_members(value)):
            if not is_signal(label, answer):
                yield "unknown-preference", f"{label}={answer}"
