"""X-Robots-Tag headers and robots meta tags: what holds for an agent."""

from __future__ import annotations

import time
from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_rep.protocol.page_rules import page_rules
from tests.strategies import CHARACTERS

AGENT = "ExampleBot/1.0 (+https://example.com/bot)"


def rules(headers=(), metas=(), agent=AGENT):
    return set(page_rules(headers, metas, agent).said)


HEADERS = [
    # what is sent, one str a header, and the rules that hold for ExampleBot
    (["noindex"], {"noindex"}),
    (["NoIndex , NOFOLLOW"], {"noindex", "nofollow"}),
    (["none"], {"none", "noindex", "nofollow"}),
    (["all"], set()),
    (["all", "noindex"], {"noindex"}),
    ([""], set()),
    (["noarchive", "nosnippet"], {"noarchive", "nosnippet"}),
    # an agent before a colon, up to the next agent or the end of the header
    (["examplebot: noindex"], {"noindex"}),
    (["otherbot: noindex"], set()),
    (["otherbot: noindex, nofollow"], set()),
    (["otherbot: noindex", "nofollow"], {"nofollow"}),
    (["otherbot: noindex, EXAMPLEBOT : nofollow"], {"nofollow"}),
    (["noarchive, otherbot: noindex"], {"noarchive"}),
    (["examplebot: nofollow", "otherbot: noindex, nofollow"], {"nofollow"}),
    (["robots: noindex", "*: nofollow"], {"noindex", "nofollow"}),
    (["examplebotnews: noindex", "example: noindex", "bot: noindex"], set()),
    (["other bot: noindex, nofollow"], set()),
    (["examplebot:"], set()),
    # values
    (["max-snippet: 20, noindex"], {"max-snippet", "noindex"}),
    (["otherbot: max-snippet:0, noindex"], set()),
    (["max-image-preview:large, max-video-preview: -1"], {"max-image-preview", "max-video-preview"}),
    # what nobody knows is kept, and does nothing
    (["noai, noimageai"], {"noai", "noimageai"}),
]  # fmt: skip


