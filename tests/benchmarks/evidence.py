"""What evidence and audit cost a request.

Run it with ``python -m tests.benchmarks.evidence``; it takes a minute or two. Crawls without
requests of their own drive the real gate, one for each combination of settings: as many
requests as a crawl of 200 origins might make, in random order, whose robots.txt files are
generated like real ones and known. Each is judged, and, if it may be sent, handed over as the
downloader does. The first time, what an origin needs once is in the figure, too, shared by
its twenty pages.

Measured is the time of the processor, that of the thread that writes included, to the last
octet in the file, for five hundred requests at a time, which are new ones each time, and
forgotten after it; and of that what the thread of the crawl itself took. The settings take
turns at each five hundred, so that what else the machine does meets all of them alike, and
the least time of all rounds counts: other work only adds to it. A cost is the difference to
the same requests without any of the settings. It exits with 1 where one is above the limit.
Where the extra for gzip is installed, zlib is measured beside it.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import time
from gzip import GzipFile
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time, thread_time
from typing import TYPE_CHECKING, Any, NamedTuple

import scrapy
import scrapy.http
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.reactorless import install_reactor_import_hook

from scrapy_rep import RepMiddleware
from scrapy_rep.crawl import Crawl
from scrapy_rep.downloader.starts import Departure
from scrapy_rep.evidence import sink
from tests.benchmarks.corpus import path, robots_txt
from tests.snapshots import snapshot_of
from tests.utils import DictStore, crawl, make_crawler

if TYPE_CHECKING:
    from scrapy.http import Response

    from scrapy_rep.store import Snapshot

ORIGINS, PER_ORIGIN = 200, 20
SESSIONS, ROUNDS = 3, 12  # crawls, and how often each makes the requests once more
AT_A_TIME = 500  # what a quick crawl makes between two times of writing
LIMIT = 14.0  # us a request and its answer
AGENT = "ExampleBot/1.0 (+https://example.com/bot)"
FOREVER = 86400.0
BODY = b"page" * 1000
sink.GATHER_SECONDS = 0.02
PACKING = sink.gzip_file
"""What writes gzip: the extra, if it is installed."""
WITHOUT_EXTRA = "both, .gz by zlib"


class Time(NamedTuple):
    """Seconds of the processor for some requests."""

    all: float
    crawl: float
    """Of the crawl's own thread."""


class Gate(scrapy.Spider):
    """Judges requests without sending them, and measures that."""

    name = "gate"

    def __init__(self, snapshots: dict[str, Snapshot], ready: Any, done: Any):
        super().__init__()
        self.snapshots = snapshots
        self.ready, self.done = ready, done

    async def start(self):
        shared: Any = Crawl.of(self.crawler)
        for origin, snapshot in self.snapshots.items():
            await shared.store.put(origin, snapshot)
            await shared.policies.get(origin, scrapy.Request(origin))
        self.gate: Any = self.crawler.get_downloader_middleware(RepMiddleware)
        self.ready.set()
        await self.done.wait()
        for _ in ():
            yield _

    def time(self, urls: list[str]) -> Time:
        gate = self.gate
        shared = Crawl.of(self.crawler)
        engine = shared.engine
        audit: Any = shared.audit
        requests = [scrapy.Request(url) for url in urls]
        for request in requests:  # as it comes of a request's way through the scheduler
            request.meta["download_slot"] = engine.slot_of(request)
            request.meta["download_latency"] = 0.1
        responses = [scrapy.http.Response(url, body=BODY) for url in urls]
        passed = 0
        begun, begun_here = process_time(), thread_time()
        for request, response in zip(requests, responses, strict=True):
            if passes(gate, request):
                passed += 1
                go(engine.starts, request, response)
        here = thread_time() - begun_here
        if audit is not None:
            while audit._sink._done < audit._sink._given:
                time.sleep(0.002)
        assert passed > len(urls) / 2
        return Time(process_time() - begun, here)


def passes(gate: Any, request: scrapy.Request) -> bool:
    try:
        gate.process_request(request).send(None)  # it awaits nothing
    except IgnoreRequest:
        return False
    except StopIteration:
        return True
    raise AssertionError("its robots.txt is not known")


def go(starts: Any, request: scrapy.Request, response: Response) -> None:
    """Have *request* start and be answered, as the downloader does."""
    departure = Departure(request)
    departure.host = departure.slot or ""
    departure.started_at = time.monotonic()
    for started in starts.on_start:
        started(departure)
    starts._end(departure, response)


