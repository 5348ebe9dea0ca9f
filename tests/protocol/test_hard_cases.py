"""Files and URLs made to be slow, large or strange: all of them end, and decide rightly.

The bound on time is a guard against work that grows too fast, with room for a machine
that does other things; it measures nothing. It is of CPU time, of which others take less.
"""

from __future__ import annotations

import gc
import random
import string
import tracemalloc
from contextlib import contextmanager
from time import process_time

import pytest

from scrapy_rep.protocol import GYM2008, MK1996, RFC9309, Dialect, parse

LIMIT = 512 * 1024
LONG = LIMIT // 4
"""Where there are many cases; what is quadratic takes minutes then, too."""


@contextmanager
def in_time(seconds: float = 5.0):
    start = process_time()
    yield
    assert process_time() - start < seconds


@pytest.mark.invariant7
@pytest.mark.parametrize(
    "pattern",
    [
        "/" + "*a" * 30 + "b$", "/" + "*a" * 30 + "*b", "*" + "a*" * 30 + "b$",
        "/" + "a*" * 2000 + "b", "/*" + "a" * 2000 + "b$", "/" + "*aa" * 1000 + "*b$",
        "/" + "*" * 5000 + "b$", "/*a" + "*" * 5000 + "b",
    ],
    ids=lambda pattern: pattern[:9],
)  # fmt: skip
@pytest.mark.parametrize("dialect", [RFC9309, GYM2008], ids=["RFC9309", "GYM2008"])
def test_wildcards_do_not_backtrack(pattern: str, dialect: Dialect) -> None:
    url = "/" + "a" * 8192
    with in_time():
        policy = parse(f"User-agent: *\nDisallow: {pattern}\n", dialect=dialect)
        assert policy.allowed(url, "x") is True
        assert policy.allowed(url + "b", "x") is False


def lines(form: str, numbers) -> str:
    return "".join(f"{form.format(number)}\n" for number in numbers)


