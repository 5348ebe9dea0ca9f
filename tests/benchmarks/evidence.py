"""What evidence and audit cost a request.

Run it with ``python -m tests.benchmarks.evidence``; it takes a minute. A crawl without
requests of its own drives the real gate: as many requests as a crawl of 200 origins might
make, in random order, whose robots.txt files are generated like real ones and known. Each is
judged, and, if it may be sent, handed over as the downloader does. That is done twice: the
first time, what an origin needs once is in the figure, too, shared by its hundred pages.
Measured is the time of the processor, that of the thread that writes included, to the last
octet in the file, for two hundred requests at a time. The settings take turns within each
round, and of each two hundred the least time of all rounds counts: other work on the machine
only adds to it. A cost is the difference to the same requests without any of the settings. It
exits with 1 where the second one is above its limit.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import scrapy
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.reactorless import install_reactor_import_hook

from scrapy_rep import RepMiddleware
from scrapy_rep.store import Snapshot
from tests.benchmarks.corpus import path, robots_txt
from tests.utils import crawl, make_crawler

ORIGINS, PER_ORIGIN, ROUNDS = 200, 100, 7
AT_A_TIME = 200
LIMIT = 10.0  # us a request, each
AGENT = "ExampleBot/1.0 (+https://example.com/bot)"


class Driver(scrapy.Spider):
    """Judges its requests without sending them, and measures that."""

    name = "driver"

    def __init__(self, snapshots: dict[str, Snapshot], urls: list[str], **kwargs: Any):
        super().__init__(**kwargs)
        self.snapshots = snapshots
        self.urls = urls
        self.seconds: list[list[float]] = []

    async def start(self):
        gate: Any = self.crawler.get_downloader_middleware(RepMiddleware)
        for origin, snapshot in self.snapshots.items():
            await gate.policies._store.put(origin, snapshot)
            await gate.policies.get(origin, scrapy.Request(origin))
        requests = [scrapy.Request(url) for url in self.urls]
        for request in requests:  # as it comes of a request's way through the scheduler
            request.meta["download_slot"] = gate.downloads.slot_of(request)
        gc.collect()
        gc.freeze()
        for _ in range(2):
            self.seconds.append(seconds_of(gate, requests))
        gc.unfreeze()
        for _ in ():
            yield _


def seconds_of(gate: Any, requests: list[scrapy.Request]) -> list[float]:
    """Return the times of the processor for *requests*, some at a time."""
    sent = gate.downloads.sent
    audit = gate._witness and gate._witness._audit
    times = []
    passed = 0
    for start in range(0, len(requests), AT_A_TIME):
        begun = process_time()
        for request in requests[start : start + AT_A_TIME]:
            if passes(gate, request):
                passed += 1
                if sent is not None:
                    sent(request)
        if audit is not None:
            audit._sink._hurry.set()
            while audit._sink._done < audit._sink._given:
                time.sleep(0.001)
        times.append(process_time() - begun)
    assert passed > len(requests) / 2
    return times


def passes(gate: Any, request: scrapy.Request) -> bool:
    try:
        gate.process_request(request).send(None)  # it awaits nothing
    except IgnoreRequest:
        return False
    except StopIteration:
        return True
    raise AssertionError("its robots.txt is not known")


def times(
    snapshots: Any, urls: list[str], settings: dict[str, Any]
) -> list[list[float]]:
    """Return the seconds for *urls*, some at a time, the first and the second time."""
    crawler = make_crawler(
        Driver,
        USER_AGENT=AGENT,
        REP_CRAWL_DELAY_MAX=1e9,
        LOG_LEVEL="WARNING",
        **settings,
    )

    async def run() -> None:
        await crawl(crawler, snapshots=snapshots, urls=urls)

    asyncio.run(run())
    found: list[list[float]] = crawler.spider.seconds
    return found


def least(rounds: list[list[float]], requests: int) -> float:
    """Return the microseconds a request, of the least times in *rounds*."""
    seconds: float = sum(min(found) for found in zip(*rounds, strict=True))
    return seconds / requests * 1e6


def main(folder: Path) -> int:
    rnd = random.Random(8)
    now = time.time()
    snapshots = {
        f"https://www{number}.example.com": Snapshot(
            status=200,
            body=robots_txt(rnd),
            url=f"https://www{number}.example.com/robots.txt",
            checked=now,
            lifetime=86400.0,
            grace=86400.0,
        )
        for number in range(ORIGINS)
    }
    urls = [
        f"{origin}{path(rnd)}?page={number}"
        for origin in snapshots
        for number in range(PER_ORIGIN)
    ]
    rnd.shuffle(urls)
    evidence = {"REP_EVIDENCE": True}
    plain = {"REP_AUDIT_URI": f"{folder}/plain-%(time)s.jsonl"}
    packed = {"REP_AUDIT_URI": f"{folder}/packed-%(time)s.jsonl.gz"}
    variants: dict[str, dict[str, Any]] = {
        "neither": {},
        "REP_EVIDENCE": evidence,
        "REP_AUDIT_URI": plain,
        "REP_AUDIT_URI, .gz": packed,
        "both": evidence | plain,
        "both, .gz": evidence | packed,
    }
    rounds: dict[str, list[list[list[float]]]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name, settings in variants.items():
            rounds[name].append(times(snapshots, urls, settings))
    failed = False
    print(f"{len(urls):,} requests to {ORIGINS} origins, us a request, {ROUNDS} rounds")
    print(f"{'':<22}{'first':>8}{'more':>8}{'second':>10}{'more':>8}")
    without: list[float] = []
    for name, found in rounds.items():
        first, second = (
            least(list(one), len(urls)) for one in zip(*found, strict=True)
        )
        without = without or [first, second]
        more = second - without[1]
        print(
            f"{name:<22}{first:>8.2f}{first - without[0]:>8.2f}"
            f"{second:>10.2f}{more:>8.2f}"
        )
        failed |= not name.startswith("both") and more > LIMIT
    return failed


if __name__ == "__main__":
    install_reactor_import_hook()
    with TemporaryDirectory() as name:
        sys.exit(main(Path(name)))
