"""What a Policy is, apart from what it decides: a value that prints, pickles and compares.

The numbers that begin an id are those of the project's checklist of REP statements, see
tests/README.rst.
"""

from __future__ import annotations

import copy
import pickle
from datetime import time
from typing import Any

import pytest

from scrapy_rep import protocol
from scrapy_rep.protocol import (
    COMPILED,
    GYM2008,
    MK1996,
    RFC9309,
    Dialect,
    Group,
    Note,
    Policy,
    RequestRate,
    Rule,
    Verdict,
    VisitTime,
    parse,
)
from scrapy_rep.protocol.ruleset import RuleSet

ROBOTS = """\
# an example
User-agent: FooBot/1.0
User-agent: *
Disallow: /a b/*.gif$ # pictures
Allow: /\u30c4
Crawl-delay: 2.5
Request-rate: 1/10s 0600-0845
Visit-time: 2200-0400
Sitemap: https://example.com/sitemap.xml

Useragent barbot
Disalow /%7e
Disallow:
"""


@pytest.mark.parametrize(
    "name",
    [
        "Dialect",
        "GYM2008",
        "Group",
        "MK1996",
        "Note",
        "Policy",
        "RFC9309",
        "RequestRate",
        "Rule",
        "Verdict",
        "VisitTime",
        "parse",
        "product_tokens",
    ],
)
def test_exported(name: str) -> None:
    assert name in protocol.__all__
    assert hasattr(protocol, name)


def test_types() -> None:
    policy = parse(ROBOTS)
    assert isinstance(policy, Policy)
    assert isinstance(policy.verdict("/", "a"), Verdict)
    assert isinstance(policy.sitemaps, tuple)
    assert isinstance(policy.groups, tuple)
    assert isinstance(policy.notes, tuple)
    assert all(isinstance(group, Group) for group in policy.groups)
    assert all(
        isinstance(rule, Rule) for group in policy.groups for rule in group.rules
    )
    assert all(isinstance(note, Note) for note in policy.notes)
    assert policy.notes
    assert isinstance(policy.crawl_delay("foobot"), float)
    assert policy.request_rate("foobot") == RequestRate(1, 10, time(6), time(8, 45))
    assert policy.visit_time("foobot") == VisitTime(time(22), time(4))


def named(argument: str) -> str:
    """What the error says of a wrong *argument*: mypyc's own check names the type only."""
    return f"{argument}|object expected" if COMPILED else argument


@pytest.mark.parametrize("body", [None, 5, ["User-agent: *"], object()])
def test_body_of_a_wrong_type(body: Any) -> None:
    with pytest.raises(TypeError, match=named("body")):
        parse(body)


@pytest.mark.parametrize("dialect", [None, "rfc9309", 9309])
def test_dialect_of_a_wrong_type(dialect: Any) -> None:
    with pytest.raises(TypeError, match="dialect"):
        parse("", dialect=dialect)


@pytest.mark.parametrize("encoding", [5, b"utf-8"])
def test_encoding_of_a_wrong_type(encoding: Any) -> None:
    with pytest.raises(TypeError, match=named("encoding")):
        parse(b"", encoding=encoding)


@pytest.mark.parametrize("url", [None, 5, b"/x"])
def test_url_of_a_wrong_type(url: Any) -> None:
    for policy in (parse(ROBOTS), parse("")):
        with pytest.raises(TypeError, match=named("url")):
            policy.allowed(url, "a")


@pytest.mark.parametrize("agent", [None, 5, b"a", [5], [b"a"]])
def test_agent_of_a_wrong_type(agent: Any) -> None:
    policy = parse(ROBOTS)
    with pytest.raises(TypeError, match=named("agent")):
        policy.allowed("/x", agent)
    with pytest.raises(TypeError, match=named("agent")):
        policy.crawl_delay(agent)


