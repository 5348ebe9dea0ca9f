"""What holds for every robots.txt, searched for with Hypothesis.

The searches are repeatable and short. To look further, with other examples every time:

    HYPOTHESIS_PROFILE=many python -m pytest tests/protocol/test_properties.py
"""

from __future__ import annotations

import os
import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scrapy_rep.protocol import (
    GYM2008,
    MK1996,
    RFC9309,
    Dialect,
    Policy,
    parse,
    product_tokens,
)

from . import reference

# A shared machine may be slow at any moment: neither a deadline nor a slow start is a failure.
many = os.environ.get("HYPOTHESIS_PROFILE") == "many"
profile = settings(
    max_examples=50_000 if many else 100,
    deadline=None,
    derandomize=not many,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)

# Small alphabets, so that rules and URLs meet: special characters, escapes of "/", "/" and
# "?" themselves, the halves of an escape, and a few letters.
PIECES = [*"/ab*$%?.2F:&=C", "/", "%2F", "%2f", "%61", "%2A", "%24", "%3A", "%26", "%3d", "%3F", "%C", ".."]  # fmt: skip
OTHER_LINES = """\

# b
Disallow:
Allow:
disallow /a
user-agent a
Sitemap: /a
Crawl-delay: 2
Disallow: /a/index.html
Allow: /a/index.html
Allow: /index.htm
Disallow: /a # b
Disallow: /\u00e9
Disallow: /a b
Disalow: /ab
a b c
: /
""".splitlines()
OCTETS = b"User-agent: * \n \r Disallow: Allow:/ \xef\xbb\xbf \xff\xfe Crawl-delay: Request-rate:1/ Visit-time:09 Sitemap: % \x00".split(b" ")  # fmt: skip
paths = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)
urls = st.lists(st.sampled_from([*PIECES, "#", "\u00e9", " "]), max_size=9).map(
    lambda pieces: "/" + "".join(pieces)
)
tokens = st.sampled_from(["a", "b", "A", "ab", "*", "a/1.0", "a b", "b2", "* b"])
agents = st.sampled_from(["a", "b", "AB", "c"])
rules = st.builds(
    "{}: {}{}".format,
    st.sampled_from(["Allow", "Disallow"]),
    st.sampled_from(["/", "/", "/", "*", ""]),
    paths,
)
lines = st.one_of(
    rules,
    rules,
    rules,
    st.builds("User-agent: {}".format, tokens),
    st.sampled_from(OTHER_LINES),
    st.text("UserDisalow-agnt: /*#\t", max_size=12),
)
# Most files begin with a group, so that their rules belong to somebody.
files = st.builds(
    lambda first, rest: "\n".join(["User-agent: " + first, *rest]),
    tokens,
    st.lists(lines, max_size=12),
)
dialects = st.sampled_from([RFC9309, GYM2008, MK1996])
# Any str at all, lone surrogates included.
texts = st.text(st.characters(exclude_categories=[]), max_size=60)
# Octets that look like a robots.txt to a degree.
bodies = st.one_of(
    st.binary(max_size=80),
    files.map(str.encode),
    st.lists(
        st.one_of(st.binary(max_size=6), st.sampled_from(OCTETS)),
        max_size=20,
    ).map(b"".join),
)


def ask_everything(policy: Policy, url: str, agent: str) -> None:
    verdict = policy.verdict(url, agent)
    assert policy.allowed(url, agent) is verdict.allowed
    assert verdict.allowed or verdict.rule is not None
    for other in (agent, [agent, "b"], ()):
        assert policy.allowed(url, other) in (True, False)
        policy.crawl_delay(other)
        policy.request_rate(other)
        policy.visit_time(other)
        policy.denies_all(other)
        policy.matching(url, other)
        policy.groups_for(other)
    for note in policy.notes:
        assert note.line >= 0
        assert note.code
        assert note.message
    assert policy.sitemaps is not None
    assert policy.groups is not None
    assert policy.size_bytes() > 0


@pytest.mark.invariant7
@profile
@given(bodies, texts, texts, dialects)
def test_no_octets_raise(body: bytes, url: str, agent: str, dialect: Dialect) -> None:
    ask_everything(parse(body, dialect=dialect), url, agent)


@pytest.mark.invariant7
@profile
@given(texts, texts, texts, dialects)
def test_no_text_raises(body: str, url: str, agent: str, dialect: Dialect) -> None:
    ask_everything(parse(body, dialect=dialect), url, agent)


@profile
@given(
    bodies,
    st.one_of(texts, st.sampled_from(["utf-16", "utf-7", "hex", "cp037", "big5"])),
)
def test_no_encoding_raises(body: bytes, encoding: str) -> None:
    ask_everything(parse(body, encoding=encoding), "/a", "a")


@profile
@given(texts)
def test_product_tokens_are_words_of_the_header(header: str) -> None:
    for token in product_tokens(header):
        assert token
        assert token in header


@profile
@given(files, urls, agents)
def test_reference(robots: str, url: str, agent: str) -> None:
    body = robots.encode()
    policy = parse(body)
    expected = reference.allowed(body, url, agent)
    assert policy.allowed(url, agent) is expected
    assert policy.verdict(url, agent).allowed is expected
    assert parse(robots).allowed(f"https://example.com{url}", agent) is expected


