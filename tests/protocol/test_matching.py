"""What the tables of `tests/conformance` do not show of matching: many rules, and two origins."""

from __future__ import annotations

import random

import pytest

from scrapy_rep.protocol import GYM2008, Rule, parse
from tests.conformance import params

from . import reference


@pytest.mark.parametrize(
    ("file", "url", "matches"),
    [
        case
        for case in params("2.2.2-rules", "file", "url", "matches")
        if "D21" in str(case.id)
    ],
)
def test_d21_one_file_speaks_for_several_origins_at_a_time(file, url, matches):
    policy = parse(f"{file}\nDisallow: /elsewhere\n")
    for other in ("https://other.example/elsewhere", url, "/elsewhere", url):
        assert policy.allowed(other, "a") is (other == url and matches == "no")
    assert policy.verdict(url, "a").rule == (
        policy.groups[0].rules[0] if matches == "yes" else None
    )


def lines_of(rules: tuple[Rule, ...]) -> list[int]:
    return [rule.line for rule in rules]


def test_matching_is_in_the_order_of_deciding() -> None:
    rules = "Disallow: /a\nAllow: /a/b\nDisallow: /*b\nDisallow: /a/b\nDisallow: /c\n"
    policy = parse(f"User-agent: a\n{rules}\nUser-agent: *\nDisallow: /\n")
    assert lines_of(policy.matching("/a/b", "a")) == [
        3,
        5,
        4,
        2,
    ]  # the most octets, Allow first
    assert policy.matching("/x", "a") == ()
    older = parse(str(policy), dialect=GYM2008)
    assert lines_of(older.matching("/a/b", "a")) == [2, 3, 4, 5]
    # one that decides nothing, one in two readings, one by either form of the URL
    assert lines_of(policy.matching("/robots.txt", "b")) == [9]
    index = parse("User-agent: *\nAllow: /a/index.html\nDisallow: /a/\n")
    for url in ("/a/", "/a/index.html"):
        assert lines_of(index.matching(url, "a")) == [2, 3]
    dots = parse("User-agent: *\nDisallow: /private\nAllow: /a\n")
    assert lines_of(dots.matching("/a/../private/x", "bot")) == [2]


def test_many_literal_rules_with_nested_prefixes():
    # Every second folder on the way down takes back what the one above it says.
    rules = [
        f"{'Allow' if depth % 2 else 'Disallow'}: /{'a/' * depth}"
        for depth in range(1, 30)
    ]
    robots = "\n".join(["User-agent: *", *rules])
    policy = parse(robots)
    for depth in range(40):
        url = f"/{'a/' * depth}b"
        assert policy.allowed(url, "x") is reference.allowed(
            robots.encode(), url, "x"
        ), depth
        rule = policy.verdict(url, "x").rule
        assert (rule and rule.line) == (min(depth, 29) + 1 if depth else None)


@pytest.mark.parametrize("number", [15, 150, 1500])
def test_wildcards_by_the_hundred_match_as_each_does_alone(number: int) -> None:
    # They are gone through one by one, then sorted out, or found by their letters.
    rng = random.Random(number)
    choices = [["/*", "*", "/a*", "/*?"], "abc", range(400), ["", "$", "*c", "*d$"]]
    paths = ["".join(str(rng.choice(some)) for some in choices) for _ in range(number)]
    rules = list(zip(rng.choices(["Allow", "Disallow"], k=number), paths, strict=True))
    policy = parse("\n".join(["User-agent: *", *map(": ".join, rules)]))
    alone = [parse(f"User-agent: *\nDisallow: {path}\n") for _, path in rules]
    for _ in range(100):
        url = "/" + "".join(rng.choices("abcd0123?", k=rng.randrange(40)))
        matching = {
            line for line, one in enumerate(alone, 2) if not one.allowed(url, "x")
        }
        assert set(lines_of(policy.matching(url, "x"))) == matching
        ranks = [
            (len(rules[line - 2][1]), rules[line - 2][0] == "Allow")
            for line in matching
        ]
        assert policy.allowed(url, "x") is max(ranks, default=(0, True))[1]


@pytest.mark.parametrize("pattern", ["/*x{:03}y", "/*3A{:03}", "/*a&{:03}"])
def test_hundreds_of_wildcards_of_one_length_and_the_one_that_is_named(pattern):
    written = [pattern.format(number) for number in range(301)]
    rules = "\nDisallow: ".join(["User-agent: *", *written[:300]])
    policy = parse(rules)
    for number in (0, 7, 299):
        url = "/z" + written[number][2:].replace("3A", ":")
        assert policy.verdict(url, "a").rule == (False, written[number], number + 2)
    assert policy.verdict("/z" + written[300][2:], "a").reason == "no rule matches"
