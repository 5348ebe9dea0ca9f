"""What the crawls of a process tell each other: one fetch of a robots.txt serves them all.

They share what a site has answered and when, but not what follows from it: each crawl has its
own policies, lifetimes, retries, stats and evidence. Only crawls whose requests would be the
same share an answer (``Sharing.likeness``), for as long as one of them runs.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.access.results import Access
from scrapy_rep.policies.fetcher import validators_of
from scrapy_rep.policies.lifecycle import snapshot_after, standing_of
from scrapy_rep.policies.travel import proxy_of
from scrapy_rep.store import Snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.access import Outcome, Validators
    from scrapy_rep.settings import Settings

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
"""Scrapy's settings that decide how a robots.txt is asked for."""
SPIDER_ATTRIBUTES = ("http_user", "http_pass", "http_auth_domain")
"""The same in attributes of the spider, for a Scrapy without HTTPAUTH settings."""
CACHE_DIVISOR = 8
"""Shared answers may take the greatest REP_CACHE_BYTES of all crawls, divided by this."""
ENTRY_OCTETS, FIELD_OCTETS = 500, 150
"""Octets that an entry takes besides its body and the letters of its fields; measured."""
CRAWL_NUMBERS = count(1)
"""Of the crawls of this process."""


class Learned(NamedTuple):
    """What one fetch has brought."""

    outcome: Outcome
    at: float
    """When, by ``time.monotonic()``."""
    jitter: float
    """From -1 to 1; the same for all crawls, so that they retry at the same time."""
    validators: Validators | None
    """The validators of the request."""
    by: int = 0
    """The number of the crawl that has asked."""

    def weight(self) -> int:
        """Return the octets of memory that it takes."""
        fields = self.outcome.fields
        letters = sum(len(name) + sum(map(len, fields[name])) for name in fields)
        body = len(self.outcome.body)
        return ENTRY_OCTETS + FIELD_OCTETS * len(fields) + letters + body

    def serves(
        self,
        before: Snapshot | None,
        at: float,
        now: float,
        settings: Settings,
        *,
        waited: bool,
    ) -> bool:
        """Tell whether this saves a crawl that knows *before* from asking itself.

        *waited*: the crawl waited for it. *at* is when it was learned. Both *at* and *now*
        are in seconds since 1970.
        """
        before = before or Snapshot()
        kept, failures = before.answer, before.failures
        if self.outcome.access is Access.NOT_MODIFIED and (
            kept is None or self.validators != validators_of(kept)
        ):
            return False
        if waited:
            return True
        if failures is not None and at < failures.retry_at:
            return False  # it does not count once more
        if kept is not None and at <= kept.checked:
            return False
        after = snapshot_after(before, self.outcome, at, settings, self.jitter)
        return now < standing_of(after, now, settings).ask_at


class Commons:
    """What is shared under one event loop."""

    def __init__(self) -> None:
        self.members: WeakSet[Sharing] = WeakSet()
        self.max_bytes = 0
        self.bytes = 0
        self.learned: OrderedDict[Hashable, Learned] = OrderedDict()  # oldest use first
        self.claims: dict[Hashable, list[Deferred[None]]] = {}
        """By likeness, who waits for what somebody asks."""

    def join(self, member: Sharing, max_bytes: int) -> None:
        """Take in a *member*, which wants so many octets to be kept at the most."""
        if not self.members:  # some may be gone that never left
            self.clear()
        self.members.add(member)
        self.max_bytes = max(self.max_bytes, max_bytes)

    def leave(self, member: Sharing) -> None:
        """Let a *member* go; the last one takes all with it."""
        self.members.discard(member)
        if not self.members:
            self.clear()

    def keep(self, likeness: Hashable, learned: Learned) -> None:
        """Keep what was *learned*, and drop what was not used for longest."""
        self._discard(likeness)
        self.learned[likeness] = learned
        self.bytes += learned.weight()
        while self.bytes > self.max_bytes:
            self._discard(next(iter(self.learned)))

    def recall(self, likeness: Hashable) -> Learned | None:
        if likeness in self.learned:
            self.learned.move_to_end(likeness)
        return self.learned.get(likeness)

    def clear(self) -> None:
        self.learned.clear()
        self.bytes = self.max_bytes = 0

    def _discard(self, likeness: Hashable) -> None:
        learned = self.learned.pop(likeness, None)
        if learned is not None:
            self.bytes -= learned.weight()


