"""How an agent finds its group: tokens, User-Agent headers, lists of tokens.

The numbers that begin an id are those of the project's checklist of REP statements, see
tests/README.rst; `D` and a number is a row of its table of decisions where RFC 9309 is silent.
"""

from __future__ import annotations

import pytest

from scrapy_rep.protocol import parse, product_tokens

from . import reference

# The value of a user-agent line, a token, and whether the line names the token.
LINES = [
    ("1-letters", "FooBot", "FooBot", True),
    ("1-hyphen-and-underscore", "foo_bot-news", "foo_bot-news", True),
    ("3-case", "FOOBOT", "foobot", True),
    ("D1-exact-not-prefix-of-the-line", "FooBot-News", "FooBot", False),
    ("D1-exact-not-prefix-of-the-agent", "FooBot", "FooBot-News", False),
    ("D1-exact-not-substring", "bot", "foobot", False),
    ("D1-exact-not-substring-of-the-line", "foobot", "bot", False),
    # Beyond RFC 9309: lines outside its grammar
    ("8-D2-version", "foo/1.2", "foo", True),
    ("8-D2-version-of-another", "foo/1.2", "foobar", False),
    ("8-D3-star", "foo*", "foo", True),
    ("8-D3-star-is-no-wildcard", "foo*", "foobar", False),
    ("8-D2-several-words", "foo bar", "foo", True),
    ("8-D2-several-words-second", "foo bar", "bar", False),
    ("8-D2-header", "foo/1.2 (+https://bar.example/)", "foo", True),
    ("8-D2-dot", "foo.bar", "foo", True),
    ("8-D2-at", "foo@example.com", "foo", True),
    ("D2-digits-whole", "MJ12bot", "MJ12bot", True),
    ("D2-digits-whole-case", "mj12BOT", "MJ12bot", True),
    ("D2-digit-first", "360Spider", "360Spider", True),
    ("D2-digits-cut", "bot2", "bot", True),
    ("D2-digits-the-agent-is-not-cut", "bot", "bot2", False),
    ("D2-digits-differ", "bot2", "bot3", False),
    ("D2-digit-first-cut-is-nothing", "360Spider", "Spider", False),
    (
        "D1-a-browsers-header-is-not-cut",
        "Mozilla/4.0 (compatible; A)",
        "Mozilla",
        False,
    ),
    (
        "D1-a-browsers-header-names-no-product",
        "Mozilla/4.0 (compatible; A)",
        "A",
        False,
    ),
    ("D1-a-browsers-header-itself", "Mozilla/4.0 (X; A)", "mozilla/4.0 (x; a)", True),
    ("D1-mozilla-alone-is-a-token", "Mozilla", "mozilla", True),
]


@pytest.mark.parametrize(
    ("line", "token", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in LINES],
)
def test_user_agent_line(line: str, token: str, expected: bool) -> None:
    robots = f"User-agent: {line}\nDisallow: /\n"
    assert parse(robots).allowed("/x", token) is not expected
    assert reference.allowed(robots.encode(), "/x", token) is not expected


DEFAULT_LINES = [
    ("D3-star", "*", True),
    ("D3-star-then-junk", "* junk", True),
    ("D3-star-then-tab", "*\tjunk", True),
    ("D3-star-then-comment", "* # all", True),
    ("D3-star-glued", "*junk", False),
    ("D3-two-stars", "**", False),
    ("D3-name-then-star", "foo *", False),
    ("D3-name-glued-star", "foo*", False),
    ("D3-dot-star", ".*", False),
    ("D3-empty", "", False),
]


@pytest.mark.parametrize(
    ("line", "expected"),
    [pytest.param(*case[1:], id=case[0]) for case in DEFAULT_LINES],
)
def test_default_line(line: str, expected: bool) -> None:
    robots = f"User-agent: {line}\nDisallow: /\n"
    assert parse(robots).allowed("/x", "bar") is not expected
    assert reference.allowed(robots.encode(), "/x", "bar") is not expected


def test_lines_that_name_one_token_in_several_ways_are_merged() -> None:
    # 4, 8
    robots = (
        "User-agent: foo\nDisallow: /a\n"
        "User-agent: foo/2.0\nDisallow: /b\n"
        "User-agent: FOO*\nDisallow: /c\n"
        "User-agent: *\nDisallow: /d\n"
    )
    policy = parse(robots)
    assert [policy.allowed(path, "foo") for path in ("/a", "/b", "/c", "/d")] == [
        False,
        False,
        False,
        True,
    ]


MANY = """\
User-agent: *
Disallow: /default

User-agent: examplebot
Disallow: /example

User-agent: examplebot-news
Disallow: /news

User-agent: mozilla
Disallow: /mozilla

User-agent: MJ12bot
Disallow: /majestic

User-agent: Mail.RU_Bot
User-agent: MegaIndex.ru
User-agent: archive.org_bot
Disallow: /mail

User-agent: 1.2.3
User-agent: example.com
Disallow: /url

User-agent: com
User-agent: www
User-agent: http
User-agent: https
User-agent: bot
User-agent: html
User-agent: example
User-agent: robot
User-agent: org
User-agent: contact
User-agent: info
Disallow: /url
"""

