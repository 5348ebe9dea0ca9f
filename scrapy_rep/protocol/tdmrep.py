"""``/.well-known/tdmrep.json``: what a site reserves of text and data mining, for all its pages.

TDMRep, W3C community group report of 2024-05, "TDM File on the Origin Server": an array of rules;
the first whose ``location`` matches holds. Its notation is that of robots.txt, and is read as
Google reads that, as the report says. The headers of a page supersede the file.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.paths import encode_reserved, path_of
from scrapy_rep.protocol.preferences import (
    EVERYTHING_UNSTATED,
    NO,
    YES,
    License,
    Preference,
    Preferences,
    quote_record,
)
from scrapy_rep.protocol.rules import patterns_of
from scrapy_rep.protocol.wildcards import parts_occur

if TYPE_CHECKING:
    from scrapy_rep.protocol.rules import Pattern

WELL_KNOWN = "/.well-known/tdmrep.json"
MAX_RULES = 10_000
ANSWERS = {0: YES, 1: NO}
"""Of tdm-reservation; also True and False, which are these numbers to Python."""


class TdmRule(NamedTuple):
    """One rule of a file."""

    location: str
    """A pattern of paths, as written."""
    answer: str
    """"no" where the rights are reserved, else "yes"."""
    policy: str
    """The URL of the policy, as written; "": none is named."""
    patterns: tuple[Pattern, ...]


def parse_tdmrep(body: bytes | str) -> tuple[TdmRule, ...]:
    """The rules of a file, in its order; what is none is left out. Never raises."""
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
    """What `rules` say of `url`, an absolute URL or a path."""
    path = path_of(url, RFC9309)
    encoded = encode_reserved(path)
    for rule in rules:
        for its in rule.patterns:
            if parts_occur(its.parts, its.anchored, encoded if its.encoded else path):
                said = quote_record("tdmrep.json", rule.location)
                policies = (License(rule.policy, 0),) if rule.policy else ()
                return Preferences(
                    {"tdm": Preference(rule.answer, said)}, tdm_policies=policies
                )
    return EVERYTHING_UNSTATED
