"""A frontier above a ledger, on the real engine and downloader of a crawl."""

from __future__ import annotations

from functools import partial
from inspect import Signature, isawaitable, signature
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
import scrapy
from scrapy import Request

from scrapy_rep.crawl import Crawl
from scrapy_rep.frontier import Frontier, MemoryLedger
from scrapy_rep.frontier.job_file import JobFile
from scrapy_rep.frontier.sqlite import SqliteLedger
from tests.utils import coroutine_test, crawled, make_crawler, sleep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrapy_rep.frontier import Ledger

    Maker = Callable[[Any, Path], Ledger]


async def on_crawler(body: Callable[[Any], Any], **kwargs: Any) -> Any:
    """Run *body* on the crawler of a crawl that does nothing else."""
    raised: list[BaseException] = []

    class Inside(scrapy.Spider):
        name = "inside"

        async def start(self):
            try:
                if isawaitable(done := body(self.crawler)):
                    await done
            # Scrapy would only log it; what pytest.raises() misses is no Exception.
            except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
                raised.append(error)
            return
            yield

        def parse(self, response):
            pass

    crawler = await crawled(spider=Inside, **{"ROBOTSTXT_OBEY": False, **kwargs})
    for error in raised:
        raise error
    return crawler


def in_a_crawl(**kwargs: Any) -> Callable[[Callable[..., Any]], Any]:
    """Have a test run on such a crawler, which is its first argument."""

    def decorate(test: Callable[..., Any]) -> Any:
        async def run(**fixtures: Any) -> None:
            await on_crawler(partial(test, **fixtures), **kwargs)

        _, *others = signature(test).parameters.values()
        within: Any = coroutine_test(run)
        within.__signature__ = Signature(others)
        within.__doc__ = test.__doc__
        return within

    return decorate


