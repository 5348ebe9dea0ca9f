"""Which group an agent obeys, and what belongs to a group.

The numbers that begin an id are those of the project's checklist of REP statements, see
tests/README.rst; `D` and a number is a row of its table of decisions where RFC 9309 is silent.
"""

from __future__ import annotations

import pytest

from scrapy_rep.protocol import Group, Rule, parse

from . import reference

MERGED = """\
user-agent: ExampleBot
disallow: /foo
disallow: /bar

user-agent: ExampleBot
disallow: /baz
"""

DEFAULT_AND_OTHER = """\
user-agent: *
disallow: /foo
disallow: /bar

user-agent: BazBot
disallow: /baz
"""

# RFC 9309 5.1, but for its last line: "EOF" there stands for the end of the file.
SIMPLE = """\
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot

"""

CASES = [
    # RFC 9309 2.2.1, figure 2
    ("4-D18-figure-2-first-group", MERGED, "ExampleBot", "/foo", False),
    ("4-D18-figure-2-first-group-second-rule", MERGED, "ExampleBot", "/bar", False),
    ("4-D18-figure-2-second-group", MERGED, "ExampleBot", "/baz", False),
    ("6-figure-2-another-agent", MERGED, "OtherBot", "/foo", True),
    # figure 3
    ("5-figure-3-default", DEFAULT_AND_OTHER, "ExampleBot", "/foo", False),
    ("5-figure-3-not-in-default", DEFAULT_AND_OTHER, "ExampleBot", "/baz", True),
    ("7-figure-3-named", DEFAULT_AND_OTHER, "BazBot", "/baz", False),
    ("7-figure-3-default-stays-out", DEFAULT_AND_OTHER, "BazBot", "/foo", True),
    # 5.1
    ("30-other-publications", SIMPLE, "otherbot", "/publications/", True),
    ("30-other-publications-gif", SIMPLE, "otherbot", "/publications/a.gif", True),
    ("30-other-example", SIMPLE, "otherbot", "/example/", False),
    ("30-other-gif", SIMPLE, "otherbot", "/a/b.gif", False),
    ("30-other-gif-with-query", SIMPLE, "otherbot", "/a/b.gif?c", True),
    ("30-other-rest", SIMPLE, "otherbot", "/index.html", True),
    ("30-foobot-root", SIMPLE, "foobot", "/", False),
    ("30-foobot-page", SIMPLE, "foobot", "/example/page.html", True),
    ("30-foobot-page-is-a-prefix", SIMPLE, "foobot", "/example/page.html5", True),
    ("30-foobot-allowed-gif", SIMPLE, "foobot", "/example/allowed.gif", True),
    ("30-foobot-other-gif", SIMPLE, "foobot", "/example/other.gif", False),
    ("30-foobot-publications", SIMPLE, "foobot", "/publications/", False),
    ("30-barbot-page", SIMPLE, "barbot", "/example/page.html", False),
    ("30-barbot-rest", SIMPLE, "barbot", "/example/allowed.gif", True),
    ("10-30-bazbot-page", SIMPLE, "bazbot", "/example/page.html", False),
    ("30-bazbot-rest", SIMPLE, "bazbot", "/example/", True),
    ("11-30-quxbot", SIMPLE, "quxbot", "/example/page.html", True),
    ("11-30-quxbot-gif", SIMPLE, "quxbot", "/a.gif", True),
    # 2.2.1
    ("3-token-case", "User-agent: FooBot\nDisallow: /\n", "foobot", "/", False),
    ("3-agent-case", "User-agent: foobot\nDisallow: /\n", "FOOBOT", "/", False),
    (
        "4-merged-across-case-and-place",
        "User-agent: a\nDisallow: /x\nUser-agent: b\nDisallow: /y\nUser-agent: A\nDisallow: /z\n",
        "a",
        "/z",
        False,
    ),
    (
        "4-16-longest-over-all-merged-groups",
        "User-agent: a\nDisallow: /x\nUser-agent: b\nUser-agent: a\nAllow: /x/y\n",
        "a",
        "/x/y/z",
        True,
    ),
    (
        "5-D18-default-groups-are-merged",
        "User-agent: *\nDisallow: /x\nUser-agent: a\nAllow: /\nUser-agent: *\nDisallow: /y\n",
        "b",
        "/y",
        False,
    ),
    (
        "5-default-group-after-others",
        "User-agent: a\nAllow: /\n\nUser-agent: *\nDisallow: /\n",
        "b",
        "/",
        False,
    ),
    ("6-no-group", "User-agent: a\nDisallow: /\n", "b", "/", True),
    ("6-empty-file", "", "a", "/", True),
    ("54-only-a-line-end", "\n", "a", "/", True),
    ("6-only-comments", "# User-agent: *\n# Disallow: /\n", "a", "/", True),
    (
        "7-named-group-alone-counts",
        "User-agent: *\nDisallow: /\nUser-agent: a\nDisallow: /x\n",
        "a",
        "/y",
        True,
    ),
    (
        "7-named-group-without-rules-still-counts",
        "User-agent: *\nDisallow: /\nUser-agent: a\nDisallow:\n",
        "a",
        "/y",
        True,
    ),
    (
        "7-default-in-the-same-group-as-a-name",
        "User-agent: a\nUser-agent: *\nDisallow: /x\n\nUser-agent: *\nDisallow: /y\n",
        "a",
        "/y",
        True,
    ),
    (
        "7-default-in-the-same-group-as-a-name-others",
        "User-agent: a\nUser-agent: *\nDisallow: /x\n\nUser-agent: *\nDisallow: /y\n",
        "b",
        "/x",
        False,
    ),
    (
        "9-order-of-groups-has-no-say",
        "User-agent: a\nAllow: /\nUser-agent: *\nDisallow: /\n",
        "a",
        "/x",
        True,
    ),
    # 2.1
    (
        "10-run-of-user-agent-lines",
        "User-agent: a\nUser-agent: b\nUser-agent: c\nDisallow: /\n",
        "b",
        "/",
        False,
    ),
    (
        "10-D14-blank-lines-in-the-run",
        "User-agent: a\n\n\nUser-agent: b\n\nDisallow: /\n",
        "a",
        "/",
        False,
    ),
    (
        "10-D14-blank-lines-among-the-rules",
        "User-agent: a\nDisallow: /x\n\nDisallow: /y\n",
        "a",
        "/y",
        False,
    ),
    (
        "10-comments-in-the-run",
        "User-agent: a\n# one\n  # two\nUser-agent: b # three\nDisallow: /\n",
        "a",
        "/",
        False,
    ),
    (
        "10-a-rule-ends-the-run",
        "User-agent: a\nDisallow: /x\nUser-agent: b\nDisallow: /y\n",
        "a",
        "/y",
        True,
    ),
    (
        # `Disallow:` is a rule, if one without effect: b's rules are not a's.
        "10-24-an-empty-rule-ends-the-run",
        "User-agent: a\nDisallow:\nUser-agent: b\nDisallow: /\n",
        "a",
        "/",
        True,
    ),
    (
        "10-24-an-empty-allow-ends-the-run",
        "User-agent: a\nAllow:\nUser-agent: b\nDisallow: /\n",
        "a",
        "/",
        True,
    ),
    (
        "10-D20-a-rule-that-matches-nothing-ends-the-run",
        "User-agent: a\nDisallow: x\nUser-agent: b\nDisallow: /\n",
        "a",
        "/",
        True,
    ),
    (
        "11-last-group-without-rules",
        "User-agent: *\nDisallow: /\nUser-agent: a",
        "a",
        "/",
        True,
    ),
    ("11-only-a-user-agent-line", "User-agent: a", "a", "/", True),
    # 2.2.2
    (
        "12-D19-rule-before-any-group",
        "Disallow: /x\nUser-agent: a\nDisallow: /y\n",
        "a",
        "/x",
        True,
    ),
    (
        "12-D19-group-after-it-holds",
        "Disallow: /x\nUser-agent: a\nDisallow: /y\n",
        "a",
        "/y",
        False,
    ),
    ("12-only-a-rule", "Disallow: /\n", "a", "/", True),
    # 2.2.4
    (
        "13-sitemap-in-the-run",
        "User-agent: a\nSitemap: https://example.com/s.xml\nUser-agent: b\nDisallow: /\n",
        "a",
        "/",
        False,
    ),
    (
        "13-sitemap-in-the-run-second-agent",
        "User-agent: a\nSitemap: https://example.com/s.xml\nUser-agent: b\nDisallow: /\n",
        "b",
        "/",
        False,
    ),
    (
        "13-D14-crawl-delay-in-the-run",
        "User-agent: a\nCrawl-delay: 5\nUser-agent: b\nDisallow: /\n",
        "a",
        "/",
        False,
    ),
    (
        "13-D14-unknown-line-in-the-run",
        "User-agent: a\nContent-Signal: search=yes\nUser-agent: b\nDisallow: /\n",
        "a",
        "/",
        False,
    ),
    (
        "13-request-rate-and-visit-time-in-the-run",
        "User-agent: a\nRequest-rate: 1/5\nVisit-time: 0600-0845\nUser-agent: b\nDisallow: /\n",
        "a",
        "/",
        False,
    ),
    (
        "13-junk-in-the-run",
        "User-agent: a\n<html>\n: /\n:\nthree little words\nUser-agent: b\nDisallow: /\n",
        "a",
        "/",
        False,
    ),
    (
        "13-sitemap-among-the-rules",
        "User-agent: a\nDisallow: /x\nSitemap: https://example.com/s.xml\nDisallow: /y\n",
        "a",
        "/y",
        False,
    ),
    (
        "13-host-among-the-rules",
        "User-agent: a\nDisallow: /x\nHost: example.com\nClean-param: s /y\nDisallow: /y\n",
        "a",
        "/y",
        False,
    ),
]


