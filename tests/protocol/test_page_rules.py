"""X-Robots-Tag headers and robots meta tags: what holds for an agent."""

from __future__ import annotations

import time
from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_rep.protocol.page_rules import page_rules
from tests.conformance import params
from tests.strategies import CHARACTERS

AGENT = "ExampleBot/1.0 (+https://example.com/bot)"


def rules(headers=(), metas=(), agent=AGENT):
    return set(page_rules(headers, metas, agent).said)


@pytest.mark.parametrize(
    ("headers", "expected"), params("page-rules", "headers", "rules")
)
def test_headers(headers, expected):
    assert rules(headers.split("\n")) == set(expected.split())


@pytest.mark.parametrize(("metas", "expected"), params("page-rules", "metas", "rules"))
def test_metas(metas, expected):
    tags = [tuple(meta.split("=", 1)) for meta in metas.split("\n")]
    assert rules(metas=tags) == set(expected.split())


@pytest.mark.parametrize(
    ("headers", "until", "expected"), params("page-rules", "dated", "until", "rules")
)
def test_dates(headers, until, expected):
    found = page_rules(headers.split("\n"), [], AGENT)
    time_until = None if until == "none" else datetime.fromisoformat(f"{until}+00:00")
    assert found.unavailable_after == time_until
    assert {"unavailable_after", "nofollow", "noindex"} & set(found.said) >= set(
        expected.split()
    )
    assert ("noindex" in found.said) is ("noindex" in expected)


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("ExampleBot", {"noindex"}), ("examplebot-news", {"nofollow"}),
        (["ExampleBot-News", "ExampleBot"], {"noindex", "nofollow"}),
        ("Mozilla/5.0 (compatible; ExampleBot/2.1)", {"noindex"}), ("", set()),
        ("360Spider", {"unavailable_after", "noarchive"}),
    ],
)  # fmt: skip
def test_the_agent_is_found_as_in_robots_txt(agent, expected):
    headers = [
        "examplebot: noindex",
        "examplebot-news: nofollow",
        "360Spider: unavailable_after: 2010-06-25, 360Spider: noarchive",
    ]
    assert rules(headers, agent=agent) == expected


def test_headers_and_metas_are_joined_and_what_is_said_is_shown_where():
    metas = [("robots", "noarchive, unavailable_after: 2010-06-25T15:00:00Z")]
    found = page_rules(
        ["ExampleBot: none", "max-snippet:9, unavailable_after: 2020-01-01"],
        *(metas, AGENT),
    )
    assert found.said["max-snippet"] == "X-Robots-Tag: max-snippet: 9"
    assert found.said["noindex"] == "X-Robots-Tag: ExampleBot: none"
    assert found.said["noarchive"] == '<meta name="robots">: noarchive'
    assert found.unavailable_after == datetime(2010, 6, 25, 15, tzinfo=timezone.utc)


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


@pytest.mark.invariant7
@pytest.mark.parametrize(
    "part", [",", " ", "x:", "x ", "noindex ", "1 ", "15:", "\u3000", "a/", '"', "-_"]
)
@pytest.mark.parametrize("begin", ["", "unavailable_after: ", "max-snippet:"])
def test_time_is_linear(begin, part):
    header = begin + part * (50_000 // len(part)) + ", robots: noindex"
    begun = time.process_time()
    assert "noindex" in rules([header], [("robots", header)])
    assert time.process_time() - begun < 4