@profile
@given(st.lists(rules, min_size=1, max_size=8), st.lists(urls, min_size=1, max_size=8))
def test_reference_for_one_group(group: list[str], targets: list[str]) -> None:
    body = "\n".join(["User-agent: *", *group]).encode()
    policy = parse(body)
    for url in targets:
        assert policy.allowed(url, "a") is reference.allowed(body, url, "a"), url


@profile
@given(files, urls, agents)
def test_the_rule_of_a_verdict_is_in_the_file(
    robots: str, url: str, agent: str
) -> None:
    verdict = parse(robots).verdict(url, agent)
    if verdict.rule is None:
        assert verdict.allowed
        return
    assert verdict.rule.allow is verdict.allowed
    assert verdict.reason == "rule"
    line = robots.split("\n")[verdict.rule.line - 1]
    assert verdict.rule.path in line
    assert any(verdict.rule in group.rules for group in parse(robots).groups)


@profile
@given(files, urls, agents, dialects)
def test_matching_begins_with_the_rule_that_decides(
    robots: str, url: str, agent: str, dialect: Dialect
) -> None:
    policy = parse(robots, dialect=dialect)
    verdict = policy.verdict(url, agent)
    matching = policy.matching(url, agent)
    if verdict.reason == "rule":
        assert matching[0] == verdict.rule
    elif verdict.reason != "robots.txt itself":
        assert matching == ()
    groups = policy.groups_for(agent)
    assert set(groups) <= set(policy.groups)
    assert set(matching) <= {rule for group in groups for rule in group.rules}
    assert len(set(matching)) == len(matching)
    assert bool(groups) is (verdict.group is not None)


@profile
@given(bodies, dialects, urls, agents)
def test_str_reparses_equal(
    body: bytes, dialect: Dialect, url: str, agent: str
) -> None:
    policy = parse(body, dialect=dialect)
    again = parse(str(policy), dialect=dialect)
    assert again == policy
    assert again.allowed(url, agent) is policy.allowed(url, agent)
    assert again.crawl_delay(agent) == policy.crawl_delay(agent)
    assert again.sitemaps == policy.sitemaps


@profile
@given(st.one_of(bodies, texts), dialects, urls, agents)
def test_pickle(body: bytes | str, dialect: Dialect, url: str, agent: str) -> None:
    policy = parse(body, dialect=dialect)
    again = pickle.loads(pickle.dumps(policy))
    assert again == policy
    assert again.verdict(url, agent) == policy.verdict(url, agent)


@profile
@given(files, st.lists(rules, max_size=3), urls, agents)
def test_an_unrelated_group_changes_no_verdict(
    robots: str, unrelated: list[str], url: str, agent: str
) -> None:
    # In front, not behind: a file may end in a user-agent line, which would join it. And
    # with a rule of its own, so that the first user-agent line of the file opens a group.
    more = "\n".join(["User-agent: unrelated", *unrelated, "Disallow: /", robots])
    before, after = parse(robots).verdict(url, agent), parse(more).verdict(url, agent)
    assert (after.allowed, after.reason, after.group) == (
        before.allowed,
        before.reason,
        before.group,
    )
    assert (after.rule and after.rule.path) == (before.rule and before.rule.path)


@profile
@given(files, urls, agents, dialects)
def test_line_ends_are_equivalent(
    robots: str, url: str, agent: str, dialect: Dialect
) -> None:
    expected = parse(robots, dialect=dialect)
    for end in ("\r", "\r\n"):
        policy = parse(robots.replace("\n", end), dialect=dialect)
        assert policy.verdict(url, agent) == expected.verdict(url, agent)
        assert policy.groups == expected.groups
        assert policy.crawl_delay(agent) == expected.crawl_delay(agent)


@profile
@given(files, urls, agents)
def test_case_of_tokens_and_fields_is_irrelevant(
    robots: str, url: str, agent: str
) -> None:
    expected = parse(robots).allowed(url, agent)
    assert parse(robots).allowed(url, agent.swapcase()) is expected
    swapped = "\n".join(
        line.swapcase() if line.lower().startswith("user-agent:") else line
        for line in robots.split("\n")
    )
    assert parse(swapped).allowed(url, agent) is expected


@profile
@given(files, urls, agents)
def test_what_was_asked_before_changes_nothing(
    robots: str, url: str, agent: str
) -> None:
    policy = parse(robots)
    for other in ("c", "b", "a", "c"):
        policy.allowed("/a", other)
    assert policy.verdict(url, agent) == parse(robots).verdict(url, agent)


@profile
@given(st.lists(rules, max_size=8), urls, st.randoms(use_true_random=False))
def test_order_of_rules_is_irrelevant(
    group: list[str], url: str, random: object
) -> None:
    def robots(order: list[str]) -> str:
        return "\n".join(["User-agent: *", *order])

    shuffled = list(group)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert parse(robots(shuffled)).allowed(url, "a") is parse(robots(group)).allowed(
        url, "a"
    )
