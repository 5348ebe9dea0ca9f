"""What a job costs: ``python -m tests.benchmarks.job``; it takes some five minutes.

- CPU: to push requests, found on pages, and to hand them out again, through the scheduler
  with the duplicates filter. Ours and Scrapy's take turns, each in a process of its own; the
  median of some pairs.
- With 1,000,000 requests of 50 hosts waiting and as many URLs seen, and then with
  ``--hosts`` of as many hosts as requests: the time until a job with them is open, the memory
  that this takes, and for how long each write holds the event loop while requests come and go.
  ``--waiting 10000000`` has ten times as many wait, in a file of some 10 GB.

Exit status 1 where one of these is over its limit.
"""

from __future__ import annotations

import argparse
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

from scrapy_rep.engine.inner import Engine
from scrapy_rep.frontier.job_file import FILE_NAME, Changes, JobFile, number_of
from scrapy_rep.frontier.ledger import FINGERPRINT_OCTETS
from scrapy_rep.frontier.sqlite import SqliteLedger
from tests.utils import SCRAPYS, sleep

if TYPE_CHECKING:
    from collections.abc import Iterator

PAIRS = 7
REQUESTS, HOSTS = 20_000, 50
PATTERNS = {"some at a time": 20, "all, then all": REQUESTS}
"""How many are pushed before they are handed out."""
WAITING = 1_000_000
MOST_CPU, MOST_HELD_OCTETS, MOST_START, MOST_MEMORY = 1.3, 0.020, 3.0, 100 * 2**20


def found(first: int, number: int, hosts: int = HOSTS) -> Iterator[Request]:
    for n in range(first, first + number):
        yield Request(f"http://host{n % hosts}.example/page/{n}?a=b", meta={"depth": 3})


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
        took = 0.0
        some = self.plan["some"]
        for first in range(self.plan["first"], self.plan["first"] + number, some):
            requests = list(found(first, some, self.plan["hosts"]))
            began = process_time()
            for request in requests:
                scheduler.enqueue_request(request)
            for _ in range(some):
                assert scheduler.next_request() is not None
            await sleep(0)
            took += process_time() - began
        if self.plan["ours"]:
            began = process_time()
            scheduler.frontier.sweep()
            scheduler.ledger.write()
            took += process_time() - began
        return took / number

    async def writes_with_many_waiting(self) -> list[float]:
        engine: Any = self.crawler.engine
        ledger = engine._slot.scheduler.ledger
        write, held = ledger.write, []

        def timed() -> bool:
            began = perf_counter()
            written: bool = write()
            held.append(perf_counter() - began)
            return written

        ledger.write = timed
        while len(held) < 400:
            await self.push_and_pop(1000)
            self.plan["first"] += 1000
        return held


def run(
    folder: Path,
    what: str,
    *,
    ours: bool = True,
    first: int = 0,
    some: int = 20,
    hosts: int = HOSTS,
) -> list[Any]:
    plan: dict[str, Any] = {"folder": str(folder), "what": what, "hosts": hosts}
    plan |= {"ours": ours, "first": first, "some": some}
    command = [sys.executable, "-m", __spec__.name, json.dumps(plan)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def crawl(plan: dict[str, Any]) -> None:
    Measuring.plan = plan
    opening = SqliteLedger.open

    async def timed(ledger: SqliteLedger) -> None:
        began = perf_counter()
        await opening(ledger)
        print(json.dumps({"opened": perf_counter() - began}), flush=True)

    SqliteLedger.open = timed  # type: ignore[method-assign,assignment]
    Engine.done_with = lambda self, requests: list(requests)  # type: ignore[method-assign]
    process = AsyncCrawlerProcess(
        {
            "ADDONS": {"scrapy_rep.Addon": 500},
            "ROBOTSTXT_OBEY": False,
            "JOBDIR": plan["folder"],
            **({} if plan["ours"] else {"SCHEDULER": SCRAPYS}),
            "LOG_LEVEL": "ERROR",
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
        }
    )
    process.crawl(Measuring)
    process.start()


def fill(folder: Path, waiting: int, hosts: int) -> None:
    """Make a job with so many requests waiting, and their URLs seen."""
    with closing(JobFile(folder)) as file:
        for first in range(0, waiting, 20_000):
            changes = Changes()
            made = found(first, min(20_000, waiting - first), hosts)
            for n, request in enumerate(made, first):
                host = n % hosts
                name = f"host{host}.example\nhttp://host{host}.example"
                changes.names[number_of(name)] = name
                body = pickle.dumps(request.to_dict(), 4)
                changes.requests.append((n + 1, number_of(name), 0, -n - 1, body))
                changes.seen.add(n.to_bytes(4, "big") * (FINGERPRINT_OCTETS // 4))
            file.write(changes.statements({}))


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


def many(parent: Path, waiting: int, hosts: int) -> bool:
    (empty, full) = (parent / f"empty{hosts}", parent / f"full{hosts}")
    full.mkdir()
    fill(full, waiting, hosts)
    size = (full / FILE_NAME).stat().st_size
    before = run(empty, "many", hosts=hosts)[-1]["memory"]
    opened, found = run(full, "many", first=waiting, hosts=hosts)
    memory: int = found["memory"] - before
    p99, most = quantiles(found["held"], n=100)[-1], max(found["held"])
    print(f"{waiting:,} waiting, of {hosts:,} hosts, a file of {size / 2**20:.0f} MiB:")
    print(f"open after {opened['opened']:.2f} s, {memory / 2**20:.1f} MiB more memory")
    print(
        f"a write holds the loop for {p99 * 1e3:.1f} ms (p99), {most * 1e3:.1f} at most"
    )
    return (
        opened["opened"] <= MOST_START * waiting / WAITING
        and memory <= MOST_MEMORY
        and p99 <= MOST_HELD_OCTETS
    )


def main() -> int:
    if sys.argv[1:] and sys.argv[1].startswith("{"):
        crawl(json.loads(sys.argv[1]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--waiting", type=int, default=WAITING)
    parser.add_argument("--hosts", action="store_true")
    parser.add_argument("--no-cpu", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        passed = []
        for name, some in ({} if args.no_cpu else PATTERNS).items():
            print(f"push and pop, {name}:", end="", flush=True)
            passed.append(cpu(Path(folder), some) <= MOST_CPU)
        hosts = args.waiting if args.hosts else HOSTS
        passed.append(many(Path(folder), args.waiting, hosts))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
