"""Preferences: what a site says about the use of what it lets be fetched.

Four conventions, none a standard yet; what they may say later is ignored:

- Content-Usage, a rule and a header: draft-ietf-aipref-attach-05, with the labels of
  draft-ietf-aipref-vocab-08 (2026-09); those that only older versions had are ignored (6.4).
- Content-Signal, Cloudflare's (contentsignals.org, 2025, with ``use=`` of 2026).
- License, which points to a licence: RSL 1.0 (2025). It is recorded, not fetched.
- tdm-reservation and tdm-policy, headers, and a file: TDMRep, W3C community group report, 2024-05.

Beyond RFC 9309, all of it (2.2.4 lets other records be read). They part no groups, where attach-05
ends one at a Content-Usage: what stands between two user-agent lines is said to the upper one alone,
but the rules below hold for both.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.decoding import show_octets
from scrapy_rep.protocol.language import (
    CONTENT_SIGNAL,
    CONTENT_USAGE,
    LINE_MARGIN,
    RFC9309,
    trim,
)
from scrapy_rep.protocol.paths import (
    Pattern,
    encode_reserved,
    matches,
    path_of,
    patterns_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy_rep.protocol.groups import Section
    from scrapy_rep.protocol.language import Dialect

YES, NO, UNSTATED = "yes", "no", "unstated"

LICENSE = "license"
TDM_RESERVATION, TDM_POLICY = "tdm-reservation", "tdm-policy"
RECORD_NAMES = frozenset({CONTENT_USAGE, CONTENT_SIGNAL, LICENSE})
PREFERENCE_HEADERS = frozenset(
    {CONTENT_USAGE, CONTENT_SIGNAL, TDM_RESERVATION, TDM_POLICY}
)

TDM = "tdm"
CATEGORIES = ("train-ai", "ai-input", "search", TDM)
USES = ("immediate", "reference", "full")
"""Of Content-Signal's ``use``: how far content may be used, the least first."""

# Both mean a model's training and its input.
USAGE_LABELS = {"train-ai": "train-ai", "ai-use": "ai-input", "search": "search"}
SIGNAL_LABELS = {"ai-train": "train-ai", "ai-input": "ai-input", "search": "search"}
PURPOSES = {
    **{name: name for name in CATEGORIES},
    **USAGE_LABELS,
    **SIGNAL_LABELS,
    **{f"use={level}": f"use={level}" for level in USES},
}
"""Every name of a use, and the name it has here."""

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

    def stated(self) -> dict[str, str]:
        """The answers that are stated, by category; that to use under "use"."""
        said = {name: found.answer for name, found in self.categories.items()}
        if self.use.answer != UNSTATED:
            said["use"] = self.use.answer
        return said


EVERYTHING_UNSTATED = Preferences()


def combine(*several: Preferences) -> Preferences:
    """The most restrictive answer of each: draft-ietf-aipref-vocab-08, 5.1."""
    categories: dict[str, Preference] = {}
    for category, found in chain.from_iterable(
        one.categories.items() for one in several
    ):
        if category not in categories or found.answer == NO != (
            categories[category].answer
        ):
            categories[category] = found
    uses = [one.use for one in several if one.use.answer != UNSTATED]
    return Preferences(
        categories,
        min(uses, key=lambda use: USES.index(use.answer), default=NO_PREFERENCE),
        any(one.grants_use for one in several),
        tuple(chain.from_iterable(one.licenses for one in several)),
        tuple(chain.from_iterable(one.tdm_policies for one in several)),
    )


def parse_usage(value: str, line: int = 0) -> Preferences:
    """Of a Content-Usage without its path."""
    members = dictionary(value) or {}  # vocab 6.5.1: what does not parse says nothing
    said = quote_record("Content-Usage", value)
    return Preferences(
        {
            category: Preference(YES if members[label] == "y" else NO, said, line)
            for label, category in USAGE_LABELS.items()
            if members.get(label) in {"y", "n"}
        }
    )


def parse_signal(value: str, line: int = 0) -> Preferences:
    said = quote_record("Content-Signal", value)
    found = []
    for member in signal_members(value):
        plain = all(is_signal(*pair) for pair in member)
        for label, answer in member:
            if not is_signal(label, answer) or (answer == YES and not plain):
                continue  # what stands beside a yes may be a condition
            preference = Preference(answer, said, line)
            if label == "use":
                found.append(Preferences(use=preference, grants_use=True))
            else:
                found.append(Preferences({SIGNAL_LABELS[label]: preference}))
    return combine(*found)


