"""What is read of a page: its headers and its head, no more."""

from __future__ import annotations

import time

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse, Response

from scrapy_rep.gate.pages import (
    MAX_READ_BYTES,
    head_of,
    read_page,
    urls_not_to_follow,
)
from tests.conformance import params

URL = "https://example.com/"
NOINDEX = '<meta name="robots" content="noindex">'


def html(body, **kwargs):
    if isinstance(body, str):
        kwargs.setdefault("encoding", "utf-8")
    return HtmlResponse(URL, body=body, request=Request(URL), **kwargs)


def example_bot():
    return "ExampleBot"


def is_noindex(body, agent="ExampleBot", **kwargs):
    return read_page(html(body, **kwargs), lambda: agent)["noindex"]


@pytest.mark.parametrize(("page", "noindex"), params("page-rules", "page", "noindex"))
def test_meta_tags(page, noindex):
    assert is_noindex(page) is (noindex == "yes")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "shift_jis", "latin-1"])
def test_encodings(encoding):
    page = f"<head><title>\u00e9</title>{NOINDEX}</head>".encode(encoding, "replace")
    assert is_noindex(page, encoding=encoding)


OTHERS = "otherbot\uff1anoindex\uff0cnofollow"  # with the signs of an input method


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"X-Robots-Tag": OTHERS.encode()}, ""),
        ({}, f'<meta name="robots" content="{OTHERS}">'),
    ],
    ids=["header", "meta"],
)
def test_utf_8_is_read_as_such(headers, body):
    page = read_page(html(body, headers=headers), example_bot)
    assert not page["noindex"]
    assert page["nofollow"] is bool(
        body
    )  # in a header, an agent holds up to the next one


def test_octets_that_are_no_utf_8_hide_no_rule():
    response = html("", headers={"X-Robots-Tag": b"\xff,noindex"})
    assert read_page(response, example_bot)["noindex"]


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ("<head><title>robots</title></head>" + NOINDEX, False),
        ("<p>ExampleBot</p>", False),
        ('<meta charset="utf-8">', True),
        ('<META NAME="ExampleBot" CONTENT="none">', True),
    ],
)
def test_whose_rules_hold_is_asked_where_there_are_tags(body, asked):
    """Whose rules hold takes longer to tell than that a page has none."""
    told = []

    def whose():
        told.append(body)
        return "ExampleBot"

    read_page(html(body), whose)
    assert bool(told) is asked


def test_no_more_than_the_head_is_read():
    assert head_of(b"<head>a</head>" + b"b" * 10**6) == b"<head>a"
    assert len(head_of(b"x" * 10**6)) == MAX_READ_BYTES


def test_a_page_that_is_made_to_take_long():
    for part in (b"</head", b"<!--</head", b"<script></head", b"<!--", b"<script"):
        body = b"<script>" + part * (10**6 // len(part))
        begun = time.process_time()
        head_of(body)
        assert time.process_time() - begun < 0.3


def test_headers():
    headers = {"X-Robots-Tag": ["otherbot: noindex", "nofollow, noarchive"]}
    page = read_page(Response(URL, headers=headers), example_bot)
    assert page == {
        "noindex": False,
        "nofollow": True,
        "noarchive": True,
        "nosnippet": False,
        "unavailable_after": None,
        "rules": {
            "nofollow": "X-Robots-Tag: nofollow",
            "noarchive": "X-Robots-Tag: noarchive",
        },
        "preferences": {},
        "tdm_policy": None,
    }


def test_preferences():
    headers = {
        "content-usage": ["train-ai=n", "search=y"],
        "Content-Signal": "ai-input=no, use=reference",
        "tdm-reservation": "1",
        "tdm-policy": "https://example.com/policy",
    }
    page = read_page(Response(URL, headers=headers), example_bot)
    assert page["preferences"] == {
        "train-ai": "no",
        "search": "yes",
        "ai-input": "no",
        "tdm": "no",
        "use": "reference",
    }
    assert page["tdm_policy"] == "https://example.com/policy"


def test_a_time():
    headers = {"X-Robots-Tag": "unavailable_after: 25 Jun 2010 15:00:00 GMT"}
    page = read_page(Response(URL, headers=headers), example_bot)
    assert page["unavailable_after"] == "2010-06-25T15:00:00+00:00"


def test_a_page_that_says_nothing_looks_alike():
    assert read_page(html("<p>"), example_bot).keys() == (
        read_page(html(NOINDEX), example_bot).keys()
    )


def test_links_not_to_follow():
    page = """
        <a rel="nofollow" href="/a#x">a</a>
        <a rel="ugc nofollow" href="b?z=1&amp;a=2">b</a>
        <a rel=nofollow href="/c">c</a> <a href="/c">c again</a>
        <a href="/d">nofollow</a>
    """
    assert urls_not_to_follow(html(page)) == {URL + "a", URL + "b?a=2&z=1"}
    assert urls_not_to_follow(html("<a href=/>x</a>")) == frozenset()
    assert urls_not_to_follow(Response(URL, body=page.encode())) == frozenset()