@pytest.mark.parametrize(
    ("robots", "agent", "url", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in CASES],
)
def test_group(robots: str, agent: str, url: str, expected: bool) -> None:
    assert parse(robots).allowed(url, agent) is expected
    assert (
        parse(robots.encode()).allowed(f"https://example.com{url}", agent) is expected
    )
    assert reference.allowed(robots.encode(), url, agent) is expected


def test_verdict_names_rule_line_and_group() -> None:
    verdict = parse(SIMPLE).verdict("https://example.com/example/page.html", "foobot")
    assert verdict.allowed is True
    assert verdict.rule == Rule(allow=True, path="/example/page.html", line=8)
    assert verdict.group == ("foobot",)
    assert verdict.reason == "rule"


def test_verdict_of_the_default_group() -> None:
    verdict = parse(SIMPLE).verdict("/a.gif", "otherbot")
    assert verdict.allowed is False
    assert verdict.rule == Rule(allow=False, path="*.gif$", line=2)
    assert verdict.group == ("*",)


def test_verdict_gives_tokens_as_written() -> None:
    verdict = parse("User-agent: FooBot/1.0\nDisallow: /\n").verdict("/", "foobot")
    assert verdict.group == ("FooBot/1.0",)


def test_verdict_without_a_matching_rule() -> None:
    verdict = parse(SIMPLE).verdict("/example/", "barbot")
    assert (verdict.allowed, verdict.rule, verdict.reason) == (
        True,
        None,
        "no rule matches",
    )
    assert verdict.group is not None
    assert "barbot" in verdict.group


