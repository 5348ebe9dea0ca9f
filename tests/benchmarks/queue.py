"""What it costs to file a request and to hand one out, the more hosts wait.

Run it with ``python -m tests.benchmarks.queue``; it takes a minute or so, with ``--most``
(a row of a million slots) some minutes. In memory queues, one request for each slot;
ours with the middleware, every origin's policy known:

- push, pop: microseconds for each request, the slots being filled from none, and emptied
  of the first part of them; best of some runs. Scrapy's own queue asks every slot at each
  pop, so fewer pops of it are timed, and none beyond 50,000 slots;
- bytes: what a waiting slot takes with its queues, without the request.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tracemalloc
from time import perf_counter
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy import Request
from scrapy.crawler import CrawlerProcess
from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.squeues import FifoMemoryQueue, LifoMemoryQueue

from scrapy_rep.crawl import Crawl
from scrapy_rep.frontier import Frontier, MemoryLedger
from scrapy_rep.policies.cache import Known
from scrapy_rep.policies.lifecycle import Standing, State
from scrapy_rep.protocol import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (100, 10_000, 50_000, 100_000)
MOST = 1_000_000
SCRAPYS_LIMIT = 50_000
SAMPLE = 10_000  # slots whose memory is measured
MOST_GROWTH, LEAST_FASTER = 4.0, 500.0


def requests(number: int) -> list[Request]:
    return [Request(f"http://host{n}.example/") for n in range(number)]


def measure(
    make: Callable[[], Any], made: list[Request], pops: int
) -> tuple[float, float]:
    """Return the seconds for each push and for each of *pops* pops."""
    queue = make()
    gc.collect()
    gc.disable()
    try:
        began = perf_counter()
        for request in made:
            queue.push(request)
        pushed = perf_counter()
        for _ in range(pops):
            assert queue.pop() is not None
        popped = perf_counter()
    finally:
        gc.enable()
    queue.close()
    return (pushed - began) / len(made), (popped - pushed) / pops


def best(make: Callable[[], Any], number: int, pops: int) -> tuple[float, float]:
    made = requests(number)
    # As many operations for few slots as for many.
    runs = [
        measure(make, made, pops)
        for _ in range(max(1 if number == MOST else 3, min(300, 30_000 // number)))
    ]
    pushes, takes = zip(*runs, strict=True)
    return min(pushes), min(takes)


def bytes_per_slot(make: Callable[[], Any]) -> float:
    made = requests(SAMPLE)
    queue = make()
    for request in made:
        queue.push(request)  # so that what is kept with the requests is there before
    queue = make()
    gc.collect()
    tracemalloc.start()
    for request in made:
        queue.push(request)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    queue.close()
    return size / SAMPLE


class Ours:
    """The frontier above a ledger in memory, as a queue."""

    def __init__(self, crawler: Any) -> None:
        self._ledger = MemoryLedger()
        self._frontier = Frontier(Crawl.of(crawler), self._ledger, crawler.spider)
        self._ledger.bind(
            self._frontier, crawler.spider, lambda _: None, lambda *_: None
        )
        self.pop, self.close = self._frontier.pop, self._frontier.close

    def push(self, request: Request) -> None:
        place = self._frontier.places.of(request)
        self._ledger.file(place, 0, request, None, last_first=True)


def table(crawler: Any, sizes: list[int]) -> bool:
    def scrapys() -> Any:
        return DownloaderAwarePriorityQueue.from_crawler(
            crawler, LifoMemoryQueue, "", start_queue_cls=FifoMemoryQueue
        )

    def ours() -> Ours:
        return Ours(crawler)

    shared = Crawl.of(crawler)
    far = shared.policies.now() + 1e6
    policy = Policy.allow_all("no robots.txt (404)")
    standing = Standing(State.FRESH, far, far)
    for number in range(max(sizes)):
        shared.policies._cache.keep(
            Known(f"http://host{number}.example", policy, standing, None)
        )
    gc.freeze()  # not to be walked over and over
    print(f"{'':12}{'ours, us':>20}{'Scrapy, us':>22}")
    print(f"{'slots':>12}{'push':>10}{'pop':>10}{'push':>11}{'pop':>11}{'pop x':>8}")
    found: dict[int, tuple[float, float]] = {}
    faster = 0.0
    for number in sizes:
        push, pop = found[number] = best(ours, number, number // 2)
        line = f"{number:12,}{push * 1e6:10.2f}{pop * 1e6:10.2f}"
        if number <= SCRAPYS_LIMIT:
            pops = number // 2 if number <= 1000 else 100_000 // number + 5
            their_push, their_pop = measure(scrapys, requests(number), pops)
            faster = their_pop / pop
            line += f"{their_push * 1e6:11.2f}{their_pop * 1e6:11.2f}{faster:8.0f}"
        print(line, flush=True)
    small, large = found[100], found[100_000]
    growth = [after / before for before, after in zip(small, large, strict=True)]
    print(
        f"growth from 100 to 100,000 slots: push {growth[0]:.2f}, pop {growth[1]:.2f}"
    )
    print(f"pop at {SCRAPYS_LIMIT:,} slots: {faster:.0f} times as fast as Scrapy's")
    sizes_of = [bytes_per_slot(make) for make in (ours, scrapys)]
    print("bytes for a waiting slot: ours {:.0f}, Scrapy's {:.0f}".format(*sizes_of))
    return max(growth) <= MOST_GROWTH and faster >= LEAST_FASTER


class Measuring(scrapy.Spider):
    """Measures on the engine and the downloader of a crawl that does nothing else."""

    name = "measuring"
    sizes: list[int] = []
    passed = False

    async def start(self):
        type(self).passed = table(self.crawler, self.sizes)
        return
        yield

    def parse(self, response):
        pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most", action="store_true", help="a million slots, too")
    args = parser.parse_args()
    Measuring.sizes = [*SIZES, MOST] if args.most else list(SIZES)
    process = CrawlerProcess(
        {
            "LOG_LEVEL": "ERROR",
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
            "ADDONS": {"scrapy_rep.Addon": 500},
            "REP_CACHE_BYTES": 2**32,
        }
    )
    process.crawl(Measuring)
    process.start()
    return 0 if Measuring.passed else 1


if __name__ == "__main__":
    sys.exit(main())
