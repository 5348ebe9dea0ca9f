"""How an agent finds its group, where tables cannot say it: headers, lists of tokens, anything."""

from __future__ import annotations

from typing import Any

import pytest

from scrapy_rep.protocol import parse, product_tokens
from tests.conformance import params


@pytest.mark.parametrize(
    ("file", "agents", "refused"),
    params("2.2.1-user-agents", "file", "agents", "refused"),
)
def test_several_tokens(file, agents, refused):
    policy = parse(file)
    paths = {rule.path for group in policy.groups for rule in group.rules}
    for given in (agents.split(), tuple(agents.split())):
        assert {path for path in paths if not policy.allowed(path, given)} == {refused}


@pytest.mark.parametrize(
    ("header", "tokens"), params("2.2.1-user-agents", "of_header", "tokens")
)
def test_product_tokens(header: str, tokens: str) -> None:
    assert product_tokens(header) == tuple(tokens.split())


@pytest.mark.parametrize("header", [None, 5, b"Bot/1"])
def test_what_is_no_header_is_named(header: Any) -> None:
    with pytest.raises(TypeError, match=r"header must be str|str object expected"):
        product_tokens(header)


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
AETNA_BOT = (
    "Mozilla/4.0 (compatible; MSIE 4.0; Windows NT; Site Server 3.0 Robot) Aetna"
)
AETNA = f"User-agent: {AETNA_BOT}\nDisallow: /search\n\nUser-agent: *\nDisallow: /\n"


@pytest.mark.parametrize("header", BROWSERS)
def test_d1_what_browsers_carry_is_no_product_token(header: str) -> None:
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


def test_d1_a_whole_header_finds_its_own_group() -> None:
    policy = parse(AETNA)
    assert policy.allowed("/x", AETNA_BOT) is True
    assert policy.allowed("/search", AETNA_BOT.upper()) is False
    assert policy.verdict("/search", AETNA_BOT).group == (AETNA_BOT,)


@pytest.mark.parametrize(
    "agent",
    [
        *(
            "\x00", "\ud800", "\u30c4", "\u0130", "%00", "\r\n", "#", "a" * 100_000, "(" * 1000,
        ),
        *("a/" * 1000, "a." * 50_000, "a." + "_." * 50_000, "a." + "_" * 100_000 + "!"),
    ],
    ids=lambda agent: ascii(agent)[:9],
)  # fmt: skip
def test_no_agent_raises(agent: str) -> None:
    for policy in (parse(AETNA), parse(f"User-agent: {agent}\nDisallow: /\n")):
        policy.verdict("/x", agent)
        policy.crawl_delay([agent, agent])
        product_tokens(agent)
