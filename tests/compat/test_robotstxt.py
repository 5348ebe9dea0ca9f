"""get, parse and get_allowed, after Ruby's Robotstxt."""

from __future__ import annotations

import pickle
from http.client import HTTPConnection
from urllib.parse import urlparse, urlsplit

import pytest

from scrapy_rep.compat import get, get_allowed, parse
from tests.site import Reply, Site

RULES = """\
User-agent: *
Disallow: /private/
Allow: /private/press/

User-agent: Crawler
Disallow: /index.php?edit
Sitemap: /sitemap.xml
"""


@pytest.mark.parametrize(
    ("urlish", "allowed"),
    [
        ("http://www.example.com/", True), ("/index.html", True), ("index.html", True),
        ("/private/x", False), ("private/x", False), ("/private/press/today#top", True),
        ("https://example.com/private/?a=b", False),
        (urlsplit("http://example.com/private/x"), False),
        (urlparse("http://example.com/private/press/"), True), ("", True),
    ],
)  # fmt: skip
def test_parse_and_allowed(urlish, allowed):
    parser = parse(RULES, "x")
    assert parser.allowed(urlish) is allowed
    assert parser.sitemaps == ["/sitemap.xml"]
    assert parser.user_agent == "x"
    assert pickle.loads(pickle.dumps(parser)) == parser


def test_sources():
    agent = "Crawler/1.0 (+http://a.com)"
    with Site({"/robots.txt": RULES}) as site:
        connection = HTTPConnection(site.host, site.port)
        for source in (site.origin, urlsplit(site.url("/x?y")), connection):
            assert not get(source, "x").allowed("/private/x")
        assert not get_allowed(site.url("/private/x"), "x")
        parser = get(site.url("/index.html"), agent)
        assert site.paths == ["/robots.txt"] * 5
        assert site.hits[-1].headers["User-Agent"] == agent
    assert parser.allowed("/private/")
    assert not parser.allowed("index.php?edit=1")


def test_redirects_and_timeout():
    hop = Reply(status=302, headers={"Location": "/r"})
    with Site({"/robots.txt": hop, "/r": RULES, "/slow": "x"}) as site:
        assert not get_allowed(site.url("/private/"), "x", redirects=1)
        assert get_allowed(site.url("/private/"), "x", redirects=0)
        site.replies["/r"] = Reply(hang=True)
        assert not get_allowed(site.url("/x"), "x", timeout=0.3)


@pytest.mark.parametrize("source", ["/index.html", "example.com", "ftp://example.com/"])
def test_sources_that_are_none(source):
    with pytest.raises(ValueError, match=r"source is .* expected an absolute http"):
        get(source, "x")
    with pytest.raises(ValueError, match="source is"):
        get_allowed(source, "x")
