"""A fleet at a real Redis Cluster of three servers, as the sites see it.

``python -m tests.benchmarks.cluster [calm|killed|moved]...``, with three workers at 30
hosts that ask for a delay:

- calm: nothing happens.
- killed: one server is killed, is away for eight seconds, and comes back; what was asked
  of the hosts of the others meanwhile.
- moved: slots of the queue and of the hosts go from server to server until the end.

Exit status 1 if a page was never asked for, or a delay was not kept.
"""

from __future__ import annotations

import sys
import time
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from scrapy_rep.redis.keys import queue_keys, shard_of, start_key
from scrapy_rep.redis.shards import SHARDS_IN_A_CLUSTER
from tests.benchmarks.fleet import SETTINGS, delayed, hosts, pages, seen
from tests.benchmarks.web import Web
from tests.fleet import SPIDER, Fleet, seed
from tests.redis_cluster import NUMBER, Cluster

if TYPE_CHECKING:
    from collections.abc import Callable

WORKERS = 3
AWAY = 8.0
LONGEST = 300.0
SHARDS = queue_keys(f"{SPIDER}:requests", SHARDS_IN_A_CLUSTER)


def wait_for_pages(fleet: Fleet) -> None:
    while len(fleet.said("got")) < 2 * WORKERS:
        time.sleep(0.05)


def calm(cluster: Cluster, fleet: Fleet, web_hosts: list[str]) -> str:
    return "nothing happened"


def killed(cluster: Cluster, fleet: Fleet, web_hosts: list[str]) -> str:
    """Say how many of the pages that the others' hosts allow were had meanwhile."""
    victim = cluster.servers[-1]
    others = [
        host
        for host in web_hosts
        if cluster.owner(SHARDS[shard_of(host, SHARDS_IN_A_CLUSTER)].fixed[0])
        is not victim
        and cluster.owner(start_key(host)) is not victim
    ]
    wait_for_pages(fleet)
    victim.kill()
    before = len(fleet.said("got"))
    time.sleep(AWAY)
    had = len(fleet.said("got")) - before
    victim.start()
    cluster.settle()
    return (
        f"one of {NUMBER} servers was away for {AWAY:g} s, in which {had} pages came;"
        f" {len(others)} of {len(web_hosts)} hosts have nothing there"
    )


def moved(cluster: Cluster, fleet: Fleet, web_hosts: list[str]) -> str:
    wait_for_pages(fleet)
    keys = [shard.prefix for shard in SHARDS] + list(map(start_key, web_hosts))
    ends = time.monotonic() + LONGEST
    number = 0
    for key in cycle(keys):
        running = any(worker.process.poll() is None for worker in fleet.workers)
        if not running or time.monotonic() > ends:
            break
        cluster.move(key)
        number += 1
    return f"slots were moved {number} times"


PARTS: dict[str, Callable[[Cluster, Fleet, list[str]], str]] = {
    "calm": calm,
    "killed": killed,
    "moved": moved,
}


def run(name: str, delay: float = 1.0, number: int = 20) -> bool:
    """Tell whether all was asked for, at its pace."""
    web_hosts = hosts(30, delayed(delay))
    with (
        TemporaryDirectory() as folder,
        Web(web_hosts, page=0.02, stamped=True) as web,
        Cluster(Path(folder)) as cluster,
    ):
        urls = [
            web.url(host, path)
            for host, paths in pages(web_hosts, number).items()
            for path in paths
        ]
        seed(cluster, urls)
        with Fleet(cluster, WORKERS, **SETTINGS) as fleet:
            what = PARTS[name](cluster, fleet, list(web_hosts))
            fleet.join(LONGEST)
            found = seen(web)
            said = {
                line for worker in fleet.workers for line in worker.log.splitlines()
            }
    missing = 30 * number - len(found.urls)
    twice = sum(len(hits) for hits in found.pages.values()) - len(found.urls)
    rates = found.rates(delay)
    print(
        f"{name}: {what}; {missing} of {30 * number} pages never asked for, {twice} twice,"
        f" smallest gap {found.gaps[0] / delay:.3f} of the delay, rate"
        f" {rates[0]:.3f}-{rates[-1]:.3f} of what is allowed, robots.txt"
        f" {min(found.robots.values())}-{max(found.robots.values())} times;"
        f" {sum('ERROR' in line for line in said)} errors in the log",
        flush=True,
    )
    return not missing and found.gaps[0] >= delay


if __name__ == "__main__":
    sys.exit(not all(list(map(run, sys.argv[1:] or PARTS))))