def waits(
    make: Maker | None = None, **settings: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Have a test run so; its first argument is a ``Waiting`` of *make*, or the fixture *make*."""

    def decorate(test: Callable[..., Any]) -> Any:
        async def run(crawler: Any, tmp_path: Path, **fixtures: Any) -> None:
            its = fixtures.get("make") or make or in_memory
            waiting = await Waiting.opened(crawler, tmp_path, its)
            given = {"tmp_path": tmp_path, **fixtures}
            await test(waiting, **{name: given[name] for name in wanted})
            await waiting.close()

        _, *others = signature(test).parameters.values()
        wanted = [each.name for each in others]
        both = [*list(signature(run).parameters.values())[:2], *others]
        its: Any = run
        its.__signature__ = Signature(list({each.name: each for each in both}.values()))
        its.__doc__ = test.__doc__
        return in_a_crawl(**settings)(run)

    return decorate


def in_memory(crawler: Any, folder: Path) -> Ledger:
    return MemoryLedger()


def in_a_file(crawler: Any, folder: Path) -> Ledger:
    """Return a ledger whose file is in *folder*."""
    return SqliteLedger(JobFile(folder))


def in_redis(url: str, crawler: Any, folder: Path) -> Ledger:
    """Return the ledger of a fleet's only worker; *folder* names the fleet's queue."""
    from scrapy_rep.frontier.redis_ledger import RedisLedger

    class Worker(scrapy.Spider):
        name = str(folder)

    return RedisLedger(Crawl(make_crawler(Worker, REP_FLEET=url)))


class Waiting:
    """What waits in a frontier, and what of it is on its way."""

    def __init__(self, crawler: Any, make: Callable[[], Ledger]) -> None:
        self.crawler = crawler
        self.engine: Any = crawler.engine
        self.make = make
        self.ledger: Any = make()
        self.is_open = True
        self.frontier = Frontier(Crawl.of(crawler), self.ledger, crawler.spider)
        self.seen: list[Request] = []
        self.unpackable: list[Request] = []
        self.ledger.bind(
            self.frontier,
            crawler.spider,
            self.seen.append,
            lambda request, _: self.unpackable.append(request),
        )
        self.flying: list[Request] = []

    @classmethod
    async def opened(
        cls, crawler: Any, folder: Any = None, make: Maker = in_memory
    ) -> Waiting:
        waiting = cls(crawler, partial(make, crawler, folder))
        await waiting.ledger.open()
        return waiting

    async def reopen(self) -> None:
        """Close it, and go on with what another run finds."""
        await self.close()
        self.__init__(self.crawler, self.make)  # type: ignore[misc]
        await self.ledger.open()

    def __len__(self) -> int:
        return self.frontier.places.count + int(self.ledger.pending())

    async def settle(self) -> None:
        """Wait until the ledger has told the frontier of all that was filed."""
        deadline = monotonic() + 10
        while self._is_filing():
            assert monotonic() < deadline
            await sleep(0.005)

    def _is_filing(self) -> bool:
        return bool(self.ledger.fills_ahead and self.ledger.has_news())

    def push(self, request: Request, *, fingerprint: Any = None) -> str:
        is_start = request.meta.get("is_start_request", False)
        where: str = self.ledger.file(
            self.frontier.places.of(request),
            -2 * request.priority + is_start,
            request,
            fingerprint,
        )
        return where

    async def pop(self) -> Request | None:
        """Return what is handed out, which is then in the downloader."""
        await self.settle()
        request = self.frontier.pop()
        while request is None and (
            self._is_filing() or any(p.filling for p in self.frontier.places)
        ):
            await sleep(0.005)
            request = self.frontier.pop()
        if request is not None:
            self.begin(request)
        return request

    async def all_of(self) -> list[str]:
        """Pop what there is, each answered before the next; return the URLs."""
        found = []
        while (request := await self.pop()) is not None:
            found.append(request.url)
            self.end_all()
        self.frontier.sweep()
        return found

    # What the engine and the downloader do, without the time that it takes

    def begin(self, request: Request) -> None:
        _, slot = self.engine.downloader._get_slot(request)
        for requests in self._sets(slot):
            requests.add(request)
        self.flying.append(request)

    def end(self, number: int = 0) -> Request:
        """Have one of those on their way answered, and all that comes of it done."""
        request = self.flying.pop(number % len(self.flying))
        _, slot = self.engine.downloader._get_slot(request)
        for requests in self._sets(slot):
            requests.discard(request)
        return request

    def end_all(self) -> None:
        while self.flying:
            self.end()

    def send_back(self, number: int = 0) -> bool:
        """Have the gate send one back, to wait; tell whether that is where it came from."""
        request = self.flying[number % len(self.flying)]
        again = request.replace(dont_filter=True)
        is_back = self.frontier.take_back(request, again)
        self.end(number)
        return is_back

    def _sets(self, slot: Any) -> tuple[set[Request], ...]:
        return self.engine.downloader.active, slot.active, self.engine._slot.inprogress

    async def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self.frontier.close()
        await self.ledger.close()
        self.end_all()


def request(host: str, number: int = 0, **kwargs: Any) -> Request:
    return Request(f"http://{host}.example/{number}", **kwargs)


def numbers(urls: list[str]) -> list[int]:
    return [int(url.rpartition("/")[2]) for url in urls]


def assert_each_in_one_place(frontier: Frontier) -> None:
    waiting = frontier.places
    for queue in waiting.queues():
        full = [each for waiting in frontier.full.values() for each in waiting]
        where: dict[str, list[Any]] = {
            "due": [*frontier.due],
            "unknown": [*frontier.unknown],
            "full": full,
            "behind": full,
            "later": [each for at, _, each in frontier.later if at == each.due_at],
            "asked": [queue] * any(p.asked or p.filling for p in queue.places),
        }
        assert where[queue.where].count(queue) == 1
        assert queue.places
        assert all(place.count for place in queue.places)
    assert waiting.count == sum(place.count for place in waiting)


def assert_empty(frontier: Frontier) -> None:
    """Nothing is left behind by hosts that are gone."""
    places = frontier.places
    assert places.count == 0
    assert len(places) == 0
    assert places.queues() == []
    assert frontier.pop() is None
    assert not any((frontier.due, frontier.unknown, frontier.full))
    assert len(frontier.later) <= 17