OF_LOOPS: WeakKeyDictionary[Any, Commons] = WeakKeyDictionary()
"""By event loop: what is under way under another one would never be over here."""


class Sharing:
    """One crawl's part in what the crawls of the process share."""

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        ends: Callable[[], bool],
    ) -> None:
        """*ends* tells whether the crawl is ending, which breaks connections off."""
        self._crawler = crawler
        self._settings = settings
        self._ends = ends
        self._number = next(CRAWL_NUMBERS)
        self._commons: Commons | None = None
        self._asks_alike: Hashable = None

    def _join(self) -> Commons:
        if self._commons is None:
            self._commons = OF_LOOPS.setdefault(_event_loop(), Commons())
            self._commons.join(self, self._settings.cache_bytes // CACHE_DIVISOR)
            self._asks_alike = self._read_likeness()
        return self._commons

    def leave(self) -> None:
        """Take part no longer. When the last crawl leaves, all is forgotten."""
        commons, self._commons = self._commons, None
        if commons is not None:
            commons.leave(self)

    def _read_likeness(self) -> Hashable:
        settings, spider = self._settings, self._crawler.spider
        return (
            settings.dialect.name,
            settings.deny_statuses,
            settings.max_redirects,
            settings.max_size,
            settings.timeout,
            _hashable(settings.robots_meta),
            # A crawl that ignores Retry-After must not wait for a host parked by another crawl.
            "retry-after" in settings.obey,
            *(_hashable(self._crawler.settings.get(name)) for name in REQUEST_SETTINGS),
            *(_hashable(getattr(spider, name, None)) for name in SPIDER_ATTRIBUTES),
        )

    def likeness(self, origin: str, page: Request, user_agent: str) -> Hashable:
        """Return a key that is equal for all crawls that would send the same request.

        It asks *origin* on behalf of *page*, whose User-Agent header is *user_agent*.
        """
        self._join()
        return origin, user_agent, _hashable(proxy_of(page)), self._asks_alike

    def is_claimed(self, likeness: Hashable) -> bool:
        """Tell whether another crawl asks alike."""
        return likeness in self._join().claims

    @asynccontextmanager
    async def claim(self, likeness: Hashable) -> AsyncIterator[bool]:
        """Let no other crawl ask alike within the block, which is given whether one has.

        What that has learned is there to be recalled, unless it was broken off.
        """
        claims, waited = self._join().claims, False
        while likeness in claims:
            waiter: Deferred[None] = Deferred()
            claims[likeness].append(waiter)
            await maybe_deferred_to_future(waiter)
            waited = True
        waiters = claims[likeness] = []
        try:
            yield waited
        finally:
            del claims[likeness]
            for waiter in waiters:
                if not waiter.called:  # else it was cancelled
                    waiter.callback(None)

    def recall(self, likeness: Hashable) -> Learned | None:
        """Return what another crawl has learned that would send the same request."""
        learned = self._join().recall(likeness)
        # What this one has learned is known, or was forgotten, in its own memory.
        return None if learned is None or learned.by == self._number else learned

    def keep(self, likeness: Hashable, learned: Learned) -> None:
        """Keep what was *learned* for other crawls, unless it comes of this crawl alone."""
        outcome = learned.outcome
        unanswered = outcome.access is Access.UNREACHABLE and outcome.status is None
        if (
            self._commons is None
            or outcome.by_own_code
            or (unanswered and self._ends())
        ):
            return
        # What went wrong is told in words; the exception may hold whatever it likes.
        plain = outcome._replace(fault=None)
        self._commons.keep(likeness, Learned(plain, *learned[1:4], self._number))


def _event_loop() -> Any:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        from twisted.internet import reactor

        return reactor


def _hashable(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        items = sorted(value.items(), key=str)
        return tuple((_hashable(name), _hashable(item)) for name, item in items)
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    return value if isinstance(value, Hashable) else id(value)
