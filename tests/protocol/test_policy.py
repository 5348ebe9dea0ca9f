"""What a Policy is, apart from what it decides: a value that prints, pickles and compares."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from scrapy_rep.protocol import (
    COMPILED,
    GYM2008,
    MK1996,
    RFC9309,
    Dialect,
    Group,
    Policy,
    Rule,
    parse,
)
from scrapy_rep.protocol.ruleset import RuleSet
from tests.conformance import params, table

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
SECTION_5_1 = next(
    row["file"] for row in table("2.1-groups") if row["name"].startswith("30-")
)
DIALECTS = pytest.mark.parametrize(
    "dialect", [RFC9309, GYM2008, MK1996], ids=lambda each: each.name
)


def test_groups() -> None:
    rules = [
        [(False, "*.gif$", 2), (False, "/example/", 3), (True, "/publications/", 4)],
        [(False, "/", 7), (True, "/example/page.html", 8), (True, "/example/allowed.gif", 9)],
        [(False, "/example/page.html", 13)], [],
    ]  # fmt: skip
    heads = [
        (("*",), 1),
        (("foobot",), 6),
        (("barbot", "bazbot"), 11),
        (("quxbot",), 15),
    ]
    assert parse(SECTION_5_1).groups == tuple(
        Group(tokens, tuple(Rule(*rule) for rule in its), line)
        for (tokens, line), its in zip(heads, rules, strict=True)
    )
    for robots in ("", "# nothing\n", "Disallow: /\n", "Sitemap: https://a/\n"):
        assert parse(robots).groups == ()


def test_groups_for_are_those_that_hold() -> None:
    policy = parse("User-agent: a\nAllow: /\nUser-agent: *\nUser-agent: A\nAllow: /")
    assert [group.line for group in policy.groups_for("a/1.0")] == [1, 3]
    assert [group.line for group in policy.groups_for("b")] == [3]
    assert policy.groups_for(["b", "a"]) == policy.groups
    assert parse("User-agent: a\nAllow: /").groups_for("b") == ()


@pytest.mark.parametrize(
    ("agent", "group"),
    [("foobot", ("foobot",)), ("x", ("*",)), ("bazbot", ("barbot", "bazbot")), ("quxbot", ("quxbot",))],
)  # fmt: skip
def test_a_verdict_names_the_user_agent_lines_as_written(agent, group) -> None:
    assert parse(SECTION_5_1).verdict("/example/page.html", agent).group == group
    assert parse("User-agent: FooBot/1.0").verdict("/", "foobot").group == (
        "FooBot/1.0",
    )
    assert parse("User-agent: a").verdict("/", "b").group is None


def named(argument: str) -> str:
    """What the error says of a wrong *argument*: mypyc's own check names the type only."""
    return f"{argument}|object expected" if COMPILED else argument


WRONG: list[tuple[str, Any]] = [
    *(("body", body) for body in (None, 5, ["User-agent: *"], object())),
    *(("dialect", dialect) for dialect in (None, "rfc9309", 9309)),
    *(("encoding", encoding) for encoding in (5, b"utf-8")),
    *(("url", url) for url in (None, 5, b"/x")),
    *(("agent", agent) for agent in (None, 5, b"a", [5], [b"a"])),
]


@pytest.mark.parametrize(("argument", "value"), WRONG)
def test_an_argument_of_a_wrong_type(argument: str, value: Any) -> None:
    for body in (ROBOTS, ""):
        given = {"body": body, "url": "/x", "agent": "a"} | {argument: value}
        url, agent = given.pop("url"), given.pop("agent")
        with pytest.raises(TypeError, match=named(argument)):
            parse(**given).allowed(url, agent)
    for ask in (Policy.crawl_delay, Policy.groups_for, Policy.denies_all):
        if argument == "agent":
            with pytest.raises(TypeError, match=named(argument)):
                ask(parse(ROBOTS), value)
    if argument == "url":
        for asked in (Policy.verdict, Policy.matching, Policy.preferences):
            with pytest.raises(TypeError, match=named(argument)):
                asked(parse(ROBOTS), value, "a")


