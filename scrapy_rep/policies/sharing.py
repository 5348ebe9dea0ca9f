"""Who asks for a robots.txt on behalf of all who want it: of a crawl, and of the process.

The crawls of a process share what a site has answered and when, but not what follows from it: each
has its own policies, lifetimes, retries, stats and evidence. Only crawls whose requests would be
the same share an answer (``Sharing.likeness``), for as long as one of them runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pprint import pformat
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.log import failure_to_exc_info
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.python.failure import Failure

from scrapy_rep.access.answers import Access
from scrapy_rep.engine.tools import Alarm
from scrapy_rep.events.stream import Stream
from scrapy_rep.policies.cache import Bounded
from scrapy_rep.policies.fetcher import proxy_of, validators_of
from scrapy_rep.policies.lifecycle import snapshot_after, standing_of
from scrapy_rep.store import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.access import Outcome, Validators
    from scrapy_rep.policies.concurrency import FetchBound
    from scrapy_rep.settings import Settings

    Likeness = tuple[str, str, str | None, str]
    """Origin, User-Agent header, proxy, and how the crawl asks."""

T = TypeVar("T")
"""What is found, such as what is known of an origin."""
logger = logging.getLogger(__name__)

END_CHECK_SECONDS = 0.5
"""Seconds after which it is looked whether the crawl is ending."""
PATIENCE_AT_END_SECONDS = 2.0
"""Seconds for which a crawl that ends still waits for a robots.txt that something needs."""
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


class Waiters(list["Deferred[T]"]):
    """All who wait for the same; any of them may be cancelled."""

    def join(self) -> Deferred[T]:
        self.append(Deferred())
        return self[-1]

    def tell(self, found: T) -> None:
        """Give *found* to all who wait so far."""
        told, self[:] = self[:], []
        for waiter in told:
            if not waiter.called:
                waiter.callback(found)


class Errand(Waiters[T]):
    """Who waits for what is asked for one key."""

    is_needed = False
    """Whether anybody waits who cannot go on without it."""
    task: Deferred[Any] | None = None
    """``None``: it is just being begun."""

    def tell(self, found: T) -> None:
        self.is_needed = False
        super().tell(found)

    def break_off(self) -> None:
        if self.task is not None:
            self.task.cancel()


class OneAtATime(Generic[T]):
    """Asks for keys, such as origins: one task for each at a time, for all who wait for it.

    A waiter that is cancelled does not harm the others, and no waiter is left without an
    answer. When the crawl ends, what nobody needs any more is broken off at once, and the
    rest soon.
    """

    def __init__(
        self,
        find: Callable[[str, Request], Coroutine[object, object, T]],
        broken_off: Callable[[str], T],
        is_ending: Callable[[], bool],
    ) -> None:
        """*broken_off* returns what decides for a key if *find* raises or is cancelled."""
        self._find = find
        self._broken_off = broken_off
        self._is_ending = is_ending
        self.under_way: dict[str, Errand[T]] = {}
        """By key."""
        self._alarm = Alarm(self._look)
        self._ends_since: float | None = None
        self._closing = False

    def ask(self, key: str, page: Request, *, ahead: bool = False) -> Deferred[T]:
        """Return the result of asking for *key*, which begins if need be.

        *ahead*: *page* waits somewhere else, and may do so when the crawl ends.
        """
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
            errand.task.addBoth(self._over, key)
        return waiter

    def close(self) -> None:
        """Break off what is being asked."""
        self._closing = True
        for errand in list(self.under_way.values()):
            errand.break_off()

    def _over(self, found: T | Failure, key: str) -> None:
        errand = self.under_way.pop(key)
        if not self.under_way:
            self._alarm.cancel()
        if isinstance(found, Failure):
            if not found.check(CancelledError, asyncio.CancelledError):
                # A fault of ours, not of the site: it refuses, and is not remembered.
                words = "Could not learn what robots.txt of %s says"
                logger.error(words, key, exc_info=failure_to_exc_info(found))
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
    """What one fetch has brought."""

    outcome: Outcome
    at: float
    """When, by ``time.monotonic()``."""
    validators: Validators | None
    """The validators of the request."""

    def weight(self) -> int:
        """Return the octets of memory that it takes."""
        fields = self.outcome.fields
        letters = sum(len(name) + sum(map(len, fields[name])) for name in fields)
        body = len(self.outcome.body)
        return ENTRY_OCTETS + FIELD_OCTETS * len(fields) + letters + body


class Claim(Waiters[None]):
    """A crawl's right to ask alone, until its ``end``; others wait for that."""

    def __init__(
        self, claims: dict[Likeness, Claim], likeness: Likeness, since: float
    ) -> None:
        super().__init__()
        self._claims = claims
        self.likeness = likeness
        self.since = since
        """What was learned since then was waited for; ``inf``: nothing was."""
        claims[likeness] = self

    def end(self) -> None:
        del self._claims[self.likeness]
        self.tell(None)


class Commons:
    """What is shared under one event loop, for as long as one of its crawls runs."""

    def __init__(self) -> None:
        self.learned: Bounded[Learned] = Bounded(0, Learned.weight)
        """By likeness."""
        self.claims: dict[Likeness, Claim] = {}
        """By likeness."""


OF_LOOPS: WeakValueDictionary[Any, Commons] = WeakValueDictionary()
"""By event loop: what is under way under another one would never be over here."""


@dataclass(eq=False)
class Sharing:
    """One crawl's part in what the crawls of the process share."""

    crawler: Crawler
    settings: Settings
    is_ending: Callable[[], bool]
    """Tells whether the crawl is ending, which breaks connections off."""

    @cached_property
    def _commons(self) -> Commons:
        commons = OF_LOOPS.setdefault(_event_loop(), Commons())
        most = max(commons.learned.most, self.settings.cache_bytes // CACHE_DIVISOR)
        commons.learned.most = most
        return commons

    def leave(self) -> None:
        """Take part no longer. When the last crawl leaves, all is forgotten."""
        self.__dict__.pop("_commons", None)

    @cached_property
    def _way(self) -> str:
        """How the crawl asks; equal for all whose requests would be the same."""
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
        """Return a key that is equal for all crawls that would send the same request.

        It asks *origin* on behalf of *page*, whose User-Agent header is *user_agent*.
        """
        proxy = proxy_of(page)
        by = None if proxy is None else pformat(proxy)
        return origin, user_agent, by, self._way

    async def claim(self, likeness: Likeness, bound: FetchBound) -> Claim:
        """Let no other crawl ask alike until the claim ends.

        What one has learned meanwhile is there to be recalled, unless it was broken off.
        """
        claims, since, began = self._commons.claims, inf, monotonic()
        while likeness in claims:
            with bound.waiting_aside(bound.patience):
                await maybe_deferred_to_future(claims[likeness].join())
            since = began
        return Claim(claims, likeness, since)

    def recall(
        self, likeness: Likeness, before: Snapshot | None, since: float, now: float
    ) -> Learned | None:
        """Return what was learned already, and saves this crawl from asking itself *now*.

        It knows *before*, and has waited for what was learned *since* then, by
        ``time.monotonic()``.
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
        """Keep what was *learned* for other crawls, unless it comes of this crawl alone."""
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
