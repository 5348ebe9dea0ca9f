"""For how long a worker's calls to Redis hold the event loop of its crawl.

Run it with ``python -m tests.benchmarks.held [FOLDER]``; FOLDER is as for ``protocol``. Each
kind of call is made as large as it gets, at a real server: what is longest of what the process
works from one turn of its event loop to the next, in CPU time, the least of some rounds, as
other processes take some of it. The unit is as in ``stretch``: of 190 µs the goal is 5 ms.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
from time import monotonic, process_time, time
from typing import TYPE_CHECKING, Any

import scrapy

from scrapy_rep.pacing import Health
from scrapy_rep.protocol.decoding import MAX_SIZE
from scrapy_rep.redis.health import SharedHealth
from scrapy_rep.redis.outbox import MOST_PER_CALL
from scrapy_rep.store import KeptAnswer, Snapshot
from tests.benchmarks.stretch import unit
from tests.redis.workers import Crawl, Worker
from tests.redis_server import RedisServer
from tests.utils import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

GOAL = 26.0
ROUNDS = 5
LINKS = 1000
longest: dict[str, list[float]] = {}
worst = 0.0


def watch() -> None:
    """Have ``worst`` be the longest that anything took that the event loop has run."""
    run = asyncio.Handle._run

    def timed(handle: Any) -> None:
        global worst  # noqa: PLW0603
        began = process_time()
        run(handle)
        worst = max(worst, process_time() - began)

    asyncio.Handle._run = timed  # type: ignore[method-assign,assignment]


async def note(name: str, call: Callable[[], Awaitable[Any]]) -> None:
    global worst  # noqa: PLW0603
    await asyncio.sleep(0)
    worst = 0.0
    await call()
    await asyncio.sleep(0)  # what it has done last is over by then
    longest.setdefault(name, []).append(worst)


async def queue(server: RedisServer) -> None:
    async with Crawl(server, TWISTED_REACTOR_ENABLED=False) as crawl:
        exchange, (waits,) = crawl.exchange, crawl.shared.waits.elsewhere
        for number in range(LINKS):
            crawl.queue.push(scrapy.Request(f"http://h{number}.example/page"))
        await note(f"{LINKS} links of a page", exchange.send)
        crawl.places = LINKS
        exchange.ask_at = [0.0]
        await note(f"{LINKS} requests are asked for", exchange.receive)
        await note(f"a sign of life of who has {LINKS}", exchange.beat)
        while exchange.hand:
            request = crawl.queue.pop()
            crawl.hand_over(request, 60.0)
        crawl.done(*exchange.handed_out)
        await note(f"{LINKS} are sent, and done with", exchange.send)
        for number in range(LINKS):
            crawl.queue.push(scrapy.Request(f"http://h{number}.example/other"))
        await exchange.send()

        async def look() -> None:
            waits.look()
            await until(lambda: any(waits.held()))

        await note(f"what waits, at {LINKS} hosts", look)
        await note("a repair", crawl.backlog.repair)
        ill = Health(1, monotonic(), monotonic(), None, 0, monotonic(), 0.0)
        another = SharedHealth(crawl.crawler)
        for number in range(LINKS):
            await another.change(f"h{number}.example", lambda _: ill)
        health = SharedHealth(crawl.crawler)
        known: set[str] = set()
        all_known = asyncio.Event()

        def learned(host: str, _: Health) -> None:
            known.add(host)
            if len(known) == LINKS:
                all_known.set()

        health.on_health(learned)
        await note(f"{LINKS} hosts in trouble", all_known.wait)
        crawl.queue.clear()


async def store(server: RedisServer) -> None:
    line = "Disallow: /%x\n"
    text = "".join(line % random.getrandbits(80) for _ in range(MAX_SIZE // 20))
    facts: dict[str, Any] = dict.fromkeys(
        ("etag", "last_modified", "cache_control", "expires"), ""
    )
    facts |= {"url": "http://a.example/robots.txt", "checked": time()}
    answer = KeptAnswer(
        status=200,
        body=text.encode()[:MAX_SIZE],
        encoding=None,
        lifetime=3600.0,
        grace=0.0,
        **facts,
    )
    async with Worker(server, TWISTED_REACTOR_ENABLED=False) as worker:
        origin = "http://a.example"
        snapshot = Snapshot(answer=answer)
        await note(
            "a robots.txt of 512 KiB is kept",
            lambda: worker.store.put(origin, snapshot),
        )
        await note("and read", lambda: worker.store.get(origin))


async def rounds() -> None:
    with RedisServer() as server:
        for _ in range(ROUNDS):
            gc.collect()
            await queue(server)
            server.client.flushall()
            await store(server)


def main() -> int:
    folder = sys.argv[1] if sys.argv[1:] else None
    before = unit(folder)
    watch()
    asyncio.run(rounds())
    each = min(before, unit(folder))
    found = {name: min(times) / each for name, times in longest.items()}
    for name, times in found.items():
        print(f"{name:40}{1e3 * times * each:7.2f} ms{times:7.1f}")
    print(
        f"the longest is {max(found.values()):.1f} times Protego's mean parse + 1"
        f" (goal: {GOAL:.0f}); at most {MOST_PER_CALL} requests in a call"
    )
    return int(max(found.values()) > GOAL)


if __name__ == "__main__":
    sys.exit(main())