@DIALECTS
@pytest.mark.parametrize("asked_before", [False, True])
def test_pickle_and_str(dialect: Dialect, asked_before: bool) -> None:
    policy = parse(ROBOTS, dialect=dialect)
    if asked_before:  # whatever was compiled for an agent must not get in the way
        policy.verdict("/x", "foobot")
        policy.crawl_delay("other")
    for number in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(policy, number))
        assert again == policy
        for name in ("groups", "sitemaps", "notes"):
            assert getattr(again, name) == getattr(policy, name) != ()
        assert again.verdict("/~x", "barbot") == policy.verdict("/~x", "barbot")
        assert again.crawl_delay("foobot") == policy.crawl_delay("foobot")
    again = parse(str(policy), dialect=dialect)
    assert again == policy == parse(str(policy).encode(), dialect=dialect)
    assert str(again) == str(policy)


def test_equality() -> None:
    asked = parse(ROBOTS)
    asked.verdict("/x", "foobot")
    assert parse(ROBOTS) == asked == parse(ROBOTS.encode())
    groups = (
        "User-agent: a\nDisallow: /", "User-agent: b\nDisallow: /", "User-agent: a\nAllow: /",
        "User-agent: a\nCrawl-delay: 1", "User-agent: a\nCrawl-delay: 2",
        "User-agent: a\nRequest-rate: 1/2", "User-agent: a\nVisit-time: 0100-0200",
        "User-agent: a\nContent-Usage: search=y", "Sitemap: https://a/", "Sitemap: https://b/",
    )  # fmt: skip
    differ = [ROBOTS, ROBOTS.replace("/%7e", "/%7f"), *groups]
    for one, text in enumerate(differ):
        for other, another in enumerate(differ):
            assert (parse(text) == parse(another)) is (one == other)
    assert parse(ROBOTS) != ROBOTS
    assert Policy.allow_all() != Policy.disallow_all()
    assert Policy.allow_all() == Policy.allow_all()


@pytest.mark.parametrize("allows", [True, False])
def test_allow_all_and_disallow_all(allows: bool) -> None:
    make = Policy.allow_all if allows else Policy.disallow_all
    policy = make(reason="robots.txt: 404")
    for each in (policy, pickle.loads(pickle.dumps(policy))):
        assert each == policy
        assert each.allowed("https://example.com/x", "a") is allows
        assert each.verdict("/x", "a") == (allows, None, None, "robots.txt: 404")
    assert make().verdict("/x", "a").reason
    assert policy.denies_all("a") is not allows
    for ask in (policy.crawl_delay, policy.request_rate, policy.visit_time):
        assert ask("a") is None
    assert not policy.sitemaps + policy.notes
    assert not policy.matching("/", "a") + policy.groups_for("a")
    assert 0 < policy.size_bytes() < 20_000 < parse(ROBOTS * 1000).size_bytes()
    assert parse(str(policy)).allowed("/x", "a") is allows
    # 19: it is asked for again while it is unreachable
    assert policy.allowed("https://example.com/robots.txt", "a") is True
    assert policy.verdict("/robots.txt", "a") == (True, None, None, "robots.txt itself")


@pytest.mark.parametrize(("rules", "all_"), params("2.2.2-rules", "{}", "denies_all"))
def test_denies_all(rules, all_):
    policy = parse(f"User-agent: a\n{rules}\n")
    assert policy.denies_all("a") is (all_ == "yes")
    assert policy.denies_all("b") is parse("").denies_all("a") is False


def test_verdicts_that_are_asked_for_again() -> None:
    """One score may be that of several rules, or of one, or of none."""
    policy = parse("User-agent: *\nDisallow: /ab\nDisallow: /cd\nDisallow: /efg\n")
    for _ in range(3):
        found = [
            policy.verdict(path, "bot").rule
            for path in ["/ab", "/cd", "/efg", "/h", "/cd1", "/ab1"]
        ]
        assert [rule and rule.line for rule in found] == [2, 3, 4, None, 3, 2]


def test_an_agent_that_asks_while_the_rules_of_another_are_compiled(monkeypatch):
    """As another thread may: each gets its own rules, then and later."""
    policy = parse("User-agent: one\nDisallow: /1\n\nUser-agent: two\nDisallow: /2\n")

    def answers():
        return [
            policy.allowed(*each)
            for each in (("/1", "two"), ("/2", "two"), ("/1", "one"))
        ]

    def compiled(*args):
        monkeypatch.undo()
        assert answers()[:2] == [True, False]
        return RuleSet(*args)

    monkeypatch.setattr("scrapy_rep.protocol.policy.RuleSet", compiled)
    assert policy.allowed("/2", "one")
    for _ in range(2):
        assert answers() == [True, False, False]
