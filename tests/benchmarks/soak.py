"""What a crawl of very many origins costs: its memory, and the time for each of them.

Run it with ``python -m tests.benchmarks.soak [ORIGINS] [memory|sqlite]``; a million
origins, the default, take some ten minutes for each store. Each origin is asked for
through ``spider.robots``, 16 at a time, and judged once or twice; half of them refuse a request. The site's answers are
made up, at once, in sizes as they are in the wild; the store, the cache and the parser are
the real ones, at the default of 64 MiB. Each store runs in a process of its own:

- growth: the peak of its resident memory over what it was before the first origin;
- time: for each origin in the 10,000 before a mark; each size of answer comes once in 500
  origins, so that the median of the means of 500 compares equal work and leaves out what
  else the machine does.
"""

from __future__ import annotations

import asyncio
import gc
import random
import subprocess
import sys
from bisect import bisect
from itertools import pairwise
from math import exp, log
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from scrapy.utils.reactor import install_reactor
from scrapy.utils.test import get_crawler

from scrapy_rep.access import Access, Outcome
from scrapy_rep.judging.agents import Agents
from scrapy_rep.log import CrawlLog
from scrapy_rep.policies.permissions import Permissions
from scrapy_rep.policies.service import Policies
from scrapy_rep.policies.sharing import Sharing
from scrapy_rep.robots import Robots
from scrapy_rep.settings import Settings
from scrapy_rep.store.memory import MemoryStore
from scrapy_rep.store.sqlite import SqliteStore
from tests.utils import GOES_ON, NO_LANES, fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request

    from scrapy_rep.store import KeptAnswer

MiB = 2**20
MOST_MEMORY = 160 * MiB
MOST_GROWTH = 1.3  # of the time for an origin, from the first mark to the last
CONCURRENT = 16
BODIES = 500
WINDOW = 10_000
MARKS = (10_000, 100_000, 1_000_000)
SITE = "https://site"
AGENT = "soakbot/1.0 (+https://soak.example)"
# Of the sizes of robots.txt files in the wild: (part of them, octets at most).
SIZES = (
    (0.0, 20),
    (0.25, 250),
    (0.5, 600),
    (0.75, 1_700),
    (0.9, 3_800),
    (0.99, 27_000),
    (1.0, 512 * 1024),
)
WORDS = [
    "admin",
    "api",
    "assets",
    "cart",
    "checkout",
    "cgi-bin",
    "content",
    "includes",
    "login",
    "media",
    "node",
    "plugins",
    "private",
    "product",
    "search",
    "section",
    "static",
    "tag",
    "themes",
    "tmp",
    "user",
    "wp-admin",
    "wp-content",
]
AGENTS = ("Googlebot", "bingbot", "AhrefsBot", "GPTBot", "SemrushBot", "MJ12bot")


def size_at(part: float) -> int:
    index = bisect([p for p, _ in SIZES], part) - 1
    (low, least), (high, most) = SIZES[index], SIZES[index + 1]
    share = (part - low) / (high - low)
    return round(exp(log(least) + share * (log(most) - log(least))))


def rule(rnd: random.Random) -> str:
    path = "/".join(rnd.choices(WORDS, k=rnd.randint(1, 4)))
    end = rnd.choice(
        ("", "", "/", "/", ".php", f"/{rnd.randrange(10**6)}", "*", "?id=")
    )
    if rnd.random() < 0.15:
        path = f"*/{path}"
    if rnd.random() < 0.05:
        end = f"/*.{rnd.choice(('pdf', 'xml', 'aspx'))}$"
    return f"{'Allow' if rnd.random() < 0.15 else 'Disallow'}: /{path}{end}\n"


def body(rnd: random.Random, size: int) -> bytes:
    lines = ["User-agent: *\n"]
    if rnd.random() < 0.05:
        lines.append(f"Crawl-delay: {rnd.randint(1, 10)}\n")
    length = sum(map(len, lines))
    while length < size:
        chance = rnd.random()
        if chance < 0.05:
            line = f"\nUser-agent: {rnd.choice(AGENTS)}\n"
        elif chance < 0.10:
            line = f"# {' '.join(rnd.choices(WORDS, k=8))}\n"
        elif chance < 0.12:
            line = f"Sitemap: https://www.example.com/{rnd.choice(WORDS)}.xml\n"
        else:
            line = rule(rnd)
        lines.append(line)
        length += len(line)
    return "".join(lines).encode()


class MadeUpFetcher:
    """Answers for every origin, with one of *bodies*; each once in every round."""

    lanes = NO_LANES

    def __init__(self, bodies: list[bytes]) -> None:
        self.bodies = bodies

    async def fetch(
        self,
        origin: str,
        *,
        page: Request,
        user_agent: str,
        kept: KeptAnswer | None,
        **rest: Any,
    ) -> Outcome:
        await asyncio.sleep(0)  # a download is never over at once
        number = int(origin.removeprefix(SITE).partition(".")[0])
        turn, place = divmod(number, BODIES)
        return Outcome(
            access=Access.SUCCESSFUL,
            status=200,
            # Another order in every round, so that no size stays beside another.
            body=self.bodies[(place * 7 + turn * 13) % BODIES],
            encoding="utf-8",
            url=f"{origin}/robots.txt",
            fields=fields(
                {
                    "ETag": f'"{number:x}"',
                    "Last-Modified": "Tue, 11 Nov 2025 10:00:00 GMT",
                }
            ),
        )


