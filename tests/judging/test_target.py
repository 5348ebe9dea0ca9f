"""Whose robots.txt decides about a request: found by a short cut, as if it were parsed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request

from scrapy_rep.exceptions import SettingError
from scrapy_rep.judging.target import (
    EXEMPT_KEY,
    NOTE_KEY,
    host_of,
    how_judged,
    judged,
    leave_behind,
    note_origin,
)
from scrapy_rep.protocol.origins import origin_from
from scrapy_rep.protocol.printable import without_user
from tests.conformance import params


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


URLS = r"""
http://a/ http://a http://a.example?/b http://a.example#/b http://a.example/b//c http:///b/c
http:////b/c https:///b/c https:////b/c https://a.example:443/x https://u:p@A.example:8443/x
https://a.example\b/x HTTPS://A.example/x http://[::1]:80/x http://[::1/x ftp://a.example/x
file:///etc/hosts data:text/plain,https://a.example/x s3://bucket/key
"""


@pytest.mark.parametrize("url", [*URLS.split(), "http://a\t/b", " http://a/b"])
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


@pytest.mark.parametrize("form", [" {}", "\n{}\n", "\t{} ", "{}\r\n"], ids=ascii)
@pytest.mark.parametrize("url", ["https://b.example/p", "https://b.example/\t\np"])
def test_what_is_judged_instead_has_no_white_space_around_it(form, url):
    meta = {"robotstxt_url": form.format(url)}
    expected = ("https://b.example/p", "https://b.example")
    assert judged("https://a.example/", meta) == expected


def test_what_is_judged_instead_is_a_url_of_the_web():
    for wrong in ("example.com/page", "ftp://a.example/", 5):
        with pytest.raises(
            SettingError, match=r'^meta\["robotstxt_url"\] is .* http or'
        ):
            judged("https://a.example/", {"robotstxt_url": wrong})


URL = "https://a.example/x"
ENGINE: Any = SimpleNamespace(slot_of=lambda request: "a.example")
PROXIED, EXEMPT = {"robotstxt_url": "https://u:p@b.example/"}, {EXEMPT_KEY: True}


@pytest.mark.parametrize(
    ("url", "meta", "unjudged", "expected"),
    [
        (URL, {}, None, (None, None)),
        (URL, PROXIED, None, (None, "https://b.example/")),
        (URL, EXEMPT, None, (EXEMPT_KEY, None)),
        (URL, {}, "REP_HOSTS: a letter", ("REP_HOSTS: a letter", None)),
        ("data:,x", {}, None, ("no_origin", None)),
    ],
)
def test_what_is_noted_tells_how_a_request_was_judged(url, meta, unjudged, expected):
    meta = dict(meta)
    note_origin(url, meta, unjudged)
    assert how_judged(url, meta) == expected
    assert how_judged(f"{url}/else", meta) == ("passed_by", None)  # was copied
    assert how_judged(url, {}) == ("passed_by", None)


@pytest.mark.parametrize(
    ("url", "meta", "kept"),
    [
        (URL, {}, {*PROXIED, EXEMPT_KEY}),
        ("https://a.example/y", {}, {*PROXIED, EXEMPT_KEY}),
        ("https://c.example/", {}, set()),
        ("https://c.example/", {EXEMPT_KEY: "anew"}, {EXEMPT_KEY}),
    ],
)
def test_what_was_said_of_another_origin_is_left_behind(url, meta, kept):
    copied: dict[str, Any] = {**PROXIED, **EXEMPT}
    note_origin(URL, copied)
    copied.update(meta)
    leave_behind(Request(url, meta=copied), copied, ENGINE.slot_of)
    assert copied.keys() - {NOTE_KEY} == kept


@pytest.mark.parametrize(
    ("slot", "more", "kept"),
    [
        ("mine", {}, "mine"),
        ("a.example", {}, None),
        ("mine", {"redirect_urls": [URL]}, None),
        ("mine", {"redirect_urls": [URL, "https://b.example/"]}, "mine"),
    ],
)
def test_a_slot_that_the_user_chose_stays_but_for_a_redirect(slot, more, kept):
    copied: dict[str, Any] = {"download_slot": slot, **more}
    note_origin(URL, copied)
    leave_behind(Request("https://c.example/", meta=copied), copied, ENGINE.slot_of)
    assert copied.get("download_slot") == kept


@pytest.mark.parametrize(
    ("url", "instead", "host"), params("2.3-origins", "requested", "instead", "host")
)
def test_of_which_host_a_request_asks_something(url, instead, host):
    meta = {"robotstxt_url": instead} if instead else {}
    assert host_of(Request(url, meta=meta)) == host
