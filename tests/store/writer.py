"""Snapshots that prove themselves whole; run as a program, it writes them to a file."""

from __future__ import annotations

import asyncio
import random
import sys
from itertools import count

from scrapy_rep.store.sqlite import SqliteStore
from tests.snapshots import answer_of, snapshot_of

ORIGINS = 50  # of each writer, and as many that all writers share


def sample(name: str, number: int):
    """Return the one snapshot that *name* and *number* stand for."""
    rnd = random.Random(f"{name} {number}")
    return snapshot_of(
        status=200,
        body=rnd.randbytes(rnd.choice((0, 100, 3000, 40_000))),
        encoding=rnd.choice((None, "utf-8")),
        url=f"https://{name}.example/robots.txt",
        etag=f"{name} {number}",
        last_modified=str(rnd.random()),
        checked=rnd.uniform(3e9, 4e9),  # of use for long
        lifetime=86400.0,
        grace=rnd.uniform(0, 1e6),
        cache_control=rnd.choice(("", "max-age=86400")),
    )


def is_whole(snapshot):
    if snapshot is None:
        return False
    name, number = answer_of(snapshot).etag.split()
    return snapshot == sample(name, int(number))


def number_of(snapshot) -> int:
    return -1 if snapshot is None else int(answer_of(snapshot).etag.split()[1])


def own(name: str, number: int) -> str:
    return f"https://{name}-{number % ORIGINS}.example"


async def write(path: str, name: str) -> None:
    """Put sample after sample, and say which number has been kept."""
    store = SqliteStore(path)
    for number in count():
        snapshot = sample(name, number)
        await store.put(own(name, number), snapshot)
        await store.put(own("shared", number), snapshot)
        await store.touch(own(name, number), snapshot)
        print(number, flush=True)


if __name__ == "__main__":
    from scrapy.utils.reactor import install_reactor

    # Scrapy 2.14 has no other way to run.
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    asyncio.run(write(*sys.argv[1:]))
