"""What a durable job costs: ``python -m tests.benchmarks.job``; it takes some five minutes.

- CPU: to push requests, found on pages, and to hand them out again, through Scrapy's
  scheduler with the duplicates filter. Ours and Scrapy's disk queue take turns, each in a
  process of its own, with our priority queue in both; the median of some pairs.
- With 1,000,000 requests waiting and as many URLs seen: the time until a job with them is
  open, the memory that this takes, and for how long each write holds the event loop while
  requests come and go.

Exit status 1 where one of these is over its limit.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy import Request
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.pqueues import _path_safe

from scrapy_rep.engine import Engine
from scrapy_rep.job import Job
from scrapy_rep.job.file import JobFile
from scrapy_rep.job.fingerprints import FINGERPRINT_OCTETS
from tests.utils import sleep

if TYPE_CHECKING:
    from collections.abc import Iterator

PAIRS = 7
REQUESTS, HOSTS = 20_000, 50
PATTERNS = {"some at a time": 20, "all, then all": REQUESTS}
"""How many are pushed before they are handed out."""
WAITING = 1_000_000
MOST_CPU, MOST_HELD_OCTETS, MOST_START, MOST_MEMORY = 1.3, 0.020, 3.0, 100 * 2**20


def found(first: int, number: int) -> Iterator[Request]:
    for n in range(first, first + number):
        yield Request(f"http://host{n % HOSTS}.example/page/{n}?a=b", meta={"depth": 3})


class Measuring(scrapy.Spider):
    """Does with the scheduler what an engine does, without the network."""

    name = "measuring"
    plan: dict[str, Any]

    async def start(self):
        if self.plan["what"] == "cpu":
            print(json.dumps(await self.push_and_pop(REQUESTS)), flush=True)
        else:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            held = await self.writes_with_many_waiting()
            print(json.dumps({"memory": memory, "held": held}), flush=True)
            os._exit(0)  # what waits is not to be sent
        return
        yield

    async def push_and_pop(self, number: int) -> float:
        """Return the CPU seconds for each request."""
        engine: Any = self.crawler.engine
        scheduler = engine._slot.scheduler
        if self.plan["ours"]:
            job = Job.of(self.crawler)
        took = 0.0
        some = self.plan["some"]
        for first in range(self.plan["first"], self.plan["first"] + number, some):
            requests = list(found(first, some))
            began = process_time()
            for request in requests:
                scheduler.enqueue_request(request)
            for _ in range(some):
                assert scheduler.next_request() is not None
            await sleep(0)
            took += process_time() - began
        if self.plan["ours"]:
            began = process_time()
            job.note_done()
            job.write()
            took += process_time() - began
        return took / number

    async def writes_with_many_waiting(self) -> list[float]:
        job = Job.of(self.crawler)
        write, held = job.write, []

        def timed() -> bool:
            began = perf_counter()
            written = write()
            held.append(perf_counter() - began)
            return written

        job.write = timed  # type: ignore[method-assign]
        while len(held) < 400:
            await self.push_and_pop(1000)
            self.plan["first"] += 1000
        return held


def run(
    folder: Path, what: str, *, ours: bool = True, first: int = 0, some: int = 20
) -> list[Any]:
    plan: dict[str, Any] = {"folder": str(folder), "what": what}
    plan |= {"ours": ours, "first": first, "some": some}
    command = [sys.executable, "-m", __spec__.name, json.dumps(plan)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def crawl(plan: dict[str, Any]) -> None:
    Measuring.plan = plan
    init = Job.__init__

    def timed(job: Job, crawler: Any) -> None:
        began = perf_counter()
        init(job, crawler)
        print(json.dumps({"opened": perf_counter() - began}), flush=True)

    Job.__init__ = timed  # type: ignore[assignment, method-assign]
    Engine.done_with = lambda self, requests: list(requests)  # type: ignore[method-assign]
    process = AsyncCrawlerProcess(
        {
            "ADDONS": {"scrapy_rep.Addon": 500},
            "ROBOTSTXT_OBEY": False,
            "JOBDIR": plan["folder"],
            "REP_DURABLE_JOB": plan["ours"],
            "LOG_LEVEL": "ERROR",
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
        }
    )
    process.crawl(Measuring)
    process.start()


def fill(folder: Path) -> None:
    """Make a job with so many requests waiting, and their URLs seen."""
    with closing(JobFile(folder)) as file:
        queues = [
            (n + 1, _path_safe(f"host{n}.example"), "0", *[f"host{n}.example"] * 2)
            for n in range(HOSTS)
        ]
        file.fill([("INSERT INTO queues VALUES (?, ?, ?, ?, ?)", queues)])
        for first in range(0, WAITING, 100_000):
            numbers = range(first, first + 100_000)
            bodies = (
                (n + 1, n % HOSTS + 1, pickle.dumps(request.to_dict(), 4))
                for n, request in zip(numbers, found(first, 100_000), strict=True)
            )
            seen = (
                (n.to_bytes(4, "big") * (FINGERPRINT_OCTETS // 4),) for n in numbers
            )
            file.fill(
                [
                    ("INSERT INTO requests VALUES (?, ?, ?)", bodies),
                    ("INSERT OR IGNORE INTO seen VALUES (?)", seen),
                ]
            )


def cpu(parent: Path, some: int) -> float:
    """Return how many times the CPU of Scrapy's ours takes."""
    times: dict[bool, list[float]] = {True: [], False: []}
    for pair in range(PAIRS):
        for durable in (True, False):
            folder = parent / f"{some}-{pair}-{durable}"
            times[durable].append(run(folder, "cpu", ours=durable, some=some)[-1] * 1e6)
    ours, scrapys = median(times[True]), median(times[False])
    print(f" {ours:.0f} us of CPU, Scrapy's {scrapys:.0f}: {ours / scrapys:.2f} times")
    return ours / scrapys


def many(parent: Path) -> bool:
    (empty, full) = (parent / "empty", parent / "full")
    full.mkdir()
    fill(full)
    size = (full / "requests.sqlite").stat().st_size
    before = run(empty, "many")[-1]["memory"]
    opened, found = run(full, "many", first=WAITING)
    memory: int = found["memory"] - before
    p99, most = quantiles(found["held"], n=100)[-1], max(found["held"])
    print(f"{WAITING:,} waiting, a file of {size / 2**20:.0f} MiB:")
    print(f"open after {opened['opened']:.2f} s, {memory / 2**20:.1f} MiB more memory")
    print(
        f"a write holds the loop for {p99 * 1e3:.1f} ms (p99), {most * 1e3:.1f} at most"
    )
    return (
        opened["opened"] <= MOST_START
        and memory <= MOST_MEMORY
        and p99 <= MOST_HELD_OCTETS
    )


def main() -> int:
    if len(sys.argv) > 1:
        crawl(json.loads(sys.argv[1]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        passed = []
        for name, some in PATTERNS.items():
            print(f"push and pop, {name}:", end="", flush=True)
            passed.append(cpu(Path(folder), some) <= MOST_CPU)
        passed.append(many(Path(folder)))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
