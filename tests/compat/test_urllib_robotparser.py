"""RobotFileParser: the interface of the standard library, the decisions of RFC 9309."""

from __future__ import annotations

import pickle
import sys
import time
from urllib import robotparser as stdlib

import pytest

from scrapy_rep.compat import RobotFileParser
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


def test_as_text():
    text = (
        "User-agent: ExampleBot\nCrawl-delay: 2.5\nDisallow: /drafts/\n\n"
        "User-agent: *\nCrawl-delay: 1\nRequest-rate: 3/15\nDisallow: /private/\n\n"
        "Sitemap: https://example.com/sitemap.xml"
    )
    assert str(parsed(RULES)) == text
    assert str(parsed(text)) == text
    assert str(parsed("")) == ""


def test_a_delay_stays_with_its_user_agent_lines_when_written():
    text = "User-agent: a\nCrawl-delay: 2\nUser-agent: b\nDisallow: /x"
    for parser in (parsed(text), parsed(str(parsed(text)))):
        assert str(parser) == text
        assert parser.crawl_delay("a") == 2
        assert parser.crawl_delay("b") is None


def test_a_group_without_rules_stays_apart_when_written():
    # The default group is written last: with nothing between, the two would be one.
    parser = parsed("User-agent: *\nDisallow: /\n\nUser-agent: bot")
    assert str(parser).startswith("User-agent: bot\nDisallow:\n\nUser-agent: *\n")
    assert parser.can_fetch("bot", "/x")
    assert parsed(str(parser)).can_fetch("bot", "/x")


def test_pickle():
    parser = pickle.loads(pickle.dumps(parsed(RULES)))
    assert not parser.can_fetch("x", "/private/a")
    assert parser.mtime() > 0


@pytest.mark.parametrize(
    ("reply", "allowed", "flags"),
    [
        pytest.param(RULES, False, (False, False), id="200"),
        pytest.param(Reply(status=404), True, (True, False), id="404"),
        *(
            pytest.param(reply, False, (False, True), id=str(reply.status))
            for reply in (
                *(Reply(status=status) for status in (401, 403, 503)),
                Reply(reset=True),
            )
        ),
    ],
)
def test_read(reply, allowed, flags):
    with Site({"/robots.txt": reply}) as site:
        parser = RobotFileParser()
        parser.set_url(site.url("/robots.txt"))
        parser.read()
    assert parser.can_fetch("x", "/private/") is allowed
    assert (parser.allow_all, parser.disallow_all) == flags
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


# What the page of the room lists as decided otherwise by RFC 9309

OTHERWISE = [
    # section, rules, agent, URL, whether RFC 9309 and the standard library allow it
    ("2.2.1", "User-agent: Bot\nDisallow: /\n", "BotanyBot", "/", True, False),
    (
        "2.2.1", "User-agent: Bot\nDisallow: /\n\nUser-agent: Bot-News\nAllow: /\n",
        "Bot-News", "/", True, False,
    ),
    (
        "2.2.1", "User-agent: *\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n",
        "x", "/b", False, True,
    ),
    (
        "2.2.1", "User-agent: Bot\nDisallow: /a\n\nUser-agent: Bot\nDisallow: /b\n",
        "Bot", "/b", False, True,
    ),
    (
        "2.2.1", "User-agent: Bot\nDisallow: /\n",
        "Mozilla/5.0 (compatible; Bot/1.0)", "/", False, True,
    ),
    ("2.2.2", "User-agent: *\nDisallow: /\nAllow: /a\n", "x", "/a", True, False),
    ("2.2.2", "User-agent: *\nAllow: /\nDisallow: /a\n", "x", "/a", False, True),
    ("2.2.2", "User-agent: *\nDisallow: /a\nAllow: /a\n", "x", "/a", True, False),
    ("2.2.2", "User-agent: *\nDisallow: /\n", "x", "/robots.txt", True, False),
    ("2.2.2", "User-agent: *\nDisallow: /a%2Fb\n", "x", "/a/b", True, False),
    ("2.2.3", "User-agent: *\nDisallow: /*.gif\n", "x", "/a.gif", False, True),
    ("2.2.3", "User-agent: *\nDisallow: /a$\n", "x", "/a", False, True),
    ("2.2.4", "User-agent: *\n\nDisallow: /a\n", "x", "/a", False, True),
    (
        "2.2.4", "User-agent: Bot\nCrawl-delay: 1\nUser-agent: Other\nDisallow: /\n",
        "Bot", "/", False, True,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", OTHERWISE, ids=lambda case: f"{case[0]}-{case[1]}")
def test_decided_otherwise(case):
    _, text, agent, url, ours, theirs = case
    assert parsed(text).can_fetch(agent, url) is ours
    if sys.version_info < (3, 14):  # newer ones may decide more as RFC 9309 does
        other = stdlib.RobotFileParser()
        other.parse(text.splitlines())
        assert other.can_fetch(agent, url) is theirs