HEADERS = [
    (
        "2-D1-figure-1",
        "Mozilla/5.0 (compatible; ExampleBot/0.1; https://www.example.com/bot.html)",
        "/example",
    ),
    (
        "D1-product-first",
        "ExampleBot/0.1 (+https://www.example.com/bot.html)",
        "/example",
    ),
    (
        "D1-product-last",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 ExampleBot/0.1",
        "/example",
    ),
    ("D1-case", "EXAMPLEBOT/0.1", "/example"),
    (
        "D1-without-version",
        "Mozilla/5.0 (compatible; ExampleBot; +http://example.com)",
        "/example",
    ),
    ("9-D1-longest", "ExampleBot/1.0 (compatible; ExampleBot-News/2.0)", "/news"),
    ("9-D1-longest-other-order", "ExampleBot-News/2.0 ExampleBot/1.0", "/news"),
    ("D1-longest-over-mozilla", "Mozilla/5.0 (ExampleBot)", "/example"),
    (
        "D1-only-what-browsers-carry",
        "Mozilla/5.0 (X11; Linux x86_64; rv:1.0) Gecko/20100101",
        "/default",
    ),
    ("D1-only-mozilla", "Mozilla/5.0", "/default"),
    ("D1-mozilla-as-a-bare-token", "Mozilla", "/mozilla"),
    (
        "D2-digits",
        "MJ12bot/v1.4.8 (compatible; http://mj12bot.com/)",
        "/majestic",
    ),
    ("D1-no-group", "OtherBot/1.0", "/default"),
    (
        "D1-no-group-contact-url",
        "OtherBot/1.0 (+https://www.example.com/robot/bot.html)",
        "/default",
    ),
    ("D1-no-group-plain-url", "OtherBot/1.0 http://example.com/bot", "/default"),
    ("D1-no-group-bare-host", "OtherBot/1.0 (+www.example.com/bot)", "/default"),
    ("D1-no-group-mail", "OtherBot/1.0 (contact@example.com)", "/default"),
    (
        "D1-no-group-mail-first",
        "OtherBot/1.0 (info@example.org; +https://example.org/)",
        "/default",
    ),
    ("D1-no-group-mailto", "OtherBot/1.0 (mailto:bot@example.com)", "/default"),
    ("D1-token-is-no-part-of-a-word", "MyExampleBot/1.0", "/default"),
    ("D1-token-is-no-prefix-of-a-word", "ExampleBotNet/1.0", "/default"),
    ("D1-D2-dots-and-a-version", "Mozilla/5.0 (compatible; Mail.RU_Bot/2.0)", "/mail"),
    ("D1-D2-dots-like-a-host", "Megaindex.ru/2.0 (http://example.com)", "/mail"),
    (
        "D1-D2-dots-of-no-host",
        "Mozilla/5.0 (archive.org_bot +http://a.example)",
        "/mail",
    ),
    ("D1-no-group-host", "OtherBot/1.0 (example.com/bot.html)", "/default"),
    ("D1-no-group-host-alone", "OtherBot/1.0 (example.com; 1.2.3)", "/default"),
    ("D1-no-group-dots-only", "OtherBot/1.2.3 1.2.3/4", "/default"),
    ("D1-empty", "", "/default"),
    ("D1-star", "*", "/default"),
    ("D1-spaces", "   ", "/default"),
    ("D1-only-punctuation", "();/+", "/default"),
]


@pytest.mark.parametrize(
    ("header", "refused"), [pytest.param(*case[1:], id=case[0]) for case in HEADERS]
)
def test_user_agent_header(header: str, refused: str) -> None:
    policy = parse(MANY)
    paths = ["/default", "/example", "/news", "/mozilla", "/majestic", "/mail", "/url"]
    assert [path for path in paths if not policy.allowed(path, header)] == [refused]


LISTS = [
    ("9-D1-first-with-a-group", ["otherbot", "examplebot", "mozilla"], "/example"),
    (
        "9-D1-order-of-preference-not-length",
        ["examplebot", "examplebot-news"],
        "/example",
    ),
    ("9-D1-order-of-preference", ["examplebot-news", "examplebot"], "/news"),
    ("D1-none-has-a-group", ["otherbot", "anotherbot"], "/default"),
    ("D1-one", ["examplebot"], "/example"),
    ("D1-case", ["EXAMPLEBOT"], "/example"),
    ("D1-tuple", ("otherbot", "examplebot"), "/example"),
    ("D1-empty", [], "/default"),
]


