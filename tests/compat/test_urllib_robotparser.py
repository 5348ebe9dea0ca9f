"""RobotFileParser: the interface of the standard library, the decisions of RFC 9309."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from urllib import robotparser as stdlib

import pytest

from scrapy_rep.compat import RobotFileParser, get_allowed
from tests.site import Reply, Site

RULES = """\
User-agent: *
Crawl-delay: 1
Request-rate: 3/15
Disallow: /private/ # not for robots

User-agent: ExampleBot
Crawl-delay: 2.5
Disallow: /drafts/
Sitemap: https://example.com/sitemap.xml
"""
WRITTEN = """\
User-agent: ExampleBot
Crawl-delay: 2.5
Disallow: /drafts/

User-agent: *
Crawl-delay: 1
Request-rate: 3/15
Disallow: /private/

Sitemap: https://example.com/sitemap.xml"""


def parsed(text):
    parser = RobotFileParser()
    parser.parse(text.splitlines())
    return parser


def test_interface():
    ours = {name for name in dir(RobotFileParser) if not name.startswith("_")}
    assert ours >= {name for name in dir(stdlib.RobotFileParser) if name[0] != "_"}


@pytest.mark.parametrize("split", [str.splitlines, lambda s: s.splitlines(True), str])
def test_lines(split):
    parser = RobotFileParser("http://example.com:8000/robots.txt")
    assert (parser.host, parser.path) == ("example.com:8000", "/robots.txt")
    before = time.time()
    parser.parse(split(RULES))
    assert before <= parser.mtime() <= time.time()
    assert not parser.can_fetch("x", "http://example.com/private/a")
    assert parser.can_fetch("ExampleBot/1.0 (+http://a.com)", "/private/a")
    assert not parser.can_fetch("examplebot", "/drafts/")
    assert parser.can_fetch("x", "")
    assert parser.crawl_delay("x") == 1
    assert isinstance(parser.crawl_delay("x"), int)
    assert parser.crawl_delay("ExampleBot") == 2.5
    assert parser.request_rate("x") == stdlib.RequestRate(3, 15)
    assert isinstance(parser.request_rate("x"), stdlib.RequestRate)
    assert parser.request_rate("ExampleBot") is None
    assert parser.site_maps() == ["https://example.com/sitemap.xml"]


def test_before_there_are_rules_nothing_may_be_fetched():
    parser = RobotFileParser()
    assert not parser.can_fetch("x", "/")
    assert parser.mtime() == 0
    assert parser.crawl_delay("x") is None
    assert parser.request_rate("x") is None
    assert parser.site_maps() is None
    parser.modified()
    assert not parser.can_fetch("x", "/")


def test_flags_set_by_hand():
    parser = parsed("User-agent: *\nDisallow: /p\n")
    parser.allow_all = True
    assert parser.can_fetch("x", "/p")
    parser.disallow_all = True
    assert not parser.can_fetch("x", "/q")
    parser.parse(["User-agent: *", "Disallow: /p"])
    assert parser.can_fetch("x", "/q")
    assert not parser.can_fetch("x", "/p")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (RULES, WRITTEN), ("", ""),
        # A delay stays with its user-agent lines.
        (GROUPS := "User-agent: a\nCrawl-delay: 2\nUser-agent: b\nDisallow: /x", GROUPS),
        # The default group is written last: with nothing between, the two would be one.
        (
            "User-agent: *\nCrawl-delay: x\nVisit-time: 0600-0700\nAllow: /\n\nUser-agent: bot",
            "User-agent: bot\nDisallow:\n\nUser-agent: *\nAllow: /",
        ),
    ],
)  # fmt: skip
def test_as_text(text, written):
    assert str(parsed(text)) == str(parsed(written)) == written


def test_pickle():
    parser = pickle.loads(pickle.dumps(parsed(RULES)))
    assert not parser.can_fetch("x", "/private/a")
    assert parser.mtime() > 0


ANSWERED = [
    *((Reply(status=status), status == 404) for status in (401, 403, 404, 503)),
    *((RULES, False), (Reply(reset=True), False)),
]


@pytest.mark.parametrize(("reply", "allowed"), ANSWERED)
def test_read(reply, allowed):
    with Site({"/robots.txt": reply}) as site:
        url = site.url("/robots.txt")
        parser = RobotFileParser()
        parser.set_url(url)
        parser.read()
        assert get_allowed(site.url("/private/"), "x") is allowed
    assert parser.can_fetch("x", "/private/") is allowed
    flags = parser.allow_all, parser.disallow_all
    assert flags == (allowed, not allowed and reply is not RULES)
    assert (parser.mtime() > 0) is (reply is RULES)


def test_24_a_copy_serves_while_the_file_cannot_be_had():
    with Site({"/robots.txt": [Reply(RULES), Reply(status=503)]}) as site:
        parser = RobotFileParser(site.url("/robots.txt"))
        parser.read()
        fetched = parser.mtime()
        parser.read()
        assert parser.can_fetch("x", "/")
        assert not parser.can_fetch("x", "/private/")
        assert parser.mtime() == fetched
        parser.set_url(site.url("/robots.txt?other"))
        site.replies["/robots.txt?other"] = Reply(status=503)
        parser.read()
    assert not parser.can_fetch("x", "/")


def test_a_url_that_is_none():
    with pytest.raises(ValueError, match="expected an absolute http or https URL"):
        RobotFileParser("file:///robots.txt").read()


@pytest.mark.parametrize("module", ["", ".robotexclusionrulesparser"])
def test_no_drop_in_needs_scrapy(module):
    # A module that is None in sys.modules cannot be imported: as if not installed.
    code = "import sys; sys.modules.update(scrapy=None, twisted=None);"
    code += f"from scrapy_rep.compat{module} import *"
    subprocess.run([sys.executable, "-c", code], check=True)