@pytest.mark.parametrize(
    "value",
    [
        Rule(allow=True, path="/", line=1),
        Group(tokens=("a",), rules=(), line=1),
        RequestRate(1, 10, None, None),
        VisitTime(time(6), time(8)),
        parse("User-agent: *\nDisallow: /").verdict("/", "a"),
        *parse("nonsense line here").notes[:1],
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_cannot_be_changed(value: Any) -> None:
    for name in ("allow", "tokens", "requests", "start", "allowed", "line"):
        if hasattr(value, name):
            with pytest.raises(AttributeError):
                setattr(value, name, None)
    assert hash(value) == hash(copy.copy(value))
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize(
    "dialect", [RFC9309, GYM2008, MK1996], ids=["RFC9309", "GYM2008", "MK1996"]
)
def test_pickle(dialect: Dialect) -> None:
    policy = parse(ROBOTS, dialect=dialect)
    for asked_before in (False, True):
        if asked_before:  # whatever was compiled for an agent must not get in the way
            policy.verdict("/x", "foobot")
            policy.crawl_delay("other")
        for protocol_number in range(2, pickle.HIGHEST_PROTOCOL + 1):
            again = pickle.loads(pickle.dumps(policy, protocol_number))
            assert again == policy
            assert again.groups == policy.groups
            assert again.sitemaps == policy.sitemaps
            assert again.notes == policy.notes
            assert again.verdict("/~x", "barbot") == policy.verdict("/~x", "barbot")
            assert again.crawl_delay("foobot") == policy.crawl_delay("foobot")


@pytest.mark.parametrize(
    "dialect", [RFC9309, GYM2008, MK1996], ids=["RFC9309", "GYM2008", "MK1996"]
)
def test_str_reparses(dialect: Dialect) -> None:
    policy = parse(ROBOTS, dialect=dialect)
    again = parse(str(policy), dialect=dialect)
    assert again == policy
    assert str(again) == str(policy)
    assert parse(str(policy).encode(), dialect=dialect) == policy


def test_equality() -> None:
    assert parse(ROBOTS) == parse(ROBOTS)
    assert parse(ROBOTS) == parse(ROBOTS.encode())
    assert parse(ROBOTS) != parse(ROBOTS.replace("/%7e", "/%7f"))
    assert parse("User-agent: a\nDisallow: /\n") != parse(
        "User-agent: b\nDisallow: /\n"
    )
    assert parse("User-agent: a\nDisallow: /\n") != parse("User-agent: a\nAllow: /\n")
    assert parse("User-agent: a\nCrawl-delay: 1\n") != parse(
        "User-agent: a\nCrawl-delay: 2\n"
    )
    assert parse("Sitemap: https://a/\n") != parse("Sitemap: https://b/\n")
    assert parse(ROBOTS) != ROBOTS
    assert parse(ROBOTS) is not None


def test_equality_does_not_depend_on_what_was_asked() -> None:
    asked, fresh = parse(ROBOTS), parse(ROBOTS)
    asked.verdict("/x", "foobot")
    assert asked == fresh


def test_allow_all() -> None:
    policy = Policy.allow_all(reason="robots.txt: 404")
    assert policy.allowed("https://example.com/x", "a") is True
    verdict = policy.verdict("/x", "a")
    assert (verdict.allowed, verdict.rule, verdict.group) == (True, None, None)
    assert verdict.reason == "robots.txt: 404"
    assert policy.denies_all("a") is False


def test_disallow_all() -> None:
    policy = Policy.disallow_all(reason="robots.txt: 503")
    assert policy.allowed("https://example.com/x", "a") is False
    verdict = policy.verdict("/x", "a")
    assert (verdict.allowed, verdict.rule, verdict.group) == (False, None, None)
    assert verdict.reason == "robots.txt: 503"
    assert policy.denies_all("a") is True


def test_disallow_all_leaves_robots_txt() -> None:
    # 19: it is asked for again while it is unreachable
    policy = Policy.disallow_all(reason="timeout")
    assert policy.allowed("https://example.com/robots.txt", "a") is True
    verdict = policy.verdict("/robots.txt", "a")
    assert (verdict.rule, verdict.group) == (None, None)
    assert verdict.reason == "robots.txt itself"


@pytest.mark.parametrize(
    "policy", [Policy.allow_all(), Policy.disallow_all()], ids=["allow", "disallow"]
)
def test_all_or_nothing_have_no_values(policy: Policy) -> None:
    assert policy.crawl_delay("a") is None
    assert policy.request_rate("a") is None
    assert policy.visit_time("a") is None
    assert policy.sitemaps == ()
    assert policy.notes == ()
    assert policy.verdict("/x", "a").reason
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert parse(str(policy)).allowed("/x", "a") is policy.allowed("/x", "a")


def test_all_or_nothing_differ() -> None:
    assert Policy.allow_all() != Policy.disallow_all()
    assert Policy.allow_all() == Policy.allow_all()
    assert (
        pickle.loads(pickle.dumps(Policy.disallow_all(reason="x")))
        .verdict("/y", "a")
        .reason
        == "x"
    )


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("Disallow: /", True),
        ("Disallow: *", True),
        ("Disallow: /*", True),
        ("Disallow: /\nDisallow: /x", True),
        ("Disallow: /\nAllow:", True),
        ("Disallow: /\nDisallow:", True),
        ("Disallow: /\nAllow: /x", False),
        ("Disallow: /\nAllow: /", False),
        ("Disallow: /x", False),
        ("Disallow: /$", False),
        ("Disallow:", False),
        ("Disallow: x", False),
        ("Allow: /", False),
        ("", False),
    ],
)
def test_denies_all(rules: str, expected: bool) -> None:
    policy = parse(f"User-agent: a\n{rules}\n")
    assert policy.denies_all("a") is expected
    assert policy.denies_all("b") is False


