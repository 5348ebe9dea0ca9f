"""Files that are made to be slow, and what they cost."""

from __future__ import annotations

import random
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from protego import Protego

from scrapy_rep.protocol import parse
from tests.benchmarks.corpus import AGENT

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 250.0
"""Milliseconds that no single call may take."""


def hard_cases() -> dict[str, tuple[bytes, list[str]]]:
    """Files made to be slow, and URLs for them."""

    def everyone(rules: str) -> bytes:
        return f"User-agent: *\n{rules}".encode()

    long = "/" + "a" * 8000
    literals = "".join(
        f"Disallow: /dir{index}/page{index}/\n" for index in range(16700)
    )
    wildcards = "".join(f"Disallow: /a{index}/*/b{index}*c$\n" for index in range(5000))
    groups = "".join(f"User-agent: bot{i}\nDisallow: /{i}/\n\n" for i in range(2000))
    agents = "".join(f"User-agent: bot{i}\n" for i in range(1000))
    shared = "".join(f"Disallow: /{i}/\n" for i in range(2000))
    find_worst = "".join(f"Disallow: /*{'a' * 40}b{'a' * 40}{i}\n" for i in range(5000))
    same_gram = "".join(f"Disallow: /*aaaa{i}aaaa*aaaa\n" for i in range(4900))
    nested = "".join(f"Disallow: /{'a' * i}\n" for i in range(1, 1000))
    same_score = "".join(f"Allow: /*{i:05}b\n" for i in range(16700))
    return {
        "500 KiB of literals": (
            everyone(literals),
            ["/dir5/page5/x", "/other", "/dir16699/page"],
        ),
        "5,000 wildcards": (everyone(wildcards), ["/a7/x/b7yyc", "/other/page", long]),
        "2,000 groups": (groups.encode(), ["/7/", "/other"]),
        "1,000 agents, 2,000 rules": ((agents + shared).encode(), ["/7/", "/other"]),
        "30 stars, URL of 8 KB": (
            everyone("Disallow: /" + "*a" * 30 + "b$\n"),
            [long, long + "c"],
        ),
        "/*a*a*a*a*b$, URL of 8 KB": (everyone("Disallow: /*a*a*a*a*b$\n"), [long]),
        "31 lines of 16 KB of stars": (
            everyone(("Disallow: /" + "*a" * 8000 + "b\n") * 31),
            [long],
        ),
        "16 KB of *": (everyone("Disallow: /" + "*" * 16000 + "b\n"), [long]),
        "50 long wildcards": (
            everyone(("Disallow: /*" + "a" * 90 + "b*" + "a" * 90 + "c\n") * 50),
            [long],
        ),
        "5,000 worst for find": (everyone(find_worst), [long, long + "b" + long]),
        "4,900 of the same letters": (everyone(same_gram), [long, long + "5" + long]),
        "nested prefixes": (everyone(nested), [long, "/" + "a" * 998 + "b", "/aab"]),
        "16,700 of one length": (everyone(same_score), [long, "/x16699b"]),
        "10 MB of literals": (everyone(literals * 20), ["/other"]),
        "1 MiB of random octets": (random.Random(1).randbytes(1 << 20), ["/other"]),
        "1 MiB of NUL": (bytes(1 << 20), ["/other"]),
        "one line of 500 KiB": (everyone("Disallow: /" + "a" * 500_000 + "\n"), [long]),
        "one line of /a*": (
            everyone("Disallow: " + "/a*" * 170_000 + "\n"),
            ["/a" * 4000],
        ),
        "512k blank lines": (b"User-agent: *\n" + b"\n" * 512_000, ["/other"]),
        "20,000 user-agent lines": (
            b"User-agent: *\n" * 20000 + b"Disallow: /x\n",
            ["/x", "/y"],
        ),
        "20,000 groups for *": (b"User-agent: *\nDisallow: /\n" * 20000, ["/x", "/y"]),
        "URL of 63 KB of escapes": (
            everyone("Disallow: /x\n"),
            ["/" + "%2f%41%e3" * 7000],
        ),
        "500 KiB of white space": (b"\n" + b" " * 500_000 + b"User-agent: *", ["/x"]),
        "line of half user-agents": (everyone("user-agent " * 45000), ["/x"]),
    }


def seconds_of(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def hard_figures(body: bytes, urls: list[str]) -> tuple[float, float, float, float]:
    """Seconds of the first query, of the slowest later query and verdict, and of notes."""
    first = seconds_of(lambda: parse(body).allowed(urls[0], AGENT))
    policy = parse(body)
    for _ in range(20):
        policy.allowed("/", AGENT)
    slowest = max(seconds_of(partial(policy.allowed, url, AGENT)) for url in urls)
    verdict = max(seconds_of(partial(policy.verdict, url, AGENT)) for url in urls)
    return first, slowest, verdict, seconds_of(lambda: policy.notes)


def protego_figures(body: bytes, urls: list[str]) -> tuple[float, float]:
    """Seconds of the first query, parsing included, and of the slowest later one."""
    text = body.decode("utf-8", "ignore")
    first = seconds_of(lambda: Protego.parse(text).can_fetch(urls[0], AGENT))
    parser = Protego.parse(text)
    parser.can_fetch("/", AGENT)
    return first, max(seconds_of(partial(parser.can_fetch, url, AGENT)) for url in urls)


def table() -> None:
    print(
        f"\n{'hard case, ms':30}{'first query':>12}{'slowest':>9}{'verdict':>9}{'notes':>8}"
        f"{'Protego: first':>16}{'slowest':>9}"
    )
    worst = 0.0
    for name, (body, urls) in hard_cases().items():
        ours = [1e3 * seconds for seconds in hard_figures(body, urls)]
        theirs = [1e3 * seconds for seconds in protego_figures(body, urls)]
        print(
            f"{name:30}{ours[0]:12.1f}{ours[1]:9.1f}{ours[2]:9.1f}{ours[3]:8.1f}"
            f"{theirs[0]:16.1f}{theirs[1]:9.1f}",
            flush=True,
        )
        worst = max(worst, *ours[:3])
    print(f"the slowest query or verdict: {worst:.0f} ms (goal: {MOST:.0f})")
