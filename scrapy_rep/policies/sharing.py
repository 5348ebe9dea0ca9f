"""Who asks for a robots.txt on behalf of all who want it, and how many are asked for at once.

The crawls of a process share what a site has answered and when, but not what follows from it; and only
those whose requests would be the same, for as long as one of them runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pprint import pformat
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore, succeed
from twisted.python.failure import Failure

from scrapy_rep.engine.tools import Alarm, sleep, wait_for
from scrapy_rep.events.stream import Stream
from scrapy_rep.policies.lifecycle import Bounded, snapshot_after, standing_of
from scrapy_rep.protocol.access import Validators
from scrapy_rep.protocol.answers import Access
from scrapy_rep.store import Snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import AbstractContextManager

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.engine.inner import Engine
    from scrapy_rep.protocol.access import Outcome
    from scrapy_rep.settings import Settings
    from scrapy_rep.store import KeptAnswer

    Likeness = tuple[str, str, str | None, str]
    """Origin, User-Agent header, proxy, and how the crawl asks."""

T = TypeVar("T")

END_CHECK_SECONDS = 0.5
PATIENCE_AT_END_SECONDS = 2.0
"""For a robots.txt that something needs."""
REQUEST_SETTINGS = (
    "DEFAULT_REQUEST_HEADERS",
    "DOWNLOADER",
    "DOWNLOADER_MIDDLEWARES",
    "DOWNLOAD_BIND_ADDRESS",
    "DOWNLOAD_HANDLERS",
    "HTTPAUTH_DOMAIN",
    "HTTPAUTH_PASS",
    "HTTPAUTH_USER",
    "HTTPPROXY_ENABLED",
)
"""They decide how a robots.txt is asked for."""
SPIDER_ATTRIBUTES = ("http_user", "http_pass", "http_auth_domain")
"""For a Scrapy without HTTPAUTH settings."""
CACHE_DIVISOR = 8
"""Shared answers may take this part of the greatest REP_CACHE_BYTES."""
ENTRY_OCTETS, FIELD_OCTETS = 500, 150
"""Besides its body and the letters of its fields; measured."""

PATIENCE_SECONDS, LEAST_PATIENCE_SECONDS = 0.5, 0.005
"""Seconds after which a fetch no longer counts in REP_FETCH_CONCURRENCY; at the least, after many in a
row took long while others waited."""
PATIENCE_GROWTH = 8
"""After an answer within PATIENCE_SECONDS of a fetch that had made way."""
MOST_IDLE = 10_000
"""Fetches that wait for a host, beyond which others wait for them: each takes some 20 kB."""
LARGE_SIZE = 32 * 1024
"""Octets beyond which a thread reads a robots.txt, as of 2 %: the worst of this size take some 50 ms."""


class Waiters(list["Deferred[T]"]):
    def join(self) -> Deferred[T]:
        self.append(Deferred())
        return self[-1]

    def tell(self, found: T) -> None:
        told, self[:] = self[:], []
        for waiter in told:
            if not waiter.called:
                waiter.callback(found)


class Errand(Waiters[T]):
    is_needed = False
    task: Deferred[Any] | None = None

    def tell(self, found: T) -> None:
        self.is_needed = False
        super().tell(found)

    def break_off(self) -> None:
        if self.task is not None:
            self.task.cancel()


class OneAtATime(Generic[T]):
    """Asks for keys, such as origins: one task for each at a time, for all who wait for it.

    No waiter is left without an answer. When the crawl ends, what nobody needs any more is
    broken off at once, and the rest soon.
    """

    def __init__(
        self,
        find: Callable[[str, Request], Coroutine[object, object, T]],
        broken_off: Callable[[str], T],
        is_ending: Callable[[], bool],
        events: Stream,
    ) -> None:
        """*broken_off* returns what decides if *find* raises or is cancelled."""
        self._find = find
        self._broken_off = broken_off
        self._is_ending = is_ending
        self._events = events
        self.under_way: dict[str, Errand[T]] = {}
        self._alarm = Alarm(self._look)
        self._ends_since: float | None = None
        self._closing = False

    def ask(self, key: str, page: Request, *, ahead: bool = False) -> Deferred[T]:
        """*ahead*: *page* waits somewhere else, and may do so when the crawl ends."""
        errand = self.under_way.get(key)
        is_new = errand is None
        if errand is None:
            if self._closing:
                return succeed(self._broken_off(key))
            errand = self.under_way[key] = Errand()
        waiter = errand.join()
        errand.is_needed |= not ahead
        if is_new:
            self._alarm.set(END_CHECK_SECONDS)
            errand.task = deferred_from_coro(self._find(key, page))
            errand.task.addBoth(self._note_over, key)
        return waiter

    def close(self) -> None:
        self._closing = True
        for errand in list(self.under_way.values()):
            errand.break_off()

    def _note_over(self, found: T | Failure, key: str) -> None:
        errand = self.under_way.pop(key)
        if not self.under_way:
            self._alarm.cancel()
        if isinstance(found, Failure):
            if not found.check(CancelledError, asyncio.CancelledError):
                # A fault of ours, not of the site: it refuses, and is not remembered.
                words = f"Could not learn what robots.txt of {key} says"
                self._events.tell_failure(words, found.value)
            found = self._broken_off(key)
        errand.tell(found)

    def _look(self) -> None:
        """Break off what is not needed if the crawl is ending, which no signal tells so early."""
        self._alarm.set(END_CHECK_SECONDS)
        if not self._is_ending():
            return
        now = monotonic()
        self._ends_since = self._ends_since or now
        is_late = now >= self._ends_since + PATIENCE_AT_END_SECONDS
        self._closing |= is_late
        for errand in list(self.under_way.values()):
            if is_late or not errand.is_needed:
                errand.break_off()


class Learned(NamedTuple):
    outcome: Outcome
    at: float
    """By ``time.monotonic()``."""
    validators: Validators | None
    """Those of the request."""

    def weight(self) -> int:
        fields = self.outcome.fields
        letters = sum(len(name) + sum(map(len, fields[name])) for name in fields)
        body = len(self.outcome.body)
        return ENTRY_OCTETS + FIELD_OCTETS * len(fields) + letters + body


class Commons:
    """What is shared under one event loop, for as long as one of its crawls runs."""

    def __init__(self) -> None:
        self.learned: Bounded[Learned] = Bounded(0, Learned.weight)
        self.claims: dict[Likeness, Waiters[None]] = {}
        """Those who wait for the end of each."""


OF_LOOPS: WeakValueDictionary[Any, Commons] = WeakValueDictionary()
"""By event loop: what is under way under another one would never be over here."""


@dataclass(eq=False)
class Sharing:
    crawler: Crawler
    settings: Settings
    is_ending: Callable[[], bool]

    @cached_property
    def _commons(self) -> Commons:
        commons = OF_LOOPS.setdefault(_event_loop(), Commons())
        most = max(commons.learned.most, self.settings.cache_bytes // CACHE_DIVISOR)
        commons.learned.most = most
        return commons

    def leave(self) -> None:
        """When the last crawl leaves, all is forgotten."""
        self.__dict__.pop("_commons", None)

    @cached_property
    def _way(self) -> str:
        """Equal for all whose requests would be the same."""
        settings, spider = self.settings, self.crawler.spider
        of_scrapy = [self.crawler.settings.get(name) for name in REQUEST_SETTINGS]
        return pformat(
            (
                settings.dialect.name,
                settings.deny_statuses,
                settings.max_redirects,
                settings.max_size,
                settings.timeout,
                settings.robots_meta,
                # A crawl that ignores Retry-After must not wait for a host parked by another crawl.
                "retry-after" in settings.obey,
                [dict(it) if isinstance(it, Mapping) else it for it in of_scrapy],
                [getattr(spider, name, None) for name in SPIDER_ATTRIBUTES],
            )
        )

    def likeness(self, origin: str, page: Request, user_agent: str) -> Likeness:
        proxy = proxy_of(page)
        by = None if proxy is None else pformat(proxy)
        return origin, user_agent, by, self._way

    @asynccontextmanager
    async def claim(self, likeness: Likeness) -> AsyncIterator[float]:
        """Let no other crawl of the process ask alike within the block.

        The block is given since when, by ``time.monotonic()``, what others learned was waited for;
        ``inf``: for nothing.
        """
        claims, since, began = self._commons.claims, inf, monotonic()
        while likeness in claims:
            await maybe_deferred_to_future(claims[likeness].join())
            since = began
        waiters = claims[likeness] = Waiters()
        try:
            yield since
        finally:
            del claims[likeness]
            waiters.tell(None)

    def recall(
        self, likeness: Likeness, before: Snapshot | None, since: float, now: float
    ) -> Learned | None:
        """Return what saves this crawl from asking itself *now*.

        It knows *before*, and has waited *since* then, by ``time.monotonic()``.
        """
        learned = self._commons.learned.get(likeness)
        if learned is None:
            return None
        before = before or Snapshot()
        kept, failures = before.answer, before.failures
        if learned.outcome.access is Access.NOT_MODIFIED and (
            kept is None or learned.validators != validators_of(kept)
        ):
            return None
        if learned.at >= since:
            return learned
        at = Stream.of(self.crawler).at(learned.at)
        if failures is not None and at < failures.retry_at:
            return None  # it does not count once more
        if kept is not None and at <= kept.checked:
            return None
        outcome, settings = learned.outcome, self.settings
        after = snapshot_after(before, outcome, at, settings)
        return learned if now < standing_of(after, now, settings).ask_at else None

    def keep(self, likeness: Likeness, learned: Learned) -> None:
        """For other crawls, unless it comes of this crawl alone."""
        outcome = learned.outcome
        unanswered = outcome.access is Access.UNREACHABLE and outcome.status is None
        if not (outcome.by_own_code or (unanswered and self.is_ending())):
            if outcome.fault is not None:
                # It is told in words, and may hold whatever it likes.
                learned = learned._replace(outcome=outcome._replace(fault=None))
            self._commons.learned.put(likeness, learned)


def _event_loop() -> Any:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        from twisted.internet import reactor

        return reactor


def validators_of(kept: KeptAnswer | None) -> Validators | None:
    if kept is None:
        return None
    return Validators(kept.url, kept.etag, kept.last_modified)


def proxy_of(page: Request) -> tuple[dict[str, Any], bytes | None] | None:
    """Its meta, and the Proxy-Authorization; ``None``: *page* names no proxy."""
    if "proxy" not in page.meta or "_scheme_proxy" in page.meta:
        return None
    names = ("proxy", "_auth_proxy")
    keys = {name: page.meta[name] for name in names if name in page.meta}
    return keys, page.headers.get(b"Proxy-Authorization")


class FetchBound:
    """Lets *most* fetches run at once, and *most_slow* more that take long.

    A fetch that takes long makes way for the next one. Each that does so while others wait
    halves our patience, and answers restore it: hundreds of hosts that hang cost a second.
    """

    def __init__(self, engine: Engine, most: int, most_slow: int) -> None:
        self.engine = engine
        self.patience = PATIENCE_SECONDS
        self.places = DeferredSemaphore(most)
        self.most_slow = most_slow
        self.taking_long = 0
        self.idle = 0
        """Fetches that wait for a host, and have nothing open."""
        self._hosts: dict[str, DeferredSemaphore] = {}
        self._worker: ThreadPoolExecutor | None = None
        self.pages = 0
        """Those that wait in the downloader for a policy."""

    @property
    def prompt(self) -> int:
        """Fetches that have not made way."""
        return self.places.limit - self.places.tokens

    @property
    def slow(self) -> int:
        """Fetches that have made way, or wait for a host or somebody else's."""
        return min(self.taking_long, self.most_slow) + min(self.idle, MOST_IDLE)

    @property
    def hosts_hang(self) -> bool:
        """Whether the hosts that were asked last keep others waiting."""
        return self.patience < PATIENCE_SECONDS

    async def enter(self) -> Fetch:
        """Wait until a fetch may run, which must leave at its end."""
        await _place_of(self.places)
        self.engine.lend(1)  # it takes none of a page's
        return Fetch(self)

    @asynccontextmanager
    async def at_host(self, host: str) -> AsyncIterator[None]:
        """Wait until a fetch that was led to *host* has one of its places: as many as for pages.

        Redirects of thousands of origins may lead to one host, which is slow, parked or down. "": it
        leads nowhere else.
        """
        if not host:
            yield
            return
        places = self._hosts.get(host)
        if places is None:
            places = self._hosts[host] = DeferredSemaphore(self.engine.most_of_a_slot)
        await _place_of(places, self.idling)
        try:
            yield
        finally:
            places.release()
            if places.tokens == places.limit:
                del self._hosts[host]

    @contextmanager
    def idling(self) -> Iterator[None]:
        self.idle += 1
        self.engine.wake()  # the queue may look further ahead
        try:
            yield
        finally:
            self.idle -= 1

    def waiting_aside(self, after: float = 0.0) -> AbstractContextManager[None]:
        """Count a fetch as slow while it waits for somebody else, from *after* seconds on."""
        return _later(after, self.note_slow, self.note_over)

    async def aside(self, work: Callable[[], T]) -> T:
        """Have one thread do *work*, for all that ask, in their order.

        It and the event loop take turns every 5 ms. Cancelling the wait does not stop the work.
        """
        if self._worker is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - it is rare

            self._worker = ThreadPoolExecutor(1, "scrapy_rep.policies")
        with self.waiting_aside():
            return await wait_for(self._worker.submit(work))

    def close(self) -> None:
        if self._worker is not None:
            self._worker.shutdown(wait=False, cancel_futures=True)
            self._worker = None

    def note_slow(self) -> None:
        self.taking_long += 1
        self.engine.wake()  # the queue may look further ahead

    def note_over(self) -> None:
        self.taking_long -= 1

    @contextmanager
    def lending_place(self) -> Iterator[None]:
        """A page that waits in the downloader takes none of the others' places for long."""
        self.pages += 1
        try:
            with _later(self.patience, self._lend, lambda: self.engine.lend(-1)):
                yield
        finally:
            self.pages -= 1

    def _lend(self) -> None:
        self.engine.lend(1)
        self.engine.wake()


