"""Several workers crawl the little web together: ``python -m example.fleet``.

Arguments, if any, go to each worker's ``scrapy crawl fleet``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from example.sights import lay_out, names_of, seconds, smallest_gap
from example.web import HOSTS_FOR_A_FLEET, Web

try:
    import redis

    from example.redis_server import redis_server
except ImportError as error:
    sys.exit(f'There is no {error.name}: run pip install ".[redis]" in the checkout.')

if TYPE_CHECKING:
    from collections.abc import Iterable

WORKERS = 4
PROJECT = Path(__file__).parent.parent
TITLES = ["host", "robots.txt", "fetched", "pages", "delay", "gap", "never asked for"]


def main() -> None:
    web = Web(HOSTS_FOR_A_FLEET)
    with redis_server() as url:
        web.start()
        hosts = len(web.addresses)
        print(f"{WORKERS} workers crawl {hosts} hosts, in some 10 s.", flush=True)
        # Keys of this run only, so that nothing else on the server is touched.
        run = f"scrapy_rep-example-{token_hex(4)}"
        try:
            statuses = crawl(web.start_urls(), url, run)
        finally:
            web.stop()
            forget(url, run, web.seen())
    print(view(web))
    if any(statuses):
        sys.exit(f"Workers ended with status {', '.join(map(str, statuses))}.")


def crawl(urls: list[str], redis_url: str, run: str) -> list[int]:
    """Return the exit statuses of the workers."""
    command = [
        *(sys.executable, "-m", "scrapy", "crawl", "fleet", "-L", "WARNING"),
        *("-a", f"urls={','.join(urls)}"),
        *("-a", f"name={run}"),  # keys in Redis have the name of the spider
        *sys.argv[1:],
    ]
    environment = os.environ | {
        "REP_FLEET": redis_url,  # for spiders/fleet.py
    }
    workers = [
        subprocess.Popen(  # noqa: S603
            [*command, "-a", f"worker={number}"], cwd=PROJECT, env=environment
        )
        for number in range(1, WORKERS + 1)
    ]
    try:
        return [worker.wait() for worker in workers]
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()


def forget(redis_url: str, run: str, origins: Iterable[str]) -> None:
    """Delete what this run has left in Redis; what is not listed here expires soon."""
    with redis.Redis.from_url(redis_url) as client:
        known = {f"robots:{origin}".encode() for origin in origins}
        for key in client.scan_iter(match="{rep:*", count=1000):
            if run.encode() in key or key.partition(b"}:")[2] in known:
                client.delete(key)
        if not any(client.scan_iter(match="{rep:*:n", count=1000)):  # no other fleet
            client.delete("rep:shards")


def view(web: Web) -> str:
    """Return what the servers have seen, by host and by worker."""
    rows = [TITLES]
    pages_of: Counter[str] = Counter()
    fetched_by: Counter[str] = Counter()
    for name, seen in zip(names_of(list(web.seen())), web.seen().values(), strict=True):
        pages = seen.pages
        for hit in seen.hits:
            (pages_of if hit.is_page else fetched_by)[hit.worker] += 1
        rows.append(
            [
                name,
                seen.host.about,
                str(len(seen.hits) - len(pages)),
                str(len(pages)),
                seconds(seen.delay, "g"),
                seconds(smallest_gap([hit.seconds for hit in pages]), ".3f"),
                ", ".join(sorted(set(seen.host.pages) - {hit.path for hit in pages})),
            ]
        )
    return "\n".join(
        [
            "What the hosts saw (fetched: the robots.txt; gap: the smallest between pages)",
            lay_out(rows),
            *(
                f"worker {name}: {pages_of[name]} pages, {fetched_by[name]} robots.txt"
                for name in map(str, range(1, WORKERS + 1))
            ),
        ]
    )


if __name__ == "__main__":
    # So that a server and workers do not stay behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
