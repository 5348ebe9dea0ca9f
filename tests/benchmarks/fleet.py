"""A fleet of workers, real processes at a real Redis, as the sites see it.

Run it with ``python -m tests.benchmarks.fleet [pace|speed|kills|faults]...``:

- pace: 1, 2, 4 and 8 workers, 30 hosts that ask for a delay. What part of the requests that
  are allowed was sent, and the smallest gap, both in units of the delay.
- speed: 200 hosts that ask for none, beside scrapy-redis' own PriorityQueue; pages a second
  between the first and the last tenth, workers taken in turn.
- kills: 20 times a random worker is killed with ``kill -9`` and another one started, with
  our queue and with scrapy-redis' own: what was never answered.
- faults: Redis killed and restarted, hung for five seconds, emptied; workers whose clocks
  are off by three seconds.
"""

from __future__ import annotations

import random
import sys
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.benchmarks.web import Web
from tests.fleet import SCRAPY_REDIS, Fleet, Worker, seed
from tests.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SETTINGS = {"LOG_LEVEL": "WARNING"}


def hosts(number: int, robots: str, network: int = 1) -> dict[str, str | None]:
    """Return so many hosts, each with that robots.txt."""
    return {f"127.0.{network}.{n}": robots for n in range(1, number + 1)}


def delayed(seconds: float) -> str:
    return f"User-agent: *\nDisallow: /no\nCrawl-delay: {seconds:g}\n"


class Seen(NamedTuple):
    """What the sites saw of a fleet."""

    pages: dict[str, list[tuple[float, str]]]
    robots: dict[str, int]
    gaps: list[float]
    """Between two requests to a host, robots.txt included; smallest first."""

    @property
    def urls(self) -> set[str]:
        return {host + path for host, found in self.pages.items() for _, path in found}

    def rates(self, delay: float) -> list[float]:
        """Return the part of what is allowed that each host was sent."""
        return sorted(
            (len(found) - 1) * delay / (found[-1][0] - found[0][0])
            for found in self.pages.values()
            if len(found) > 1
        )


def seen(web: Web, only: str = "") -> Seen:
    """Return what *web* saw since it was last asked; of hosts that begin with *only*."""
    arrivals = {h: a for h, a in web.arrivals().items() if h.startswith(only)}
    gaps = [
        b - a
        for found in arrivals.values()
        for (a, _), (b, _) in pairwise(sorted(found))
    ]
    return Seen(
        {h: [hit for hit in a if hit[1] != "/robots.txt"] for h, a in arrivals.items()},
        {h: sum(path == "/robots.txt" for _, path in a) for h, a in arrivals.items()},
        sorted(gaps),
    )


@contextmanager
def seeded(
    web: Web,
    paths: dict[str, list[str]],
    workers: int,
    *,
    ours: bool = True,
    folder: Path | None = None,
    **settings: Any,
) -> Iterator[tuple[RedisServer, Fleet]]:
    """Run *workers* on the paths of each host."""
    longest = max(len(found) for found in paths.values())
    urls = [
        web.url(host, found[n])
        for n in range(longest)
        for host, found in paths.items()
        if n < len(found)
    ]
    with RedisServer(folder) as server:
        seed(server, urls, ours=ours)
        settings = SETTINGS | ({} if ours else SCRAPY_REDIS) | settings
        with Fleet(server, workers, **settings) as fleet:
            yield server, fleet


def pages(web_hosts: dict[str, str | None], number: int) -> dict[str, list[str]]:
    return {host: [f"/{n}" for n in range(number)] for host in web_hosts}


def pace(delay: float = 1.0, number: int = 30) -> None:
    web_hosts = hosts(30, delayed(delay))
    print(f"pace: 30 hosts, {number} pages each, Crawl-delay: {delay:g}")
    for workers in (1, 2, 4, 8):
        with (
            Web(web_hosts, page=0.02) as web,
            seeded(web, pages(web_hosts, number), workers) as (_, fleet),
        ):
            fleet.join(delay * number * 3 + 60)
            found = seen(web)
            rates = found.rates(delay)
            print(
                f"  {workers} workers: rate {rates[0]:.3f}-{rates[-1]:.3f}"
                f" (median {median(rates):.3f}) of what is allowed,"
                f" smallest gap {found.gaps[0] / delay:.3f} of the delay,"
                f" robots.txt {min(found.robots.values())}-{max(found.robots.values())}"
                f" times per origin, answered {len(found.urls)}"
                f" of {30 * number}, by worker"
                f" {[len(worker.said('got')) for worker in fleet.workers]}",
                flush=True,
            )


