"""Async tests and real crawls, under every event loop the suite runs with."""

from __future__ import annotations

import asyncio
import gc
import inspect
import time
import tracemalloc
from contextlib import contextmanager
from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
import scrapy
from scrapy import squeues
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.reactor import is_asyncio_reactor_installed, is_reactor_installed
from scrapy.utils.test import get_reactor_settings
from twisted.internet.defer import Deferred

from scrapy_rep.policies import service
from scrapy_rep.policies.sharing import FetchBound
from scrapy_rep.protocol.answers import header_fields
from scrapy_rep.protocol.language import DAY
from scrapy_rep.store import Store
from tests.wire import STAMPED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator
    from pathlib import Path
    from threading import Event

    import scrapy_rep
    from scrapy_rep.protocol.answers import HeaderFields
    from scrapy_rep.store import Snapshot


CRAWL_TIMEOUT = 60.0  # seconds; a crawl that hangs must not take the reactor with it

SCRAPYS = "scrapy.core.scheduler.Scheduler"

both_schedulers = pytest.mark.parametrize(
    "scheduler", ["scrapy_rep.Scheduler", SCRAPYS]
)

SCRAPYS_DOWNLOADER = "scrapy.core.downloader.Downloader"

both_downloaders = pytest.mark.parametrize(
    "downloader", ["scrapy_rep.Downloader", SCRAPYS_DOWNLOADER]
)

HAS_SQLITE = hasattr(squeues, "PickleLifoSQLiteQueue")  # in Scrapy 2.19 and later
DISK_QUEUES = [
    pytest.param(
        {
            "SCHEDULER_DISK_QUEUE": f"scrapy.squeues.Pickle{kind}",
            "SCHEDULER_START_DISK_QUEUE": f"scrapy.squeues.Pickle{of_starts}",
        },
        id=f"{kind}, {of_starts}",
    )
    for kind, of_starts in (
        ("LifoDiskQueue", "FifoDiskQueue"),  # Scrapy's default
        ("FifoDiskQueue", "LifoDiskQueue"),
        ("LifoSQLiteQueue", "FifoSQLiteQueue"),
        ("FifoSQLiteQueue", "LifoSQLiteQueue"),
    )
    if HAS_SQLITE or "SQLite" not in kind
]
"""Settings for each kind of disk queue that Scrapy has."""

calls_back_at_once = pytest.mark.skipif(
    scrapy.version_info < (2, 18),
    reason="before Scrapy 2.18 a callback runs 0.1 s after the answer, and more is sent meanwhile",
)

QUIET = {
    "REMOTE_CONTROL_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "RETRY_TIMES": 0,
    "CONCURRENT_ITEMS": 4,  # Scrapy makes a task for each of 100, with each response
    "REP_UNREACHABLE_RETRY_DELAYS": [],  # refused at once, where a test does not say
    "REP_BACK_OFF_FIRST": 0.1,
    **STAMPED,
}


