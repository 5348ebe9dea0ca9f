"""Where the presets of Dialect differ: one file, judged three ways."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from scrapy_rep.protocol import GYM2008, MK1996, RFC9309, Dialect, parse

HEADER = "FigTree/0.1 Robot/1.0 libwww-perl/5.04"

# robots.txt, agent, URL, and whether RFC9309, GYM2008 and MK1996 allow it
CASES = [
    # the most specific rule, or the first that matches
    (
        "first-match-allow",
        "User-agent: *\nAllow: /\nDisallow: /x",
        "a",
        "/x",
        (False, True, True),
    ),
    (
        "first-match-disallow",
        "User-agent: *\nDisallow: /\nAllow: /x",
        "a",
        "/x",
        (True, False, False),
    ),
    (
        "first-match-agrees",
        "User-agent: *\nAllow: /x/y\nDisallow: /x",
        "a",
        "/x/y",
        (True, True, True),
    ),
    (
        "first-match-tie",
        "User-agent: *\nDisallow: /x\nAllow: /x",
        "a",
        "/x",
        (True, False, False),
    ),
    ("no-match", "User-agent: *\nDisallow: /x", "a", "/y", (True, True, True)),
    ("prefix", "User-agent: *\nDisallow: /x", "a", "/x/y.html", (False, False, False)),
    # special characters
    ("star", "User-agent: *\nDisallow: /a*b", "a", "/axb", (False, False, True)),
    (
        "star-first",
        "User-agent: *\nDisallow: *.gif",
        "a",
        "/x.gif",
        (False, False, True),
    ),
    ("star-alone", "User-agent: *\nDisallow: *", "a", "/x", (False, False, True)),
    (
        "star-verbatim",
        "User-agent: *\nDisallow: /a*b",
        "a",
        "/a*b",
        (False, False, False),
    ),
    ("star-trailing", "User-agent: *\nDisallow: /a*", "a", "/ab", (False, False, True)),
    ("dollar", "User-agent: *\nDisallow: /a$", "a", "/a", (False, False, True)),
    ("dollar-more", "User-agent: *\nDisallow: /a$", "a", "/ab", (True, True, True)),
    (
        "dollar-verbatim",
        "User-agent: *\nDisallow: /a$",
        "a",
        "/a$b",
        (True, True, False),
    ),
    (
        "star-and-dollar",
        "User-agent: *\nDisallow: /*.php$",
        "a",
        "/x.php",
        (False, False, True),
    ),
    (
        "star-and-dollar-more",
        "User-agent: *\nDisallow: /*.php$",
        "a",
        "/x.php?y",
        (True, True, True),
    ),
    # values left empty
    ("blank-disallow", "User-agent: *\nDisallow:", "a", "/x", (True, True, True)),
    ("blank-allow", "User-agent: *\nAllow:", "a", "/x", (True, False, False)),
    (
        "blank-disallow-first",
        "User-agent: *\nDisallow:\nDisallow: /x",
        "a",
        "/x",
        (False, True, True),
    ),
    (
        "blank-allow-last",
        "User-agent: *\nAllow: /x\nAllow:",
        "a",
        "/x",
        (True, True, True),
    ),
    (
        "blank-allow-last-rest",
        "User-agent: *\nAllow: /x\nAllow:",
        "a",
        "/y",
        (True, False, False),
    ),
    # the line's name in the header, or the header's tokens in the line
    (
        "agent-exact",
        "User-agent: figtree\nDisallow: /",
        "figtree",
        "/",
        (False, False, False),
    ),
    (
        "agent-case",
        "User-agent: FIGTREE\nDisallow: /",
        "figtree",
        "/",
        (False, False, False),
    ),
    (
        "agent-header",
        "User-agent: figtree\nDisallow: /",
        HEADER,
        "/",
        (False, False, False),
    ),
    (
        "agent-header-second",
        "User-agent: robot\nDisallow: /",
        HEADER,
        "/",
        (False, False, False),
    ),
    (
        "agent-part-of-a-token",
        "User-agent: tree\nDisallow: /",
        HEADER,
        "/",
        (True, False, False),
    ),
    (
        "agent-part-of-a-name",
        "User-agent: bot\nDisallow: /",
        "foobot",
        "/",
        (True, False, False),
    ),
    (
        "agent-longer-than-the-name",
        "User-agent: foobot\nDisallow: /",
        "foo",
        "/",
        (True, True, True),
    ),
    (
        "agent-no-group",
        "User-agent: foobot\nDisallow: /",
        "barbot",
        "/",
        (True, True, True),
    ),
    (
        "agent-default-is-for-the-others",
        "User-agent: *\nDisallow: /\n\nUser-agent: foobot\nDisallow: /x",
        "foobot",
        "/y",
        (True, True, True),
    ),
    (
        "agent-default-for-the-others",
        "User-agent: foobot\nAllow: /\n\nUser-agent: *\nDisallow: /",
        "barbot",
        "/y",
        (False, False, False),
    ),
    # blank lines end a group, comment lines do not
    (
        "blank-line-after-the-agent",
        "User-agent: a\n\nDisallow: /",
        "a",
        "/",
        (False, True, True),
    ),
    (
        "blank-line-in-the-rules",
        "User-agent: a\nDisallow: /x\n\nDisallow: /y",
        "a",
        "/y",
        (False, True, True),
    ),
    (
        "blank-line-keeps-the-above",
        "User-agent: a\nDisallow: /x\n\nDisallow: /y",
        "a",
        "/x",
        (False, False, False),
    ),
    (
        "comment-line-in-the-rules",
        "User-agent: a\n# b\nDisallow: /x\n#\nDisallow: /y",
        "a",
        "/y",
        (False, False, False),
    ),
    (
        "run-of-user-agent-lines",
        "User-agent: a\nUser-agent: b\nDisallow: /",
        "a",
        "/",
        (False, False, False),
    ),
    # escapes
    (
        "escape",
        "User-agent: *\nDisallow: /%7ejoe/",
        "a",
        "/~joe/",
        (False, False, False),
    ),
    (
        "escape-other-way",
        "User-agent: *\nDisallow: /~joe/",
        "a",
        "/%7Ejoe/",
        (False, False, False),
    ),
    (
        "escape-hex-case",
        "User-agent: *\nDisallow: /a%3cd",
        "a",
        "/a%3Cd",
        (False, False, False),
    ),
    (
        "escape-non-ascii",
        "User-agent: *\nDisallow: /\u00e9",
        "a",
        "/%C3%A9",
        (False, False, False),
    ),
    # whole URLs, and dot segments
    (
        "whole-url",
        "User-agent: *\nDisallow: https://example.com/x",
        "a",
        "https://example.com/x",
        (False, True, True),
    ),
    (
        "dot-segments",
        "User-agent: *\nDisallow: /x",
        "a",
        "/a/../x",
        (False, True, True),
    ),
    # and what they share
    (
        "line-ends",
        "User-agent: *\rDisallow: /x\rDisallow: /y",
        "a",
        "/y",
        (False, False, False),
    ),
    ("useragent", "Useragent: *\nDisallow: /x", "a", "/x", (False, False, False)),
    ("empty", "", "a", "/x", (True, True, True)),
]


@pytest.mark.parametrize(
    ("robots", "agent", "url", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in CASES],
)
def test_three_dialects(
    robots: str, agent: str, url: str, expected: tuple[bool, bool, bool]
) -> None:
    for origin in ("",) if "://" in url else ("", "https://example.com"):
        got = tuple(
            parse(robots, dialect=dialect).allowed(origin + url, agent)
            for dialect in (RFC9309, GYM2008, MK1996)
        )
        assert got == expected


# The match table of the draft of 1996, section 3.2.2: record path, URL path, whether they match
TABLE = [
    ("/tmp", "/tmp", True),
    ("/tmp", "/tmp.html", True),
    ("/tmp", "/tmp/a.html", True),
    ("/tmp/", "/tmp", False),
    ("/tmp/", "/tmp/", True),
    ("/tmp/", "/tmp/a.html", True),
    ("/a%3cd.html", "/a%3cd.html", True),
    ("/a%3Cd.html", "/a%3cd.html", True),
    ("/a%3cd.html", "/a%3Cd.html", True),
    ("/a%2fb.html", "/a%2fb.html", True),
    ("/a%2fb.html", "/a%2Fb.html", True),
    ("/a%2fb.html", "/a/b.html", False),
    ("/a/b.html", "/a%2fb.html", False),
    ("/%7ejoe/index.html", "/~joe/index.html", True),
    ("/~joe/index.html", "/%7Ejoe/index.html", True),
    # and its sentence: every escape is decoded but that of the slash
    ("/a%3Db", "/a=b", True),
    ("/a=b", "/a%3Db", True),
    ("/a%2Ab", "/a*b", True),
    ("/a%3Fb", "/a?b", True),
]


@pytest.mark.parametrize(("path", "url", "expected"), TABLE)
def test_match_table_of_1996(path: str, url: str, expected: bool) -> None:
    policy = parse(f"User-agent: *\nDisallow: {path}\n", dialect=MK1996)
    assert policy.allowed(f"http://www.example.com{url}", "a") is not expected


FICTIONAL = """\
# every agent its own record
User-agent: unhipbot
Disallow: /