def quote_record(name: str, value: str) -> str:
    return f"{name}: {value}" if len(value) <= 100 else f"{name}: {value[:97]}..."


def signal_members(value: str) -> Iterator[list[tuple[str, str]]]:
    """Labels and answers between two commas; of several, semicolons part them.

    The convention has commas alone. No signal has anything behind a semicolon, so that another
    signal there can only be meant as one.
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
    """Of a Content-Usage rule; "": it has no path (attach 3.2)."""
    if not value.startswith("/"):
        return "", value
    path = re.split(r"[ \t]", value, maxsplit=1)[0]
    return path, trim(value[len(path) :])


def header_preferences(headers: Iterable[tuple[str, str]]) -> Preferences:
    """Other headers are ignored."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value.strip())
    # RFC 9651 4.2: one dictionary, however many lines
    found = [parse_usage(", ".join(values.get(CONTENT_USAGE, ())))]
    found += map(parse_signal, values.get(CONTENT_SIGNAL, ()))
    for value in values.get(TDM_RESERVATION, ()):
        if value in {"0", "1"}:
            said = quote_record("TDM-Reservation", value)
            found.append(Preferences({TDM: Preference(ANSWERS[int(value)], said)}))
    policies = tuple(License(url, 0) for url in values.get(TDM_POLICY, ()))
    return combine(*found, Preferences(tdm_policies=policies))


UsageRule = tuple[int, tuple[Pattern, ...], str, int]
"""Octets of the path, its patterns (0 and none for all paths), what it says, its line."""


class Stated(NamedTuple):
    """What a robots.txt states for one agent."""

    everywhere: Preferences
    rules: list[UsageRule]
    """The most specific first."""

    def at(self, path: str) -> Preferences:
        """For a comparable path that the agent may fetch: the most specific Content-Usage rule
        decides, of equals the more restrictive one (attach 3.1).
        """
        encoded = encode_reserved(path)
        found: list[Preferences] = []
        least = 0  # octets of the rules that match, if there are any
        for octets, patterns, usage, line in self.rules:
            if octets < least:
                break
            if not patterns or any(matches(each, path, encoded) for each in patterns):
                least = octets
                found.append(parse_usage(usage, line))
        return combine(*found, self.everywhere)


def stated_in(text: str, sections: Iterable[Section], dialect: Dialect) -> Stated:
    """What a text states for an agent, to whom `sections` of it are said."""
    rules: list[UsageRule] = []
    # What is said anywhere, and the signals that are said to the agent.
    whole: list[Preferences] = []
    group: list[Preferences] = []
    spans = [(start, end) for _, _, start, end in sections]  # in file order
    line = counted = 0
    for found in re.finditer(PREFERENCE_LINE, text):
        position = found.start()
        line += text.count("\n", counted, position + 1)
        counted = position + 1
        field, value = found[1].lower(), show_octets(trim(found[2].partition("#")[0]))
        before = bisect_right(spans, (position, len(text)))
        own = before > 0 and position < spans[before - 1][1]
        if field == LICENSE:
            whole.append(Preferences(licenses=(License(value, line),)))
        elif field == CONTENT_SIGNAL:
            whole.append(parse_signal(value, line))
            group += whole[-1:] if own else []
        elif own:
            path, usage = path_and_usage(value)
            patterns = tuple(patterns_of(path, dialect)) if path else ()
            rules.append((patterns[0][2] if patterns else 0, patterns, usage, line))
    # Sites and tools disagree whether a signal is of a group or of the file. Either reading may
    # say no; yes is what both say.
    everywhere, own_signals = combine(*whole), combine(*group)
    use, granted = everywhere.use, own_signals.grants_use
    if use.answer == USES[-1] and not granted:  # it restricts nothing
        use = NO_PREFERENCE
    categories = {
        category: preference
        for category, preference in everywhere.categories.items()
        if preference.answer == NO or category in own_signals.categories
    }
    rules.sort(key=itemgetter(0), reverse=True)
    everywhere = everywhere._replace(categories=categories, use=use, grants_use=granted)
    return Stated(everywhere, rules)


