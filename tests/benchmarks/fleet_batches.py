"""What a fleet's worker and its Redis spend on requests, one by one and many at a time.

``python -m tests.benchmarks.fleet_batches [links|queue|latency|idle|crowd|tls]...``, interleaved:

- links: CPU of the server and of the worker for a page with 20 new links.
- queue: CPU of the server for a pop and what is told after it, by how many at a time.
- latency: pages a second of one worker whose Redis is so far away, beside scrapy-redis'
  own PriorityQueue.
- idle: pops a page, and the part of what is allowed, of workers at 30 hosts that ask for
  a second.
- crowd: the same of 8 and of 32 that are simulated in one process, and their connections.
- tls: for how long a worker that begins waits for its first calls, over TLS and without.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

import scrapy

from scrapy_rep.redis.bookings import RedisBookings
from tests.benchmarks.fleet import delayed, hosts, pages, seen
from tests.benchmarks.web import Web
from tests.fleet import SCRAPY_REDIS, Fleet, seed
from tests.redis.workers import Crawl, Worker
from tests.redis_server import RedisServer
from tests.slow_proxy import SlowProxy

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

LINKS = 20
DATA = bytes(320)
numbers = count(1)


def server_seconds(server: RedisServer) -> float:
    used = server.client.info("cpu")
    return float(used["used_cpu_user"] + used["used_cpu_sys"])


def own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def link(host: int) -> list[Any]:
    """Return a new request, as put.lua takes it."""
    number = next(numbers)
    return [
        f"www.host{host:07d}.example",
        0,
        number.to_bytes(16, "big") + DATA,
        f"{number:040x}",
    ]


async def measured(
    server: RedisServer,
    times: int,
    call: Callable[[int], Coroutine[Any, Any, None]],
    number: int,
) -> tuple[float, float]:
    """Return the milliseconds of the server and of this process for one call."""
    theirs, ours = server_seconds(server), own_seconds()
    for _ in range(times):
        await call(number)
    return (
        (server_seconds(server) - theirs) / times * 1e3,
        (own_seconds() - ours) / times * 1e3,
    )


async def links(times: int = 300, rounds: int = 5) -> None:
    print(f"links: a page with {LINKS} new links, ms of CPU (median of {rounds})")
    with RedisServer() as server:
        async with Crawl(server, TWISTED_REACTOR_ENABLED=False) as crawl:
            backlog = crawl.backlog

            async def put(number: int) -> None:
                for _ in range(0, LINKS, number):
                    args: list[Any] = ["w", 0, 0, 0]
                    for _ in range(number):
                        args += link(next(numbers) % 5000)
                    await backlog.call("put", args, "quiet:dupefilter")

            found: dict[int, list[tuple[float, float]]] = {1: [], LINKS: []}
            for _ in range(rounds):
                for number, all_ in found.items():
                    all_.append(await measured(server, times, put, number))
            for number, all_ in found.items():
                print(
                    f"  {number:2} in a call: server {median(s for s, _ in all_):.2f},"
                    f" worker {median(w for _, w in all_):.2f}",
                    flush=True,
                )
            crawl.queue.clear()


async def queue(times: int = 1024, rounds: int = 5) -> None:
    print(f"queue: 5000 hosts, µs of the server's CPU a request (median of {rounds})")
    with RedisServer() as server:
        async with Crawl(server, TWISTED_REACTOR_ENABLED=False) as crawl:
            backlog = crawl.backlog

            async def fill(hosts_: range) -> None:
                for first in hosts_[::100]:
                    args: list[Any] = ["w", 0, 0, 0]
                    for host in range(first, min(first + 100, hosts_.stop)):
                        args += link(host)
                    await backlog.call("put", args, "quiet:dupefilter")

            async def pop_and_tell(number: int) -> None:
                answer = await backlog.call("pop", ["w", 15_000_000, number, 1, 0])
                members, names = answer[4::3], answer[5::3]
                args: list[Any] = ["w", 0, len(members), *(m[:16] for m in members)]
                args += [len(names)]
                for name in names:
                    args += [name, "paced", 1000]
                await backlog.call("put", args)

            await fill(range(5000))
            found: dict[int, list[float]] = {1: [], 4: [], 16: [], 64: []}
            for _ in range(rounds):
                for number, all_ in found.items():
                    calls = times // number
                    theirs, _ = await measured(server, calls, pop_and_tell, number)
                    all_.append(theirs / number * 1e3)
                    await fill(range(times))
            for number, all_ in found.items():
                print(
                    f"  {number:2} at a time: pop, tell and done {median(all_):.0f}, "
                    f"{median(found[1]) / median(all_):.1f} x cheaper than one by one",
                    flush=True,
                )
            crawl.queue.clear()


def latency(number: int = 10, rounds: int = 3) -> None:
    web_hosts = hosts(100, "User-agent: *\nDisallow: /no\n")
    print(f"latency: 100 hosts, {number} pages each, one worker, pages a second")
    for seconds in (0.0, 0.005, 0.02):
        found: dict[bool, list[float]] = {True: [], False: []}
        held = 0.0
        for _ in range(rounds):
            for ours in (True, False):
                with Web(web_hosts, page=0.0) as web, RedisServer() as server:
                    urls = [
                        web.url(host, path)
                        for host, paths in pages(web_hosts, number).items()
                        for path in paths
                    ]
                    seed(server, urls, ours=ours)
                    settings = {"LOG_LEVEL": "WARNING"} | ({} if ours else SCRAPY_REDIS)
                    with (
                        SlowProxy(server.port, seconds) as proxy,
                        Fleet(server, 1, **settings, REDIS_URL=proxy.url) as fleet,
                    ):
                        fleet.join(300)
                        if ours:
                            held = max(held, fleet.workers[0].stats["loop_held"])
                    hits = seen(web).pages.values()
                times = sorted(at for host in hits for at, _ in host)
                tenth = len(times) // 10
                middle = times[tenth:-tenth]
                found[ours].append(len(middle) / (middle[-1] - middle[0]))
        print(
            f"  {seconds * 1e3:2.0f} ms: ours {median(found[True]):.0f}, PriorityQueue"
            f" {median(found[False]):.0f}; our event loop was held for at most"
            f" {held * 1e3:.0f} ms",
            flush=True,
        )


def idle(number: int = 15) -> None:
    web_hosts = hosts(30, delayed(1.0))
    print(f"idle: 30 hosts that ask for 1 s, {number} pages each")
    for workers in (1, 2, 8):
        with Web(web_hosts, page=0.02) as web, RedisServer() as server:
            urls = [web.url(host, f"/{n}") for n in range(number) for host in web_hosts]
            seed(server, urls)
            with Fleet(server, workers, LOG_LEVEL="WARNING") as fleet:
                fleet.join(300)
                asked = sum(
                    worker.stats.get("rep/redis/pops", 0) for worker in fleet.workers
                )
                calls = server.client.info("cpu")
                found = seen(web)
        rates = found.rates(1.0)
        spent = (calls["used_cpu_user"] + calls["used_cpu_sys"]) / len(urls) * 1e3
        print(
            f"  {workers} workers: {asked / len(urls):.2f} pops a page, rate"
            f" {rates[0]:.3f}-{rates[-1]:.3f} (median {median(rates):.3f}),"
            f" Redis CPU {spent:.2f} ms a page",
            flush=True,
        )


async def crowd(number: int = 15) -> None:
    """Have simulated workers do what an engine would, and sites answer in 20 ms."""
    print(f"crowd: 30 hosts that ask for 1 s, {number} pages each, simulated")
    for size in (8, 32):
        await crowd_of(size, [f"h{n}.example" for n in range(30)], number)


async def crowd_of(size: int, names: list[str], number: int) -> None:
    starts: dict[str, list[float]] = {name: [] for name in names}
    all_ = number * len(names)

    async def page(crawl: Crawl, request: Any) -> None:
        host = request.url.split("/")[2]
        await bookings[crawl].book(host, 1.0)
        starts[host].append(perf_counter())
        crawl.hand_over(request, 1.0)
        await asyncio.sleep(0.02)
        crawl.done(request)
        crawl.places += 1

    async def work(crawl: Crawl) -> None:
        crawl.places = 16
        pages = set()
        while sum(map(len, starts.values())) < all_:
            while (request := crawl.queue.pop()) is not None:
                crawl.in_progress.add(request)
                crawl.places -= 1
                pages.add(asyncio.ensure_future(page(crawl, request)))
            await asyncio.sleep(0.01)
        await asyncio.gather(*pages)

    async with AsyncExitStack() as stack:
        server = stack.enter_context(RedisServer())
        crawls = [await stack.enter_async_context(Crawl(server)) for _ in range(size)]
        bookings = {crawl: RedisBookings(crawl.crawler) for crawl in crawls}
        for path in range(number):
            for name in names:
                crawls[0].queue.push(scrapy.Request(f"http://{name}/{path}"))
        await crawls[0].exchange.send()
        spent, connections = server_seconds(server), 0
        working = asyncio.gather(*map(work, crawls))
        while not working.done():
            known = server.client.info("clients")["connected_clients"] - 1
            connections = max(connections, known)
            await asyncio.sleep(0.5)
        await working
        spent = server_seconds(server) - spent
        pops = sum(crawl.stat("rep/redis/pops") or 0 for crawl in crawls)
    rates = sorted((number - 1) / (at[-1] - at[0]) for at in starts.values())
    print(
        f"  {size} workers: {pops / all_:.2f} pops a page, rate {rates[0]:.3f}-"
        f"{rates[-1]:.3f} (median {median(rates):.3f}), {connections / size:.1f}"
        f" connections a worker, Redis CPU {spent / all_ * 1e3:.2f} ms a page",
        flush=True,
    )


async def tls(calls: int = 32, rounds: int = 5) -> None:
    print(f"tls: {calls} first calls at once, ms (median of {rounds})")
    found: dict[bool, list[float]] = {True: [], False: []}
    with TemporaryDirectory() as folder, RedisServer() as server:
        for _ in range(rounds):
            for by_tls, all_ in found.items():
                certificate = Path(folder) if by_tls else None
                with SlowProxy(server.port, tls=certificate) as proxy:
                    worker = Worker(proxy, TWISTED_REACTOR_ENABLED=False)
                    began = perf_counter()
                    asked = [
                        worker.servers.call("GET", [f"{n}"], []) for n in range(calls)
                    ]
                    await asyncio.gather(*asked)
                    all_.append(perf_counter() - began)
                    await worker.servers.close()
                    await worker.store.close()
    for by_tls, all_ in found.items():
        print(f"  {'TLS' if by_tls else 'plain'}: {median(all_) * 1e3:.0f}", flush=True)


PARTS: dict[str, Any] = {
    "links": links,
    "queue": queue,
    "latency": latency,
    "idle": idle,
    "crowd": crowd,
    "tls": tls,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        began = perf_counter()
        running = PARTS[part]()
        if running is not None:
            asyncio.run(running)
        print(f"  ({perf_counter() - began:.0f} s)", flush=True)
