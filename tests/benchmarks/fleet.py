"""A fleet of workers, real processes at a real Redis, as the sites see it.

Run it with ``python -m tests.benchmarks.fleet [pace|wide|cost|full|away]...``:

- pace: 1, 2, 8 and 32 workers, 30 hosts that ask for a delay. What part of the requests that are
  allowed was sent, the smallest gap at the server, both in units of the delay, and Redis' CPU.
- full: Redis is held to a part of a processor, so that it is the limit: 1, 8 and 32 simulated
  workers, which tell it what real ones do and send nothing, as fast as they can, and four real ones.
- wide: one such host that takes 0.2 s for a page, four workers, spread or not: its owner is then
  bound by CONCURRENT_REQUESTS_PER_DOMAIN, and not by its processor.
- cost: what Redis takes, in CPU for a page with 20 new links, half of them to other workers'
  hosts, and in memory for a request that waits, beyond its pickle.
- away: one of a cluster's servers is away for 30 s, judged as the test does for 4 and 6 s.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import redis

from scrapy_rep.frontier.redis_server import SCRIPTS
from tests.benchmarks.web import Web
from tests.fleet import SPIDER, Fleet, Worker, seed
from tests.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OPEN = "User-agent: *\nDisallow: /no\n"
SETTINGS = {"LOG_LEVEL": "WARNING"}
PERIOD = 0.02
"""Seconds, of which a server that is held computes for a part."""
MADE_BY = ("REP_FLEET_SHARDS", "REP_HOSTS")
"""Settings that matter where a queue is made."""


def hosts(number: int, robots: str, network: int = 1) -> dict[str, str | None]:
    """Return so many hosts, each with that robots.txt."""
    return {f"127.0.{network}.{n}": robots for n in range(1, number + 1)}


def delayed(seconds: float) -> str:
    return f"User-agent: *\nDisallow: /no\nCrawl-delay: {seconds:g}\n"


class Seen(NamedTuple):
    """What the sites saw of a fleet."""

    pages: dict[str, list[tuple[float, str]]]
    robots: dict[str, int]
    times: dict[str, list[float]]
    """When each host was asked for anything, robots.txt included."""

    def gaps_at(self, network: str = "") -> list[float]:
        """Return the seconds between two requests to a host; smallest first."""
        its = [at for host, at in self.times.items() if host.startswith(network)]
        return sorted(b - a for times in its for a, b in pairwise(times))

    @property
    def gaps(self) -> list[float]:
        return self.gaps_at()

    @property
    def urls(self) -> set[str]:
        return {host + path for host, found in self.pages.items() for _, path in found}

    def rates(self, delay: float, took: dict[str, list[float]]) -> list[float]:
        """Return the part of what is allowed that each host was sent.

        A delay counts from the answer: for as long as the site *took*, nothing is allowed.
        """
        return sorted(
            ((len(hits) - 1) * delay + sum(took[host][:-1]))
            / (hits[-1][0] - hits[0][0])
            for host, hits in self.pages.items()
            if len(hits) > 1
        )


def seen(web: Web) -> Seen:
    """Return what *web* saw since it was last asked."""
    arrivals = web.arrivals()
    return Seen(
        {h: [hit for hit in a if hit[1] != "/robots.txt"] for h, a in arrivals.items()},
        {h: sum(path == "/robots.txt" for _, path in a) for h, a in arrivals.items()},
        {h: sorted(at for at, _ in a) for h, a in arrivals.items()},
    )


@contextmanager
def seeded(
    web: Web,
    paths: dict[str, list[str]],
    workers: int,
    *,
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
        made_by = {name: settings[name] for name in MADE_BY if name in settings}
        seed(server, urls, **made_by)
        settings = SETTINGS | settings
        with Fleet(server, workers, **settings) as fleet:
            yield server, fleet


def pages(web_hosts: dict[str, str | None], number: int) -> dict[str, list[str]]:
    return {host: [f"/{n}" for n in range(number)] for host in web_hosts}


def cpu(server: RedisServer) -> float:
    """Return the seconds that the server has computed for."""
    used: Any = server.client.info("cpu")
    return float(used["used_cpu_user"] + used["used_cpu_sys"])


def pace(delay: float = 1.0, number: int = 20) -> None:
    web_hosts = hosts(30, delayed(delay))
    print(f"pace: 30 hosts, {number} pages each, Crawl-delay: {delay:g}")
    for workers in (1, 2, 8, 32):
        with (
            Web(web_hosts, page=0.02) as web,
            seeded(web, pages(web_hosts, number), workers) as (server, fleet),
        ):
            before = cpu(server)
            fleet.join(delay * number * 3 + 60)
            found = seen(web)
            rates = found.rates(delay, web.took())
            print(
                f"  {workers} workers: rate {rates[0]:.3f}-{rates[-1]:.3f}"
                f" (median {median(rates):.3f}) of what is allowed,"
                f" smallest gap {found.gaps[0] / delay:.3f} of the delay,"
                f" robots.txt {min(found.robots.values())}-{max(found.robots.values())}"
                f" times per origin, answered {len(found.urls)} of {30 * number},"
                f" Redis {(cpu(server) - before) * 1e3 / (30 * number):.2f} ms a page",
                flush=True,
            )


def rate_of(
    web_hosts: Any, number: int, workers: int, *, page: float = 0.0, **settings: Any
) -> float:
    """Return the pages a second between the first and the last tenth."""
    with (
        Web(web_hosts, page=page) as web,
        seeded(web, pages(web_hosts, number), workers, **settings) as (_, fleet),
    ):
        fleet.join(300)
        hits = seen(web).pages.values()
    times = sorted(at for host in hits for at, _ in host)
    tenth = len(times) // 10
    middle = times[tenth:-tenth]
    return len(middle) / (middle[-1] - middle[0])


def wide(number: int = 1500) -> None:
    web_hosts = hosts(1, OPEN)
    print(f"wide: one host, {number} pages of 0.2 s, 4 workers")
    spread = {"REP_HOSTS": {"127.0.1.1": {"wide": 16}}}
    for name, settings in {"one owner": {}, "spread": spread}.items():
        rate = rate_of(web_hosts, number, 4, page=0.2, **settings)
        print(f"  {name}: {rate:.0f} pages a second", flush=True)


def cost(pages_: int = 500, links: int = 20, waiting: int = 200_000) -> None:
    body = b"x" * 344  # a request as it is pickled
    with RedisServer() as server:
        client: Any = server.client
        file = client.register_script(SCRIPTS["file"])
        keys = [f"{{rep:{n}}}:{SPIDER}:owner" for n in range(32)]
        own = client.register_script(SCRIPTS["own"])
        terms = [own([key], ["me", 10**8, "e"])[0] for key in keys[:16]]
        serial, before = 0, cpu(server)
        for page in range(pages_):
            args: list[Any] = ["me"]
            used = [(page + link) % 32 for link in range(links)]
            for n in used:
                serial += 1
                id_ = serial.to_bytes(8, "big")
                mine = terms[n] if n < 16 else ""
                args += [page + 1, mine, 1]
                args += [f"0\0h{serial % 5000}.example\nhttp://h", "L", 0, id_ * 2]
                args.append(id_ + body)
            file([keys[n] for n in used], args)
        took = (cpu(server) - before) * 1e3 / pages_
        print(f"cost: a page with {links} new links: {took:.2f} ms of Redis")
        before = client.info("memory")["used_memory"]
        for first in range(0, waiting, 200):
            args = ["me", first + 10**6, terms[0], 200]
            for n in range(first, first + 200):
                name = f"0\0host{n % 20_000}.example\nhttp://host{n % 20_000}.example"
                args += [name, "L", 0, "", n.to_bytes(8, "big") + body]
            file(keys[:1], args)
        grown = client.info("memory")["used_memory"] - before
        print(
            f"  a waiting request: {grown / waiting - len(body):.0f} octets beyond it"
        )


def load_of(url: str, workers: int, first: int, seconds: float) -> int:
    """Be *workers* for so many *seconds*: return how many pages they did.

    Each page has 20 new links, half of them to shards of others, and a start that is booked. What
    a worker says in GATHER_SECONDS is one call, of four pages here.
    """
    pages_, links, shards = 4, 20, 32
    keys = [f"{{rep:{n}}}:{SPIDER}:owner" for n in range(shards)]
    client = redis.Redis.from_url(url)
    terms: dict[int, list[Any]] = {}
    digests = {name: client.script_load(text) for name, text in SCRIPTS.items()}
    for me in range(first, first + workers):
        mine = range(me % shards, shards, 32)
        terms[me] = [""] * shards
        for n in mine:
            own = client.evalsha(digests["own"], 1, keys[n], me, 10**8, "e")
            terms[me][n] = own[0] if own else ""
    begun, done, serial, ticked = time.monotonic(), 0, first << 40, 0.0
    while (now := time.monotonic()) < begun + seconds:
        with client.pipeline(transaction=False) as calls:
            for me, its in terms.items():
                (mine_,) = [n for n in range(shards) if its[n]] or [0]
                if now > ticked + 0.25:
                    calls.evalsha(
                        digests["beat"], 2, "{rep:f}:w", "{rep:f}:o", me, 8000
                    )
                    calls.evalsha(digests["tick"], shards, *keys, me, 8000, *its)
                blocks: dict[int, list[Any]] = {}
                for link in range(pages_ * links):
                    serial += 1
                    id_ = serial.to_bytes(8, "big")
                    n = mine_ if link % 2 else (mine_ + link) % shards
                    list_ = (
                        f"0\0h{serial % 997}.example\nhttp://h{serial % 997}.example"
                    )
                    blocks.setdefault(n, []).extend(
                        (list_, "L", 0, id_ * 2, id_ + b"x" * 344)
                    )
                args = [
                    part
                    for n, new in blocks.items()
                    for part in (done + 1, its[n], len(new) // 5, *new)
                ]
                calls.evalsha(
                    digests["file"], len(blocks), *(keys[n] for n in blocks), me, *args
                )
                for page in range(pages_):
                    turn = f"{{rep:{mine_}}}:turn:h{serial % 997 + page}"
                    calls.evalsha(digests["turn"], 1, turn, me, "book", 1, 1000, 10**6)
                    calls.evalsha(digests["turn"], 1, turn, me, "over", 1, 1000, 0)
                list_ = f"0\0h{serial % 997}.example\nhttp://h{serial % 997}.example"
                calls.evalsha(
                    digests["take"], 1, keys[mine_], its[mine_], list_, pages_
                )
                ids = [(serial - n).to_bytes(8, "big") for n in range(pages_)]
                calls.evalsha(digests["done"], 1, keys[mine_], its[mine_], pages_, *ids)
                done += pages_
            if now > ticked + 0.25:
                ticked = now
            calls.execute()
    return done


@contextmanager
def held(server: RedisServer, share: float) -> Iterator[None]:
    """Let the server compute for that *share* of the time alone."""
    is_over = threading.Event()

    def hold() -> None:
        while not is_over.wait(share * PERIOD):
            server.hang()
            time.sleep((1 - share) * PERIOD)
            server.resume()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def full(seconds: float = 10.0, share: float = 0.1) -> None:
    print(
        f"full: Redis gets {share:.0%} of a processor; pages with 20 links, simulated"
    )
    for workers in (1, 8, 32):
        processes = min(workers, 4)
        each = workers // processes
        with RedisServer() as server, multiprocessing.Pool(processes) as pool:
            before = cpu(server)
            jobs = [(server.url, each, n * each, seconds) for n in range(processes)]
            with held(server, share):
                done = sum(pool.starmap(load_of, jobs))
            used = cpu(server) - before
            print(
                f"  {workers} workers: {done / seconds:.0f} pages a second, Redis busy for"
                f" {used / seconds:.1%}, {used * 1e3 / done:.2f} ms a page: a whole one is full"
                f" at {done / used:.0f} pages a second",
                flush=True,
            )
    delay, number, web_hosts = 0.2, 25, hosts(30, delayed(0.2))
    print(
        f"  then 4 real workers, 30 hosts, {number} pages each, Crawl-delay: {delay:g}"
    )
    for part in (1.0, share, share / 5, share / 20):
        with (
            Web(web_hosts, page=0.02) as web,
            seeded(web, pages(web_hosts, number), 4) as (server, fleet),
        ):
            before, begun = cpu(server), time.monotonic()
            with held(server, part) if part < 1 else nullcontext():
                fleet.join(600)
            took, found = time.monotonic() - begun, seen(web)
            stats = [worker.stats for worker in fleet.workers]
            lost, away = (
                sum(each.get(f"rep/fleet/{name}", 0) for each in stats)
                for name in ("lost_shards", "away")
            )
            print(
                f"  {part:.1%}: {len(found.urls) / took:.1f} pages a second, all"
                f" {len(found.urls)} of {30 * number}, Redis busy for"
                f" {(cpu(server) - before) / took:.2%}, smallest gap"
                f" {found.gaps[0] / delay:.3f} of the delay, leases lost {lost}, away {away}",
                flush=True,
            )


def kill_one(worker: Worker, fleet: Fleet) -> None:
    """Kill *worker*, and start another one in its place."""
    worker.stop()
    fleet.workers.append(Worker(fleet.settings))


def away() -> None:
    from tests.crawls import test_fleet_cluster as cluster  # which needs us

    with TemporaryDirectory() as folder:
        cluster.test_hosts_of_a_server_that_is_away_wait_and_all_is_sent(
            cluster.goes, 30, Path(folder)
        )
    print("away: all was sent, and every worker ended by itself")


PARTS: dict[str, Callable[[], None]] = {
    "pace": pace,
    "wide": wide,
    "cost": cost,
    "full": full,
    "away": away,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