def faults(field: str, value: str) -> Iterator[tuple[str, str]]:
    """Code and detail of every note on a record of this `field`."""
    if field == LICENSE:
        if not re.match(ABSOLUTE_URL, value):
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


# Structured Fields (RFC 9651, RFC 8941): dictionaries, as far as tokens go.

BARE_ITEMS = (
    r"-?\d{1,12}\.\d{1,3}(?!\d)",  # decimal, 4.2.4
    r"-?\d{1,15}(?![\d.])",  # integer
    r'"(?:[ !#-\[\]-~]|\\["\\])*"',  # string, 4.2.5
    r"[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*",  # token, 4.2.6
    r":(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2,3}={0,2})?:",  # byte sequence, 4.2.7
    r"\?[01]",  # boolean, 4.2.8
    r"@-?\d{1,15}(?![\d.])",  # date, 4.2.9
    r'%"(?:[ !#$&-~]|%[0-9a-f]{2})*"',  # display string, 4.2.10
)
BARE = f"(?:{'|'.join(BARE_ITEMS)})"
MEMBER_KEY = r"[a-z*][a-z0-9_.*-]*"  # 4.2.3.3: lower case
PARAMETERS = rf"(?:; *{MEMBER_KEY}(?:={BARE})?)*"
ITEM = f"{BARE}{PARAMETERS}"
INNER_LIST = rf"\((?: *{ITEM}(?: +{ITEM})*)? *\){PARAMETERS}"
MEMBER = rf"(?a)({MEMBER_KEY})(?:=(?:({BARE}){PARAMETERS}|{INNER_LIST})|{PARAMETERS})"
MEMBER_SEPARATOR = r"[ \t]*(,?)[ \t]*"


def dictionary(text: str) -> dict[str, str | None] | None:
    """By key, the last where a key occurs twice (4.2.2); None: no dictionary.

    Of values that are no tokens None is given, of parameters nothing.
    """
    text = text.lstrip(" ")
    members: dict[str, str | None] = {}
    position = 0
    while position < len(text):
        found = re.compile(MEMBER).match(text, position)
        if found is None:
            return None
        key, value = found.groups()
        is_token = value and (value[0].isalpha() or value[0] == "*")
        members[key] = value if is_token else None
        between = re.compile(MEMBER_SEPARATOR).match(text, found.end())
        assert between is not None  # it may be empty
        position = between.end()
        if bool(between[1]) is (position == len(text)):
            return None  # a comma parts, and ends nothing
    return members


# /.well-known/tdmrep.json ("TDM File on the Origin Server"): an array of rules, of which the first
# whose ``location`` matches holds. Its notation is that of robots.txt, read as Google reads that. The
# headers of a page supersede the file.

WELL_KNOWN = "/.well-known/tdmrep.json"
MAX_RULES = 10_000
ANSWERS = {0: YES, 1: NO}
"""Of tdm-reservation; True and False are these numbers, too."""


class TdmRule(NamedTuple):
    location: str
    """A pattern of paths."""
    answer: str
    """"no": the rights are reserved; else "yes"."""
    policy: str
    """Its URL; "": none is named."""
    patterns: tuple[Pattern, ...]


def parse_tdmrep(body: bytes | str) -> tuple[TdmRule, ...]:
    """What is no rule is left out. Never raises."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ()
    rules = []
    for each in found[:MAX_RULES] if isinstance(found, list) else ():
        if not isinstance(each, dict):
            continue
        location, value = each.get("location"), each.get("tdm-reservation")
        policy = each.get("tdm-policy")
        if not isinstance(location, str) or not isinstance(value, int):
            continue
        patterns = tuple(patterns_of(location, RFC9309))
        if patterns and value in ANSWERS:
            named = policy if isinstance(policy, str) else ""
            rules.append(TdmRule(location, ANSWERS[value], named, patterns))
    return tuple(rules)


def tdm_preferences(rules: tuple[TdmRule, ...], url: str) -> Preferences:
    """`url` is absolute, or a path."""
    path = path_of(url, RFC9309)
    encoded = encode_reserved(path)
    for rule in rules:
        if any(matches(pattern, path, encoded) for pattern in rule.patterns):
            said = quote_record("tdmrep.json", rule.location)
            policies = (License(rule.policy, 0),) if rule.policy else ()
            return Preferences(
                {TDM: Preference(rule.answer, said)}, tdm_policies=policies
            )
    return EVERYTHING_UNSTATED