User-agent: webcrawler
User-agent: excite
Disallow:

User-agent: *
Disallow: /org/plans.html
Allow: /org/
Allow: /~mak
Disallow: /
"""


@pytest.mark.parametrize("dialect", [GYM2008, MK1996], ids=["GYM2008", "MK1996"])
@pytest.mark.parametrize(
    ("agent", "url", "expected"),
    [
        ("UnhipBot/0.1", "/org/about.html", False),
        ("WebCrawler/3.0", "/org/plans.html", True),
        ("Excite/1.0", "/", True),
        ("other", "/", False),
        ("other", "/org/plans.html", False),
        ("other", "/org/about.html", True),
        ("other", "/%7Emak/mak.html", True),
        ("other", "/%7Ejim/jim.html", False),
    ],
)
def test_records_of_1996(
    dialect: Dialect, agent: str, url: str, expected: bool
) -> None:
    assert parse(FICTIONAL, dialect=dialect).allowed(url, agent) is expected


@pytest.mark.parametrize("dialect", [GYM2008, MK1996], ids=["GYM2008", "MK1996"])
def test_verdict_names_the_first_rule_that_matches(dialect: Dialect) -> None:
    verdict = parse(
        "User-agent: *\nDisallow: /x\nDisallow: /x/y\n", dialect=dialect
    ).verdict("/x/y", "a")
    assert verdict.rule is not None
    assert (verdict.rule.path, verdict.rule.line) == ("/x", 2)
    assert verdict.group == ("*",)


@pytest.mark.parametrize("dialect", [GYM2008, MK1996], ids=["GYM2008", "MK1996"])
def test_a_rule_that_is_written_twice_moves_no_other(dialect: Dialect) -> None:
    rules = "Disallow: /a\nDisallow: /a\nAllow: /b\nDisallow: /\nAllow: /a\n"
    policy = parse(f"User-agent: *\n{rules}", dialect=dialect)
    found = [policy.verdict(path, "bot").rule for path in ("/a", "/b", "/c")]
    assert [rule.line for rule in found if rule is not None] == [2, 4, 5]


@pytest.mark.parametrize(
    "dialect", [RFC9309, GYM2008, MK1996], ids=["RFC9309", "GYM2008", "MK1996"]
)
def test_other_records_in_every_dialect(dialect: Dialect) -> None:
    policy = parse(
        "User-agent: a\nCrawl-delay: 2.5\nDisallow: /x\nSitemap: https://a/\n",
        dialect=dialect,
    )
    assert policy.sitemaps == ("https://a/",)
    assert policy.crawl_delay("a") == 2.5


def test_rfc_9309_is_the_default() -> None:
    robots = "User-agent: *\nAllow: /\nDisallow: /x\n"
    assert parse(robots) == parse(robots, dialect=RFC9309)


def test_policies_of_different_dialects_differ() -> None:
    robots = "User-agent: *\nAllow: /\nDisallow: /x\n"
    assert parse(robots) != parse(robots, dialect=MK1996)


@pytest.mark.parametrize(
    "dialect", [RFC9309, GYM2008, MK1996], ids=["RFC9309", "GYM2008", "MK1996"]
)
def test_dialects_are_frozen_values(dialect: Dialect) -> None:
    assert isinstance(dialect, Dialect)
    assert len({RFC9309, GYM2008, MK1996}) == 3
    assert pickle.loads(pickle.dumps(dialect)) == dialect
    name = dataclasses.fields(dialect)[0].name
    with pytest.raises(AttributeError):
        setattr(dialect, name, getattr(dialect, name))


def test_an_empty_rule_is_named_where_it_counts() -> None:
    dialect = dataclasses.replace(RFC9309, name="blank", blank_rules_count=True)
    verdict = parse("User-agent: *\nDisallow:\n", dialect=dialect).verdict("/x", "bot")
    assert verdict.rule == (False, "", 2)
    assert verdict.reason == "rule"
