"""The presets of Dialect beyond their table in `tests/conformance`: the documents of 1996, values."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from scrapy_rep.protocol import GYM2008, MK1996, RFC9309, Dialect, parse

ALL = pytest.mark.parametrize(
    "dialect", [RFC9309, GYM2008, MK1996], ids=lambda each: each.name
)
OLDER = pytest.mark.parametrize(
    "dialect", [GYM2008, MK1996], ids=lambda each: each.name
)


@OLDER
def test_the_first_rule_that_matches_is_named(dialect: Dialect) -> None:
    verdict = parse(
        "User-agent: *\nDisallow: /x\nDisallow: /x/y\n", dialect=dialect
    ).verdict("/x/y", "a")
    assert (verdict.rule, verdict.group) == ((False, "/x", 2), ("*",))
    # One that is written twice moves no other.
    rules = "Disallow: /a\nDisallow: /a\nAllow: /b\nDisallow: /\nAllow: /a\n"
    policy = parse(f"User-agent: *\n{rules}", dialect=dialect)
    found = [policy.verdict(path, "bot").rule for path in ("/a", "/b", "/c")]
    assert [rule.line for rule in found if rule is not None] == [2, 4, 5]


@ALL
def test_other_records_in_every_dialect(dialect: Dialect) -> None:
    robots = "User-agent: a\nCrawl-delay: 2.5\nDisallow: /x\nSitemap: https://a/\n"
    policy = parse(robots, dialect=dialect)
    assert policy.sitemaps == ("https://a/",)
    assert policy.crawl_delay("a") == 2.5


@ALL
def test_dialects_are_frozen_values(dialect: Dialect) -> None:
    robots = "User-agent: *\nAllow: /\nDisallow: /x\n"
    assert (parse(robots) == parse(robots, dialect=dialect)) is (dialect == RFC9309)
    assert len({RFC9309, GYM2008, MK1996}) == 3
    assert pickle.loads(pickle.dumps(dialect)) == dialect
    with pytest.raises(AttributeError):
        dialect.name = "mine"  # type: ignore[misc]


def test_what_the_older_ones_say_of_answers() -> None:
    assert MK1996.default_lifetime == 7 * 24 * 3600
    assert MK1996.deny_statuses == {401, 403}
    assert (RFC9309.default_lifetime, GYM2008.default_lifetime) == (None, None)
    assert RFC9309.deny_statuses == GYM2008.deny_statuses == frozenset()


def test_an_empty_rule_is_named_where_it_counts() -> None:
    dialect = dataclasses.replace(RFC9309, name="blank", blank_rules_count=True)
    verdict = parse("User-agent: *\nDisallow:\n", dialect=dialect).verdict("/x", "bot")
    assert (verdict.rule, verdict.reason) == ((False, "", 2), "rule")
