"""The tables of `tests/conformance`: each row asked of the parser, and of a slow one to compare."""

from __future__ import annotations

import dataclasses
import pickle
import re
from pathlib import Path

import pytest

from scrapy_rep.protocol import GYM2008, MK1996, RFC9309, Dialect, Rule, parse
from tests.conformance import Row, params, table, verdicts
from tests.fuzz.run import fuzz

from . import reference


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in verdicts()])
def test_verdict(row: Row) -> None:
    policies = [parse(row.body)]
    text = row.body.decode("utf-8", "replace")
    if text.encode() == row.body:
        policies.append(parse(text))
    for url in {
        row.url,
        row.url if "://" in row.url else f"https://a.example{row.url}",
    }:
        assert reference.allowed(row.body, url, row.agent) is row.allowed
        for policy in policies:
            assert policy.allowed(url, row.agent) is row.allowed
            assert policy.verdict(url, row.agent).allowed is row.allowed


@pytest.mark.parametrize(
    ("file", "agent", "url", "line", "reason"),
    params("2.2.2-rules", "file", "agent", "url", "line", "reason"),
)
def test_the_rule_that_a_verdict_names(file, agent, url, line, reason):
    policy = parse(file)
    verdict = policy.verdict(url, agent)
    assert (verdict.rule.line if verdict.rule else 0, verdict.reason) == (
        int(line),
        reason,
    )
    if verdict.rule is not None:
        written = (
            file.replace("\r\n", "\n").replace("\r", "\n").split("\n")[int(line) - 1]
        )
        assert verdict.rule == Rule(
            verdict.allowed,
            written.partition("#")[0].partition(":")[2].strip(),
            int(line),
        )
        assert policy.matching(url, agent)[0] == verdict.rule


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row["name"]) for row in table("dialects")]
)
def test_dialects(row):
    url = row["url"]
    for dialect in (RFC9309, GYM2008, MK1996):
        policy = parse(row["file"], dialect=dialect)
        allowed = row[dialect.name.upper()] == "yes"
        for origin in ("",) if "://" in url else ("", "https://example.com"):
            assert policy.allowed(origin + url, row["agent"]) is allowed, dialect


@pytest.mark.parametrize(
    ("file", "header", "refused"),
    params("2.2.1-user-agents", "file", "header", "refused"),
)
def test_the_group_of_a_user_agent_header(file, header, refused):
    policy = parse(file)
    paths = {rule.path for group in policy.groups for rule in group.rules}
    assert {path for path in paths if not policy.allowed(path, header)} == {refused}


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


TESTS = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("octets", "charset", "line", "code"),
    params("lint", "octets", "charset", "line", "code"),
)
def test_the_owner_is_told(octets, charset, line, code):
    notes = parse(octets.encode("latin-1"), encoding=charset or None).notes
    assert (int(line), code) in {(note.line, note.code) for note in notes}


LISTED = re.findall(
    r"^(D\d+) ", (TESTS / "conformance/README.rst").read_text("utf-8"), re.MULTILINE
)
NAMES = "\n".join(
    name
    for path in [*TESTS.rglob("test_*.py"), *TESTS.glob("conformance/[2d]*.txt")]
    for name in re.findall(
        r"\bdef test_\w+|[\"']\S+[\"']|^[D\d]\S+-\S+",
        path.read_text("utf-8"),
        re.MULTILINE,
    )
)


def test_decisions_are_listed():
    assert LISTED


@pytest.mark.parametrize("decision", LISTED)
def test_some_test_is_named_for_each(decision: str) -> None:
    assert re.search(rf"\b{decision}-|_{decision.lower()}_", NAMES)


@pytest.mark.invariant7
@pytest.mark.parametrize(
    ("target", "count"), [("parse", 600), ("same", 600), ("verdict", 900)]
)
def test_nothing_is_found(target: str, count: int) -> None:
    tally = fuzz(target, count, 9309)
    assert tally.findings == []
    assert tally.decided > count / 3
