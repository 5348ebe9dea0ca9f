"""X-Robots-Tag headers and robots meta tags: what holds for an agent."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_rep.protocol.page_rules import page_rules

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
    (["noindex nofollow"], {"noindex", "nofollow"}),
    (["noindex;nofollow"], {"noindex;nofollow"}),
]  # fmt: skip


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
    # the tag's name is the only agent
    ([("robots", "otherbot: noindex")], {"otherbot"}),
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
        st.text() | st.text("unavailable_after:,noindexexamplebot -0123456789TZ+")
    ),
    st.lists(st.tuples(st.sampled_from(["robots", "x"]), st.text())),
)
def test_nothing_makes_it_raise(headers, metas):
    found = page_rules(headers, metas, AGENT)
    assert "all" not in found.said
