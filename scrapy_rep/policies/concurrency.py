"""How many robots.txt files are fetched at once (REP_FETCH_CONCURRENCY, REP_SLOW_FETCHES)."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from twisted.python.failure import Failure

    from scrapy_rep.engine import Engine

PATIENCE_SECONDS = 0.5
"""Seconds after which a fetch no longer counts in REP_FETCH_CONCURRENCY."""
LEAST_PATIENCE_SECONDS = 0.005
"""The same at the least, after many fetches in a row took long while others waited."""
PATIENCE_GROWTH = 8
"""The factor by which patience grows after an answer that came within PATIENCE_SECONDS, but from
a fetch that had made way."""


class Lanes:
    """Lets *concurrency* fetches run at once, and *slow* more that take long.

    Hosts that hang must not keep us from asking hosts that answer at once: a fetch that takes
    long makes way for the next one. Each one that does so while others wait halves our
    patience, and answers restore it; so hundreds of hosts that hang cost about a second.
    """

    def __init__(self, engine: Engine, concurrency: int, slow: int) -> None:
        self.engine = engine
        self.patience = PATIENCE_SECONDS
        """Seconds after which a fetch makes way, as of now."""
        self.prompt_places = DeferredSemaphore(concurrency)
        self.slow_places = DeferredSemaphore(slow)
        self.aside = 0
        """How many fetches wait for a grant, or for somebody else, and hold no place meanwhile."""
        self.pages = 0
        """How many pages wait in the downloader for a policy."""

    @property
    def prompt(self) -> int:
        """Return how many fetches are under way that hold a prompt place."""
        return self.prompt_places.limit - self.prompt_places.tokens

    @property
    def slow(self) -> int:
        """Return how many fetches are under way that hold no prompt place."""
        most = self.slow_places.limit
        return most - self.slow_places.tokens + min(self.aside, most)

    @property
    def hosts_hang(self) -> bool:
        """Tell whether the hosts that were asked last keep others waiting."""
        return self.patience < PATIENCE_SECONDS

    async def enter(self) -> Lane:
        """Wait until a fetch may run; return its lane, which it must leave at its end."""
        place = self.prompt_places.acquire()
        if not place.called:
            await maybe_deferred_to_future(place)
        self.engine.lend_place()  # it takes none of a page's
        return Lane(self)

    def waiting_aside(self, after: float = 0.0) -> AbstractContextManager[None]:
        """Count a fetch as aside while it waits for somebody else, from *after* seconds on."""
        return _later(after, self.note_aside, self.note_back)

    def note_aside(self) -> None:
        """Note that one more fetch is aside."""
        self.aside += 1
        self.engine.wake()  # the queue may look further ahead

    def note_back(self) -> None:
        """Note that a fetch is no longer aside."""
        self.aside -= 1

    @contextmanager
    def lending_place(self) -> Iterator[None]:
        """Let a page that waits in the downloader take none of the others' places for long."""
        self.pages += 1
        try:
            with _later(self.patience, self._lend, self.engine.take_place_back):
                yield
        finally:
            self.pages -= 1

    def _lend(self) -> None:
        self.engine.lend_place()
        self.engine.wake()

    @asynccontextmanager
    async def enter_aside(
        self, claim: AbstractAsyncContextManager[bool]
    ) -> AsyncIterator[bool]:
        """Enter *claim*; if that takes long, as another process has it, the fetch is aside."""
        async with AsyncExitStack() as stack:
            with self.waiting_aside(self.patience):
                entered = await stack.enter_async_context(claim)
            yield entered

    def lose_patience(self) -> None:
        """Note that a fetch takes long."""
        if self.prompt_places.waiting:
            self.patience = max(self.patience / 2, LEAST_PATIENCE_SECONDS)

    def regain_patience(self, seconds: float) -> None:
        """Note that there was an answer after so many *seconds*."""
        if self.patience < seconds < PATIENCE_SECONDS:
            self.patience = min(PATIENCE_GROWTH * self.patience, PATIENCE_SECONDS)


class Lane:
    """The place of one fetch."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._is_prompt = True
        self._slow: Deferred[Any] | None = None
        self._is_aside = False
        self._began = monotonic()
        self._timer = call_later(lanes.patience, self._take_long)

    def _take_long(self) -> None:
        self._lanes.lose_patience()
        self.make_way()

    def make_way(self) -> None:
        """Move to the slow fetches, as soon as there is a place."""
        if self._slow is None and not self._is_aside:
            place = self._slow = self._lanes.slow_places.acquire()
            place.addCallbacks(self._become_slow, _ignore_cancel)

    def _become_slow(self, _: object) -> None:
        self._leave_prompt()
        self._lanes.engine.wake()  # the queue may look further ahead

    def step_aside(self) -> None:
        """Hold no place while the request of the fetch waits for a grant."""
        if self._is_aside:
            return
        if self._lanes.aside >= self._lanes.slow_places.limit:
            self.make_way()
            return
        self._leave_prompt()
        self._leave_slow()
        self._is_aside = True
        self._lanes.note_aside()

    def come_back(self) -> None:
        """Go on at once as a slow fetch: a request with a grant must leave now."""
        if self._is_aside:
            self._is_aside = False
            self._lanes.note_back()
            self.make_way()

    def note_answer(self) -> None:
        """Note that there is an answer."""
        self._lanes.regain_patience(monotonic() - self._began)

    def leave(self) -> None:
        """End: the fetch is over."""
        self._timer.cancel()
        self._lanes.engine.take_place_back()
        if self._is_aside:
            self._is_aside = False
            self._lanes.note_back()
        self._leave_prompt()
        self._leave_slow()

    def _leave_prompt(self) -> None:
        if self._is_prompt:
            self._is_prompt = False
            self._lanes.prompt_places.release()

    def _leave_slow(self) -> None:
        place, self._slow = self._slow, None
        if place is None:
            return
        if place.called:
            self._lanes.slow_places.release()
        else:
            place.cancel()


@contextmanager
def _later(
    seconds: float, begin: Callable[[], object], end: Callable[[], object]
) -> Iterator[None]:
    """Call *begin* if the block takes longer than so many *seconds*, and then *end* after it."""
    has_begun = False

    def call_begin() -> None:
        nonlocal has_begun
        has_begun = True
        begin()

    timer = call_later(seconds, call_begin)
    try:
        yield
    finally:
        timer.cancel()
        if has_begun:
            end()


def _ignore_cancel(failure: Failure) -> None:
    failure.trap(CancelledError)