async def session(
    snapshots: Any, urls: list[str], variants: dict[str, dict[str, Any]]
) -> list[dict[str, list[Time]]]:
    """Return the times of each of the variants, one for some URLs, round by round."""
    done = asyncio.Event()
    crawls, gates = [], {}
    for name, settings in variants.items():
        sink.gzip_file = GzipFile if name == WITHOUT_EXTRA else PACKING
        crawler = make_crawler(
            Gate,
            USER_AGENT=AGENT,
            REP_CRAWL_DELAY_MAX=1e9,
            LOG_LEVEL="ERROR",
            REP_STORE=DictStore,
            **settings,
        )
        ready = asyncio.Event()
        running = crawl(crawler, 3600, snapshots=snapshots, ready=ready, done=done)
        crawls.append(asyncio.ensure_future(running))
        await asyncio.wait_for(ready.wait(), 60)
        gates[name] = crawler.spider
    gc.collect()
    gc.freeze()
    rounds = []
    for _ in range(1 + ROUNDS):
        found: dict[str, list[Time]] = {name: [] for name in gates}
        for turn, start in enumerate(range(0, len(urls), AT_A_TIME)):
            some = urls[start : start + AT_A_TIME]
            names = list(gates)
            at = turn % len(names)
            for name in names[at:] + names[:at]:
                found[name].append(gates[name].time(some))
        rounds.append(found)
    gc.unfreeze()
    done.set()
    await asyncio.gather(*crawls)
    sink.gzip_file = PACKING
    return rounds


def least(rounds: list[list[Time]], requests: int) -> Time:
    """Return the microseconds a request, of the least times in *rounds*."""
    of_all = sum(min(one.all for one in some) for some in zip(*rounds, strict=True))
    here = sum(min(one.crawl for one in some) for some in zip(*rounds, strict=True))
    return Time(of_all / requests * 1e6, here / requests * 1e6)


def main(folder: Path) -> int:
    rnd = random.Random(8)
    now = time.time()
    snapshots = {
        f"https://www{number}.example.com": snapshot_of(
            status=200,
            body=robots_txt(rnd),
            url=f"https://www{number}.example.com/robots.txt",
            checked=now,
            lifetime=FOREVER,
            grace=FOREVER,
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
    plain = {"REP_AUDIT_URI": f"{folder}/%(worker)s.jsonl"}
    packed = {"REP_AUDIT_URI": f"{folder}/%(worker)s.jsonl.gz"}
    variants: dict[str, dict[str, Any]] = {
        "neither": {},
        "REP_EVIDENCE": evidence,
        "REP_AUDIT_URI": plain,
        "REP_AUDIT_URI, .gz": packed,
        "both": evidence | plain,
        "both, .gz": evidence | packed,
    }
    if PACKING is not GzipFile:
        variants[WITHOUT_EXTRA] = evidence | packed
    first: dict[str, list[list[Time]]] = {name: [] for name in variants}
    later: dict[str, list[list[Time]]] = {name: [] for name in variants}
    for _ in range(SESSIONS):
        begun, *rest = asyncio.run(session(snapshots, urls, variants))
        for name in variants:
            first[name].append(begun[name])
            later[name] += [found[name] for found in rest]
    print(
        f"{len(urls):,} requests to {ORIGINS} origins, us of the processor a request, "
        f"{SESSIONS} x {ROUNDS} rounds, .gz by {PACKING.__name__}"
    )
    print(f"{'':<20}{'first':>8}{'more':>8}{'later':>8}{'more':>8}{'in the crawl':>15}")
    once, base = (least(found["neither"], len(urls)) for found in (first, later))
    failed = False
    for name in variants:
        at_first, now_ = (least(found[name], len(urls)) for found in (first, later))
        more = now_.all - base.all
        print(
            f"{name:<20}{at_first.all:>8.2f}{at_first.all - once.all:>8.2f}"
            f"{now_.all:>8.2f}{more:>8.2f}{now_.crawl - base.crawl:>15.2f}"
        )
        failed |= more > LIMIT
    return failed


if __name__ == "__main__":
    install_reactor_import_hook()
    with TemporaryDirectory() as name:
        sys.exit(main(Path(name)))
