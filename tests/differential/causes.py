"""Why another parser answers differently: each cause is a decision, or a section of the RFC.

Nothing is a cause by its looks. The question is asked again with what is suspected written
otherwise, in a way that means the same to us, and the other parser has to agree then.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, TypeVar

from scrapy_rep.protocol import RFC9309
from scrapy_rep.protocol.paths import path_of, without_dot_segments
from scrapy_rep.protocol.user_agents import IDENTIFIER
from tests.differential import matching, structure
from tests.differential.matching import SITE, Pair, matches
from tests.differential.others import RAISED, URLLIB, Case, Other, ours
from tests.differential.structure import AGENT

if TYPE_CHECKING:
    from collections.abc import Callable

Question = TypeVar("Question")

UNEXPLAINED = "unexplained"
RAISES = "RFC 9309 2.3.1.5: what cannot be read is skipped, and raises nothing"
DOTS = "D23: dot segments"
FIRST_MATCH = "RFC 9309 2.2.2: the most octets decide, not the first rule that matches"
OCTETS = "D22: octets count as they are once encoded"


def needed(
    steps: dict[str, Callable[[Question], Question]],
    question: Question,
    same: Callable[[Question], bool],
    agree: Callable[[Question], bool],
) -> list[str]:
    """The steps that the other parser needs to `agree`; empty: they do not help.

    A step is left out where our answer is not the `same` after it.
    """

    def after(causes: list[str]) -> Question:
        made = question
        for cause in causes:
            step = steps[cause](made)
            made = step if same(step) else made
        return made

    found = list(steps)
    if not agree(after(found)):
        return []
    for cause in steps:  # mostly there is one
        if agree(after([cause])):
            return [cause]
    for cause in reversed(list(steps)):
        fewer = [one for one in found if one != cause]
        if agree(after(fewer)):
            found = fewer
    return found


def without_all(case: Case) -> Case:
    for step in structure.STEPS.values():
        case = step(case)
    return case


def why_agents(case: Case, other: Other) -> str:
    """Of which kind the user-agent lines are that only one of the two reads as it does."""
    before = f"User-agent: {AGENT}\n{structure.NOTHING}\n"
    for value in sorted(
        {value for group in ours(case.text).groups for value in group.tokens}
    ):
        text = f"User-agent: {value}\nDisallow: /\n"
        # Does it name the agent, and does it begin a group?
        for one in Case(text, SITE, case.agent), Case(before + text, SITE, AGENT):
            if other.allowed(one) is not ours(one.text).allowed(one.url, one.agent):
                if value[:1] == "*":
                    return "D3: * with something behind it"
                if IDENTIFIER.fullmatch(value):
                    return "D1: another token than the agent's"
                return "D2: a user-agent line that is no token"
    return "D1: which of several tokens counts"


def causes_of_delay(case: Case, other: Other) -> list[str]:
    """Why another parser has another Crawl-delay; empty: nobody knows."""
    expected = ours(case.text).crawl_delay(case.agent)

    assert other.delay is not None
    delay = other.delay
    if delay(case) == RAISED:
        return [RAISES]
    found = needed(
        structure.DELAY_STEPS,
        case,
        lambda made: same_delay(ours(made.text).crawl_delay(made.agent), expected),
        lambda made: same_delay(delay(made), expected),
    )
    return named(found, case, other)


def same_delay(one: float | None, two: float | None) -> bool:
    """Apart from the fraction of a second that some parsers do not read."""
    return one == two or (
        one is not None and two is not None and ceil(one) == ceil(two)
    )


def named(causes: list[str], case: Case, other: Other) -> list[str]:
    return [
        why_agents(case, other) if cause == structure.AGENTS else cause
        for cause in causes
    ]


def causes_of_verdict(case: Case, other: Other) -> list[str]:
    """Why another parser has another verdict; empty: nobody knows."""
    expected = ours(case.text).allowed(case.url, case.agent)

    def same(made: Case) -> bool:
        return ours(made.text).allowed(made.url, made.agent) is expected

    if other.allowed(case) == RAISED:
        return [RAISES]
    path = path_of(case.url, RFC9309)
    resolved = case._replace(url=SITE + without_dot_segments(path))
    if resolved.url != SITE + path:
        if (other.allowed(case) and other.allowed(resolved)) is expected:
            return [DOTS]
        if same(resolved) and other.allowed(resolved) is not expected:
            case = resolved
    found = needed(
        structure.STEPS, case, same, lambda made: other.allowed(made) is expected
    )
    return (
        named(found, case, other)
        if found
        else causes_of_match(without_all(case), other)
    )


def causes_of_match(case: Case, other: Other) -> list[str]:
    """The same, where there is one group only."""
    expected = ours(case.text).allowed(case.url, AGENT)
    rules = [rule for group in ours(case.text).groups for rule in group.rules]
    pairs = [Pair(rule.allow, rule.path, case.url) for rule in rules]
    # What makes us say what we do, and what makes the other not.
    ours_only = [
        p for p in pairs if p.allow is expected and matches(p) and not matches(p, other)
    ]
    theirs = [
        p
        for p in pairs
        if p.allow is not expected and not matches(p) and matches(p, other)
    ]
    deciding = ours(case.text).verdict(case.url, AGENT).rule
    decisive = [
        p for p in ours_only if deciding is not None and p.rule == deciding.path
    ]
    if decisive or theirs or ours_only:
        found = {
            cause
            for pair in decisive or theirs or ours_only
            for cause in why_matches(pair, other)
        }
        return sorted(found)
    return why_order(case, other, expected)


def why_matches(pair: Pair, other: Other) -> list[str]:
    """Why a rule matches a URL to only one of the two."""
    steps = dict(matching.STEPS)
    if other is not URLLIB:
        del steps[matching.WILDCARDS]

    expected = matches(pair)
    found = needed(
        steps,
        pair,
        lambda made: matches(made) is expected,
        lambda made: matches(made, other) is expected,
    )
    return found or [UNEXPLAINED]


def why_order(case: Case, other: Other, expected: bool) -> list[str]:
    """Why another rule decides among those that match to both."""
    rules = ours(case.text).matching(case.url, AGENT)  # that which decides is the first
    fields = ["Allow" if rule.allow else "Disallow" for rule in rules]
    head = f"User-agent: {AGENT}\n"
    in_order = [
        f"{field}: {rule.path}" for field, rule in zip(fields, rules, strict=True)
    ]
    if other.allowed(case._replace(text=head + "\n".join(in_order))) is expected:
        return [FIRST_MATCH]
    lengths = range(len(rules), 0, -1)
    longest = [
        f"{field}: /{'a' * length}"
        for field, length in zip(fields, lengths, strict=True)
    ]
    case = Case(head + "\n".join(longest), f"{SITE}/{'a' * len(rules)}", AGENT)
    return [OCTETS] if other.allowed(case) is expected else []
