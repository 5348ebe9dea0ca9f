"""What settings name: ``SCHEDULER = "scrapy_rep.Scheduler"``, the frontier as Scrapy's engine sees it, and
``DOWNLOADER = "scrapy_rep.Downloader"``, which waits for turns of hosts.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.defer import deferred_from_coro, ensure_awaitable
from scrapy.utils.job import job_dir
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_rep.crawl import Crawl
from scrapy_rep.engine import inner
from scrapy_rep.engine.tools import Alarm
from scrapy_rep.frontier import Frontier, MemoryLedger
from scrapy_rep.gate.holding import GateCheck
from scrapy_rep.judging.target import NOTE_KEY, leave_behind

if TYPE_CHECKING:
    from collections.abc import Sized

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.dupefilters import BaseDupeFilter
    from twisted.internet.defer import Deferred
    from typing_extensions import Self

    from scrapy_rep.frontier import Ledger

TELL_STATS_SECONDS = 0.1
"""Seconds after which the stats are told what was enqueued and dequeued."""


class Scheduler(BaseScheduler):
    """For SCHEDULER: hands out a request when it may be sent; until then it holds up no other.

    Requests wait in memory; with JOBDIR in a file that outlives a kill of the process; with
    REP_FLEET in Redis. Order, priorities, filter, stats and spider state mean what they mean with
    Scrapy's.
    """

    frontier: Frontier

    def __init__(self, crawler: Crawler) -> None:
        assert crawler.stats is not None
        self.crawler = crawler
        self._crawl = Crawl.of(crawler)
        self._gate_check = GateCheck.of(crawler)
        self.stats = crawler.stats
        self._counts: Counter[tuple[str, str]] = Counter()
        """What the stats were not told yet: four calls a page cost as much as all else here."""
        self._teller = Alarm(self._tell_stats)
        self._sent_back = self._crawl.engine.handed_out.sent_back
        self._is_closed = False
        assert crawler.request_fingerprinter is not None
        self._fingerprint = crawler.request_fingerprinter.fingerprint
        folder = job_dir(crawler.settings)
        self.ledger = self._ledger_in(folder)
        kind = load_object(crawler.settings["DUPEFILTER_CLASS"])
        self._does_filter = kind is not RFPDupeFilter
        """Whether the user's own duplicates filter does, and not the ledger."""
        self.df: BaseDupeFilter
        if self._does_filter:
            self.df = build_from_crawler(kind, crawler)
        else:
            debug = crawler.settings.getbool("DUPEFILTER_DEBUG")
            fingerprinter = crawler.request_fingerprinter
            self.df = RFPDupeFilter(None, debug, fingerprinter=fingerprinter)
        kind = "DISK" if folder else "MEMORY"
        queue, start_queue = f"SCHEDULER_{kind}_QUEUE", f"SCHEDULER_START_{kind}_QUEUE"
        self._starts_apart = bool(crawler.settings[start_queue])
        self.ledger.last_first = (
            _is_lifo(crawler, queue),
            _is_lifo(crawler, start_queue),
        )
        self._logs_unpackable = crawler.settings.getbool("SCHEDULER_DEBUG")
        crawler.signals.connect(self._spider_idle, signals.spider_idle)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _ledger_in(self, folder: str | None) -> Ledger:
        if self._crawl.fleet is not None:
            from scrapy_rep.frontier.redis_ledger import RedisLedger  # noqa: PLC0415 - needs redis

            return RedisLedger(self._crawl)
        if not folder:
            return MemoryLedger()
        from scrapy_rep.frontier.job_file import JobFile  # noqa: PLC0415 - few need it
        from scrapy_rep.frontier.sqlite import SqliteLedger  # noqa: PLC0415

        return SqliteLedger(JobFile.of(self.crawler))

    # What the engine asks

    def open(self, spider: Spider) -> Deferred[None]:
        return deferred_from_coro(self._open(spider))

    async def _open(self, spider: Spider) -> None:
        self.spider = spider
        self.frontier = Frontier(self._crawl, self.ledger, spider)
        self.ledger.bind(
            self.frontier, spider, self._note_seen_later, self._note_unpackable
        )
        await self.ledger.open()
        if (opening := self.df.open()) is not None:
            await ensure_awaitable(opening)

    def has_pending_requests(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        return self.frontier.places.count + self.ledger.pending()

    # Scrapy's est(), in the telnet console, asks for the lengths of its queues.

    @property
    def mqs(self) -> Sized:
        return self if self.ledger.where == "memory" else ()

    @property
    def dqs(self) -> Sized | None:
        return None if self.ledger.where == "memory" else self

    def enqueue_request(self, request: Request) -> bool:
        if self._is_closed:
            return False  # of a start() that goes on: Scrapy ends that last
        if NOTE_KEY in request.meta:
            leave_behind(request, request.meta, self._crawl.engine.slot_of)
        before = self._sent_back.get(request) if self._sent_back else None
        if before is not None and self.frontier.take_back(before(), request):
            where = self.ledger.where
        else:
            where = self._file(request)
        if not where:
            self._note_seen(request)
            return False
        self._count("enqueued", where)
        return True

    def _file(self, request: Request) -> str:
        """Return where *request* is kept; "": it was seen before."""
        fingerprint = None
        if not request.dont_filter:
            if not self._does_filter:
                fingerprint = self._fingerprint(request)
            elif self.df.request_seen(request):
                return ""
        is_start = self._starts_apart and request.meta.get("is_start_request", False)
        place = self.frontier.places.of(request)
        rank = -2 * request.priority + is_start
        where = self.ledger.file(place, rank, request, fingerprint)
        if not (where or place.count):
            self.frontier.drop(place)
        return where

    def next_request(self) -> Request | None:
        request = self.frontier.pop()
        if request is not None:
            id_ = self.frontier.taken[request][1][2]
            where = "memory" if id_ is None else self.ledger.where
            self._count("dequeued", where)
        return request

    def close(self, reason: str) -> Deferred[None]:
        return deferred_from_coro(self._close(reason))

    async def _close(self, reason: str) -> None:
        self._is_closed = True
        self._teller.cancel()
        self._tell_stats()
        self.crawler.signals.disconnect(self._spider_idle, signals.spider_idle)
        self.frontier.close()
        await self.ledger.close()
        if (closing := self.df.close(reason)) is not None:
            await ensure_awaitable(closing)

    # What is told to people

    def _count(self, what: str, where: str) -> None:
        if not self._counts:
            self._teller.set(TELL_STATS_SECONDS)
        self._counts[what, where] += 1

    def _tell_stats(self) -> None:
        for (what, where), number in self._counts.items():
            self.stats.inc_value(f"scheduler/{what}/{where}", number)
            self.stats.inc_value(f"scheduler/{what}", number)
        self._counts.clear()

    def _spider_idle(self) -> None:
        self._tell_stats()
        self.frontier.sweep()
        if not self.ledger.may_end():
            raise DontCloseSpider

    def _note_seen(self, request: Request) -> None:
        self.df.log(request, self.spider)

    def _note_seen_later(self, request: Request) -> None:
        """As the engine does, which took it for a new one."""
        self._note_seen(request)
        self.crawler.signals.send_catch_log(
            signals.request_dropped, request=request, spider=self.spider
        )

    def _note_unpackable(self, request: Request, error: Exception) -> None:
        if not self.stats.get_value("scheduler/unserializable"):
            self._crawl.events.warn_user(
                f"{request} cannot be serialised ({error}). It waits in memory, as do others of"
                " the kind, and is lost when the crawl ends or is killed before it is"
                " sent. scheduler/unserializable counts them",
                error if self._logs_unpackable else None,
            )
        self.stats.inc_value("scheduler/unserializable")


class Downloader(inner.Downloader):
    """For DOWNLOADER: each request waits until its host may be asked, then goes to its handler."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._gate_check = GateCheck.of(crawler)


def _is_lifo(crawler: Crawler, setting: str) -> bool:
    kind: Any = crawler.settings[setting]
    name = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
    return "Fifo" not in name.rpartition(".")[2]
