"""How many robots.txt files are fetched at once (REP_FETCH_CONCURRENCY, REP_SLOW_FETCHES), and read."""

from __future__ import annotations

from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import DeferredSemaphore

from scrapy_rep.engine.tools import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import AbstractContextManager

    from scrapy_rep.engine.inner import Engine

T = TypeVar("T")

PATIENCE_SECONDS = 0.5
"""Seconds after which a fetch no longer counts in REP_FETCH_CONCURRENCY."""
LEAST_PATIENCE_SECONDS = 0.005
"""The same at the least, after many fetches in a row took long while others waited."""
PATIENCE_GROWTH = 8
"""The factor by which patience grows after an answer that came within PATIENCE_SECONDS, but from
a fetch that had made way."""
LARGE_SIZE = 32 * 1024
"""Octets of a robots.txt beyond which a thread reads it, as of 2 %: the worst ones of this size take some
50 ms."""


class FetchBound:
    """Lets *most* fetches run at once, and *most_slow* more that take long.

    Hosts that hang must not keep us from asking hosts that answer at once: a fetch that takes
    long makes way for the next one. Each one that does so while others wait halves our
    patience, and answers restore it; so hundreds of hosts that hang cost about a second.
    """

    def __init__(self, engine: Engine, most: int, most_slow: int) -> None:
        self.engine = engine
        self.patience = PATIENCE_SECONDS
        """Seconds after which a fetch makes way, as of now."""
        self.places = DeferredSemaphore(most)
        self.most_slow = most_slow
        self.taking_long = 0
        self._worker: ThreadPoolExecutor | None = None
        self.pages = 0
        """How many pages wait in the downloader for a policy."""

    @property
    def prompt(self) -> int:
        """Return how many fetches are under way that have not made way."""
        return self.places.limit - self.places.tokens

    @property
    def slow(self) -> int:
        """Return how many fetches have made way, or wait for somebody else's."""
        return min(self.taking_long, self.most_slow)

    @property
    def hosts_hang(self) -> bool:
        """Tell whether the hosts that were asked last keep others waiting."""
        return self.patience < PATIENCE_SECONDS

    async def enter(self) -> Fetch:
        """Wait until a fetch may run; return it, which must leave at its end."""
        place = self.places.acquire()
        if not place.called:
            await maybe_deferred_to_future(place)
        self.engine.lend(1)  # it takes none of a page's
        return Fetch(self)

    def waiting_aside(self, after: float = 0.0) -> AbstractContextManager[None]:
        """Count a fetch as slow while it waits for somebody else, from *after* seconds on."""
        return _later(after, self.note_slow, self.note_over)

    async def aside(self, work: Callable[[], T]) -> T:
        """Return what *work* returns, which one thread does for all that ask, in their order.

        Python lets this thread and the event loop take turns every 5 ms. C code, such as a search
        through a whole file, is not interrupted; none takes as long as that. Cancelling the wait
        does not stop the work.
        """
        if self._worker is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - it is rare

            self._worker = ThreadPoolExecutor(1, "scrapy_rep.policies")
        with self.waiting_aside():
            return await wait_for(self._worker.submit(work))

    def close(self) -> None:
        """Begin no work aside any more."""
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
        """Let a page that waits in the downloader take none of the others' places for long."""
        self.pages += 1
        try:
            with _later(self.patience, self._lend, lambda: self.engine.lend(-1)):
                yield
        finally:
            self.pages -= 1

    def _lend(self) -> None:
        self.engine.lend(1)
        self.engine.wake()


class Fetch:
    """One of them."""

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
        """Note that there is an answer."""
        patience = self._bound.patience
        if patience < monotonic() - self._began < PATIENCE_SECONDS:
            self._bound.patience = min(PATIENCE_GROWTH * patience, PATIENCE_SECONDS)

    def leave(self) -> None:
        """End: the fetch is over."""
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