# What sites write in place of what is documented, with the rules that hold for ExampleBot
LENIENT = [
    ("semicolon", ["noindex; nofollow"], {"noindex", "nofollow"}),
    ("semicolon-alone", ["noindex;nofollow"], {"noindex", "nofollow"}),
    ("semicolon-of-another-agent", ["otherbot: noindex; nofollow"], set()),
    ("semicolon-after-another-agent", ["otherbot: all; examplebot: noindex"], {"noindex"}),
    ("white-space", ["noindex nofollow"], {"noindex", "nofollow"}),
    ("tab", ["noindex\tnofollow"], {"noindex", "nofollow"}),
    ("no-break-space", ["noindex,\xa0nofollow\xa0noarchive"], {"noindex", "nofollow", "noarchive"}),
    ("before-a-value", ["noindex max-snippet:20"], {"noindex", "max-snippet"}),
    ("behind-a-value", ["max-snippet:50 noindex"], {"noindex", "max-snippet"}),
    ("between-values", ["max-snippet: 5 noindex max-video-preview :-1"], {"max-snippet", "noindex", "max-video-preview"}),
    ("in-place-of-a-value", ["max-snippet: noindex"], {"noindex", "max-snippet"}),
    ("none-as-a-value", ["max-image-preview:none, nofollow"], {"max-image-preview", "nofollow"}),
    ("another-agent-behind-a-rule", ["noindex otherbot: nofollow"], {"noindex"}),
    ("another-agent-of-two-words", ["noindex other bot: nofollow"], {"noindex"}),
    ("our-name-behind-another-word", ["not examplebot: noindex"], set()),
    ("version", ["ExampleBot/1.0: noindex"], {"noindex"}),
    ("version-and-comment", ["ExampleBot/1.0 (+http://example.com/): noindex"], {"noindex"}),
    ("version-of-another-agent", ["OtherBot/1.0: noindex"], set()),
    ("our-name-as-a-version", ["other/examplebot: noindex"], set()),
    ("longer-name", ["examplebot.news: noindex", "x-examplebot: noindex"], set()),
    ("list-of-agents", ["examplebot, otherbot: noindex"], {"examplebot", "noindex"}),
    ("list-of-agents-ends", ["examplebot, otherbot: noindex, thirdbot: nofollow"], {"examplebot", "noindex"}),
    ("no-list-of-agents", ["examplebot, noindex, otherbot: nofollow"], {"examplebot", "noindex"}),
    ("list-of-others", ["otherbot, thirdbot: noindex"], {"otherbot"}),
    ("several-agents", ["otherbot: noindex, examplebot: nofollow, thirdbot: none"], {"nofollow"}),
    ("agent-named-twice", ["examplebot: noindex, examplebot: nofollow"], {"noindex", "nofollow"}),
    ("empty-parts", [",,noindex,, nofollow,"], {"noindex", "nofollow"}),
    ("colons-alone", [": noindex :"], {"noindex"}),
    ("colon-behind-a-rule", ["noindex: true, nofollow"], {"noindex", "true", "nofollow"}),
    ("rule-as-an-agent", ["noindex: nofollow"], {"noindex", "nofollow"}),
    ("header-name-twice", ["X-Robots-Tag: noindex"], {"noindex"}),
    ("quotes", ['"noindex, nofollow"'], {"noindex", "nofollow"}),
    ("quoted-agent", ["'otherbot': noindex", "'examplebot': nofollow"], {"nofollow"}),
    ("curly-quotes", ["\u201cnoindex\u201d"], {"noindex"}),
    ("other-signs", ["noindex|nofollow", "(noarchive).", "nosnippet+noai"], {"noindex", "nofollow", "noarchive", "nosnippet", "noai"}),
    ("slash", ["noindex/nofollow"], {"noindex", "nofollow"}),
    ("hyphens", ["no-index, no_follow"], {"noindex", "nofollow"}),
    ("upper-case", ["EXAMPLEBOT: NOINDEX; MAX-SNIPPET: 5"], {"noindex", "max-snippet"}),
    ("full-width", ["\uff2e\uff2f\uff29\uff2e\uff24\uff25\uff38\uff0c\u3000nofollow"], {"noindex", "nofollow"}),
    ("full-width-signs", ["otherbot\uff1anoindex\uff1bexamplebot\uff1anofollow\u3001noai"], {"nofollow", "noai"}),
    ("utf-8-read-as-latin-1", ["noindex\xef\xbc\x8cnofollow"], {"noindex", "nofollow"}),
    ("invisible", ["\ufeffnoindex\u200b"], {"noindex"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("headers", "expected"), [pytest.param(*case[1:], id=case[0]) for case in LENIENT]
)
def test_what_sites_write_is_read_towards_the_restriction(headers, expected):
    assert rules(headers) == expected


@pytest.mark.parametrize(("headers", "expected"), HEADERS)
def test_headers(headers, expected):
    assert rules(headers) == expected


METAS = [
    ([("robots", "noindex, nofollow")], {"noindex", "nofollow"}),
    ([("ROBOTS", "NONE")], {"none", "noindex", "nofollow"}),
    ([("examplebot", "noindex")], {"noindex"}),
    ([("otherbot", "noindex")], set()),
    ([("robots", "nofollow"), ("ExampleBot", "noindex")], {"noindex", "nofollow"}),
    ([("robots", "noindex"), ("examplebot", "all")], {"noindex"}),
    ([("description", "noindex"), ("viewport", "width=device-width")], set()),
    # a tag has an agent of its own: one inside of it holds for what stands with it alone
    ([("robots", "otherbot: noindex")], set()),
    ([("robots", "otherbot: noindex, nofollow")], {"nofollow"}),
    ([("robots", "examplebot: noindex")], {"noindex"}),
    ([("otherbot", "examplebot: noindex")], set()),
    ([("robots", "revisit-after: 7 days, noindex")], {"noindex"}),
    ([("robots", "noindex; nofollow")], {"noindex", "nofollow"}),
    ([("robots", "max-snippet:50 noindex")], {"noindex", "max-snippet"}),
    ([("ExampleBot/1.0", "noindex")], {"noindex"}),
    ([("\xa0robots ", "noindex")], {"noindex"}),
]


@pytest.mark.parametrize(("metas", "expected"), METAS)
def test_metas(metas, expected):
    assert rules(metas=metas) == expected


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("ExampleBot", {"noindex"}),
        ("examplebot-news", {"nofollow"}),
        (["ExampleBot-News", "ExampleBot"], {"noindex", "nofollow"}),
        ("Mozilla/5.0 (compatible; ExampleBot/2.1)", {"noindex"}),
        ("", set()),
    ],
)
def test_the_agent_is_found_as_in_robots_txt(agent, expected):
    headers = ["examplebot: noindex", "examplebot-news: nofollow"]
    assert rules(headers, agent=agent) == expected


def test_headers_and_metas_are_joined():
    assert rules(["noarchive"], [("robots", "noindex")]) == {"noarchive", "noindex"}


