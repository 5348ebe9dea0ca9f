"""Random worlds: sites, settings, middlewares, habits and kills are drawn from a seed, and really crawled.

    python -m tests.fuzz.worlds -n 20 --seed 1

Whatever is drawn: what robots.txt disallows is not asked for, a delay is kept between all requests to
a host, a robots.txt is fetched once for its lifetime, each request comes to a callback, an errback
or a signal, also after kills, an audit has whatever was sent, no host is asked beyond its budget,
and the log has no traceback but of what the world does wrong itself. Exit status 1 where one of
these failed.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from math import inf
from operator import attrgetter, itemgetter
from pathlib import Path
from random import Random, randrange
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.settings import DEFAULTS
from tests.crawls.processes import TIMEOUT, start
from tests.redis_server import RedisServer
from tests.site import Reply, Site
from tests.utils import SCRAPYS, SCRAPYS_DOWNLOADER

if TYPE_CHECKING:
    from collections.abc import Iterator

RULES = "User-agent: *\nDisallow: /private\n"
BUSY: dict[str, Any] = {"status": 429, "headers": {"Retry-After": "1"}}
ENTRY = re.compile(r"^(?=\d{4}-\d\d-\d\d )", re.MULTILINE)
ITS_OWN = ("on purpose", "StopDownload", "FileException")
"""What entries of a log have that tell of what the world does wrong itself."""
TOGETHER = "tests.fuzz.world.together"
SHORTEST = 0.01
"""Seconds by which a gap may look shorter: two clocks are read, and a header is set, between them."""


class Robots(NamedTuple):
    """What a site answers for its robots.txt, and what that demands."""

    reply: Any
    shut: bool = False  # nothing may be fetched
    private: bool = True  # /private may not be fetched
    delay: float = 0.0  # seconds
    fetches: int = 1  # how often it may be asked for in one run


def moved(to: str) -> Reply:
    return Reply(status=302, headers={"Location": to})


def drawn_robots(rnd: Random) -> Robots:
    kinds = [
        Robots(RULES),
        Robots(Reply(status=404), private=False),
        Robots(RULES + "Crawl-delay: 0.3", delay=0.3),
        Robots(RULES + "Request-rate: 5/1", delay=0.2),
        Robots(Reply(RULES + "Crawl-delay: 0.3", after=0.7), delay=0.3),
        Robots("User-agent: *\nDisallow: /", shut=True),
        Robots(b"\xef\xbb\xbf" + RULES.replace("\n", "\r").encode()),
        Robots(Reply(RULES, headers={"Cache-Control": "no-store"})),
        Robots([Reply(status=503), RULES], fetches=2),
        Robots([Reply(**BUSY), RULES], fetches=2),
        Robots(moved("/rules")),
        Robots(moved("/robots.txt"), private=False, fetches=6),
    ]
    kinds += [
        Robots(Reply(RULES, **how), shut=True, fetches=3)
        for how in ({"status": 500}, {"reset": True}, {"cut": 9}, {"hang": True})
    ]
    return rnd.choice(kinds)


class World:
    """What is drawn for one seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rnd = rnd = Random(seed)
        self.folder = folder
        (folder / "done").touch()
        (folder / "files").mkdir()  # two crawls may try to at a time
        self.sites = [Site(host=f"127.0.0.{2 + n}") for n in range(rnd.randint(1, 4))]
        self.robots = [drawn_robots(rnd) for _ in self.sites]
        self.paths = [f"/{number}" for number in range(rnd.choice([4, 10, 25]))]
        self.urls = [site.url(path) for path in self.paths for site in self.sites]
        for site, robots in zip(self.sites, self.robots, strict=True):
            site.replies = {"/robots.txt": robots.reply, "/rules": RULES}
            site.replies |= {path: self._page() for path in self.paths}
        self.how = rnd.choice(["once", "once", "again", "double", "fleet"])
        is_double = self.how == "double" or (self.how == "fleet" and rnd.random() < 0.3)
        self.spiders = 1 + is_double
        ends = rnd.choices(["end", "kill", "stop"], [5, 3, 1], k=rnd.randint(1, 3))
        self.ends = [*ends, "end"] if self.how in {"again", "fleet"} else ["end"]
        loops = ["asyncio", "none", "default"]
        self.reactor = rnd.choice(loops[: 2 if self.how == "fleet" else 3])
        self.settings = self._settings()
        names = rnd.sample(MIDDLEWARES, rnd.randint(0, 3))
        self.own = {name: rnd.choice(PLACES) for name in names}
        self.habits = rnd.sample(HABITS, rnd.choice([0, 1, 2, 4]))

    def _page(self) -> Any:
        rnd = self.rnd
        links = [self._link() for _ in range(rnd.randint(0, 3))]
        page = Reply(json.dumps(links), after=rnd.choice([0, 0, 0.02, 0.3]))
        others = [
            *([Reply(status=503), page], [Reply(**BUSY), page]),
            *([Reply(reset=True), page], Reply(status=404), Reply("half", cut=5)),
            *(moved(rnd.choice(self.urls)), moved("/private/moved")),
            Reply('<meta http-equiv="refresh" content="0;url=/private/refreshed">'),
        ]
        return rnd.choice([page] * len(others) + others)

    def _link(self) -> str:
        path = self.rnd.choice(self.paths)
        paths = [path] * 4 + ["/private" + path, path + "?q=é"]
        return self.rnd.choice(self.sites).url(self.rnd.choice(paths))

    def _settings(self) -> dict[str, Any]:
        rnd = self.rnd
        drawn = {
            name: rnd.choice(SETTINGS[name]) for name in SETTINGS if rnd.random() < 0.25
        }
        if len(self.ends) > 1:  # what is lost with Scrapy's is not ours
            drawn.pop("SCHEDULER", None)
        elif self.how == "double" or rnd.random() < 0.7:
            drawn["JOBDIR"] = None
        # Else they are kept where the command is run, for the next world, too.
        kept = {"HTTPCACHE_DIR": "cache", "REP_STORE_PATH": "robots.sqlite"}
        kept |= {"FILES_STORE": "files"}
        if "REP_AUDIT_URI" in drawn:
            kept["REP_AUDIT_URI"] = drawn.pop("REP_AUDIT_URI")
        kept = {name: str(self.folder / path) for name, path in kept.items()}
        return QUICK | kept | drawn

    def __str__(self) -> str:
        robots = [each.reply for each in self.robots]
        what = self.own, self.habits, self.how, self.spiders, self.ends, self.reactor
        return f"{robots}\n{self.settings}\n{what}"

    def play(self) -> Iterator[str]:
        """Crawl it, and tell what was wrong."""
        with ExitStack() as stack:
            for site in self.sites:
                stack.enter_context(site)
            if self.how == "fleet":
                fleet = stack.enter_context(RedisServer()).url
                self.settings |= {
                    "REP_FLEET": fleet,
                    "REP_FLEET_LEASE": 3,
                    "JOBDIR": None,
                }
                crawls = [self._start() for _ in self.ends]
                for crawl, end in zip(crawls, self.ends, strict=True):
                    yield from self._end(crawl, end)
            else:
                for end in self.ends:
                    yield from self._end(self._start(), end)
        yield from self._faults()

    def _start(self) -> subprocess.Popen[str]:
        plan: dict[str, Any] = {
            "urls": self.urls,
            "done": str(self.folder / "done"),
            "settings": self.settings,
            "own": self.own,
            "habits": self.habits,
            "double": self.spiders == 2,
            "reactor": self.reactor,
        }
        return start("tests.fuzz.world", self.folder / "job", **plan)

    def _end(self, crawl: subprocess.Popen[str], end: str) -> Iterator[str]:
        if end != "end":
            time.sleep(self.rnd.uniform(0.2, 3))
            crawl.send_signal(signal.SIGKILL if end == "kill" else signal.SIGINT)
        try:
            _, log = crawl.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            crawl.kill()
            _, log = crawl.communicate()
            yield f"it did not end:\n{log}"
        if crawl.returncode and end == "end":
            yield f"exit status {crawl.returncode}"
        told = "".join(
            entry
            for entry in ENTRY.split(log)
            if not any(each in entry for each in ITS_OWN)
        )
        if "Traceback" in told or re.search(r"(?<!\.retry\]) ERROR: ", told):
            yield log

    def _faults(self) -> Iterator[str]:
        may_close = "closes" in self.habits or "CLOSESPIDER_PAGECOUNT" in self.settings
        for site, robots in zip(self.sites, self.robots, strict=True):
            pages = [
                path for path in site.paths if path not in {"/robots.txt", "/rules"}
            ]
            forbidden = (
                pages if robots.shut else [path for path in pages if "/private" in path]
            )
            if forbidden and (robots.shut or robots.private):
                yield f"{site.origin}: {forbidden} were sent"
            # Each spider counts its own failures, and without room, or once the one that
            # asks is closed, asks for itself.
            is_shared = robots.fetches == 1 and "REP_CACHE_BYTES" not in self.settings
            is_shared &= not may_close
            runs = len(self.ends) * (1 if is_shared else self.spiders)
            if "Refusing" in self.own:  # what it refuses is asked for twice more
                runs *= 3
            # What is broken off as a crawl ends may be needed after all.
            if (count := site.count("/robots.txt")) > robots.fetches * runs + may_close:
                yield f"{site.origin}: robots.txt was fetched {count} times"
            for one, two in pairwise(sorted(site.hits, key=attrgetter("sent"))):
                # A kill may come before it is known.
                is_known = {one.path, two.path} != {"/robots.txt"}
                if is_known and (gap := two.sent - one.sent) < robots.delay - SHORTEST:
                    yield f"{site.origin}: {gap:.3f} s from {one.path} to {two.path}"
            budget = self.settings.get("REP_HOST_BUDGET", len(pages))
            if len(pages) > budget * self.spiders * len(self.ends):
                yield f"{site.origin}: {len(pages)} requests were sent"
        is_one_pace = self.settings.get("REP_PACE_BY") == TOGETHER
        # With a downloader of the user's it may be: see docs/limits.rst.
        is_kept = self.how == "once" and "DOWNLOADER" not in self.settings
        if is_one_pace and is_kept:
            yield from self._too_close()
        if "REP_AUDIT_URI" in self.settings and "kill" not in self.ends:
            yield from self._unaudited()
        done = {
            line.split()[0] for line in (self.folder / "done").read_text().splitlines()
        }
        lost = [url for url in self.urls if url not in done]
        if lost and not may_close:
            yield f"nothing is known of {lost}"

    def _too_close(self) -> Iterator[str]:
        """Tell of gaps at all sites that are shorter than the delay of one, once that was known."""
        hits = sorted(
            ((hit.sent, site, hit.path) for site in self.sites for hit in site.hits),
            key=itemgetter(0),
        )
        for site, robots in zip(self.sites, self.robots, strict=True):
            pages = (hit.sent for hit in site.hits if hit.path.strip("/").isdigit())
            known = min(pages, default=inf)
            for (sent, *_), (then, other, path) in pairwise(hits):
                if sent >= known and then - sent < robots.delay - SHORTEST:
                    yield f"{site.origin}: {then - sent:.3f} s until {other.url(path)}"

    def _unaudited(self) -> Iterator[str]:
        """Tell which requests reached a site, and are in no audit."""
        sent: Counter[str] = Counter()
        for file in self.folder.glob("*.jsonl"):
            records = map(json.loads, file.read_text().splitlines())
            sent.update(each["url"] for each in records if each["type"] == "sent")
        for site in self.sites:
            for path, number in Counter(site.paths).items():
                if number > sent[site.url(path)]:
                    yield f"{site.url(path)} is not in the audit"