def resident() -> int:
    """Return the octets of memory that this process holds now."""
    return _status("VmRSS")


def peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return 1024 * int(line.split()[1])
    raise LookupError(name)


async def soak(robots: Robots, origins: int) -> list[tuple[float, float]]:
    """Ask for *origins* of them; return wall and CPU times, one after each round."""
    numbers = iter(range(origins))
    rounds = []

    async def work(numbers: Iterator[int]) -> None:
        for number in numbers:
            if number % BODIES == 0:
                rounds.append((perf_counter(), process_time()))
            site = f"{SITE}{number}.example.com"
            for path in ("", f"product/{number}?id={number}")[: 1 + number % 2]:
                policy = await robots.fetch(f"{site}/{path}")
                policy.allowed(f"{site}/{path}", AGENT)
            if number % 4 < 2:  # a refusal, which tells its rule
                policy.verdict(f"{site}/search/{number}.html", AGENT)

    await asyncio.gather(*(work(numbers) for _ in range(CONCURRENT)))
    rounds.append((perf_counter(), process_time()))
    return rounds


def per_origin(rounds: list[tuple[float, float]], mark: int, clock: int) -> float:
    """Return the seconds for an origin in the window that ends at *mark*."""
    last = mark // BODIES
    window = rounds[max(0, last - WINDOW // BODIES) : last + 1]
    return median(b[clock] - a[clock] for a, b in pairwise(window)) / BODIES


async def measure(kind: str, origins: int, path: Path) -> int:
    rnd = random.Random(9309)
    bodies = [body(rnd, size_at((n + 0.5) / BODIES)) for n in range(BODIES)]
    sizes = sorted(map(len, bodies))
    print(
        f"{kind}: {origins} origins, robots.txt of median {sizes[BODIES // 2]},"
        f" mean {sum(sizes) // BODIES}, most {sizes[-1]} octets"
    )
    crawler = get_crawler(settings_dict={"USER_AGENT": AGENT})
    settings = Settings.read(crawler.settings)
    store: Any = SqliteStore(path) if kind == "sqlite" else MemoryStore()
    agents = Agents(crawler, settings)
    policies = Policies(
        crawler,
        settings,
        agent_of=agents.of,
        user_agent_of=agents.header,
        fetcher=MadeUpFetcher(bodies),  # type: ignore[arg-type]
        store=store,
        sharing=Sharing(crawler, settings, lambda: False),
        log=CrawlLog(crawler),
        keep=lambda origin, interval: None,
        engine=GOES_ON,
        permissions=Permissions(settings),
    )
    parts: Any = SimpleNamespace(
        policies=policies, agents=agents, log=CrawlLog(crawler)
    )
    robots = Robots(lambda: parts)
    gc.collect()
    before = resident()
    rounds = await soak(robots, origins)
    growth = peak() - before
    await policies.close()
    stats = crawler.stats
    assert stats is not None
    assert not stats.get_value("rep/unreachable")
    assert stats.get_value("rep/origins") >= origins
    print(f"memory: grew by {growth / MiB:.0f} MiB, at most {MOST_MEMORY // MiB}")
    # The tidy part of a run that is shorter than the marks is its end.
    marks = sorted({min(mark, origins) for mark in MARKS})
    for mark in marks:
        wall, cpu = (1e6 * per_origin(rounds, mark, clock) for clock in (0, 1))
        print(f"at {mark:9,}: {wall:6.0f} µs an origin, {cpu:6.0f} µs of CPU")
    slower = per_origin(rounds, marks[-1], 0) / per_origin(rounds, marks[0], 0)
    print(f"the last takes {slower:.2f} times the first, at most {MOST_GROWTH}")
    print(f"evictions: {stats.get_value('rep/cache/evictions', 0)}", end=", ")
    print(f"in all {rounds[-1][0] - rounds[0][0]:.0f} s", flush=True)
    return 0 if growth <= MOST_MEMORY and slower <= MOST_GROWTH else 1


def main(arguments: list[str]) -> int:
    origins = int(arguments[0]) if arguments else MARKS[-1]
    kinds = arguments[1:] or ["memory", "sqlite"]
    if len(kinds) > 1:
        command = [sys.executable, "-m", "tests.benchmarks.soak", str(origins)]
        return max(subprocess.call([*command, kind]) for kind in kinds)
    with TemporaryDirectory() as folder:
        return asyncio.run(measure(kinds[0], origins, Path(folder, "robots.sqlite")))


if __name__ == "__main__":
    # Scrapy 2.14 has no other way to run.
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    sys.exit(main(sys.argv[1:]))
