"""How large the file of the SQLite store gets as origins come and go, and what that costs.

Run it with ``python -m tests.benchmarks.store_growth``; it takes ten minutes and 2 GB.
3,000,000 origins are put into a file, each once; the clock goes on so that at any time the
last 1,000,000 of them are of use, as with REP_UNREACHABLE_MAX of 30 days and 32,000 new
origins a day. A line for each 250,000, with times of the thread that writes:

- put: the processor's time for one, with its part of what follows;
- look: the processor's time for one look at rows that may be forgotten, one in 16 puts;
- longest: the longest such look, by the clock.

Fails where the file still grows once 2,000,000 have been put.
"""

from __future__ import annotations

import random
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, thread_time
from typing import TYPE_CHECKING

from scrapy_rep.settings import DAY
from scrapy_rep.store.sqlite import SqliteStore, _put
from tests.benchmarks.store import origin, snapshot
from tests.snapshots import changed

if TYPE_CHECKING:
    from scrapy_rep.store import Snapshot

OF_USE = 1_000_000
TOTAL = 3 * OF_USE
STEP = OF_USE // 4
KEPT_FOR = 31 * DAY
MAY_GROW = 1.02


class Timed(SqliteStore):
    """Notes what looking at rows takes."""

    def __init__(self, path: Path) -> None:
        self.took: list[tuple[float, float]] = []
        super().__init__(path)

    def _forget(self, db: sqlite3.Connection) -> None:
        by_clock, by_processor = perf_counter(), thread_time()
        super()._forget(db)
        self.took.append((perf_counter() - by_clock, thread_time() - by_processor))

    def fill(self, samples: list[Snapshot], start: int) -> float:
        """Put a step's origins; return the seconds of the processor that they took."""
        began = thread_time()
        for number in range(start, start + STEP):
            now = number / OF_USE * KEPT_FOR
            self._wall_at_zero = now - monotonic()
            what = changed(samples[number % len(samples)], checked=now)
            self._work(self._write, _put, origin(number), what)
        return thread_time() - began


def main(path: Path) -> int:
    rnd = random.Random(9309)
    samples = [
        changed(snapshot(rnd, number), lifetime=0.0, grace=0.0)
        for number in range(1000)
    ]
    store = Timed(path)
    sizes = []
    print(f"{'put':>10}{'rows':>11}{'MB':>8}{'put':>9}{'look':>9}{'longest':>11}")
    for start in range(0, TOTAL, STEP):
        store.took.clear()
        seconds = store._worker.submit(store.fill, samples, start).result()
        with closing(sqlite3.connect(path)) as db:
            (rows,) = db.execute("SELECT count(*) FROM robots").fetchone()
        sizes.append(path.stat().st_size)
        mean = sum(processor for _, processor in store.took) / len(store.took)
        print(
            f"{start + STEP:>10,}{rows:>11,}{sizes[-1] / 1e6:>8,.0f}"
            f"{1e6 * seconds / STEP:>6.0f} µs{1e6 * mean:>6.0f} µs"
            f"{1e3 * max(store.took)[0]:>8.1f} ms",
            flush=True,
        )
    store._worker.submit(store._disconnect).result()
    return 0 if sizes[-1] <= MAY_GROW * sizes[2 * OF_USE // STEP - 1] else 1


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        sys.exit(main(Path(name, "robots.sqlite")))
