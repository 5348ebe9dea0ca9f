"""What a request costs in the chain of middlewares, and an origin in memory.

Run it with ``python -m tests.benchmarks.middleware [FOLDER]``. 100,000 requests to 500
origins whose robots.txt is known go through the real chain of downloader middlewares, in
turn with none for robots.txt, with one that does nothing, with Scrapy's own, and with ours.
The CPU time of each round less that of none is what the middleware adds.

Memory: 10,000 origins with real files of FOLDER, or generated ones, asked by one agent.
"""

from __future__ import annotations

import argparse
import gc
import logging
import random
import tracemalloc
from statistics import median
from time import process_time
from typing import Any

import scrapy
from scrapy import Request
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.http import Response
from scrapy.utils.misc import build_from_crawler
from scrapy.utils.test import get_crawler

from scrapy_rep import RepMiddleware
from scrapy_rep.crawl import Crawl
from scrapy_rep.policies.cache import Known
from scrapy_rep.policies.lifecycle import Standing, State
from scrapy_rep.protocol import parse
from tests.benchmarks.corpus import AGENT, SEED, bodies_of

HOSTS = 500
REQUESTS, ROUNDS = 20_000, 5
MEMORY_HOSTS = 10_000
ROBOTS = b"""User-agent: *
Disallow: /admin/
Disallow: /cart
Disallow: /search
Disallow: /login
Disallow: /user/register/
Disallow: /user/password/
Disallow: /*?sort=
Disallow: /*/print/
"""


class Nothing:
    """A middleware that lets everything pass."""

    async def process_request(self, request: Request) -> None:
        return None


KINDS: dict[str, dict[str, Any]] = {
    "none": {},
    "one that does nothing": {"DOWNLOADER_MIDDLEWARES": {Nothing: 100}},
    "Scrapy's own": {"ROBOTSTXT_OBEY": True},
    "ours": {"ADDONS": {"scrapy_rep.Addon": 500}},
}


class Idle(scrapy.Spider):
    name = "idle"


def chain_of(kind: str) -> Any:
    crawler = get_crawler(Idle, {**KINDS[kind], "USER_AGENT": AGENT})
    crawler.spider = Idle.from_crawler(crawler)
    return build_from_crawler(DownloaderMiddlewareManager, crawler)


def host(number: int) -> str:
    return f"www.host{number}.example"


def make_known(chain: Any, number: int, body: bytes) -> None:
    """Tell the chain's middleware the robots.txt of a host, as if it had been fetched."""
    for gate in chain.middlewares:
        if isinstance(gate, RepMiddleware):
            shared = Crawl.of(chain.crawler)
            far = shared.policies.now() + 1e6
            standing = Standing(State.FRESH, far, far)
            known = Known(f"https://{host(number)}", parse(body), standing, None)
            shared.policies._cache.put(known)
        elif isinstance(gate, RobotsTxtMiddleware):
            gate._parsers[host(number)] = build_from_crawler(
                gate._parserimpl, gate.crawler, body
            )


async def download(request: Request) -> Response:
    return ANSWER


ANSWER = Response("https://www.host0.example/")


def send(chain: Any, requests: list[Request], download: Any = download) -> None:
    for request in requests:
        try:
            chain.download_async(download, request).send(None)
        except StopIteration:
            continue
        raise AssertionError("where the policy is known nothing is waited for")


def cpu_table() -> None:
    chains = {kind: chain_of(kind) for kind in KINDS}
    for chain in chains.values():
        for number in range(HOSTS):
            make_known(chain, number, ROBOTS)
    rng = random.Random(SEED)
    urls = [
        f"https://{host(rng.randrange(HOSTS))}/shop/category-{n % 99}/item-{n}.html"
        + ("?page=2" if n % 5 == 0 else "")
        for n in range(REQUESTS)
    ]
    gc.collect()
    gc.freeze()
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(ROUNDS):
        for kind, chain in chains.items():
            requests = [Request(url) for url in urls]
            gc.collect()
            began = process_time()
            send(chain, requests)
            found[kind].append((process_time() - began) / REQUESTS * 1e6)
    added = {
        kind: [
            with_it - without
            for with_it, without in zip(times, found["none"], strict=True)
        ]
        for kind, times in found.items()
    }
    for kind, times in found.items():
        print(
            f"{kind:24}{median(times):8.2f} us a request, adds {median(added[kind]):6.2f}"
        )
    ratios = [
        ours / scrapys
        for ours, scrapys in zip(added["ours"], added["Scrapy's own"], strict=True)
    ]
    print(f"ours adds {median(ratios):.2f} of what Scrapy's own adds (goal: 0.5)")
    gc.unfreeze()


def memory_table(folder: str | None) -> None:
    bodies = sorted(bodies_of(folder, 4000), key=len)
    middle = bodies[len(bodies) // 2]
    print(f"the median file has {len(middle):,} octets")
    sizes = {}
    for kind in ("Scrapy's own", "ours"):
        chain = chain_of(kind)
        make_known(chain, 0, middle)
        send(chain, [Request(f"https://{host(0)}/page")])
        gc.collect()
        tracemalloc.start()
        for number in range(1, MEMORY_HOSTS + 1):
            # Of the same length, and not the same text: nothing is shared.
            make_known(chain, number, bytes(bytearray(middle)))
        urls = (f"https://{host(number)}/page" for number in range(1, MEMORY_HOSTS + 1))
        send(chain, [Request(url) for url in urls])
        gc.collect()
        sizes[kind] = tracemalloc.get_traced_memory()[0] / MEMORY_HOSTS
        tracemalloc.stop()
        print(f"{kind:24}{sizes[kind]:8.0f} octets for an origin with it")
    ratio = sizes["ours"] / sizes["Scrapy's own"]
    print(f"an origin takes {ratio:.2f} of what it does in Scrapy's own (goal: 0.35)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", help="of real robots.txt files")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    cpu_table()
    memory_table(args.folder)


if __name__ == "__main__":
    main()