QUICK = {
    "AUTOTHROTTLE_MAX_DELAY": 0.3,
    "AUTOTHROTTLE_START_DELAY": 0.1,
    "DEPTH_LIMIT": 2,
    "DOWNLOAD_TIMEOUT": 5,
    "REP_BACK_OFF_FIRST": 0.2,
    "REP_BACK_OFF_GIVE_UP": 6,
    "REP_BACK_OFF_MAX": 2,
    "REP_MIN_AGE": 600,
    "REP_TIMEOUT": 2,
    "REP_UNREACHABLE_RETRY_DELAYS": [0.3, 0.3],
    "RETRY_TIMES": 3,
}
SETTINGS: dict[str, list[Any]] = {
    "AUTOTHROTTLE_ENABLED": [True],
    "CONCURRENT_REQUESTS": [1, 2, 100],
    "CONCURRENT_REQUESTS_PER_DOMAIN": [1, 2],
    "DEPTH_PRIORITY": [1],
    "DOWNLOADER": [SCRAPYS_DOWNLOADER],
    "DOWNLOAD_DELAY": [0.05, 0.4],
    "HTTPCACHE_ENABLED": [True],
    "METAREFRESH_ENABLED": [False],
    "REDIRECT_ENABLED": [False],
    "CLOSESPIDER_PAGECOUNT": [3],
    "REP_AUDIT_URI": ["%(name)s-%(worker)s.jsonl"],
    "REP_CACHE_BYTES": [1, 5000],
    "REP_DIALECT": ["gym2008"],
    "REP_EVIDENCE": [True],
    "REP_EVIDENCE_FIELD": ["rules"],
    "REP_FETCH_CONCURRENCY": [1],
    "REP_HOST_BUDGET": [3, 10],
    "REP_LATENCY_FACTOR": [1.0],
    "REP_OBEY": [DEFAULTS["REP_OBEY"]],  # back-off, too
    "REP_PACE_BY": ["domain", TOGETHER],
    "REP_PAGE_OBEY": [["noindex", "nofollow"]],
    "REP_SLOW_FETCHES": [1],
    "RETRY_ENABLED": [False],
    "SCHEDULER": [SCRAPYS],
    "SCHEDULER_START_DISK_QUEUE": ["scrapy.squeues.PickleLifoDiskQueue"],
}
MIDDLEWARES = [
    "Copying",
    "Sleeping",
    "Refusing",
    "Raising",
    "Asking",
    "Answering",
    "Again",
    "Late",
    "Mending",
]
HABITS = [
    *("slots", "metas", "downloads", "media", "errbacks", "idles", "stops"),
    *("handlers", "outputs", "closes", "derives", "ByHttpx", "ByAiohttp"),
]
PLACES = [1, 50, 250, 450, 560, 580, 700, 950, 999]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.worlds")
    parser.add_argument("-n", type=int, default=20, help="how many")
    parser.add_argument(
        "--seed", type=int, help="of the first; the next has the next number"
    )
    args = parser.parse_args(arguments)
    first = randrange(10**6) if args.seed is None else args.seed
    found = 0
    for seed in range(first, first + args.n):
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            world = World(seed, Path(folder))
            faults = list(world.play())
        print(
            f"world {seed}: {time.monotonic() - began:.0f} s, {len(faults)} faults",
            flush=True,
        )
        if faults:
            print(world, *faults, sep="\n", flush=True)
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
