"""Whose robots.txt decides about a request: found by a short cut, as if it were parsed."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request

from scrapy_rep.access.origins import origin_from
from scrapy_rep.judging.target import judged
from scrapy_rep.protocol.printable import without_user


def parsed(url: str) -> str | None:
    parts = urlsplit(url)
    return origin_from(parts.scheme, parts.netloc)


def check(url: str) -> None:
    try:
        expected = parsed(url)
    except ValueError:
        with pytest.raises(ValueError, match=r"IPv6|netloc|address|NFKC"):
            judged(url, {})
        return
    found = judged(url, {})
    assert found == (None if expected is None else (without_user(url), expected))


@pytest.mark.parametrize(
    "url",
    [
        "http://a/",
        "http://a",
        "http://a.example?/b",
        "http://a.example#/b",
        "http://a.example/b//c",
        "http:///b/c",
        "http:////b/c",
        "https:///b/c",
        "https:////b/c",
        "https://a.example:443/x",
        "https://u:p@A.example:8443/x",
        "https://a.example\\b/x",
        "HTTPS://A.example/x",
        "http://[::1]:80/x",
        "http://[::1/x",
        "ftp://a.example/x",
        "file:///etc/hosts",
        "data:text/plain,https://a.example/x",
        "s3://bucket/key",
        "http://a\t/b",
        " http://a/b",
    ],
)
def test_the_short_cut_is_what_parsing_finds(url):
    check(url)


@settings(deadline=None)
@given(
    st.sampled_from(["http://", "https://", "http:/", "", "HTTP://", "  http://"]),
    st.text("ab.:@/?#[]\\\t\n 8\u00e9", max_size=12),
    st.sampled_from(["", "/", "/x/y", "?q=/", "#/"]),
)
def test_the_short_cut_is_what_parsing_finds_of_anything(start, host, rest):
    check(start + host + rest)


@pytest.mark.parametrize("key", ["url", "robotstxt_url"])
def test_what_is_judged_has_no_user(key):
    given = "https://u:p@www.example.com/@me?q=a@b"
    request = Request(given if key == "url" else "https://proxy.example/")
    request.meta.update({key: given} if key != "url" else {})
    expected = given.replace("u:p@", "")
    assert judged(request.url, request.meta) == (expected, "https://www.example.com")


def test_requests_of_one_host_are_judged_by_one_origin():
    pages = [Request(f"https://www.example.com/{page}") for page in ("", "a", "b?c")]
    for page in pages:
        assert judged(page.url, page.meta) == (page.url, "https://www.example.com")