@pytest.mark.parametrize(
    ("agents", "refused"), [pytest.param(*case[1:], id=case[0]) for case in LISTS]
)
def test_several_tokens(agents: list[str] | tuple[str, ...], refused: str) -> None:
    policy = parse(MANY)
    paths = ["/default", "/example", "/news", "/mozilla", "/majestic", "/url"]
    assert [path for path in paths if not policy.allowed(path, agents)] == [refused]


def test_named_group_of_a_later_token_beats_the_default_group() -> None:
    # 5: "*" is for agents that no group names, by whichever of their tokens
    policy = parse("User-agent: *\nDisallow: /\nUser-agent: b\nAllow: /\n")
    assert policy.allowed("/x", ["a", "b"]) is True


def test_values_follow_the_same_group() -> None:
    robots = "User-agent: *\nCrawl-delay: 1\nDisallow: /x\nUser-agent: foobot\nCrawl-delay: 2\n"
    policy = parse(robots)
    assert (
        policy.crawl_delay("Mozilla/5.0 (compatible; FooBot/1.0; +http://a.example)")
        == 2.0
    )
    assert policy.crawl_delay(["otherbot", "foobot"]) == 2.0
    assert policy.crawl_delay("otherbot/1.0") == 1.0


@pytest.mark.parametrize(
    ("header", "expected", "not_expected"),
    [
        ("FooBot", {"foobot"}, set()),
        ("FooBot/1.0", {"foobot"}, {"foobot/1.0"}),
        (
            "Mozilla/5.0 (compatible; ExampleBot/0.1; https://www.example.com/bot.html)",
            {"examplebot"},
            {"https", "www", "example", "com", "bot", "html", "mozilla", "compatible"},
        ),
        ("A/1 (B; C/2 d@e.example) F", {"a", "b", "c", "f"}, {"d", "e", "example"}),
        ("MJ12bot/v1.4.8 (http://mj12bot.com/)", {"mj12bot"}, {"com"}),
        ("Mail.RU_Bot/2.0", {"mail.ru_bot"}, {"mail", "ru_bot"}),
        ("Chrome", {"chrome"}, set()),
        ("", set(), {""}),
    ],
)
def test_product_tokens(
    header: str, expected: set[str], not_expected: set[str]
) -> None:
    tokens = {token.lower() for token in product_tokens(header)}
    assert expected <= tokens
    assert not tokens & not_expected


CHROME = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0"
WEBKIT = "AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5"
BROWSERS = [
    f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {CHROME} Safari/537.36",
    f"Mozilla/5.0 (Linux; Android 10; K) {CHROME} Mobile Safari/537.36 OPR/86.0.0.0",
    f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {CHROME} Safari/537.36 Edg/131.0.0.0",
    f"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) {WEBKIT} Safari/605.1.15",
    f"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) {WEBKIT} Mobile/15E148",
    "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0",
    "Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) like Gecko",
    "Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 5.1)",
]

# www.aetna.com, shortened: one of 12 real files whose groups for single programs begin with
# what every browser sends.
AETNA = """\
User-agent: Mozilla/4.0 (compatible; MSIE 4.0; Windows NT; Site Server 3.0 Robot) Aetna
Disallow: /search

User-agent: *
Disallow: /
"""


@pytest.mark.parametrize("header", BROWSERS)
def test_what_browsers_carry_is_no_product_token(header: str) -> None:
    # D1
    assert [token for token in product_tokens(header) if token != "K"] == []
    words = "".join(
        f"User-agent: {word}\nAllow: /\n"
        for word in ("Mozilla", "compatible", "AppleWebKit", "like", "Gecko", "Chrome")
    )
    for robots in (AETNA, words + AETNA, "User-agent: Mozilla/5.0\nAllow: /\n" + AETNA):
        assert parse(robots).allowed("/x", header) is False
    crawler = f"{header} ExampleBot/1.0 (+https://example.com/bot)"
    robots = words + "User-agent: examplebot\nDisallow: /\n"
    assert parse(robots).allowed("/x", crawler) is False


def test_a_whole_header_finds_its_own_group() -> None:
    # D1
    header = (
        "Mozilla/4.0 (compatible; MSIE 4.0; Windows NT; Site Server 3.0 Robot) Aetna"
    )
    policy = parse(AETNA)
    assert policy.allowed("/x", header) is True
    assert policy.allowed("/search", header.upper()) is False
    assert policy.verdict("/search", header).group == (header,)


@pytest.mark.parametrize(
    "agent",
    [
        "\x00",
        "\ud800",
        "\u30c4",
        "\u0130",
        "a" * 100_000,
        "(" * 1000,
        "a/" * 1000,
        "a." * 50_000,
        "a." + "_." * 50_000,
        "a." + "_" * 100_000 + "!",
        "%00",
        "\r\n",
        "#",
    ],
)
def test_no_agent_raises(agent: str) -> None:
    for policy in (parse(MANY), parse(f"User-agent: {agent}\nDisallow: /\n")):
        policy.verdict("/x", agent)
        policy.crawl_delay([agent, agent])
        product_tokens(agent)