JUNE = datetime(2010, 6, 25, 15, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("unavailable_after: 25 Jun 2010 15:00:00 GMT", JUNE),
        ("unavailable_after: 25 Jun 2010 07:00:00 PST", JUNE),
        ("unavailable_after: Friday, 25-Jun-10 15:00:00 UTC", JUNE),
        ("unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT", JUNE),
        ("unavailable_after: 2010-06-25T17:00:00+02:00", JUNE),
        ("unavailable_after: 2010-06-25T15:00:00Z", JUNE),
        ("Unavailable_After:2010-06-25 15:00", JUNE),
        ("examplebot: unavailable_after: 25 Jun 2010 15:00:00 GMT", JUNE),
        ("unavailable-after: Friday, 25 June 2010, 15:00:00 GMT", JUNE),
        ("unavailable_after 25-Jun-2010 15:00:00 UTC", JUNE),
        ("unavailable_after: June 25, 2010 15:00:00", JUNE),
        ("unavailable_after: 2010-06-25 15:00 UTC", JUNE),
        ("unavailable_after: '2010-06-25T15:00:00.000+00:00'", JUNE),
        ("unavailable_after: 25 Jun 2010", JUNE.replace(hour=0)),
        ("unavailable_after: 2010-06-25", JUNE.replace(hour=0)),
        ("otherbot: unavailable_after: 25 Jun 2010 15:00:00 GMT", None),
        ("unavailable_after: tomorrow", None),
        ("unavailable_after: 0001-01-01T00:00:00+14:00", None),
        ("unavailable_after:", None),
    ],
)
def test_unavailable_after(value, expected):
    # what follows the date is a rule again, and an agent too
    found = page_rules([f"{value}, nofollow, otherbot: noindex"], [], AGENT)
    assert found.unavailable_after == expected
    assert "noindex" not in found.said
    assert ("nofollow" in found.said) is not value.startswith("otherbot")


@pytest.mark.parametrize(
    "header",
    [
        "unavailable_after: 25 Jun 2010 15:00:00 GMT noindex",
        "noindex unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT",
        "unavailable_after: 2010-06-25T15:00:00Z; noindex",
        "unavailable_after: 2010-06-25T15:00:00Z, examplebot: noindex",
        "unavailable_after: 2010-06-25T15:00:00Z examplebot: noindex",
        "unavailable_after: 2010-06-25T15:00:00Z, otherbot: nofollow, examplebot: noindex",
    ],
)
def test_a_rule_or_an_agent_ends_a_date(header):
    found = page_rules([header], [], AGENT)
    assert (found.unavailable_after, set(found.said)) == (
        JUNE,
        {"unavailable_after", "noindex"},
    )


def test_an_agent_that_begins_with_a_digit_is_no_part_of_a_date():
    header = "unavailable_after: 2010-06-25T15:00:00Z, 360Spider: noindex"
    assert rules([header], agent="360Spider") == {"unavailable_after", "noindex"}
    assert rules([header]) == {"unavailable_after"}


def test_the_earliest_time_holds():
    found = page_rules(
        ["unavailable_after: 2020-01-01", "unavailable_after: 2010-06-25T15:00:00Z"],
        [("robots", "unavailable_after: 2015-01-01")],
        AGENT,
    )
    assert found.unavailable_after == JUNE


def test_what_is_said_is_shown_where():
    found = page_rules(["ExampleBot: none"], [("robots", "noarchive")], AGENT)
    assert found.said["noindex"] == "X-Robots-Tag: ExampleBot: none"
    assert found.said["noarchive"] == '<meta name="robots">: noarchive'


@settings(deadline=None)
@given(
    st.lists(
        st.text(CHARACTERS)
        | st.text("unavailable_after:,noindexexamplebot -0123456789TZ+")
    ),
    st.lists(st.tuples(st.sampled_from(["robots", "x"]), st.text(CHARACTERS))),
)
def test_nothing_makes_it_raise(headers, metas):
    found = page_rules(headers, metas, AGENT)
    assert "all" not in found.said


@pytest.mark.parametrize(
    "part", [",", " ", "x:", "x ", "noindex ", "1 ", "15:", "\u3000", "a/", '"', "-_"]
)
@pytest.mark.parametrize("begin", ["", "unavailable_after: ", "max-snippet:"])
def test_time_is_linear(begin, part):
    header = begin + part * (50_000 // len(part)) + ", robots: noindex"
    begun = time.process_time()
    assert "noindex" in rules([header], [("robots", header)])
    assert time.process_time() - begun < 4