def test_verdict_of_a_group_without_rules() -> None:
    verdict = parse(SIMPLE).verdict("/example/", "quxbot")
    assert (verdict.allowed, verdict.rule, verdict.reason) == (
        True,
        None,
        "no rule matches",
    )
    assert verdict.group == ("quxbot",)


def test_verdict_without_a_group() -> None:
    verdict = parse("User-agent: a\nDisallow: /\n").verdict("/", "b")
    assert (verdict.allowed, verdict.rule) == (True, None)
    assert (verdict.group, verdict.reason) == (None, "no group")


def test_verdict_over_merged_groups_keeps_the_line_of_the_file() -> None:
    policy = parse(MERGED)
    for path, line in [("/foo", 2), ("/bar", 3), ("/baz", 6)]:
        assert policy.verdict(path, "ExampleBot").rule == Rule(
            allow=False, path=path, line=line
        )


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"], ids=["LF", "CR", "CRLF"])
def test_lines_are_counted_at_every_line_end(end: str) -> None:
    robots = end.join(["# one", "", "User-agent: *", "", "", "Disallow: /x", ""])
    rule = parse(robots).verdict("/x", "a").rule
    assert rule is not None
    assert rule.line == 6


def test_lines_are_counted_over_mixed_line_ends() -> None:
    rule = parse("User-agent: *\r\n\r\n\r\r\n\nDisallow: /x").verdict("/x", "a").rule
    assert rule is not None
    assert rule.line == 6


def test_groups() -> None:
    assert parse(SIMPLE).groups == (
        Group(
            tokens=("*",),
            rules=(
                Rule(allow=False, path="*.gif$", line=2),
                Rule(allow=False, path="/example/", line=3),
                Rule(allow=True, path="/publications/", line=4),
            ),
            line=1,
        ),
        Group(
            tokens=("foobot",),
            rules=(
                Rule(allow=False, path="/", line=7),
                Rule(allow=True, path="/example/page.html", line=8),
                Rule(allow=True, path="/example/allowed.gif", line=9),
            ),
            line=6,
        ),
        Group(
            tokens=("barbot", "bazbot"),
            rules=(Rule(allow=False, path="/example/page.html", line=13),),
            line=11,
        ),
        Group(tokens=("quxbot",), rules=(), line=15),
    )


@pytest.mark.parametrize(
    "robots", ["", "# nothing\n", "Disallow: /\n", "Sitemap: https://a/\n"]
)
def test_no_groups(robots: str) -> None:
    assert parse(robots).groups == ()


def test_words_about_user_agents_end_no_group() -> None:
    policy = parse(
        "User-agent words before any group\nUser-agent: *\nDisallow: /a\n"
        "User-agent may be any of them\nDisallow: /b\n"
    )
    assert [rule.path for rule in policy.groups[0].rules] == ["/a", "/b"]
    assert [rule.line for rule in policy.groups[0].rules] == [3, 5]
    assert len(policy.groups) == 1
    assert policy.verdict("/b", "ExampleBot").rule == Rule(False, "/b", 5)
