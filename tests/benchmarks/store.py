"""How long keeping and finding a snapshot holds the event loop.

Run it with ``python -m tests.benchmarks.store``; it takes half a minute. With 100,000
origins in the store, 2000 times each:

- held: the longest turn of the event loop while the operation was under way, which is
  everything else that had to wait for it;
- done: from the call to its result;
- direct: the same work on an SQLite file, done in the event loop's own thread.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

from scrapy.utils.reactor import install_reactor

from scrapy_rep.store import sqlite as direct
from scrapy_rep.store.sqlite import SqliteStore
from tests.snapshots import answer_of, changed, snapshot_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from scrapy_rep.store import Snapshot, Store

ORIGINS = 100_000
TIMES = 2000
LIMIT = (
    0.005  # seconds that an operation may hold the event loop, at the 99th percentile
)


def origin(number: int) -> str:
    return f"https://site{number}.example.com"


def snapshot(rnd: random.Random, number: int) -> Snapshot:
    lines = int(min(rnd.paretovariate(0.9) * 10, 2000))
    rules = "".join(f"Disallow: /section/{rnd.random()}\n" for _ in range(lines))
    return snapshot_of(
        status=200,
        body=f"User-agent: *\n{rules}".encode(),
        encoding="utf-8",
        url=f"{origin(number)}/robots.txt",
        etag=f'"{rnd.getrandbits(64):x}"',
        last_modified="Tue, 11 Nov 2025 10:00:00 GMT",
        checked=3e9 + number,  # of use for long
        lifetime=86400.0,
        grace=172800.0,
    )


async def held(operation: Awaitable[Any]) -> tuple[float, float]:
    """Await *operation*; return the longest turn of the loop meanwhile, and the time."""
    started = before = perf_counter()
    longest = 0.0
    task = asyncio.ensure_future(operation)
    while not task.done():
        await asyncio.sleep(0)
        now = perf_counter()
        longest, before = max(longest, now - before), now
    await task
    return longest, before - started


def row(name: str, seconds: list[float]) -> float:
    ordered = sorted(seconds)
    p50, p99 = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    figures = "".join(f"{1000 * figure:9.3f}" for figure in (p50, p99, ordered[-1]))
    print(f"{name:34}{figures}{len(ordered) / sum(ordered):12.0f}")
    return p99


async def measure(name: str, store: Store, samples: list[Snapshot]) -> float:
    rnd = random.Random(name)
    worst = 0.0
    for verb in ("get", "put", "touch"):
        turns = []
        for _ in range(TIMES):
            where = origin(rnd.randrange(ORIGINS))
            what = changed(rnd.choice(samples), checked=rnd.uniform(3e9, 4e9))
            arguments = (where,) if verb == "get" else (where, what)
            turns.append(await held(getattr(store, verb)(*arguments)))
        worst = max(worst, row(f"{name} {verb}, held", [turn for turn, _ in turns]))
        row(f"{name} {verb}, done", [time for _, time in turns])
    return worst


def measure_direct(name: str, path: Path, samples: list[Snapshot]) -> None:
    rnd = random.Random(name)
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    db.execute("PRAGMA synchronous = NORMAL")
    for verb in ("get", "put", "touch"):
        work = getattr(direct, f"_{verb}")
        times = []
        for _ in range(TIMES):
            arguments = [origin(rnd.randrange(ORIGINS)), rnd.choice(samples)]
            started = perf_counter()
            work(db, *arguments[: 1 if verb == "get" else 2])
            times.append(perf_counter() - started)
        row(f"{name} {verb}, direct", times)
    db.close()


@contextmanager
def another_crawl(path: Path) -> Iterator[None]:
    """Have another process write to *path* as fast as it can."""
    command = [sys.executable, "-m", "tests.store.writer", str(path), "other", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        try:
            yield
        finally:
            writer.kill()


async def measure_nothing(name: str) -> None:
    """Show what the machine itself does to the turns of a loop that only waits."""
    turns = [await held(asyncio.sleep(0.0005)) for _ in range(TIMES)]
    row(f"{name} nothing, held", [turn for turn, _ in turns])


async def fill(name: str, store: Store, samples: list[Snapshot]) -> None:
    async def some(start: int) -> None:
        for number in range(start, ORIGINS, 16):
            await store.put(origin(number), samples[number % len(samples)])

    started = perf_counter()
    await asyncio.gather(*(some(start) for start in range(16)))
    seconds = perf_counter() - started
    print(f"{name}: {ORIGINS} put in {seconds:.1f} s, {ORIGINS / seconds:.0f} a second")


async def main(folder: Path) -> int:
    rnd = random.Random(9309)
    samples = [snapshot(rnd, number) for number in range(1000)]
    sizes = sorted(len(answer_of(sample).body) for sample in samples)
    print(
        f"bodies: median {sizes[500]}, mean {sum(sizes) // 1000}, most {sizes[-1]} octets"
    )
    path = folder / "robots.sqlite"
    sqlite = SqliteStore(path)
    await fill("sqlite", sqlite, samples)
    print(f"{'':34}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}{'a second':>12}")
    await measure_nothing("-")
    worst = await measure("sqlite", sqlite, samples)
    measure_direct("sqlite", path, samples)
    with another_crawl(path):
        # Not judged: it keeps a core busy, and on a small machine that shows.
        await measure_nothing("sqlite shared")
        await measure("sqlite shared", sqlite, samples)
        measure_direct("sqlite shared", path, samples)
    started = perf_counter()
    await sqlite.close()
    print(f"file: {path.stat().st_size / 1e6:.0f} MB, closed in", end=" ")
    print(f"{perf_counter() - started:.2f} s")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    # Scrapy 2.14 has no other way to run.
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    with TemporaryDirectory() as name:
        sys.exit(asyncio.run(main(Path(name))))