ALL, FIRST = "User-agent: *\n", "User-agent: b\nDisallow: /x\n"
WORDS = ["!", *(f"{number:x}" for number in range(4096))]
BOTS = lines("User-agent: bot{}", range(20_000))
TOKENS = " ".join(f"a{number}/1" for number in range(10_000))
Case = tuple[bytes | str, str, list[str], list[str]]
"""A file, an agent, URLs that it may fetch, and others."""
LARGE: dict[str, Case] = {
    "wildcards in a rule": (
        f"{ALL}Disallow: /{'*a' * 5000}$\n", "x",
        ["/" + "a" * 4999, "/" + "ba" * 5000 + "b"], ["/" + "a" * 5000, "/" + "ba" * 5000],
    ),
    "rules with wildcards": (
        ALL + lines("Disallow: /*/{}/*.gif$", range(5000)) + "Allow: /*/7/*.gif$\n", "x",
        ["/a/4999/b.gif?c", "/a/7/b.gif", *("/a" * 100 + f"/{n}" for n in range(20))],
        ["/a/4999/b.gif"],
    ),
    "literal rules": (
        ALL + lines("Disallow: /folder/{}/", range(20_000)), "x",
        [f"/folder/{number + 30_000}/page" for number in range(3000)],
        [f"/folder/{number}/page" for number in range(3000)],
    ),
    "prefixes of each other": (
        ALL + "".join(f"Disallow: /{'a' * length}$\n" for length in range(1, 900))
        + f"Disallow: /{'a' * 900}\n", "x",
        ["/" + "a" * 899 + "b"], ["/" + "a" * 899, "/" + "a" * 100_000],
    ),
    # Only those in the first 512 KiB count.
    "groups": (FIRST + "User-agent: a\nAllow: /\n" * 100_000, "a", ["/x"], []),
    "groups of others": (FIRST + "User-agent: a\nAllow: /\n" * 100_000, "b", ["/y"], ["/x"]),
    "user-agent lines": (
        BOTS + "Disallow: /x\n", "Mozilla/5.0 (compatible; bot17/1.0; +http://a.example)",
        ["/y"], ["/x"],
    ),
    "no user-agent line of ours": (BOTS + "Disallow: /x\n", "bot20000", ["/x"], []),
    "groups of one agent": (
        "User-agent: a\nDisallow: /x\n" * 19_000 + "User-agent: a\nDisallow: /y\n", "a",
        ["/z"], ["/x", "/y"],
    ),
    "ten mebibytes": (FIRST + "Disallow: /y\n" * 800_000, "b", ["/z"], ["/x", "/y"]),
    # Each may be read in several ways, of which each has to be prepared.
    **{
        f"into the query: {rule[:9]}": (
            ALL + f"Disallow: {rule}\n" * max(1, LIMIT // (len(rule) + 11) - 1), "a",
            ["/x"], ["/:?" + ":a" * 5000 + "/"],
        )
        for rule in ("*%3a" * 10, "*%3a" * 5000, "*%3A" + "*a" * 10 + "%2F", "*%3a" + "*" * 500_000)
    },
    **{
        f"unseen {blank!a} {line}": (
            f"{ALL}{line.format(blank * (LIMIT // 2 // len(blank)))}\nDisallow: /x\n", "c",
            ["/y"], ["/x"],
        )
        for blank in ("\u00a0", "\u200b", "\x01", " \u00a0")
        for line in (
            "{}User-agent: *", "User-agent: a{}b", "User-agent{}", "Disallow: /{}b", "Disallow{}x"
        )
    },
    **{
        f"many lines of {line!r}": (
            b"User-agent: *\nDisallow: /x\n" + line * (LONG // len(line)), "a", ["/y"], ["/x"],
        )
        for line in (b"\r", b":\n", b"a\n", b"\x00\n", b"\xff\r\n")
    },
    **{
        f"marks {mark!a}": (mark * (LIMIT // len(mark)), "a", ["/x"], [])
        for mark in (b"\xef\xbb\xbf", "\ufeff", "\xef\xbb\xbf")
    },
    "product tokens": (FIRST, f"{TOKENS} b/1", ["/y"], ["/x"]),
    **{
        f"a header of {part}": (FIRST, part * 10_000, ["/x"], [])
        for part in ("(", "a(", "a/", "http://", "a@")
    },
    **{
        f"one word {end!a}": (FIRST, "a" * 20_000 + end, ["/x"], [])
        for end in ("", ".", "@", "/", "\u30c4")
    },
    "URLs that are none": (
        f"{ALL}Disallow: /x\n", "a",
        ["http://[", "http://[::1", "http://]/", "http://a:b:c/", "http:", "http:/", "http:///",
         "//", "://", ":"], [],
    ),
    "NUL octets": (b"User-agent: *\nDisallow: /a\x00b\nDisallow: /x\n", "a", ["/a"], ["/x", "/a%00b"]),
}  # fmt: skip


@pytest.mark.invariant7
@pytest.mark.parametrize("name", LARGE)
def test_large_files(name: str) -> None:
    robots, agent, allowed, refused = LARGE[name]
    with in_time():
        policy = parse(robots)
        assert [url for url in allowed if not policy.allowed(url, agent)] == []
        assert [url for url in refused if policy.allowed(url, agent)] == []
        policy.verdict(refused[0] if refused else "/x", agent)
        assert len(policy.groups) < 100_000
        if name.startswith(("unseen", "many lines")):
            assert len(policy.notes) <= LONG


@pytest.mark.invariant7
def test_thousands_of_wildcards_with_few_letters() -> None:
    policy = parse(ALL + "".join(f"Disallow: *{word}*z\n" for word in WORDS))
    for word in WORDS[::99]:
        assert policy.allowed(f"/x{word}yz", "x") is False
    with in_time(1.0):  # it takes a tenth of that, and more if each was looked for
        for number in range(20):
            assert policy.allowed(f"/x{'a' * 16_000}{number}y", "x") is True


def test_many_wildcards_with_much_to_look_for() -> None:
    rng = random.Random(1)
    parts = ["".join(rng.choices(string.ascii_lowercase, k=2000)) for _ in range(250)]
    rules = "".join(f"Disallow: /*{part}*%3a\n" for part in parts)
    tracemalloc.start()
    try:
        policy = parse(f"User-agent: *\n{rules}")
        assert policy.allowed(f"/{parts[7]}/%3a", "a") is False
        assert policy.allowed(f"/{parts[7][:-1]}/%3a", "a") is True
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * LIMIT


def test_a_thousand_agents_share_two_thousand_rules() -> None:
    agents = "".join(f"User-agent: agent{number}\n" for number in range(1000))
    rules = "".join(f"Disallow: /{number}/*/x\n" for number in range(2000))
    with in_time():
        policy = parse(agents + rules)
        for number in range(0, 1000, 10):
            assert policy.allowed("/1999/a/x", f"agent{number}") is False
        assert policy.size_bytes() < 16 * 1024 * 1024


def test_many_agents_that_have_no_group() -> None:
    # A crawl that changes its User-Agent must not fill the memory with what it asked.
    policy = parse("User-agent: *\nDisallow: /x\nUser-agent: a\nDisallow: /y\n")
    tracemalloc.start()
    try:
        for number in range(1500):
            assert policy.allowed("/x", f"Mozilla/5.0 (Bot{number:08})") is False
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 512 * 1024


@pytest.mark.invariant7
@pytest.mark.parametrize(
    "line", [*(bytes([octet]) for octet in b"x%*$#: \t\x00/\xff\xe3"), b"%2F", b"*a"], ids=ascii
)  # fmt: skip
@pytest.mark.parametrize("dialect", [RFC9309, MK1996], ids=["RFC9309", "MK1996"])
def test_one_long_line(line: bytes, dialect: Dialect) -> None:
    for start in (b"", b"Disallow: /", b"User-agent: ", b"Crawl-delay: "):
        body = b"User-agent: a\nDisallow: /x\n" + start + line * (LONG // len(line))
        with in_time():
            policy = parse(body, dialect=dialect)
            assert policy.allowed("/x", "a") is False
            policy.verdict("/y" * 1000, "a")
            policy.crawl_delay("a")


@pytest.mark.invariant7
@pytest.mark.parametrize(
    "piece", [*"%/*?#\u00e9\ud800\x00", "%2F", "%zz", "../", "a:"], ids=ascii
)
def test_long_urls(piece: str) -> None:
    policy = parse(
        "User-agent: *\nDisallow: /x\nDisallow: /*%%\nDisallow: /*%2F%2F*%zz$\n"
    )
    with in_time():
        for start in ("", "/", "https://example.com/", "https://", "/?"):
            policy.verdict(start + piece * (LONG // len(piece)), "a")


@pytest.mark.parametrize("code", [0xD800, 0xDBFF, 0xDC00, 0xDC80, 0xDFFF], ids=hex)
def test_surrogates(code: int) -> None:
    odd = chr(code)
    policy = parse(f"User-agent: *\nDisallow: /{odd}\nDisallow: /x\nSitemap: {odd}\n")
    assert policy.allowed("/x", odd) is False
    policy.verdict(f"/{odd}", "a")
    policy.verdict(f"https://{odd}/{odd}?{odd}#{odd}", "a")
    assert parse(str(policy)) == policy


@pytest.mark.parametrize(
    "line",
    [
        "Allow: /{}#", "Allow: *{}$", "Allow: *{0}*x{0}", "User-agent: *\nAllow: /{}",
        "User-agent: *\nCrawl-delay: {}", "Content-Usage: /{}*b train-ai=y",
        "Content-Usage: train-ai=y, x={}", "Content-Signal: search=yes, x={}",
    ],
)  # fmt: skip
def test_large_files_are_nothing_to_the_garbage_collector(line):
    """It holds all threads, for as long as it takes to look at each object that it may free."""
    lines = "\n".join(line.format(number) for number in range(10_000))
    gc.collect()
    before = len(gc.get_objects())
    policy = parse(f"User-agent: *\n{lines}\nDisallow: /\n")
    policy.crawl_delay("bot")
    policy.preferences("/", "bot")
    for number in range(20):
        policy.verdict(f"/{number}/x{number}", "bot")
    for _ in range(6):  # in each it learns of a tuple whether it holds any that counts
        gc.collect()
    assert len(gc.get_objects()) - before < 1000
