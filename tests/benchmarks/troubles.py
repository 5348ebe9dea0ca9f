"""Sites that suffer, as they see a crawl, and a fleet of four at a real Redis server.

Run it with ``python -m tests.benchmarks.troubles [limit|dies|down|slow|load]...``, with the
settings that a user has who sets none but those named here:

- limit: a site that answers 429, or 503, to what is more than 10 requests a second;
- dies: one that fails for 20 s, by 503 or by refusing connections, and comes back;
- down: one that is always 503, with REP_BACK_OFF_GIVE_UP = 60;
- slow: one whose pages take 2 s, and ten whose response time grows with their load, among
  fast ones, with and without REP_LATENCY_FACTOR;
- load: one of those by itself.

All is told by the sites. A page is lost that was never answered by 200.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from itertools import zip_longest
from statistics import median
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy.crawler import AsyncCrawlerProcess

from tests.benchmarks.crawl import OURS, SETTINGS, Crawl
from tests.crawls.test_troubles import Dies, Limiter, Scripted
from tests.fleet import Fleet, seed
from tests.redis_server import RedisServer
from tests.site import Reply
from tests.wire import STAMPED

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.site import Hit

LONGEST = 1200
"""Seconds that a crawl may take."""
WORKERS = (1, 4)
"""1: one crawl without Redis."""


class Suffering(Scripted):
    """Notes which pages it has answered well."""

    def __init__(self, answer: Callable[[Hit], Reply], **kwargs: Any) -> None:
        super().__init__(answer, **kwargs)
        self.well: list[Hit] = []
        self.lock = Lock()

    def reply_to(self, hit: Hit) -> Reply:
        reply = super().reply_to(hit)
        if hit.path != "/robots.txt" and reply.status == 200 and not reply.reset:
            with self.lock:
                self.well.append(hit)
        return reply

    def pages(self, number: int) -> list[str]:
        return [self.url(f"/{n}") for n in range(number)]

    def lost(self, number: int) -> int:
        return number - len({hit.path for hit in self.well})

    @property
    def began(self) -> float:
        return min(hit.seconds for hit in self.well + self.bad)


def crawl(workers: int, urls: list[str], **settings: Any) -> Counter[str]:
    """Crawl *urls*; return the sums of the stats that are numbers."""
    if workers == 1:
        task = json.dumps([urls, {**SETTINGS, **OURS, **STAMPED, **settings}])
        command = [sys.executable, "-m", "tests.benchmarks.troubles", "--child"]
        done = subprocess.run(
            command, input=task, text=True, check=True, stdout=subprocess.PIPE
        )
        found = [json.loads(done.stdout)]
    else:
        usual = {"LOG_LEVEL": "WARNING", "RETRY_TIMES": 2, "REP_BACK_OFF_FIRST": 5}
        with RedisServer() as server:
            seed(server, urls)
            with Fleet(server, workers, **usual, **settings) as fleet:
                fleet.join(LONGEST)
                found = [worker.stats for worker in fleet.workers]
    sums: Counter[str] = Counter()
    for stats in found:
        sums.update({k: v for k, v in stats.items() if isinstance(v, (int, float))})
    return sums


def child(urls: list[str], settings: dict[str, Any]) -> None:
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(Crawl)
    Crawl.urls = urls
    process.crawl(crawler)
    process.start()
    assert crawler.stats is not None
    print(json.dumps(crawler.stats.get_stats(), default=str))


def crawls(workers: int) -> str:
    return "one crawl" if workers == 1 else f"{workers} workers"


def limit(rate: float = 10, number: int = 900) -> None:
    print(f"limit: {number} pages; more than {rate:g} a second are refused")
    for status in (429, 503):
        for workers in WORKERS:
            with Suffering(Limiter(rate, 10, status)) as site:
                crawl(workers, site.pages(number))
                minute = site.began + 60
                late = [hit for hit in site.well if hit.seconds > minute]
                later = max(hit.seconds for hit in late) - minute
                refused = sum(hit.seconds > minute for hit in site.bad)
                print(
                    f"  {status}, {crawls(workers)}: {site.lost(number)} lost,"
                    f" {len(site.bad)} refused, {refused} of them after the first"
                    f" minute; then {len(late) / later / rate:.2f} of what is allowed",
                    flush=True,
                )


class Dead(Dies):
    """Fails slowly enough for requests at a time to be seen."""

    def __call__(self, hit: Hit) -> Reply:
        reply = super().__call__(hit)
        return reply if reply.reset else Reply(reply.body, reply.status, after=0.2)


def dies(seconds: float = 20, number: int = 400) -> None:
    print(
        f"dies: {number} pages of 0.2 s; after 100 requests it fails for {seconds:g} s"
    )
    kinds = {"503": Reply(status=503), "lost connections": Reply(reset=True)}
    for name, bad in kinds.items():
        for workers in WORKERS:
            answer = Dead(bad, after=100, seconds=seconds)
            with Suffering(answer) as site:
                crawl(workers, site.pages(number))
                first = site.bad[0].seconds
                # What the HTTP client sends once more by itself has the same stamp.
                once = {hit.sent: hit.seconds for hit in site.bad}
                again = [at for at in once.values() if at > first + 4]
                back = min(h.seconds for h in site.well if h.seconds > answer.until)
                after = sorted(h.seconds for h in site.well if h.seconds >= back)
                again.append(back)
                print(
                    f"  {name}, {crawls(workers)}: {site.lost(number)} lost,"
                    f" {len(site.bad)} failed, {len(again) - 1} of them after the first"
                    f" pause, {at_once(again)} at once; asked {back - answer.until:.1f} s"
                    f" after it came back, the second one {after[1] - back:.1f} s later",
                    flush=True,
                )


def at_once(times: list[float], each: float = 0.2) -> int:
    """Return how many requests that took *each* seconds there were at once."""
    return max(sum(at - each < one <= at for one in times) for at in times)


def down(give_up: float = 60, number: int = 200) -> None:
    print(f"down: {number} pages, always 503, REP_BACK_OFF_GIVE_UP = {give_up:g}")
    for workers in WORKERS:
        with Suffering(lambda hit: Reply(status=503)) as site:
            began = monotonic()
            stats = crawl(workers, site.pages(number), REP_BACK_OFF_GIVE_UP=give_up)
            taken = monotonic() - began
            print(
                f"  {crawls(workers)}: {len(site.bad)} sent,"
                f" {stats['rep/forbidden/down']} refused, over after {taken:.0f} s",
                flush=True,
            )


class Growing:
    """Takes longer for each request of the last second, and notes for how long."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.times: list[float] = []
        self.all: list[float] = []

    def __call__(self, hit: Hit) -> Reply:
        with self.lock:
            now = monotonic()
            self.times = [at for at in self.times if at > now - 1] + [now]
            self.all.append(0.02 * len(self.times))
        return Reply("page", after=self.all[-1])

    @property
    def settled(self) -> float:
        """Return the median response time of the second half of its requests."""
        return median(self.all[len(self.all) // 2 :])


def load(number: int = 60, factor: float = 5) -> None:
    print(f"load: {number} pages that take 20 ms for each request of the last second")
    for workers in WORKERS:
        for given in (0, factor):
            answer = Growing()
            with Suffering(answer) as site:
                crawl(workers, site.pages(number), REP_LATENCY_FACTOR=given)
                print(
                    f"  {crawls(workers)}, REP_LATENCY_FACTOR = {given:g}: at the most"
                    f" {max(answer.all):.2f} s, settled at {answer.settled:.2f} s;"
                    f" {site.lost(number)} lost",
                    flush=True,
                )


def alone() -> list[Suffering]:
    return []


def slow_one() -> list[Suffering]:
    return [Suffering(lambda hit: Reply("page", after=2), host="127.0.2.1")]


def ten_growing() -> list[Suffering]:
    return [Suffering(Growing(), host=f"127.0.2.{n}") for n in range(1, 11)]


def slow(rounds: int = 2) -> None:
    print(
        "slow: ten hosts of 30 pages of 1 s, two at a time, four with four workers:"
        f" their pages a second beside others, over those alone (median of {rounds})"
    )
    for workers in WORKERS:
        for factor in (0, 5):
            rates: dict[str, list[float]] = {}
            for _ in range(rounds):
                for make in (alone, slow_one, ten_growing):
                    rate = fast_rate(workers, make(), factor)
                    rates.setdefault(make.__name__, []).append(rate)
            ratio = {
                name: median(b / a for a, b in zip(rates["alone"], found, strict=True))
                for name, found in rates.items()
            }
            print(
                f"  {crawls(workers)}, REP_LATENCY_FACTOR = {factor}: one whose pages take"
                f" 2 s {ratio['slow_one']:.2f}, ten that suffer from load"
                f" {ratio['ten_growing']:.2f} ({median(rates['alone']):.0f} pages a second)",
                flush=True,
            )


def fast_rate(workers: int, others: list[Suffering], factor: float) -> float:
    """Return the pages a second of ten fast sites, between the first and the last tenth."""

    def answer(hit: Hit) -> Reply:
        return Reply("page", after=1)

    fast = [Suffering(answer, host=f"127.0.1.{n}") for n in range(1, 11)]
    with ExitStack() as stack:
        for site in fast + others:
            stack.enter_context(site)
        each = [site.pages(30) for site in fast]
        each += [site.pages(40 if len(others) > 1 else 12) for site in others]
        crawl(
            workers,
            [url for together in zip_longest(*each) for url in together if url],
            REP_LATENCY_FACTOR=factor,
            REP_LATENCY_DELAY_MAX=3,
            CONCURRENT_REQUESTS={1: 28, 4: 12}[workers],
            CONCURRENT_REQUESTS_PER_DOMAIN={1: 2, 4: 1}[workers],
        )
    times = sorted(hit.seconds for site in fast for hit in site.well)
    tenth = len(times) // 10
    middle = times[tenth:-tenth]
    return len(middle) / (middle[-1] - middle[0])


PARTS: dict[str, Callable[[], None]] = {
    "limit": limit,
    "dies": dies,
    "down": down,
    "slow": slow,
    "load": load,
}


if __name__ == "__main__":
    if "--child" in sys.argv:
        child(*json.load(sys.stdin))
    else:
        for part in sys.argv[1:] or PARTS:
            PARTS[part]()