async def _place_of(
    places: DeferredSemaphore,
    meanwhile: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    place = places.acquire()
    if not place.called:
        with meanwhile():
            await maybe_deferred_to_future(place)
        # As the crawl ends, hundreds give up at once: without asyncio each within the call of
        # the one before.
        await sleep(0)


class Fetch:
    def __init__(self, bound: FetchBound) -> None:
        self._bound = bound
        self._is_slow = False
        self._began = monotonic()
        self._timer = call_later(bound.patience, self._take_long)

    def _take_long(self) -> None:
        bound = self._bound
        if bound.places.waiting:
            bound.patience = max(bound.patience / 2, LEAST_PATIENCE_SECONDS)
        self.make_way()
        if not self._is_slow:
            self._timer = call_later(PATIENCE_SECONDS, self._take_long)

    def make_way(self) -> None:
        """Count as slow from now on, if there is room: it takes long, or waits for a turn."""
        bound = self._bound
        if not self._is_slow and bound.taking_long < bound.most_slow:
            self._is_slow = True
            bound.places.release()
            bound.note_slow()

    def note_answer(self) -> None:
        patience = self._bound.patience
        if patience < monotonic() - self._began < PATIENCE_SECONDS:
            self._bound.patience = min(PATIENCE_GROWTH * patience, PATIENCE_SECONDS)

    def leave(self) -> None:
        self._timer.cancel()
        self._bound.engine.lend(-1)
        if self._is_slow:
            self._bound.note_over()
        else:
            self._bound.places.release()


@contextmanager
def _later(
    seconds: float, begin: Callable[[], object], end: Callable[[], object]
) -> Iterator[None]:
    """Call *begin* if the block takes longer than so many *seconds*, and then *end* after it."""
    begun: list[object] = []
    timer = call_later(seconds, lambda: begun.append(begin()))
    try:
        yield
    finally:
        timer.cancel()
        if begun:
            end()
