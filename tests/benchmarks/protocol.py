"""How fast the protocol core is, beside Protego, which Scrapy uses by default.

    python tests/benchmarks/protocol.py [--files N] [--rounds N]

Generates robots.txt files whose sizes, groups, rules and wildcards are distributed as in
4,400 real ones, and hard cases that no real site would send. Every figure is a median over
rounds in which both take turns; the ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import tracemalloc
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from protego import Protego

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scrapy_rep.protocol import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

AGENT = "examplebot"


def list_of(words: str) -> list[str]:
    return words.split()


WORDS = list_of(
    "about account admin ajax api archive article author basket blog cache calendar cart cat "
    "category cgi-bin checkout comment compare config content css customer data default detail "
    "download edit en event export feed file filter forum frame gallery group help home html "
    "image img include index info item js json language lib list login logout mail map media "
    "member message mobile module month news node order page pages password paypal php pic "
    "plugin post preview print private product profile promo public query rating register "
    "reply report request result review rss sale script search section send service session "
    "setup share shop site sort staff static stats store style submit support system tag team "
    "template test theme thread tmp tools topic track trackback upload user vendor video view "
    "web widget wishlist wp-admin wp-content wp-includes xml year"
)
BOTS = list_of(
    "Googlebot Mediapartners-Google Bingbot Twitterbot Slurp Baiduspider Yandex msnbot "
    "ia_archiver AhrefsBot MJ12bot AdsBot-Google Googlebot-Image Googlebot-News 008 WebCopier "
    "WebZIP Wget SemrushBot dotbot psbot TeleportPro larbin rogerbot Nutch HTTrack EmailSiphon"
)

# Quantiles of real files: (share of files, at most this many).
RULES = (
    (0.14, 0),
    (0.25, 2),
    (0.5, 9),
    (0.75, 30),
    (0.9, 68),
    (0.99, 273),
    (1.0, 3000),
)
WILDCARD_SHARES = ((0.48, 0.0), (0.5, 0.02), (0.75, 0.38), (0.9, 0.7), (1.0, 1.0))
OTHER_GROUPS = ((0.68, 0), (0.75, 1), (0.9, 5), (0.95, 13), (0.99, 110), (1.0, 400))


def draw(rng: random.Random, quantiles: Sequence[tuple[float, float]]) -> float:
    """A number from a distribution that is given by its quantiles, straight between them."""
    point = rng.random()
    low, before = 0.0, quantiles[0][1]
    for share, value in quantiles:
        if point <= share:
            return before + (value - before) * (point - low) / (share - low)
        low, before = share, value
    return before


def path(rng: random.Random) -> str:
    text = "".join(
        "/" + rng.choice(WORDS) for _ in range(rng.choice((1, 1, 2, 2, 3, 4)))
    )
    return text + rng.choice(
        ("/", "/", "", ".html", ".php", f"-{rng.randrange(5000)}/")
    )


def pattern(rng: random.Random) -> str:
    shape = rng.random()
    if shape < 0.35:
        return f"/*?{rng.choice(WORDS)}="
    if shape < 0.5:
        return f"/*.{rng.choice(('pdf', 'gif', 'php', 'xls', 'doc', 'swf'))}$"
    if shape < 0.8:
        return f"/*/{rng.choice(WORDS)}/"
    return f"{path(rng)}*{rng.choice(WORDS)}"


def robots_txt(rng: random.Random) -> bytes:
    """A file like a real one: a group for all, some for single bots, comments, sitemaps."""

    def rules(number: int, wildcard_share: float) -> list[str]:
        lines = []
        for _ in range(number):
            field = "Disallow: " if rng.random() < 0.92 else "Allow: "
            wild = rng.random() < wildcard_share
            target = pattern(rng) if wild else path(rng)
            if not wild and rng.random() < 0.05:
                target += f"?{rng.choice(WORDS)}="
            lines.append(field + target)
            if rng.random() < 0.05:
                lines.append(f"# {' '.join(rng.choices(WORDS, k=5))}")
        return lines

    lines = ["# robots.txt", ""] if rng.random() < 0.5 else []
    for _ in range(int(draw(rng, OTHER_GROUPS))):
        lines += [
            f"User-agent: {rng.choice(BOTS)}",
            *(rules(int(rng.expovariate(1 / 6)), 0.1) or ["Disallow: /"]),
            "",
        ]
    lines.append("User-agent: *")
    if rng.random() < 0.17:
        lines.append("Crawl-delay: 10")
    lines += rules(int(draw(rng, RULES)), draw(rng, WILDCARD_SHARES))
    if rng.random() < 0.6:
        lines += ["", "Sitemap: https://www.example.com/sitemap.xml"]
    return (rng.choice(("\n", "\n", "\r\n")).join(lines) + "\n").encode()


def urls_for(rng: random.Random, body: bytes, number: int) -> list[str]:
    """Distinct URLs of one site; every sixth begins with one of the rules."""
    rules = [
        line.split(b": ")[1].decode() for line in body.splitlines() if b"llow: " in line
    ]
    urls: dict[str, None] = {}
    while len(urls) < number:
        if rules and rng.random() < 1 / 6:
            start = rng.choice(rules).replace("*", rng.choice(WORDS)).rstrip("$")
        else:
            start = path(rng)
        if rng.random() < 0.2:
            start += f"?{rng.choice(WORDS)}={rng.randrange(100)}"
        urls.setdefault(
            f"https://www.example.com{start}{rng.choice(('', '', rng.randrange(10**6)))}"
        )
    return list(urls)


def timed(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def compare(
    name: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    rounds: int,
    calls: int,
) -> None:
    """Print the microseconds of one of `calls` calls, and how many times faster ours is."""
    times = [(timed(ours), timed(theirs)) for _ in range(rounds)]
    mine = median(our for our, _ in times) / calls * 1e6
    other = median(their for _, their in times) / calls * 1e6
    ratio = median(their / our for our, their in times)
    print(f"{name:34}{mine:12.2f}{other:12.2f}{ratio:9.2f}x", flush=True)


def protego(body: bytes) -> Protego:
    return Protego.parse(body.decode("utf-8", "ignore"))


def corpus_table(files: int, rounds: int) -> None:
    rng = random.Random(9309)
    corpus = [robots_txt(rng) for _ in range(files)]
    urls = [urls_for(rng, body, 12) for body in corpus]
    rules = sum(body.count(b"llow: ") for body in corpus)
    agents = sum(body.count(b"User-agent: ") for body in corpus)
    print(
        f"{files} files; in the mean {sum(map(len, corpus)) / files:.0f} octets, "
        f"{rules / files:.0f} rules, {agents / files:.1f} user-agent lines "
        "(of 4,417 real ones: 2,623, 66, 5.8)"
    )
    print(f"{'':34}{'ours, us':>12}{'Protego, us':>12}{'faster':>10}")

    def ours(bodies: list[bytes], asked: list[list[str]], number: int) -> None:
        for body, its_urls in zip(bodies, asked, strict=True):
            policy = parse(body)
            for url in its_urls[:number]:
                policy.allowed(url, AGENT)

    def theirs(bodies: list[bytes], asked: list[list[str]], number: int) -> None:
        for body, its_urls in zip(bodies, asked, strict=True):
            parser = protego(body)
            for url in its_urls[:number]:
                parser.can_fetch(url, AGENT)

    for number in (1, 10):
        compare(
            f"parse and {number} query",
            lambda number=number: ours(corpus, urls, number),  # type: ignore[misc]
            lambda number=number: theirs(corpus, urls, number),  # type: ignore[misc]
            rounds,
            files,
        )
    few = corpus[: max(files // 5, 1)]
    many = [urls_for(rng, body, 1000) for body in few]
    compare(
        "parse and 1000 queries",
        lambda: ours(few, many, 1000),
        lambda: theirs(few, many, 1000),
        max(rounds // 2, 1),
        len(few),
    )

    policies = [parse(body) for body in corpus]
    parsers = [protego(body) for body in corpus]
    for policy, parser, its_urls in zip(policies, parsers, urls, strict=True):
        for url in its_urls * 2:
            policy.allowed(url, AGENT)
            parser.can_fetch(url, AGENT)

    def ask_ours() -> None:
        for policy, its_urls in zip(policies, urls, strict=True):
            for url in its_urls:
                policy.allowed(url, AGENT)

    def ask_theirs() -> None:
        for parser, its_urls in zip(parsers, urls, strict=True):
            for url in its_urls:
                parser.can_fetch(url, AGENT)

    compare("query, warm", ask_ours, ask_theirs, rounds * 2, files * 12)
    differ = sum(
        policy.allowed(url, AGENT) != parser.can_fetch(url, AGENT)
        for policy, parser, its_urls in zip(policies, parsers, urls, strict=True)
        for url in its_urls
    )
    print(f"answers that differ: {differ} of {files * 12}")
    memory_table(corpus, urls)


def memory_table(corpus: list[bytes], urls: list[list[str]]) -> None:
    """Octets a policy after one query and after twenty, our own estimate beside them."""

    def traced(
        make: Callable[[bytes, list[str]], object],
    ) -> tuple[float, list[object]]:
        gc.collect()
        tracemalloc.start()
        kept = [
            make(bytes(body), its_urls)
            for body, its_urls in zip(corpus, urls, strict=True)
        ]
        size = tracemalloc.get_traced_memory()[0] / len(kept)
        tracemalloc.stop()
        return size, kept

    def ours(number: int) -> Callable[[bytes, list[str]], object]:
        def make(body: bytes, its_urls: list[str]) -> object:
            policy = parse(body)
            for url in (its_urls * 2)[:number]:
                policy.allowed(url, AGENT)
            return policy

        return make

    def theirs(body: bytes, its_urls: list[str]) -> object:
        parser = protego(body)
        parser.can_fetch(its_urls[0], AGENT)
        return parser

    other, _ = traced(theirs)
    for number in (1, 20):
        mine, policies = traced(ours(number))
        said = sum(policy.size_bytes() for policy in policies) / len(policies)  # type: ignore[attr-defined]
        print(
            f"memory after {number} queries: {mine:.0f} octets (size_bytes says {said:.0f}), "
            f"Protego {other:.0f}, {mine / other:.2f} of it"
        )


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


def hard_table() -> None:
    """Milliseconds of the slowest single query, parsing included, of everything else after."""
    print(
        f"\n{'hard case, ms':34}{'first query':>12}{'slowest':>10}{'verdict':>10}{'notes':>10}"
    )
    for name, (body, urls) in hard_cases().items():
        figures = "".join(
            f"{seconds * 1e3:10.2f}" for seconds in hard_figures(body, urls)
        )
        print(f"{name:36}{figures}", flush=True)


def hard_figures(body: bytes, urls: list[str]) -> tuple[float, float, float, float]:
    """Seconds of the first query, of the slowest later query and verdict, and of notes."""
    first = timed(lambda: parse(body).allowed(urls[0], AGENT))
    policy = parse(body)
    for _ in range(20):
        policy.allowed("/", AGENT)
    slowest = max(timed(partial(policy.allowed, url, AGENT)) for url in urls)
    verdict = max(timed(partial(policy.verdict, url, AGENT)) for url in urls)
    return first, slowest, verdict, timed(lambda: policy.notes)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, default=400)
    options.add_argument("--rounds", type=int, default=7)
    arguments = options.parse_args()
    gc.disable()
    corpus_table(arguments.files, arguments.rounds)
    hard_table()


if __name__ == "__main__":
    main()
