"""The adapter to Scrapy's downloader and engine: slots, places, and each hand-over."""

from __future__ import annotations

from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.utils.asyncio import call_later

from scrapy_rep.downloader.handed_out import NOWHERE, HandedOut
from scrapy_rep.downloader.versions import (
    jitter_of,
    limit_jitter,
    shortest_delay,
    slot_clock,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from collections.abc import Set as AbstractSet

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    Granter = Callable[[Request, str], Awaitable[None] | None]
    StartListener = Callable[[Request, str | None, float], None]
    AnswerListener = Callable[[Request, Response], None]

ROBOTS_HOP = "rep_hop"
"""The meta key that marks a robots.txt request."""


class Downloader:
    """Scrapy's downloader and engine, by the few things that are needed of them.

    Names are those of download slots. A request starts when the downloader hands it to
    its download handler; who wants to know subscribes, and more than one may.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        settings = crawler.settings
        self._own_slots: dict[str, dict[str, Any]] = settings.getdict("DOWNLOAD_SLOTS")
        self._own_delay = settings.getfloat("DOWNLOAD_DELAY")
        self._own_concurrency = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
        self._raised: dict[str, float] = {}  # slot -> the delay that we gave it
        self._began = slot_clock()
        self._granters: list[Granter] = []
        self._start_listeners: list[StartListener] = []
        self._answer_listeners: list[AnswerListener] = []
        self.handed_out = HandedOut(lambda: self._downloader.active)
        crawler.signals.connect(self._follow_hand_overs, signals.engine_started)

    @cached_property
    def _downloader(self) -> Any:
        assert self._crawler.engine is not None
        return self._crawler.engine.downloader

    def _slot(self, name: str | None) -> Any:
        """Return Scrapy's slot; ``None``: not used yet, or dropped for being idle."""
        return self._downloader.slots.get(name)

    def slot_of(self, request: Request) -> str:
        """Return the name of the download slot that *request* goes through."""
        key: str | None = request.meta.get("download_slot")
        if key is None:  # else the downloader would come to the same, but slower
            key = self._downloader.get_slot_key(request)
        return key

    # The start of a request

    def grant_starts(self, granter: Granter) -> None:
        """Have *granter* asked before each start; what it returns is awaited first."""
        self._granters.append(granter)

    def on_start(self, listener: StartListener) -> None:
        """Call *listener* at each start: the request, its slot, ``time.monotonic()``."""
        self._start_listeners.append(listener)

    def on_answer(self, listener: AnswerListener) -> None:
        """Call *listener* with each request that was answered, and its response."""
        self._answer_listeners.append(listener)

    def _follow_hand_overs(self) -> None:
        """Have each slot's time run from when its request is handed to its handler.

        Scrapy has it run from when it takes the request off the slot's queue; where the
        event loop is busy the request leaves later than that, and the next one too early.
        """
        handlers = self._downloader.handlers
        hand_over = handlers.download_request_async

        async def follow(request: Request) -> Any:
            name = request.meta.get("download_slot")
            if name is not None:
                for granter in self._granters:
                    if (granted := granter(request, name)) is not None:
                        await granted
            now = monotonic()
            slot = self._slot(name)
            if slot is not None:
                slot.lastseen = slot_clock()
            for started in self._start_listeners:
                started(request, name, now)
            response = await hand_over(request)
            for answered in self._answer_listeners:
                answered(request, response)
            return response

        handlers.download_request_async = follow

    # The delay of slots

    def users_delay(self, name: str) -> float:
        """Return the shortest delay, jitter included, that the user sets for a slot."""
        delay, _ = self._users_own(name)
        slot = self._slot(name)
        if delay and slot is not None:
            delay *= max(0.0, 1 - jitter_of(slot))
        return delay

    def _users_own(self, name: str) -> tuple[float, int]:
        own = self._own_slots.get(name, {})
        return (
            own.get("delay", self._own_delay),
            own.get("concurrency", self._own_concurrency),
        )

    def hold(self, name: str, delay: float) -> bool:
        """Have a slot keep at least *delay* s between two starts; 0: the user's own again.

        Whatever else sets it (AutoThrottle, another plugin) must be followed by another
        call. Returns ``False`` where there is no such slot.
        """
        slot = self._slot(name)
        if slot is None:
            return False
        raised = self._raised.get(name)
        if raised is not None and delay < raised == slot.delay:
            # The origin asks for less than before: back to the user's own.
            slot.delay, slot.concurrency = self._users_own(name)
        if not delay:
            self._raised.pop(name, None)
            return True
        slot.concurrency = 1
        if slot.delay < delay:
            slot.delay = self._raised[name] = delay
            if len(self._raised) > 2 * len(self._downloader.slots):
                self._raised = {
                    name: delay
                    for name, delay in self._raised.items()
                    if self.has_slot(name)
                }
        # Jitter may lengthen and shorten a delay, but not below the interval.
        limit_jitter(slot, 1 - delay / slot.delay)
        return True

    def has_slot(self, name: str) -> bool:
        return self._slot(name) is not None

    def postpone(self, name: str, seconds: float) -> None:
        """Have the last start at a slot count as so much later."""
        slot = self._slot(name)
        if slot is not None:
            slot.lastseen += seconds

    def due_in(self, name: str, delay: float) -> float:
        """Return the seconds until a slot, which keeps *delay*, may start a request."""
        slot = self._slot(name)
        if slot is None:
            # Not used yet: a run before this one may have, when this one began at the
            # latest. Or idle for longer than its delay, which that is, too.
            return max(0.0, self._began + delay - slot_clock())
        delay = max(delay, shortest_delay(slot))
        return max(0.0, slot.lastseen + delay - slot_clock()) if delay else 0.0

    def has_place(self, name: str, *, paced: bool) -> bool:
        """Tell whether a slot can take another request without having it wait.

        *paced*: one at a time, as robots.txt asks for a delay.
        """
        slot = self._slot(name)
        there = NOWHERE if slot is None else slot.active
        on_the_way = self.handed_out.on_the_way(name, there)
        if slot is None:
            delay, concurrency = self._users_own(name)
            return on_the_way < concurrency if not (delay or paced) else not on_the_way
        if slot.queue or (on_the_way and (paced or slot.delay)):
            return False
        return on_the_way + len(slot.active) < (1 if paced else slot.concurrency)

    def go_first(self, request: Request) -> None:
        """Put *request* before what waits in its slot, where it is just being put."""
        call_later(0, self._go_first, request)

    def _go_first(self, request: Request) -> None:
        slot = self._slot(request.meta.get("download_slot"))
        if slot is None:
            return
        for place, waiting in enumerate(slot.queue):
            if waiting[0] is request:
                del slot.queue[place]
                slot.queue.appendleft(waiting)
                return

    # Places among CONCURRENT_REQUESTS

    def lend_place(self) -> None:
        """Add a place, so that what waits or asks for a robots.txt takes none of a page."""
        if self._downloader.total_concurrency:  # 0: there is no limit
            self._downloader.total_concurrency += 1

    def take_place_back(self) -> None:
        if self._downloader.total_concurrency:
            self._downloader.total_concurrency -= 1

    # The engine

    @property
    def _engine_slot(self) -> Any:
        return getattr(self._crawler.engine, "_slot", None)

    def wake(self) -> None:
        """Have the engine ask the scheduler again."""
        slot = self._engine_slot
        if slot is not None:
            slot.nextcall.schedule()

    def ends(self) -> bool:
        """Tell whether the crawl is ending."""
        slot = self._engine_slot
        return slot is None or slot.closing is not None

    def ends_without(self, page: Request) -> bool:
        """Tell whether the crawl is ending, and does not wait for *page* any more."""
        return self.ends() and page not in self._downloader.active

    def in_progress(self) -> AbstractSet[Request] | None:
        """Return what the engine is not through with; ``None``: it does not run."""
        slot = self._engine_slot
        return None if slot is None else slot.inprogress
