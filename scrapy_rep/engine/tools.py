"""What other rooms use of Scrapy: its event loops, its crawlers, its commands, its HTTP cache."""

from __future__ import annotations

import asyncio
import sys
from inspect import isawaitable
from time import monotonic
from traceback import walk_stack
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.asyncio import CallLaterResult, call_later, is_asyncio_available
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from scrapy import Request
    from scrapy.crawler import Crawler
    from typing_extensions import Self

T = TypeVar("T")

AT_PROMPT = frozenset(
    {
        *(f"scrapy.commands.{name}" for name in ("shell", "fetch", "parse")),
        "scrapy_rep.commands",
    }
)
"""Modules of commands whose user waits for one answer; view is a fetch, too."""

# Weak on both sides: what is here may hold its crawler.
_known: WeakKeyDictionary[Crawler, WeakValueDictionary[type, Any]] = WeakKeyDictionary()


class OneForEachCrawler:
    """Made when first asked for, and lives for as long as anything holds it."""

    @classmethod
    def made_for(cls, crawler: Crawler) -> Self:
        return cls(crawler)  # type: ignore[call-arg]

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        known = _known.setdefault(crawler, WeakValueDictionary())
        one: Self | None = known.get(cls)
        if one is None:
            one = known[cls] = cls.made_for(crawler)
        return one


# Waiting, under every event loop that Scrapy runs with


async def sleep(seconds: float) -> None:
    """If it is cancelled, no timer is left behind."""
    done: Deferred[None] = Deferred(lambda _: timer.cancel())
    timer = call_later(max(0.0, seconds), done.callback, None)
    await maybe_deferred_to_future(done)


async def wait_for(future: Future[T]) -> T:
    """Return what a thread sets; cancelling the wait does not cancel the work."""
    if is_asyncio_available():
        return await asyncio.shield(asyncio.wrap_future(future))
    from twisted.internet import reactor

    done: Deferred[None] = Deferred()
    future.add_done_callback(lambda _: reactor.callFromThread(done.callback, None))
    await done
    return future.result()


class Alarm:
    """Rings once, at the earliest of the times for which it was set."""

    def __init__(self, ring: Callable[[], object]) -> None:
        self._ring = ring
        self._timer: CallLaterResult | None = None
        self._at = 0.0

    def set(self, seconds: float) -> None:
        """Make it ring in so many *seconds*, unless it is set to ring earlier."""
        at = monotonic() + max(0.0, seconds)
        if self._timer is None or at < self._at:
            self.cancel()
            self._at, self._timer = at, call_later(max(0.0, seconds), self._rings)

    def _rings(self) -> None:
        self._timer = None
        self._ring()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def at_prompt() -> bool:
    """Tell whether ``scrapy shell``, ``fetch``, ``view``, ``parse`` or ``robots`` runs.

    A thread is in the ``run`` of its command until its crawl is over; it may be another one than
    this. Nothing else tells for sure: Scrapy takes the command's name out of ``sys.argv``.
    """
    return any(
        frame.f_code.co_name == "run"
        and str(frame.f_globals.get("__name__")) in AT_PROMPT
        for top in sys._current_frames().values()
        for frame, _ in walk_stack(top)
    )


async def cached_page(crawler: Crawler, request: Request) -> Response | None:
    """Return the page of *request* if Scrapy's HTTP cache has it, and its policy calls it fresh."""
    from scrapy.downloadermiddlewares.httpcache import HttpCacheMiddleware  # noqa: PLC0415 - few need it

    cache = crawler.get_downloader_middleware(HttpCacheMiddleware)
    asked = request.copy()  # on which it may put what it wants to ask the site
    try:
        answer: Any = cache and cache.process_request(asked)
        if isawaitable(answer):
            answer = await answer
    except IgnoreRequest:  # HTTPCACHE_IGNORE_MISSING
        return None
    if isinstance(answer, Response):
        request.meta.update(asked.meta)
        return answer
    return None