def speed(number: int = 25, rounds: int = 3) -> None:
    web_hosts = hosts(200, "User-agent: *\nDisallow: /no\n")
    print(f"speed: 200 hosts, {number} pages each, pages a second (median of {rounds})")
    for workers in (1, 2, 4):
        found: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(rounds):
            for ours in (True, False):
                with (
                    Web(web_hosts, page=0.0) as web,
                    seeded(web, pages(web_hosts, number), workers, ours=ours) as (_, f),
                ):
                    f.join(300)
                    hits = seen(web).pages.values()
                times = sorted(at for host in hits for at, _ in host)
                tenth = len(times) // 10
                middle = times[tenth:-tenth]
                found[ours].append(len(middle) / (middle[-1] - middle[0]))
        ours_, theirs = median(found[True]), median(found[False])
        print(
            f"  {workers} workers: ours {ours_:.0f}, PriorityQueue {theirs:.0f}:"
            f" {ours_ / theirs:.2f} x",
            flush=True,
        )


def kills(rounds: int = 20, number: int = 40) -> None:
    slow = hosts(10, delayed(0.3), network=1)
    fast = hosts(10, "User-agent: *\nDisallow: /no\n", network=2)
    web_hosts = slow | fast
    paths = {**pages(slow, number), **pages(fast, number * 5)}
    wanted = sum(len(found) for found in paths.values())
    print(f"kills: {rounds} times kill -9, {wanted} URLs, 4 workers")
    for ours in (True, False):
        chance = random.Random(9309)
        with (
            Web(web_hosts, page=0.2) as web,
            seeded(
                web,
                paths,
                4,
                ours=ours,
                REP_REDIS_LEASE=3,
                CONCURRENT_REQUESTS_PER_DOMAIN=2,
            ) as (_, fleet),
        ):
            killed = 0
            while killed < rounds:
                time.sleep(chance.uniform(0.2, 1.5))
                alive = [w for w in fleet.workers if w.process.poll() is None]
                if not alive:
                    break
                kill_one(chance.choice(alive), fleet)
                killed += 1
            fleet.join(300)
            found = seen(web)
            answered = {url.split("//")[1] for url in fleet.said("got")}
        name = "ours" if ours else "scrapy-redis' PriorityQueue"
        print(
            f"  {name}: {killed} killed, {wanted - len(answered)} never answered,"
            f" {sum(map(len, found.pages.values())) - len(found.urls)} sent again",
            flush=True,
        )


def kill_one(worker: Worker, fleet: Fleet) -> None:
    """Kill *worker*, and start another one in its place."""
    worker.stop()
    fleet.workers.append(Worker(fleet.settings))


def restart(server: RedisServer) -> None:
    server.kill()
    time.sleep(2)
    server.start()


def hang(server: RedisServer) -> None:
    server.hang()
    time.sleep(5)
    server.resume()


def long_away(server: RedisServer) -> None:
    server.kill()
    time.sleep(12)
    server.start()


def empty(server: RedisServer) -> None:
    server.client.flushall()


def nothing(server: RedisServer) -> None:
    pass


FAULTS: dict[str, tuple[Callable[[RedisServer], None], dict[str, Any]]] = {
    "killed and restarted": (restart, {}),
    "hung for 5 s": (hang, {}),
    "away for 12 s": (long_away, {}),
    "emptied": (empty, {}),
    "clocks off by 3 s": (nothing, {"CLOCKS_OFF": 3.0}),
}


def faults(delay: float = 0.5, number: int = 40) -> None:
    web_hosts = hosts(20, delayed(delay))
    paths = {host: [*found, "/no"] for host, found in pages(web_hosts, number).items()}
    print(f"faults: 20 hosts, {number} pages each, Crawl-delay: {delay:g}, 4 workers")
    for name, (fault, settings) in FAULTS.items():
        with (
            TemporaryDirectory() as folder,
            Web(web_hosts, page=0.02) as web,
            seeded(web, paths, 4, folder=Path(folder), **settings) as (server, fleet),
        ):
            time.sleep(delay * number / 3 + 3)
            fault(server)
            fleet.join(300)
            held = max(w.stats.get("loop_held", 0.0) for w in fleet.workers)
            found = seen(web)
            short = [gap / delay for gap in found.gaps if gap < 0.98 * delay]
            print(
                f"  {name}: smallest gap {found.gaps[0] / delay:.3f} of the delay,"
                f" {len(short)} below 0.98,"
                f" {sum(url.endswith('/no') for url in found.urls)} Disallows crossed,"
                f" {number * 20 - len(found.urls)} of {number * 20} never sent,"
                f" robots.txt up to {max(found.robots.values())} times,"
                f" an event loop held for {held:.2f} s",
                flush=True,
            )
    with (
        Web(web_hosts, page=0.02) as web,
        seeded(web, paths, 4, ours=False) as (server, fleet),
    ):
        time.sleep(3)
        hang(server)
        fleet.join(300)
        held = max(w.stats.get("loop_held", 0.0) for w in fleet.workers)
    print(f"  scrapy-redis' queue, hung for 5 s: an event loop held for {held:.2f} s")


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["pace", "speed", "kills", "faults"]
    for part in chosen:
        {"pace": pace, "speed": speed, "kills": kills, "faults": faults}[part]()