def test_denies_all_of_an_empty_file() -> None:
    assert parse("").denies_all("a") is False


def test_matching_is_in_the_order_of_deciding() -> None:
    rules = "Disallow: /a\nAllow: /a/b\nDisallow: /*b\nDisallow: /a/b\nDisallow: /c\n"
    policy = parse(f"User-agent: a\n{rules}\nUser-agent: *\nDisallow: /\n")
    lines = [rule.line for rule in policy.matching("/a/b", "a")]
    assert lines == [3, 5, 4, 2]  # RFC 9309 2.2.2: the most octets, Allow among equals
    assert policy.matching("/x", "a") == ()
    older = parse(str(policy), dialect=GYM2008)
    assert [rule.line for rule in older.matching("/a/b", "a")] == [2, 3, 4, 5]


def test_a_rule_matches_once_whatever_its_readings() -> None:
    policy = parse("User-agent: *\nAllow: /a/index.html\nDisallow: /a/\n")
    assert [rule.line for rule in policy.matching("/a/", "a")] == [2, 3]
    assert [rule.line for rule in policy.matching("/a/index.html", "a")] == [2, 3]


def test_matching_robots_txt_itself_decides_nothing() -> None:
    policy = parse("User-agent: *\nDisallow: /\n")
    assert [rule.line for rule in policy.matching("/robots.txt", "a")] == [2]


def test_groups_for_are_those_that_hold() -> None:
    policy = parse("User-agent: a\nAllow: /\nUser-agent: *\nUser-agent: A\nAllow: /")
    assert [group.line for group in policy.groups_for("a/1.0")] == [1, 3]
    assert [group.line for group in policy.groups_for("b")] == [3]
    assert policy.groups_for(["b", "a"]) == policy.groups
    assert parse("User-agent: a\nAllow: /").groups_for("b") == ()


@pytest.mark.parametrize("policy", [Policy.allow_all(), Policy.disallow_all()])
def test_what_stands_for_a_file_has_no_lines_to_show(policy: Policy) -> None:
    assert policy.matching("/", "a") == ()
    assert policy.groups_for("a") == ()


def test_size_bytes() -> None:
    small, large = parse("User-agent: *\nDisallow: /x\n"), parse(ROBOTS * 1000)
    assert 0 < small.size_bytes() < 20_000
    assert large.size_bytes() > 100_000
    assert Policy.disallow_all().size_bytes() > 0


def test_verdicts_that_are_asked_for_again() -> None:
    """One score may be that of several rules, or of one, or of none."""
    policy = parse("User-agent: *\nDisallow: /ab\nDisallow: /cd\nDisallow: /efg\n")
    for _ in range(3):
        lines = [
            rule and rule.line
            for rule in (
                policy.verdict(path, "bot").rule
                for path in ("/ab", "/cd", "/efg", "/h", "/cd1", "/ab1")
            )
        ]
        assert lines == [2, 3, 4, None, 3, 2]


def test_an_agent_that_asks_while_the_rules_of_another_are_compiled(monkeypatch):
    """As another thread may: each gets its own rules, then and later."""
    policy = parse("User-agent: one\nDisallow: /1\n\nUser-agent: two\nDisallow: /2\n")

    def compiled(*args):
        monkeypatch.undo()
        assert not policy.allowed("/2", "two")
        assert policy.allowed("/1", "two")
        return RuleSet(*args)

    monkeypatch.setattr("scrapy_rep.protocol.policy.RuleSet", compiled)
    for _ in range(2):
        assert not policy.allowed("/1", "one")
        assert policy.allowed("/2", "one")
        assert not policy.allowed("/2", "two")
        assert policy.allowed("/1", "two")
