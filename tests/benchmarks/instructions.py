"""What a request costs in the chain of middlewares, in instructions rather than seconds.

Run it with ``python -m tests.benchmarks.instructions``; it needs valgrind. The chains have no
middleware, one that does nothing, Scrapy's own, and ours; ours once more with all that is done when
a request is handed to its download handler and answered, with and without back-off. Then what
Scrapy's scheduler and ours take to file a request in memory, and to hand it out. Other processes do
not change these figures, so a difference of one in a hundred is one; what waiting for memory costs
is not in them.
"""

from __future__ import annotations

import gc
import logging
import random
import sys
from contextlib import nullcontext, suppress
from typing import Any

import scrapy
from scrapy import Request, signals
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.core.scraper import Slot as ScraperSlot
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.http import Response
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.reactor import install_reactor
from scrapy.utils.test import get_crawler

from scrapy_rep import RepMiddleware
from scrapy_rep.crawl import Crawl
from scrapy_rep.frontier import Frontier, MemoryLedger
from scrapy_rep.policies.lifecycle import Known, Standing, State
from scrapy_rep.protocol import parse
from tests.benchmarks.corpus import AGENT, SEED
from tests.benchmarks.valgrind import counted, counts_of

HOSTS, WARM, REQUESTS = 20, 20, 200
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
OURS = {"ADDONS": {"scrapy_rep.Addon": 500}}
PACES = ["disallow", "crawl-delay", "request-rate", "visit-time"]
SCHEDULERS: dict[str, dict[str, Any]] = {"Scrapy's own": {}, "ours": OURS}
MOST_PUSH_AND_POP = 60_000
HANDED_OVER: dict[str, dict[str, Any]] = {
    "handed over": {**OURS, "REP_OBEY": [*PACES, "retry-after"]},
    "the same with back-off": {**OURS, "REP_OBEY": [*PACES, "retry-after", "back-off"]},
}


class Nothing:
    """A middleware that lets everything pass."""

    async def process_request(self, request: Request) -> None:
        return None


