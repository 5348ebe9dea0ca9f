"""Real robots.txt files from a folder, and URLs to ask them about."""

from __future__ import annotations

import random
from pathlib import Path

SEED = 9309
AGENT = "examplebot"


def bodies_of(folder: str, number: int) -> list[bytes]:
    """Return so many files, drawn from *folder*."""
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    drawn = random.Random(SEED).sample(paths, min(number, len(paths)))
    return [path.read_bytes() for path in drawn]


def described(bodies: list[bytes]) -> str:
    count = len(bodies)
    rules = sum(body.lower().count(b"llow:") for body in bodies)
    agents = sum(body.lower().count(b"user-agent:") for body in bodies)
    size = sum(map(len, bodies))
    return (
        f"{count} files; in the mean {size / count:,.0f} octets, {rules / count:.0f} rules,"
        f" {agents / count:.1f} user-agent lines"
    )


TEXT = """
about account admin ajax api archive article author basket blog cache calendar cart cat
category cgi-bin checkout comment compare config content css customer data default detail
download edit en event export feed file filter forum frame gallery group help home html
image img include index info item js json language lib list login logout mail map media
member message mobile module month news node order page pages password paypal php pic
plugin post preview print private product profile promo public query rating register
reply report request result review rss sale script search section send service session
setup share shop site sort staff static stats store style submit support system tag team
template test theme thread tmp tools topic track trackback upload user vendor video view
web widget wishlist wp-admin wp-content wp-includes xml year
"""
WORDS = TEXT.split()


def path(rng: random.Random) -> str:
    text = "".join(
        "/" + rng.choice(WORDS) for _ in range(rng.choice((1, 1, 2, 2, 3, 4)))
    )
    return text + rng.choice(
        ("/", "/", "", ".html", ".php", f"-{rng.randrange(5000)}/")
    )


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
