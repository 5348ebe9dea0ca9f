"""Robots.txt files for benchmarks: generated ones, or real ones from a folder."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED = 9309
AGENT = "examplebot"


def bodies_of(folder: str | None, number: int) -> list[bytes]:
    """Return so many files, drawn from *folder*; ``None``: generated.

    The generated ones have sizes, groups, rules and wildcards distributed as in 4,400 real
    ones.
    """
    rng = random.Random(SEED)
    if folder is None:
        return [robots_txt(rng) for _ in range(number)]
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return [path.read_bytes() for path in rng.sample(paths, min(number, len(paths)))]


def described(bodies: list[bytes]) -> str:
    count = len(bodies)
    rules = sum(body.lower().count(b"llow:") for body in bodies)
    agents = sum(body.lower().count(b"user-agent:") for body in bodies)
    size = sum(map(len, bodies))
    return (
        f"{count} files; in the mean {size / count:,.0f} octets, {rules / count:.0f} rules,"
        f" {agents / count:.1f} user-agent lines"
    )


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
        line.partition(b": ")[2].decode("utf-8", "ignore").strip()
        for line in body.splitlines()
        if b"llow: /" in line
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
