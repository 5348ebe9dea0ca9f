"""RobotExclusionRulesParser and its lookalike: documented behaviour of 1.6 and 1.7."""

from __future__ import annotations

import pickle
import time
from contextlib import contextmanager
from email.utils import formatdate
from urllib.error import URLError

import pytest

from scrapy_rep import RFC9309
from scrapy_rep.compat import (
    GYM2008,
    MK1996,
    RobotExclusionRulesParser,
    RobotFileParserLookalike,
)
from scrapy_rep.compat.robotexclusionrulesparser import SEVEN_DAYS
from tests.site import Reply, Site

RULES = """\
User-agent: Foobot
Crawl-delay: .5
Disallow: /private/*.html
Allow: /private/

User-agent: *
Disallow: /

Sitemap: http://example.com/a.xml
Sitemap: http://example.com/b.xml
"""


@contextmanager
def fetching(*replies, **headers):
    """A parser, and the URL of a robots.txt that a site answers with these, one after the other."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    made = [
        each if isinstance(each, Reply) else Reply(each, headers=headers)
        for each in replies
    ]
    with Site({"/robots.txt": made}) as site:
        yield RobotExclusionRulesParser(), site.url("/robots.txt")


def parsed(content):
    parser = RobotExclusionRulesParser()
    parser.parse(content)
    return parser


def expires_at(seconds):
    return time.asctime(time.gmtime(seconds))  # a date of HTTP that names no zone


@pytest.mark.parametrize("content", [RULES, RULES.encode(), RULES.replace("\n", "\r")])
def test_parse(content):
    parser = parsed(content)
    agent = "Mozilla/5.0 (compatible; Foobot/2.1)"
    for syntax, allowed in ((GYM2008, False), (2, False), (MK1996, True), (1, True)):
        url = "http://example.com/private/a.html"
        assert parser.is_allowed(agent, url, syntax) is allowed
    assert not parser.is_allowed("Barbot", "/")
    assert parser.get_crawl_delay(agent) == 0.5
    assert parser.get_crawl_delay("Barbot") is None
    assert parser.sitemaps == ["http://example.com/a.xml", "http://example.com/b.xml"]
    with pytest.raises(DeprecationWarning):
        _ = parser.sitemap


@pytest.mark.parametrize("syntax", [0, 3, "gym2008", None])
def test_a_syntax_that_is_none(syntax):
    with pytest.raises(ValueError, match="expected MK1996 or GYM2008"):
        parsed(RULES).is_allowed("x", "/", syntax)


def test_as_text_and_pickle():
    parser = parsed(RULES)
    parser.is_allowed("x", "/", MK1996)
    again = pickle.loads(pickle.dumps(parser))
    assert str(again) == parser.__unicode__() == RULES.strip()
    assert not again.is_allowed("x", "/")
    assert str(parsed("User-agent: Jävla-bot\nDisallow: /é\n")).endswith(" /é")


def test_fetch():
    expires = int(time.time()) + 5400
    with Site() as site:
        parser = RobotExclusionRulesParser()
        parser.user_agent = "Foobot/2.1"
        assert parser.response_code is None
        assert parser.source_url == ""
        assert parser.use_local_time  # as in the original; without effect
        for date in (expires_at(expires), formatdate(expires, usegmt=True)):
            site.replies["/robots.txt"] = Reply(RULES, headers={"Expires": date})
            parser.fetch(site.url("/robots.txt"), timeout=5)
            assert parser.expiration_date == expires
        assert parser.source_url == site.url("/robots.txt")
        assert parser.response_code == 200
        assert site.hits[0].headers["User-Agent"] == "Foobot/2.1"
    assert not parser.is_expired
    assert parser.is_expired() is False
    assert not parser.is_allowed("Foobot", "/private/a.html")
    assert not parser.is_allowed("Foobot", "/private/a.html", RFC9309)


@pytest.mark.parametrize(
    "expires",
    ["0", "soon", "Thu, 01 Jan 99999 00:00:00 GMT", f"Thu, {'9' * 400} Jan 1970", ""],
    ids=lambda date: str(date)[:8],
)
def test_else_seven_days(expires):
    with fetching(RULES, Expires=expires) as (parser, url):
        parser.fetch(url)
    assert abs(parser.expiration_date - time.time() - SEVEN_DAYS) < 60


def test_expired(monkeypatch):
    parser = RobotExclusionRulesParser()
    monkeypatch.setattr(time, "time", lambda: parser.expiration_date)
    assert parser.is_expired  # at that very moment
    assert parser.is_expired() is True
    assert repr(parser.is_expired) == "True"


@pytest.mark.parametrize("status", [401, 403, 404, 400, 410, 429, 500, 503])
def test_statuses(status):
    with fetching(Reply("Disallow: /", status=status)) as (parser, url):
        if status in {401, 403, 404}:
            parser.fetch(url)
        else:
            with pytest.raises(URLError, match=str(status)):
                parser.fetch(url)
    assert parser.response_code == status
    assert parser.is_allowed("x", "/") is (status == 404)
    parser.parse("")  # what the caller does who does not mind
    assert parser.is_allowed("x", "/")


def test_faults_that_are_punted():
    parser = RobotExclusionRulesParser()
    with Site({"/robots.txt": Reply(hang=True), "/r": Reply(reset=True)}) as site:
        for url, timeout, error in (
            (site.url("/robots.txt"), 0.3, TimeoutError), (site.url("/r"), None, URLError),
            ("http://example.invalid/robots.txt", 5, URLError), ("file:///r", None, ValueError),
        ):  # fmt: skip
            with pytest.raises(error):
                parser.fetch(url, timeout)
            assert parser.response_code is None
    assert not parser.is_allowed("x", "/")


@pytest.mark.parametrize("charset", ["ascii", "utf-8", "no-such-charset"])
def test_a_charset_that_is_not_that_of_the_file(charset):
    body = "User-agent: *\nDisallow: /é".encode("latin-1")
    site = fetching(body, Content_Type=f"text/plain; charset={charset}")
    with site as (parser, url), pytest.raises(UnicodeError, match=charset):
        parser.fetch(url)
    assert not parser.is_allowed("x", "/")


def test_what_was_known_of_a_url_stays_and_of_another_goes():
    with fetching(RULES, Reply(status=503)) as (parser, url):
        parser.fetch(url)
        with pytest.raises(URLError):
            parser.fetch(url)
        assert parser.is_allowed("Foobot", "/")
        with pytest.raises(URLError):
            parser.fetch("http://127.0.0.1:1/robots.txt")
    assert not parser.is_allowed("Foobot", "/")


@pytest.mark.parametrize("split", [str, str.splitlines, lambda s: s.splitlines(True)])
def test_lookalike(split):
    parser = RobotFileParserLookalike()
    parser.parse(split(RULES))
    assert not parser.can_fetch("Foobot", "/private/a.html")
    assert parser.can_fetch("Foobot", "/private/a.html", MK1996)
    assert parser.is_allowed("Foobot", "/")
    with Site({"/robots.txt": RULES}) as site:
        parser = RobotFileParserLookalike(site.url("/x"))
        parser.set_url(site.url("/robots.txt"))
        parser.read()
        assert parser.source_url == site.url("/robots.txt")
    assert not parser.can_fetch("x", "/")
    assert parser.mtime() == 0
    parser.modified()
    assert abs(parser.last_checked - time.time()) < 60