KINDS: dict[str, dict[str, Any]] = {
    "none": {},
    "one that does nothing": {"DOWNLOADER_MIDDLEWARES": {Nothing: 100}},
    "Scrapy's own": {"ROBOTSTXT_OBEY": True},
    "ours": OURS,
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
            shared.policies._cache.keep(known)
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


def made(number: int, each: str) -> list[Request]:
    rng = random.Random(SEED)
    return [
        Request(
            f"https://{host(rng.randrange(HOSTS))}/shop/{each}/item-{n}.html"
            + ("?page=2" if n % 5 == 0 else ""),
            dont_filter=True,  # a fingerprint costs more than all else, and is Scrapy's own
        )
        for n in range(number)
    ]


class Engine:
    """As much of an engine as it takes to hand requests over, which are answered at once."""

    def __init__(self) -> None:
        self.downloader = self.handlers = self
        self.slots: dict[str, Any] = {}
        self.active: set[Request] = set()
        self.total_concurrency = 16

    async def download_request_async(self, request: Request) -> Response:
        return ANSWER


def as_current(settings: dict[str, Any]) -> tuple[Any, Any]:
    """Return a chain, and what downloads at its end."""
    crawler: Any = get_crawler(Idle, {**settings, "USER_AGENT": AGENT})
    crawler.spider = Idle.from_crawler(crawler)
    crawler.engine = engine = Engine()
    chain = build_from_crawler(DownloaderMiddlewareManager, crawler)
    crawler.signals.send_catch_log(signals.engine_started)
    follow = Crawl.of(crawler).engine.starts.follow  # as Downloader calls it

    async def start(request: Request) -> Response:
        return await follow(engine.download_request_async, request)

    return chain, start


def scheduler_of(settings: dict[str, Any]) -> Any:
    """Return an open scheduler that keeps requests in memory, beside a real engine."""
    crawler: Any = get_crawler(Idle, {**settings, "USER_AGENT": AGENT})
    crawler.spider = Idle.from_crawler(crawler)
    crawler.engine = crawler._create_engine()
    scheduler = build_from_crawler(load_object(crawler.settings["SCHEDULER"]), crawler)
    if settings:
        crawler.engine.scraper.slot = ScraperSlot()
        make_all_known(crawler.engine.downloader.middleware)
        with suppress(StopIteration):  # it waits for nothing
            scheduler._open(crawler.spider).send(None)
    else:
        scheduler.open(crawler.spider)
    return scheduler


def make_all_known(chain: Any) -> None:
    for number in range(HOSTS):
        make_known(chain, number, ROBOTS)


class Ours:
    """The frontier above a ledger in memory, as a queue."""

    def __init__(self, crawler: Any) -> None:
        self._ledger = MemoryLedger()
        self._frontier = Frontier(Crawl.of(crawler), self._ledger, crawler.spider)
        self._ledger.bind(
            self._frontier, crawler.spider, lambda _: None, lambda *_: None
        )
        self.pop = self._frontier.pop

    def push(self, request: Request) -> None:
        place = self._frontier.places.of(request)
        self._ledger.file(place, 0, request, None)


def push_and_pop(scheduler: Any, requests: list[Request], *, counts: bool) -> None:
    with counted() if counts else nullcontext():
        for request in requests:
            scheduler.enqueue_request(request)
    with counted() if counts else nullcontext():
        for _ in requests:
            assert scheduler.next_request() is not None


def child() -> None:
    logging.disable(logging.CRITICAL)
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    chains: dict[str, Any] = {kind: chain_of(kind) for kind in KINDS}
    downloads = dict.fromkeys(KINDS, download)
    for kind, settings in HANDED_OVER.items():
        chains[kind], downloads[kind] = as_current(settings)
    for kind, chain in chains.items():
        make_all_known(chain)
        for number in range(HOSTS):
            warm = [Request(f"https://{host(number)}/{n}") for n in range(WARM)]
            send(chain, warm, downloads[kind])
    gc.disable()
    for kind, chain in chains.items():
        send(chain, made(REQUESTS, "warm"), downloads[kind])
        requests = made(REQUESTS, "count")
        with counted():
            send(chain, requests, downloads[kind])
    for settings in SCHEDULERS.values():
        scheduler = scheduler_of(settings)
        push_and_pop(scheduler, made(REQUESTS, "warm"), counts=False)
        push_and_pop(scheduler, made(REQUESTS, "count"), counts=True)
    frontier = Ours(scheduler.crawler)
    scheduler.enqueue_request, scheduler.next_request = frontier.push, frontier.pop
    push_and_pop(scheduler, made(REQUESTS, "warm"), counts=False)
    push_and_pop(scheduler, made(REQUESTS, "count"), counts=True)


def main() -> int:
    if "--child" in sys.argv:
        child()
        return 0
    kinds = [*KINDS, *HANDED_OVER]
    number = len(kinds) + 2 * (len(SCHEDULERS) + 1)
    totals = counts_of("tests.benchmarks.instructions", number, "--child")
    counts = [total / REQUESTS for total in totals]
    *counts, their_push, their_pop, push, pop, file, take = counts
    found = dict(zip(kinds, counts, strict=True))
    added = {kind: count - found["none"] for kind, count in found.items()}
    for kind, count in found.items():
        print(f"{kind:24}{count:10,.0f} instructions, adds {added[kind]:8,.0f}")
    ratio = added["ours"] / added["Scrapy's own"]
    print(f"ours adds {ratio:.2f} of what Scrapy's own adds (goal: 0.5)")
    without, with_it = (found[kind] for kind in HANDED_OVER)
    print(f"back-off adds {with_it / without - 1:.2%} of a request (goal: 3 %)")
    print(f"push {push:,.0f}, Scrapy's {their_push:,.0f}", end="; ")
    print(f"pop {pop:,.0f}, Scrapy's {their_pop:,.0f}; of that the frontier itself")
    print(
        f"{file:,.0f} and {take:,.0f}: {file + take:,.0f} (goal: {MOST_PUSH_AND_POP:,})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
