"""One fetch for each key at a time, as a task of its own, for all who wait for it."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scrapy import Request
    from scrapy.utils.asyncio import CallLaterResult

T = TypeVar("T")
"""What is found, such as what is known of an origin."""
logger = logging.getLogger(__name__)

END_CHECK_SECONDS = 0.5
"""Seconds after which it is looked whether the crawl is ending."""
PATIENCE_AT_END_SECONDS = 2.0
"""Seconds for which a crawl that ends still waits for a robots.txt that something needs."""


class Engine(Protocol):
    """What this needs of the crawl's engine."""

    def is_ending(self) -> bool: ...


class Errand(Generic[T]):
    """What asks for one key, and who waits for it."""

    __slots__ = ("is_needed", "task", "waiters")

    def __init__(self) -> None:
        self.waiters: list[Deferred[T]] = []
        self.is_needed = False
        """Whether anybody waits who cannot go on without it."""
        self.task: Deferred[T | None] | None = None
        """``None``: it is just being begun."""

    def wait(self, *, ahead: bool) -> Deferred[T]:
        self.is_needed |= not ahead
        waiter: Deferred[T] = Deferred()
        self.waiters.append(waiter)
        return waiter

    def tell(self, known: T) -> None:
        """Give *known* to all who wait so far."""
        told, self.waiters, self.is_needed = self.waiters, [], False
        for waiter in told:
            if not waiter.called:  # else it was cancelled
                waiter.callback(known)

    def break_off(self) -> None:
        if self.task is not None:
            self.task.cancel()


class OneAtATime(Generic[T]):
    """Asks for keys: origins, or variants of them.

    A waiter that is cancelled does not harm the others, and no waiter is left without an
    answer. When the crawl ends, what nobody needs any more is broken off at once, and the
    rest soon.
    """

    def __init__(
        self,
        find: Callable[[str, Request], Coroutine[object, object, T]],
        broken_off: Callable[[str], T],
        engine: Engine,
    ) -> None:
        """*broken_off* returns what decides for a key if *find* raises or is cancelled."""
        self._find = find
        self._broken_off = broken_off
        self._engine = engine
        self.under_way: dict[str, Errand[T]] = {}
        """By key."""
        self._timer: CallLaterResult | None = None
        self._ends_since: float | None = None
        self._closing = False

    def is_asked(self, key: str) -> bool:
        """Tell whether *key* is being asked for."""
        return key in self.under_way

    def ask(self, key: str, page: Request, *, ahead: bool = False) -> Deferred[T]:
        """Return the result of asking for *key*, which begins if need be.

        *ahead*: *page* waits somewhere else, and may do so when the crawl ends.
        """
        errand = self.under_way.get(key)
        if errand is not None:
            return errand.wait(ahead=ahead)
        errand = self.under_way[key] = Errand()
        waiter = errand.wait(ahead=ahead)
        if self._timer is None:
            self._timer = call_later(END_CHECK_SECONDS, self._look)
        errand.task = deferred_from_coro(self._ask(key, page))
        # Not in the coroutine, which never runs if it is cancelled before it begins.
        errand.task.addBoth(self._over, key)
        return waiter

    def tell(self, key: str, known: T) -> None:
        """Give *known* to all who wait for *key*, while asking for it goes on."""
        self.under_way[key].tell(known)

    def close(self) -> None:
        """Break off what is being asked."""
        self._closing = True
        for errand in list(self.under_way.values()):
            errand.break_off()

    async def _ask(self, key: str, page: Request) -> T | None:
        """Return what *find* finds; ``None``: it was broken off, or failed."""
        if self._closing:
            return None
        try:
            return await self._find(key, page)
        except CancelledError:  # Twisted's; asyncio's is no Exception
            return None
        except Exception:
            # A fault of ours, not of the site: it refuses, and is not remembered.
            logger.exception("Could not learn what robots.txt of %s says", key)
            return None

    def _over(self, known: T | Failure | None, key: str) -> None:
        errand = self.under_way.pop(key)
        if not self.under_way and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if known is None or isinstance(known, Failure):
            known = self._broken_off(key)
        errand.tell(known)

    def _look(self) -> None:
        """Break off what is not needed if the crawl is ending, which no signal tells so early."""
        self._timer = call_later(END_CHECK_SECONDS, self._look)
        if not self._engine.is_ending():
            return
        now = monotonic()
        self._ends_since = self._ends_since or now
        if now >= self._ends_since + PATIENCE_AT_END_SECONDS:
            self.close()
            return
        for errand in list(self.under_way.values()):
            if not errand.is_needed:
                errand.break_off()