def coroutine_test(
    coro_f: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., Any]:
    """Let pytest run an ``async def`` test, whichever event loop is installed."""

    @wraps(coro_f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        coro = coro_f(*args, **kwargs)
        if is_reactor_installed():
            return deferred_from_coro(coro)  # pytest-twisted waits for it
        return asyncio.run(coro)

    return wrapper


# Any: so that the tests need not tell at each use which spider it is, or that there is one.
GOES_ON: Any = SimpleNamespace(
    is_ending=lambda: False, lend=lambda _: None, wake=lambda: None
)
"""The engine of a crawl that is made up, and does not end."""
NO_BOUND = FetchBound(GOES_ON, 1, 1)
"""What bounds the fetches of a fetcher that is made up."""


def make_crawler(spidercls: type[scrapy.Spider] | None = None, **settings: Any) -> Any:
    """Return a crawler with the add-on enabled, as a user enables it."""
    if not is_reactor_installed():
        settings["TWISTED_REACTOR_ENABLED"] = False
    elif not is_asyncio_reactor_installed():
        settings["TWISTED_REACTOR"] = None
    settings = {"ADDONS": {"scrapy_rep.Addon": 500}, **QUIET, **settings}
    # As Scrapy's get_crawler has it, which also looks for the spiders of a project, and
    # copies settings that nobody else has. That takes as long as a third of a small crawl.
    own: Any = Settings({**get_reactor_settings(), **settings})
    own.copy = lambda: own
    crawler = Crawler(spidercls or Pages, own)
    del own.copy
    crawler._apply_settings()
    return crawler


async def crawl(crawler: Any, within: float = CRAWL_TIMEOUT, **kwargs: Any) -> Any:
    """Run *crawler* to its end, or raise after so many seconds."""
    began = time.monotonic()
    if is_reactor_installed():
        from twisted.internet import reactor

        crawling = crawler.crawl(**kwargs).addTimeout(within, reactor)
        await maybe_deferred_to_future(crawling)
    else:
        await asyncio.wait_for(crawler.crawl_async(**kwargs), within)
    # A crawl that is cancelled may end as if nothing were wrong.
    assert time.monotonic() - began < within, "the crawl does not end by itself"
    return crawler


async def crawled(
    urls: Iterable[str] = (),
    spider: type[scrapy.Spider] | None = None,
    within: float = CRAWL_TIMEOUT,
    **given: Any,
) -> Any:
    """Crawl *urls* to the end, and return the crawler.

    Names in capitals are settings, others are arguments of the *spider*.
    """
    settings = {name: given.pop(name) for name in [*given] if name.isupper()}
    return await crawl(make_crawler(spider, **settings), within, urls=urls, **given)


def close(crawler: Any) -> None:
    """Have a crawl end, also from ``start()``: there CloseSpider does so from Scrapy 2.18 on."""
    deferred_from_coro(crawler.engine.close_spider_async(reason="enough"))


async def at_once(*crawls: Coroutine[Any, Any, Any]) -> None:
    """Run crawls at the same time."""
    if not is_reactor_installed():
        await asyncio.gather(*crawls)
        return
    for running in [deferred_from_coro(each) for each in crawls]:
        await maybe_deferred_to_future(running)


async def until(true: Callable[[], Any], seconds: float = 30.0) -> None:
    """Wait until *true* is, or what it returns comes true."""
    deadline = time.monotonic() + seconds
    while not (await found if inspect.iscoroutine(found := true()) else found):
        assert time.monotonic() < deadline, "it does not come true"
        await sleep(0.01)


def fields(headers: Any = ()) -> HeaderFields:
    """Return the header fields of *headers*, a dict or pairs."""
    pairs = headers.items() if isinstance(headers, dict) else headers
    return header_fields((name, str(value)) for name, value in pairs)


async def sleep(seconds: float) -> None:
    """Wait, under every event loop (Scrapy has the like from 2.18 on)."""
    done: Deferred[None] = Deferred()
    call_later(seconds, done.callback, None)
    await maybe_deferred_to_future(done)


@contextmanager
def traced() -> Iterator[Callable[[], tuple[int, int]]]:
    """Give what returns how many octets the block has taken so far, and at the most."""
    gc.collect()
    tracemalloc.start()
    try:
        yield tracemalloc.get_traced_memory
    finally:
        tracemalloc.stop()


class Pages(scrapy.Spider):
    """Asks for URLs, and keeps what came back and what was refused."""

    name = "pages"
    robots: scrapy_rep.Robots

    def __init__(self, urls: Iterable[str] = (), meta: Any = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.urls = list(urls)
        self.meta = meta or {}
        self.got: list[str] = []
        self.failures: list[Any] = []

    async def start(self):
        for request in self.requests():
            yield request

    def requests(self) -> Iterable[scrapy.Request]:
        for url in self.urls:
            yield scrapy.Request(
                url, meta=dict(self.meta), errback=self.failed, dont_filter=True
            )

    def parse(self, response):
        self.got.append(response.url)

    def failed(self, failure):
        self.failures.append(failure.value)


class InTurn(Pages):
    """Asks for its URLs one after the other, and has a day pass after each answer."""

    async def start(self):
        stat = self.crawler.stats.get_value
        days = 0
        with patch.object(service, "monotonic", lambda: time.monotonic() + days * DAY):
            for number, request in enumerate(self.requests(), 1):
                yield request
                while len(self.got) + len(self.failures) < number or stat(
                    "robotstxt/request_count", 0
                ) > stat("robotstxt/response_count", 0):
                    await sleep(0.01)
                days += 1


class Enough(Pages):
    """Ends the crawl when it has so many pages; then what still waits is not waited for."""

    enough = 1

    def parse(self, response):
        super().parse(response)
        if len(self.got) == self.enough:
            raise scrapy.exceptions.CloseSpider("enough")


class Frees(Pages):
    """Lets all that waits go on when its first page comes."""

    free: Event

    def parse(self, response):
        super().parse(response)
        self.free.set()


class Media(Pages):
    """Yields *item* for each page, for a pipeline that downloads."""

    item: dict[str, list[str]]

    def parse(self, response):
        super().parse(response)
        yield self.item


def with_files(folder: Path, **settings: Any) -> Any:
    """Return a crawler of ``Media`` whose files go to *folder*."""
    pipeline = "scrapy.pipelines.files.FilesPipeline"
    store = {"ITEM_PIPELINES": {pipeline: 1}, "FILES_STORE": str(folder)}
    return make_crawler(Media, **store, **settings)


class DictStore(Store):
    """A user's own store, which outlives its crawls."""

    def __init__(self) -> None:
        self.kept: dict[str, Snapshot] = {}

    async def get(self, origin: str) -> Snapshot | None:
        return self.kept.get(origin)

    async def put(self, origin: str, snapshot: Snapshot) -> None:
        self.kept[origin] = snapshot

    async def close(self) -> None:
        pass


class BrokenStore(Store):
    """Fails at everything that it is asked."""

    async def get(self, origin: str) -> Snapshot | None:
        raise OSError("get")

    async def put(self, origin: str, snapshot: Snapshot) -> None:
        raise OSError("put")

    async def touch(self, origin: str, snapshot: Snapshot) -> None:
        raise OSError("touch")

    async def close(self) -> None:
        raise OSError("close")
